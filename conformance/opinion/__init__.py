"""A second opinion on a run: its captures read again by tshark with our dissector for Wireshark.

What the tester decoded while it ran, and what it concluded from that, rests on one reader. The dissector shares its
description of the wire but no code, and sees the captures as anybody will who opens them.
"""
