"""The Spark session: its settings, Java, start-up archive, remote masters and what is sent to them."""
