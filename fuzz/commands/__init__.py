"""The commands of zenoh-fuzz: each module adds its own to the parser."""
