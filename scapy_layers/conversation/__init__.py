"""What a passive reader must remember to say what each message of a capture means.

``listen(capture.read(path))`` yields every message with its session, the ZenohIDs of both ends, its full key, what
it belongs to, and what is wrong with it. ``conversations`` is where that is decided.
"""

from scapy_layers.conversation.conversations import Conversations, listen
from scapy_layers.conversation.exchanges import Answer, Exchange
from scapy_layers.conversation.heard import Heard, Unread
from scapy_layers.conversation.identify import is_batch
from scapy_layers.conversation.session import Party, Session
from scapy_layers.limits import Limits
from scapy_layers.remarks import Lane, Remark, RemarkKind

__all__ = [
    "Answer",
    "Conversations",
    "Exchange",
    "Heard",
    "Lane",
    "Limits",
    "Party",
    "Remark",
    "RemarkKind",
    "Session",
    "Unread",
    "is_batch",
    "listen",
]
