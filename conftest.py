"""Names the plugin, so that ``pytest conformance/`` has its options in any checkout, installed or not."""

pytest_plugins = ["conformance.plugin"]
