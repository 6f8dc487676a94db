"""What the pytest plugin is made of: options, selection, the outcome of a test, what is written and shown.

pytest loads ``conformance.plugin``, which registers the parts.
"""
