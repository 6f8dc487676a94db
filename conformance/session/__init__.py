"""The session machine: bytes and a time in, events and messages out. No socket, no clock."""
