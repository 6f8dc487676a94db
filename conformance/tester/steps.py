"""The steps of a script, as plain data.

Each can be taken out without making the others meaningless: played leniently, a step on a link that is not there is
passed over with a note. A step says nothing about how it is done; ``play`` does it.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass, field
from typing import Self

from conformance.tester.bending import NamedBend
from conformance.tester.said import (
    Fields,
    Said,
    check_fields,
    check_limits,
    check_locator,
    check_offer,
    check_sent,
    check_zid,
)
from conformance.tester.values import ScriptError, message_class, unhex
from scapy_layers import scouting, transport
from scapy_layers.codes import WhatAmI
from scapy_layers.message import Message


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One thing to do or to expect.

    Raises:
        ScriptError: An attribute has a value that it cannot have.
    """

    def __post_init__(self) -> None:
        check_limits({one.name: getattr(self, one.name) for one in dataclasses.fields(self)})
        check_zid(getattr(self, "zid", ""))
        check_locator(getattr(self, "locator", ""), listening=isinstance(self, Listen))
        check_offer(getattr(self, "offer", {}))
        self.check()

    def check(self) -> None:
        """Checks what only this kind of step has."""

    @property
    def links(self) -> tuple[str, ...]:
        """Names of links that have to be there."""
        name: str = getattr(self, "link", "")
        return (name,) if name and not isinstance(self, MAKES) else ()

    @property
    def inner(self) -> tuple[tuple[Step, ...], ...]:
        """Steps inside this one, in groups."""
        return ()

    def with_inner(self, groups: tuple[tuple[Step, ...], ...]) -> Self:  # noqa: ARG002  (there is nothing inside)
        """Returns the same step with other steps inside."""
        return self


# Links ----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Connect(Step):
    """Makes a link without a session.

    Attributes:
        link: Its name.
        locator: Where to; the tester's node when empty.
    """

    link: str
    locator: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Start(Step):
    """Makes a link with a session machine that has not said anything yet.

    Attributes:
        link: Its name.
        locator: Where to; the tester's node when empty.
        whatami: Our role code.
        zid: Hexadecimal; a fresh one when empty.
        lease: Seconds.
        initial_sn: The first sequence number; a random one when None.
        user: Name that we show, with the password.
        password: Of the user.
        offer: Fields of ``Offer``.
    """

    link: str
    locator: str = ""
    whatami: int = WhatAmI.CLIENT
    zid: str = ""
    lease: float = 10.0
    initial_sn: int | None = None
    user: str = ""
    password: str = ""
    offer: Fields = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Session(Start):
    """Makes a link and opens a session."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Listen(Step):
    """Waits for links of others.

    Attributes:
        link: Name of the listener.
        locator: Where; ``tcp/127.0.0.1:0`` for a port of the system's choice.
    """

    link: str
    locator: str = "tcp/127.0.0.1:0"


@dataclass(frozen=True, slots=True, kw_only=True)
class Accept(Step):
    """Takes the next link that somebody makes to a listener.

    Attributes:
        link: Its name.
        listener: Name of the listener.
        session: With a session machine.
        within: Seconds; T1 when None.
        whatami: Our role code.
        zid: Hexadecimal; a fresh one when empty.
        lease: Seconds.
        initial_sn: The first sequence number; a random one when None.
        cookie: Hexadecimal, the challenge of InitAck; a random one when empty.
        users: Passwords by user; anybody may connect when there are none.
        offer: Fields of ``Offer``.
    """

    link: str
    listener: str
    session: bool = True
    within: float | None = None
    whatami: int = WhatAmI.ROUTER
    zid: str = ""
    lease: float = 10.0
    initial_sn: int | None = None
    cookie: str = ""
    users: Fields = field(default_factory=dict)
    offer: Fields = field(default_factory=dict)

    def check(self) -> None:
        """Checks the cookie."""
        unhex(self.cookie, "cookie")

    @property
    def links(self) -> tuple[str, ...]:
        """The listener has to be there."""
        return (self.listener,)


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenScout(Step):
    """Makes an end that scouts.

    Attributes:
        link: Its name.
        locator: A node or a group, ``udp/239.255.0.1:7446#iface=lo``.
    """

    link: str
    locator: str


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenResponder(Step):
    """Makes an end that hears the SCOUTs of a group and answers them.

    Attributes:
        link: Its name.
        locator: The group.
        answers: Locators that HELLO names; None to stay silent.
        whatami: Role code in HELLO.
        zid: Hexadecimal; a fresh one when empty.
    """

    link: str
    locator: str
    answers: tuple[str, ...] | None = None
    whatami: int = WhatAmI.ROUTER
    zid: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenGroup(Step):
    """Makes an end in a multicast group.

    Attributes:
        link: Its name.
        locator: The group.
        whatami: Our role code.
        zid: Hexadecimal; a fresh one when empty.
        lease: Seconds.
        offer: Fields of ``Offer``.
        join: Announces itself at once.
    """

    link: str
    locator: str
    whatami: int = WhatAmI.PEER
    zid: str = ""
    lease: float = 10.0
    offer: Fields = field(default_factory=dict)
    join: bool = True


MAKES = (Connect, Start, Listen, Accept, OpenScout, OpenResponder, OpenGroup)
"""Steps that make the link they name."""


# Stimuli --------------------------------------------------------------------------------------------------


PARTS: dict[str, type[Message] | None] = {
    "open": None,
    "begin": None,
    "finish": None,
    "init": transport.Init,
    "take_init_ack": transport.Init,
    "open_syn": transport.Open,
    "take_open_ack": transport.Open,
    "take_init_syn": transport.Init,
    "init_ack": transport.Init,
    "take_open_syn": transport.Open,
    "open_ack": transport.Open,
    "serve": None,
    "join": transport.Join,
    "leave": transport.Close,
}
"""Steps of a handshake, as the methods of a session's end are called, and the message whose fields they take; the last
two of an end in a group."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Handshake(Step):
    """One step of a handshake.

    Attributes:
        part: One of PARTS.
        fields: What leaves differs in these; or what is taken must have these.
    """

    link: str
    part: str
    fields: Fields = field(default_factory=dict)

    def check(self) -> None:
        """Checks that there is such a step, and its fields."""
        if self.part not in PARTS:
            raise ScriptError(f"{self.part!r} is no step of a handshake; there are {', '.join(PARTS)}")
        said = PARTS[self.part]
        if said is None and self.fields:
            raise ScriptError(f"{self.part} has no fields")
        if said is not None and self.part.startswith("take_"):
            check_fields(said, self.fields)
        elif said is not None:
            check_sent(said, self.fields)


@dataclass(frozen=True, slots=True, kw_only=True)
class Send(Step):
    """Sends messages in one batch, as they are.

    Attributes:
        messages: In order.
        length: What the length prefix says; the truth when None.
    """

    link: str
    messages: tuple[Said, ...]
    length: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Post(Step):
    """Sends network messages in the session, numbered by it.

    Attributes:
        messages: In order.
        reliable: Channel.
        priority: Lane; the default one when None.
    """

    link: str
    messages: tuple[Said, ...]
    reliable: bool = True
    priority: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer(Step):
    """Answers the last SCOUT that came.

    Attributes:
        locators: What HELLO names; L is clear without any.
        fields: Of HELLO, where it differs.
    """

    link: str
    locators: tuple[str, ...] = ()
    fields: Fields = field(default_factory=dict)

    def check(self) -> None:
        """Checks what HELLO is to say."""
        check_sent(scouting.Hello, self.fields)


@dataclass(frozen=True, slots=True, kw_only=True)
class Raw(Step):
    """Sends bytes without a length.

    Attributes:
        hex: The bytes.
        comment: What they are.
    """

    link: str
    hex: str
    comment: str = ""

    def check(self) -> None:
        """Checks the bytes."""
        unhex(self.hex, "hex")


@dataclass(frozen=True, slots=True, kw_only=True)
class Hold(Step):
    """Keeps back what is sent from now on."""

    link: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Release(Step):
    """Lets go what was kept back.

    Attributes:
        count: So many bytes of it; None for all, and nothing is kept back any more.
    """

    link: str
    count: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Chunk(Step):
    """Cuts what is sent from now on into pieces, each in a segment of its own.

    Attributes:
        sizes: Bytes of each piece, again from the start when they are used up; none: whole again.
    """

    link: str
    sizes: tuple[int, ...]

    def check(self) -> None:
        """Checks the sizes."""
        if any(size < 1 for size in self.sizes):
            raise ScriptError("a piece has at least one byte")


@dataclass(frozen=True, slots=True, kw_only=True)
class HalfClose(Step):
    """Says that no more bytes come from us; still reads."""

    link: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Abort(Step):
    """Ends the link with a reset."""

    link: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Close(Step):
    """Ends a session with CLOSE and the link with it; a link without a session just ends.

    Attributes:
        reason: Close reason code.
    """

    link: str
    reason: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class EndLink(Step):
    """Ends the link in order, without CLOSE."""

    link: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Bend(Step):
    """Bends what leaves from now on.

    Attributes:
        bend: How.
        link: Of this session; of all when empty.
    """

    bend: NamedBend
    link: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Advance(Step):
    """Lets time pass; sessions keep themselves alive.

    Attributes:
        seconds: So much.
    """

    seconds: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Note(Step):
    """A remark, for the history.

    Attributes:
        text: Says something to people.
    """

    text: str


# Expectations -----------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Expect(Step):
    """Waits for a message.

    Attributes:
        message: Name of its class.
        fields: What it must have; ``key`` is the full key.
        within: Seconds; T1 when None.
        passing: Whatever else comes is passed over, messages of this class with other fields too.
    """

    link: str
    message: str
    fields: Fields = field(default_factory=dict)
    within: float | None = None
    passing: bool = False

    def check(self) -> None:
        """Checks that there is such a message, with such fields."""
        check_fields(message_class(self.message, "expect"), self.fields)


@dataclass(frozen=True, slots=True, kw_only=True)
class ExpectRefusal(Step):
    """Waits for CLOSE in place of the next handshake message.

    Attributes:
        reason: The reason it must have; None for any.
        unless: Name of the class that must not come.
    """

    link: str
    reason: int | None = None
    unless: str = "Init"

    def check(self) -> None:
        """Checks that there is such a message."""
        message_class(self.unless, "unless")


@dataclass(frozen=True, slots=True, kw_only=True)
class ExpectEnd(Step):
    """Waits until the other end ends the link.

    Attributes:
        within: Seconds; T1 when None.
    """

    link: str
    within: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ExpectNothing(Step):
    """Does the steps of a fence, and judges that nothing forbidden came before they were done.

    Attributes:
        messages: Names of the classes that must not come.
        fields: Only messages with these are forbidden.
        fence: Steps with a known answer.
    """

    link: str
    messages: tuple[str, ...]
    fields: Fields = field(default_factory=dict)
    fence: tuple[Step, ...] = ()

    def check(self) -> None:
        """Checks that there are such messages, with such fields."""
        for name in self.messages:
            check_fields(message_class(name, "expect nothing"), self.fields)

    @property
    def inner(self) -> tuple[tuple[Step, ...], ...]:
        """The fence."""
        return (self.fence,)

    def with_inner(self, groups: tuple[tuple[Step, ...], ...]) -> Self:
        """Another fence."""
        return dataclasses.replace(self, fence=groups[0])


@dataclass(frozen=True, slots=True, kw_only=True)
class Fence(Step):
    """Waits until the other end has handled all that was sent to it."""

    link: str


# Several ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Parallel(Step):
    """Groups of steps that go on side by side, in one loop; done when all are.

    Attributes:
        groups: Each in order.
    """

    groups: tuple[tuple[Step, ...], ...]

    @property
    def inner(self) -> tuple[tuple[Step, ...], ...]:
        """The groups."""
        return self.groups

    def with_inner(self, groups: tuple[tuple[Step, ...], ...]) -> Self:
        """Other groups."""
        return dataclasses.replace(self, groups=groups)


@dataclass(frozen=True, slots=True, kw_only=True)
class Choose(Step):
    """Does one of several groups of steps, by the seed.

    Attributes:
        options: The groups.
    """

    options: tuple[tuple[Step, ...], ...]

    @property
    def inner(self) -> tuple[tuple[Step, ...], ...]:
        """The options."""
        return self.options

    def with_inner(self, groups: tuple[tuple[Step, ...], ...]) -> Self:
        """Other options."""
        return dataclasses.replace(self, options=groups)
