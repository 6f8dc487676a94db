"""The Zenoh 1.x wire format as Scapy layers, and the readers of that description.

Importing this package costs nothing. In a Scapy shell: ``from scapy_layers.all import *``.
"""
