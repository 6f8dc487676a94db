"""Mutants of FRAGMENT: what is cut wrongly, and what is put together wrongly."""

from __future__ import annotations

from conformance.refnode.mutants.registry import Bent, Memory, mutant
from conformance.session.policy import Policy
from conformance.session.sequence import mask
from scapy_layers.catalogue import decode
from scapy_layers.codes import Kind, Resolution
from scapy_layers.errors import WireError
from scapy_layers.extensions import Drop, Lane
from scapy_layers.message import Extension, Message
from scapy_layers.network import NetworkOam
from scapy_layers.transport import Fragment, Frame

INTERRUPTED = 6
"""Every message of this number that leaves a link in fragments is the one that is interrupted."""

MANAGEMENT = 5
"""Id of a management message that means nothing to anybody."""

NO_MESSAGE = b"\x1f"
"""A batch that no node can take apart: a message of the network outside FRAME, and cut."""


def less(message: Message, *classes: type[Extension]) -> Message:
    """Takes extensions out of a message that came in or is about to leave."""
    message.extensions = [each for each in message.extensions or [] if not isinstance(each, classes)]
    message.Z = None
    return message


def channel(message: Frame | Fragment) -> str:
    """Returns the name of a channel."""
    return "reliable" if message.value("R") else "best-effort"


def shifted(message: Frame | Fragment, memory: Memory) -> Frame | Fragment:
    """Numbers a message as one that has inserted or left out others before; of 32-bit sessions only."""
    message.sn = message.sn + memory.get(channel(message), 0) & mask(Resolution.BITS_32)
    return message


# What leaves ----------------------------------------------------------------------------------------


@mutant("ZN-FRG-003", "ZN-FRM-010", of=(Frame, Fragment))
def leaves_a_number_out_before_fragments(message: Frame | Fragment, memory: Memory) -> Bent:
    if isinstance(message, Fragment):
        name = channel(message)
        # The very first number is the one that OPEN named.
        if memory.get(f"begun {name}") and not memory.get(f"inside {name}"):
            memory[name] = memory.get(name, 0) + 1
        memory[f"inside {name}"] = message.value("M")
    memory[f"begun {channel(message)}"] = True
    return shifted(message, memory)


@mutant("ZN-FRG-101", of=Fragment)
def loses_the_end_of_what_just_does_not_fit(message: Fragment, memory: Memory) -> Bent:
    second = memory.get("at") == 1
    memory["at"] = memory.get("at", 0) + 1 if message.value("M") else 0
    return None if second and not message.value("M") else message


@mutant("ZN-FRG-102", of=(Frame, Fragment))
def puts_a_frame_inside_every_sixth_message_in_fragments(message: Frame | Fragment, memory: Memory) -> Bent:
    if isinstance(message, Frame):
        return shifted(message, memory)
    count, at = memory.get("place", (1, 0))
    more = message.value("M")
    memory["place"] = (count, at + 1) if more else (count + 1, 0)
    if count % INTERRUPTED or at != 1:
        return shifted(message, memory)
    # In front of the fragment, which fills the rest of its batch.
    inside = [NetworkOam(oam_id=MANAGEMENT)]
    frame = shifted(Frame(R=message.value("R"), sn=message.sn, messages=inside), memory)
    memory[channel(message)] = memory.get(channel(message), 0) + 1
    return [frame, shifted(message, memory)]


@mutant("ZN-FRG-104", of=Fragment)
def says_the_lane_on_the_first_fragment_only(message: Fragment, memory: Memory) -> Bent:
    inside, memory["inside"] = memory.get("inside"), message.value("M")
    return less(message, Lane) if inside else message


# What comes in --------------------------------------------------------------------------------------


@mutant("ZN-FRG-004", hears=Fragment)
def loses_fragments_of_one_byte(message: Fragment, _: Memory) -> Bent:
    if len(message.data) == 1:
        message.data = b""
    return message


@mutant("ZN-FRG-005b", hears=Fragment)
def ignores_drop(message: Fragment, _: Memory) -> Bent:
    return less(message, Drop)


@mutant("ZN-FRG-105", hears=Fragment)
def ends_the_session_for_rubbish_in_fragments(message: Fragment, memory: Memory) -> Bent:
    whole = memory.pop("whole", b"") + message.data
    if message.value("M"):
        memory["whole"] = whole
        return message
    try:
        decode(whole, Kind.NETWORK)
    except WireError:
        return NO_MESSAGE
    return message


@mutant("ZN-FRG-106")
class PutsMessagesOfAnySizeTogether(Policy):
    def most_fragments(self, configured: int) -> int:
        return 1 << 40
