"""The commands of ``zenoh-dissect``, one module each; what they share is in ``terminal``.

A command module has ``add(commands)``, which registers its arguments, and imports what is heavy only when it runs.
"""
