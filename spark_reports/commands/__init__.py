"""The commands of zenoh-reports, one module each: ``add`` adds its parser, with the function that runs it."""
