"""What comes in at an end, and expectations of it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any

from conformance.errors import Unmet
from conformance.expect import check, field, fits, judge, what_came, words
from conformance.observe import Observation, Seen
from conformance.tester.said import Fields, Said
from conformance.tester.shared import Shared
from conformance.tester.steps import Expect, ExpectNothing, Note, Step
from conformance.tester.values import written
from scapy_layers.message import Message
from scapy_layers.network import Declare, Interest, Request, Response, ResponseFinal
from scapy_layers.transport import Init, Open


class Hearing(ABC):
    """An end at which messages arrive.

    Attributes:
        name: Of the link, in the history.
        inbox: Everything that came in, network messages after the FRAME they came in.
    """

    def __init__(self, tester: Shared, name: str) -> None:
        self.name = name
        self.inbox: list[Seen] = []
        self._tester = tester
        self._read = 0

    @property
    def over(self) -> bool:
        """Nothing more can come."""
        return False

    # Expectation -----------------------------------------------------------------------------------

    def expect(self, cls: type[Message], *, within: float | None = None, **wanted: Any) -> Any:
        """Waits for the next message of a class and judges its fields.

        Args:
            cls: Class of the message; others that come before are passed over.
            within: Seconds; T1 when None.
            wanted: Fields and their values, or functions that judge a value; ``key`` is the full key.

        Returns:
            The message.

        Raises:
            Unmet: None came in time, or a field differs.
        """
        with self._tester.doing(lambda: self._expectation(cls, wanted, within, passing=False)):
            found = self._await(lambda seen: isinstance(seen.message, cls), within)
            return self._judge(found, cls, wanted)

    def until(self, cls: type[Message], *, within: float | None = None, **wanted: Any) -> list[Message]:
        """Waits for a message with these fields, whatever else comes, and returns what came before it.

        Arguments as in ``expect``.

        Raises:
            Unmet: It did not come in time.
        """
        with self._tester.doing(lambda: self._expectation(cls, wanted, within, passing=True)):
            start = self._read
            found = self._await(self.fitting(cls, wanted), within)
            came = what_came(self._tester.history, self.name, self._since())
            check(found, words(cls, wanted), came)
            return [seen.message for seen in self.inbox[start : self._read - 1]]

    def expect_nothing(self, *forbidden: type[Message], fence: Callable[[], object], **wanted: Any) -> None:
        """Runs a fence, and judges that nothing forbidden came before its answer.

        Args:
            forbidden: Classes of messages that must not come.
            fence: A second stimulus with a known answer; returns when the answer is there.
            wanted: Only messages with these fields are forbidden.

        Raises:
            Unmet: Something forbidden came, or the fence was not answered.
        """
        names = tuple(cls.__name__ for cls in forbidden)

        def step(inside: tuple[Step, ...]) -> Step:
            return ExpectNothing(link=self.name, messages=names, fields=_plain(wanted)[0], fence=inside)

        with self._tester.around(step):
            start = self._read
            fence()
        self.judge_nothing(forbidden, wanted, start)

    def judge_nothing(self, forbidden: tuple[type[Message], ...], wanted: dict[str, Any], start: int) -> None:
        """Judges that nothing forbidden stands in the inbox from a position on.

        Raises:
            Unmet: Something does.
        """
        for seen in self.inbox[start:]:
            hit = isinstance(seen.message, forbidden) and all(
                self._field(seen.message, name) == value for name, value in wanted.items()
            )
            names = " or ".join(cls.shape().name for cls in forbidden)
            check(
                not hit, f"no {names} before the fence's answer", seen.message.name, seen.message.describe()
            )
        self._tester.history.annotate("expected nothing before the fence's answer: met")

    def collect(self, cls: type[Message], *, until: Callable[[], object]) -> list[Any]:
        """Runs a fence and returns all messages of a class that came before its answer."""
        start = self._read
        until()
        return [seen.message for seen in self.inbox[start:] if isinstance(seen.message, cls)]

    def wait(self, until: Callable[[], bool], seconds: float) -> bool:
        """Moves bytes until a condition holds; tells whether it did in time."""
        return self._tester.links.wait(until, seconds)

    def key(self, message: Message) -> str:
        """Returns the key expression of a message. An end without a session knows no aliases."""
        return str(field(message, "key_suffix") or "")

    def position(self) -> int:
        """Returns how far the inbox was read by expectations."""
        return self._read

    def last(self, cls: type[Message]) -> Any:
        """Returns the last message of a class that came, None if there is none."""
        return next((seen.message for seen in reversed(self.inbox) if isinstance(seen.message, cls)), None)

    def fitting(self, cls: type[Message], wanted: dict[str, Any]) -> Callable[[Seen], bool]:
        """Returns a test for messages of a class with some fields."""
        return lambda seen: (
            isinstance(seen.message, cls)
            and fits(wanted, {name: self._field(seen.message, name) for name in wanted})
        )

    def looking_for(self, wanted: Callable[[Seen], bool]) -> Search:
        """Returns a condition: such a message is there, not read yet, or none can come any more."""
        return Search(self, wanted)

    @abstractmethod
    def close(self) -> None:
        """Ends it."""

    def said(self, *messages: Message | bytes) -> tuple[Said, ...]:
        """Writes messages of ours down, for a script: what was taken from a message that came is taken anew."""
        return tuple(Said.of(one, self._alive(one) if isinstance(one, Message) else None) for one in messages)

    # Inside ------------------------------------------------------------------------------------------

    def _alive(self, message: Message) -> dict[str, str]:
        """Returns the fields of a message that repeat what came last, and the names of those values."""
        asked: Message | None = None
        name = ""
        if isinstance(message, Open):
            asked, name = self.last(Init), "cookie"
        elif isinstance(message, Response | ResponseFinal):
            asked, name = self.last(Request), "request_id"
        elif isinstance(message, Declare):
            asked, name = self.last(Interest), "interest_id"
        if asked is None or message.fields.get(name) is None:
            return {}
        said = asked.fields.get(name)
        return {name: name} if said not in {None, b""} and said == message.value(name) else {}

    def _judge(self, found: Seen | None, cls: type[Message], wanted: dict[str, Any]) -> Any:
        """Judges the message that was waited for, leaves a remark in the history, and returns it.

        Raises:
            Unmet: There is none, it is of another class, or a field differs.
        """
        history = self._tester.history
        expected = words(cls, wanted)
        try:
            if found is None:
                raise Unmet(expected, what_came(history, self.name, self._since()))
            if not isinstance(found.message, cls):
                raise Unmet(expected, str(found.message.name), found.message.describe())
            if found.message.errors:
                raise Unmet(
                    expected, f"{found.message.name} that does not decode", str(found.message.errors[0])
                )
            judge(found.message, cls, wanted, {name: self._field(found.message, name) for name in wanted})
        except Unmet as error:
            history.annotate(str(error), found.at if found else None)
            raise
        history.annotate(f"expected {expected}: met", found.at)
        return found.message

    def _field(self, message: Message, name: str) -> Any:
        return self.key(message) if name == "key" else field(message, name)

    def _since(self) -> int:
        return self.inbox[self._read - 1].at + 1 if self._read else 0

    def _await(self, wanted: Callable[[Seen], bool], within: float | None) -> Seen | None:
        seconds = self._tester.reply if within is None else within
        search = self.looking_for(wanted)
        if self._tester.links.wait(search, seconds) and search.found is not None:
            self._read = search.position + 1
            return search.found
        return None

    def _hear(self, seen: Observation) -> list[Seen]:
        """Puts an observation's messages into the inbox and returns them."""
        new = list(self._tester.history.received(self.name, seen.seq))
        self.inbox.extend(new)
        return new

    def _expectation(
        self, cls: type[Message], wanted: dict[str, Any], within: float | None, *, passing: bool
    ) -> Step:
        fields, lost = _plain(wanted)
        if lost and passing:
            return Note(text=f"waited for {words(cls, wanted)}, which no script can say")
        return Expect(link=self.name, message=cls.__name__, fields=fields, within=within, passing=passing)


class Search:
    """Looks for a message in the inbox of an end, at each one once.

    Attributes:
        position: How far it looked.
        found: The message, once it is there.
    """

    def __init__(self, end: Hearing, wanted: Callable[[Seen], bool]) -> None:
        self.position = end.position()
        self.found: Seen | None = None
        self._end = end
        self._wanted = wanted

    def __call__(self) -> bool:
        """Tells whether it was found, or cannot come any more."""
        inbox = self._end.inbox
        while self.found is None and self.position < len(inbox):
            if self._wanted(inbox[self.position]):
                self.found = inbox[self.position]
                return True
            self.position += 1
        return self.found is not None or self._end.over


def _plain(wanted: dict[str, Any]) -> tuple[Fields, list[str]]:
    """Returns what of the wanted fields a script can say, and the names of the others."""
    said: Fields = {}
    lost: list[str] = []
    for name, value in wanted.items():
        if callable(value):
            lost.append(name)
            continue
        said[name] = written(value)
    return said, lost
