"""A node that somebody else wrote: how it can be asked, and whether it is one at all."""

from __future__ import annotations

import ipaddress

from conformance.config import Locator
from conformance.errors import HarnessError, LinkFailed, LocalError, Unmet
from conformance.nodes.base import Node, ping
from conformance.nodes.child import DEFAULT_SCOUTING
from conformance.profiles import NO_SCOUTING, Profile
from conformance.tester import Fencing
from scapy_layers.data import Query
from scapy_layers.message import Message
from scapy_layers.network import Push, Request, ResponseFinal
from scapy_layers.transport import Frame, Init, Open

ANSWERS = (Init, Open, ResponseFinal)
"""What would be an answer, were there a session."""


class ForeignNode(Node):
    """A node of which nothing is known but what its profile says."""

    def ask(self, reply: float) -> None:
        """Learns role and ZenohID, and how the node can be asked whether it is done.

        Raises:
            NodeDidNotStart: It does not open a session.
        """
        self.fence = self.profile.fence or "none"
        super().ask(reply)
        if not self.profile.fence:
            self.find_fence(reply)

    def find_fence(self, reply: float) -> None:
        """Learns how the node can be asked whether it is done; a node that answers nothing can still be tested."""
        for self.fence in ("query", "interest", "none"):
            tester = self.tester(reply)
            try:
                ping(tester.session())
            except (Unmet, LocalError, HarnessError):
                continue
            else:
                return
            finally:
                tester.close()

    def doubt(self, reply: float) -> str:
        """Returns why this is no node, or nothing.

        What says yes to everything, or says again what a node once said, would pass many tests. Such a fault may be
        a node's; whoever calls itself a router and carries nothing, or has two of them, is none.
        """
        query = Frame(R=1, sn=0, messages=[Request(request_id=1, key_suffix="harness", body=Query())])
        stimuli = {
            "a query before there is a session": query,
            "OPEN before there is a session": Open(cookie=b"never given"),
            "a version that there is not": Init(version=0x7F, zid=b"harness"),
        }
        taken = [words for words, message in stimuli.items() if self._answer(message, reply) is not None]
        routes = self.whatami == "router" and "routing" in self.profile.features
        if len(taken) < (1 if routes else 2) or (routes and self._carries(reply)):
            return ""
        return f"this is no node: it answers {' and '.join(taken)}" + ", and carries no publication" * routes

    def _answer(self, message: Message, reply: float) -> Message | None:
        """Returns what answers the first message of a link as if all were well, or None."""
        tester = self.tester(reply)
        try:
            link = tester.link()
            link.send(message)
            link.wait(
                lambda: link.over or any(isinstance(seen.message, ANSWERS) for seen in link.inbox), reply
            )
            return next((seen.message for seen in link.inbox if isinstance(seen.message, ANSWERS)), None)
        except LinkFailed:
            # Whether it takes links any more, the next canary shows.
            return None
        finally:
            tester.close()

    def _carries(self, reply: float) -> bool:
        """Tells whether a publication gets from one session to another."""
        tester = self.tester(reply)
        tester.fencing = Fencing.QUERY
        try:
            sub, pub = tester.session(), tester.session()
            key, data = f"harness/{tester.word()}", tester.rng.randbytes(8)
            sub.declare_subscriber(key)
            pub.put(key, data)
            push = sub.expect(Push, key=key)
            return bytes(getattr(push.body, "data", b"")) == data
        except (Unmet, LocalError, HarnessError):
            return False
        finally:
            tester.close()


def heard(locator: Locator, profile: Profile) -> Locator | None:
    """Returns the group in which a node hears SCOUTs; one on this machine is asked there unless it says otherwise."""
    if profile.scouting:
        return None if profile.scouting == NO_SCOUTING else Locator.parse(profile.scouting)
    try:
        local = locator.host in {"", "localhost"} or ipaddress.ip_address(locator.host).is_loopback
    except ValueError:
        local = False
    return Locator.parse(f"udp/{DEFAULT_SCOUTING}#iface=lo") if local else None
