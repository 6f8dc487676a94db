"""Any node that a command starts: ``--node cmd:'my-node --listen {locator}'``."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import signal
import sys
import time
from pathlib import Path
from typing import Any

from conformance.config import PROTOCOLS, REPLY_SECONDS, START_SECONDS, Locator, Tls
from conformance.errors import NodeDidNotStart, NotApplicable, UsageError
from conformance.nodes.child import STOP_SECONDS, ChildNode, last_line, private_scouting
from conformance.nodes.foreign import ForeignNode, heard
from conformance.nodes.places import reached, settled
from conformance.profiles import GENERAL, Profile

PAUSE_SECONDS = 0.02
"""Between two attempts to reach a node that does not listen yet; it ends at once when the process does."""

SCRIPT = Path(__file__).with_name("command_process.py")

EXAMPLE = "cmd:'my-node --listen {locator}'"

TLS_WORDS = ("tls_ca", "tls_certificate", "tls_key")


class CommandNode(ForeignNode, ChildNode):
    """A node of which only the command is known that starts it.

    In the command stand, for what is known when it starts:

    - ``{locator}``: where it shall listen, ``tcp/127.0.0.1:PORT``; ``{port}`` only the port of it,
    - ``{tls}``, ``{udp}``, ``{ws}``, ``{unixsock-stream}``, ``{tcp}``: a locator of this transport, for runs with
      several,
    - ``{tls_ca}``, ``{tls_certificate}``, ``{tls_key}``: files,
    - ``{scouting}``: group and port at which it shall hear SCOUTs, on the interface ``lo``.

    Args:
        logs: Folder for what the node writes.
        command: The command, in words as a shell would cut it; no shell takes part.
        profile: What the node supports, as far as the user knows.
        name: Base name of the log files.
        transports: Those of the run; ``{locator}`` is one of the first.
        tls: Certificates for links over TLS.

    Raises:
        UsageError: The command is none.
    """

    complaint = re.compile(
        r"panicked at|^panic: |^fatal error: |memory allocation of|stack overflow|[A-Z][a-z]+Sanitizer"
        r"|runtime error: |Segmentation fault|^Traceback \(most recent call last\)|terminate called"
        r"|: Assertion [`'].*' failed"
    )

    def __init__(
        self,
        logs: Path,
        command: str,
        profile: Profile = GENERAL,
        name: str = "node",
        *,
        transports: tuple[str, ...] = ("tcp",),
        tls: Tls | None = None,
    ) -> None:
        super().__init__(logs, {}, name, transports=transports, tls=tls)
        self.profile = profile
        self.impl, self.version = profile.impl, profile.version
        self._text = command
        self._words = _words(command)
        self._main = transports[0]
        self._asked = [proto for proto in PROTOCOLS if f"{{{proto}}}" in command]
        if not self._asked and "{locator}" not in command and "{port}" not in command:
            raise UsageError(
                f"--node cmd:{command}: the command does not say where to listen; write {{locator}} where it shall "
                f"stand, as in {EXAMPLE}"
            )
        if "tls" in (self._main, *self._asked) and tls is None:
            raise UsageError(f"--node cmd:{command}: a run over TLS is needed; add --transports tls")
        self._group = private_scouting()["scouting/multicast/address"] if "{scouting}" in command else ""

    @property
    def title(self) -> str:
        """See ChildNode."""
        return f"the node of {Path(self._words[0]).name!r}"

    def lacks(self, transport: str) -> str:
        """See Node."""
        if transport in self.locators:
            return ""
        return f"the command of the node does not make it listen on {transport}; {{{transport}}} says where"

    def start(self) -> None:
        """Starts the process and waits until it opens a session.

        Raises:
            NodeDidNotStart: There is no such command, it ends, or it does not answer in time.
        """
        log = self._run()
        deadline = time.monotonic() + START_SECONDS
        while why := self._unready():
            if death := self.death():
                # What a canary saw is of no interest any more.
                self.stop()
                raise NodeDidNotStart(f"{self.title} did not start: {death}{last_line(log)}")
            if time.monotonic() > deadline:
                self.stop()
                raise NodeDidNotStart(
                    f"{self.title} did not answer within {START_SECONDS:g} s: {why}{last_line(log)}"
                )
            self._ended(PAUSE_SECONDS)
        self._introduce()

    def launch(self) -> None:
        """Starts the process; it is ready when it says something on a link."""
        self._run()

    def _unready(self) -> str:
        """Returns why no session can be opened yet, or nothing."""
        self.fence = "none"
        return self._canary(REPLY_SECONDS)

    def _run(self) -> Path:
        log = self._next_log()
        filled, locators = self._filled()
        self._reached(locators)
        self.scouting = (
            Locator.parse(f"udp/{self._group}#iface=lo") if self._group else heard(self.locator, self.profile)
        )
        with log.with_suffix(".stdout").open("wb") as out:
            self._launch([sys.executable, str(SCRIPT), str(os.getpid()), *filled], log, out)
        return log

    def _filled(self) -> tuple[list[str], dict[str, Locator]]:
        """Returns the words of the command with all that is known filled in, and where the node shall listen."""
        places = {where.partition("/")[0]: settled(where) for where in self._places.endpoints(PROTOCOLS)}
        main = Locator.parse(places[self._main])
        used = {self._main} if {"{locator}", "{port}"} & set(re.findall(r"\{\w+\}", self._text)) else set()
        used |= set(self._asked)
        values = {"locator": str(main), "port": str(main.port), "scouting": self._group, **places}
        if self.tls is not None:
            files = (self.tls.ca, self.tls.certificate, self.tls.key)
            values.update(zip(TLS_WORDS, map(str, files), strict=True))

        def fill(match: re.Match[str]) -> str:
            # Other words in braces are the node's own, like JSON.
            return values.get(match[1], match[0])

        words = [re.sub(r"\{([a-z_-]+)\}", fill, word) for word in self._words]
        return words, reached([places[proto] for proto in PROTOCOLS if proto in used])

    # The process, with all that it starts itself -------------------------------------------------------

    def death(self) -> str:
        """Returns the exit code or signal of a process that ended by itself."""
        if self._process is None:
            return "the process is not running"
        # It is not reaped here, so that its group keeps its number until the group is ended.
        found = os.waitid(os.P_PID, self._process.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT)
        if found is None:
            return ""
        if found.si_code == os.CLD_EXITED:
            return f"the process ended with exit code {found.si_status}"
        return f"the process died of {signal.Signals(found.si_status).name}"

    def stop(self) -> None:
        """Ends the process and whatever it started: SIGTERM, then SIGKILL."""
        if self._process is not None:
            os.killpg(self._process.pid, signal.SIGTERM)
            self._ended(STOP_SECONDS)
        self.kill()

    def kill(self) -> None:
        """Ends the process and whatever it started with SIGKILL."""
        if self._process is not None:
            os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()
        super().stop()

    def variant(self, **config: Any) -> CommandNode:
        """Returns another node of the same command, not started yet.

        Raises:
            NotApplicable: A configuration is wanted, and nobody knows how the command takes one.
        """
        if config:
            raise NotApplicable("needs a node that is started with a configuration of its own")
        return CommandNode(
            self._logs,
            self._text,
            self.profile,
            self._variant_name(),
            transports=self._places.asked,
            tls=self.tls,
        )


def _words(command: str) -> list[str]:
    try:
        words = shlex.split(command)
        if len(words) == 1 and words[0] != command:
            # Quoted twice, for the shell and for us: the quotes of cmd:'...' came through.
            words = shlex.split(words[0])
    except ValueError as error:
        raise UsageError(f"--node cmd:{command}: {str(error).lower()}; write it like {EXAMPLE}") from None
    if not words:
        raise UsageError(f"--node cmd: needs a command, as in {EXAMPLE}")
    if shutil.which(words[0]) is None:
        raise UsageError(f"--node cmd:{command}: there is no command {words[0]!r} that can be run")
    return words
