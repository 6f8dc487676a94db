"""Functions from DataFrame to DataFrame, and the statistics under them."""
