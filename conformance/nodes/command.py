"""Any node that a command starts: ``--node cmd:'my-node --listen {locator}'``."""

from __future__ import annotations

import os
import random
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
from conformance.tester import Tester

PAUSE_SECONDS = 0.02
"""Between two attempts to reach a node that does not listen yet; it ends at once when the process does."""

SCRIPT = Path(__file__).with_name("command_process.py")

EXAMPLE = "cmd:'my-node --listen {locator}'"

CONNECT = "{connect}"

WITH_CONNECT = re.compile(r"\[\[((?:(?!\]\]).)*?\{connect\}.*?)\]\]")
"""Part of a command that is there only when the node shall connect to us."""

CONNECTING = {"mode", "connect__endpoints", "scouting__multicast__enabled"}
"""What can be wanted of a node that connects: it does that, in its role, and looks for nobody else."""

DIED = 128
"""Exit codes from here on are those of a shell whose child has died of a signal."""

TLS_WORDS = ("tls_ca", "tls_certificate", "tls_key")


class CommandNode(ForeignNode, ChildNode):
    """A node of which only the command is known that starts it.

    In the command stand, for what is known when it starts:

    - ``{locator}``: where it shall listen, ``tcp/127.0.0.1:PORT``; ``{port}`` only the port of it,
    - ``{tls}``, ``{udp}``, ``{ws}``, ``{unixsock-stream}``, ``{tcp}``: a locator of this transport, for runs with
      several,
    - ``{tls_ca}``, ``{tls_certificate}``, ``{tls_key}``: files,
    - ``{scouting}``: group and port at which it shall hear SCOUTs, on the interface ``lo``,
    - ``{connect}``: where it shall connect to us, ``tcp/127.0.0.1:PORT``. What stands in ``[[ ]]`` around it is left
      out when it shall connect to nobody; a command that says nothing else is that of a node that only connects.

    Args:
        logs: Folder for what the node writes.
        command: The command, in words as a shell would cut it; no shell takes part.
        profile: What the node supports, as far as the user knows.
        name: Base name of the log files.
        transports: Those of the run; ``{locator}`` is one of the first.
        tls: Certificates for links over TLS.
        time_scale: How many times as long as usual everything may take; never less than usual when it starts.

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
        time_scale: float = 1.0,
    ) -> None:
        super().__init__(logs, {}, name, transports=transports, tls=tls)
        self._scale = max(1.0, time_scale)
        self.patience = REPLY_SECONDS * self._scale
        self.profile = profile
        self.impl, self.version = profile.impl, profile.version
        self._text = command
        self._endpoint = ""
        self._words = _words(WITH_CONNECT.sub(r"\1", command))
        self._main = transports[0]
        self._asked = [proto for proto in PROTOCOLS if f"{{{proto}}}" in command]
        self.listens = bool(self._asked) or "{locator}" in command or "{port}" in command
        if not self.listens:
            self.whatami = "client"
        if not self.listens and CONNECT not in command:
            raise UsageError(
                f"--node cmd:{command}: the command does not say where to listen; put {{locator}} where it "
                f"belongs, as in {EXAMPLE}, or {CONNECT} for a node that only connects"
            )
        if self.listens and CONNECT in WITH_CONNECT.sub("", command):
            raise UsageError(
                f"--node cmd:{command}: a node that listens connects to us only now and then; write [[ ]] around what "
                f"says so, as in cmd:'my-node --listen {{locator}} [[--connect {CONNECT}]]'"
            )
        if "tls" in (self._main, *self._asked) and tls is None:
            raise UsageError(f"--node cmd:{command}: a run over TLS is needed; add --transports tls")
        self._group = private_scouting()["scouting/multicast/address"] if "{scouting}" in command else ""
        if self._group:
            self.scouting = Locator.parse(f"udp/{self._group}#iface=lo")

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
        limit = START_SECONDS * self._scale
        deadline = time.monotonic() + limit
        while why := self._unready():
            if death := self.death():
                # What a canary saw is of no interest any more.
                self.stop()
                raise NodeDidNotStart(f"{self.title} did not start: {death}{last_line(log)}")
            if time.monotonic() > deadline:
                self.stop()
                raise NodeDidNotStart(
                    f"{self.title} did not answer within {limit:g} s: {why}{last_line(log)}"
                )
            self._ended(PAUSE_SECONDS)
        self._introduce()

    def launch(self) -> None:
        """Starts the process; it is ready when it says something on a link."""
        self._run()

    def tester(self, reply: float, rng: random.Random | None = None) -> Tester:
        """See Node.

        Raises:
            NotApplicable: It takes no links.
        """
        if not self.listens:
            raise NotApplicable(f"{self.title} only connects: it takes no links")
        return super().tester(reply, rng)

    def _canary(self, reply: float) -> str:
        return super()._canary(reply) if self.listens else ""

    def _unready(self) -> str:
        """Returns why no session can be opened yet, or nothing."""
        self.fence = "none"
        return self._canary(self.patience)

    def _run(self) -> Path:
        log = self._next_log()
        filled, locators = self._filled()
        if self.listens:
            self._reached(locators)
        if self.listens and not self._group:
            self.scouting = heard(self.locator, self.profile)
        with log.with_suffix(".stdout").open("wb") as out:
            self._launch([sys.executable, str(SCRIPT), str(os.getpid()), *filled], log, out)
        return log

    def _filled(self) -> tuple[list[str], dict[str, Locator]]:
        """Returns the words of the command with all that is known filled in, and where the node shall listen.

        Raises:
            NodeDidNotStart: It only connects, and there is nobody to connect to.
        """
        if not self.listens and not self._endpoint:
            raise NodeDidNotStart(
                f"{self.title} only connects, and takes no links; {{locator}} in the command says where to listen"
            )
        places = {where.partition("/")[0]: settled(where) for where in self._places.endpoints(PROTOCOLS)}
        main = Locator.parse(places[self._main])
        used = {self._main} if {"{locator}", "{port}"} & set(re.findall(r"\{\w+\}", self._text)) else set()
        used |= set(self._asked)
        values = {"locator": str(main), "port": str(main.port), "scouting": self._group, **places}
        values["connect"] = self._endpoint
        if self.tls is not None:
            files = (self.tls.ca, self.tls.certificate, self.tls.key)
            values.update(zip(TLS_WORDS, map(str, files), strict=True))

        def fill(match: re.Match[str]) -> str:
            # Other words in braces are the node's own, like JSON.
            return values.get(match[1], match[0])

        text = WITH_CONNECT.sub(r"\1" if self._endpoint else "", self._text)
        words = [re.sub(r"\{([a-z_-]+)\}", fill, word) for word in _words(text)]
        return words, reached([places[proto] for proto in PROTOCOLS if proto in used])

    # The process, with all that it starts itself -------------------------------------------------------

    def death(self) -> str:
        """Returns the exit code or signal of a process that ended by itself; nothing of one that has left."""
        if self._process is None:
            return "the process is not running"
        found = self._exit()
        if found is None or self.has_left():
            return ""
        if found.si_code == os.CLD_EXITED:
            return f"the process ended with exit code {found.si_status}"
        return f"the process died of {signal.Signals(found.si_status).name}"

    def has_left(self) -> bool:
        """See Node."""
        if self.listens:
            return False
        found = self._exit()
        return found is not None and found.si_code == os.CLD_EXITED and found.si_status < DIED

    def _exit(self) -> os.waitid_result | None:
        """Returns how the process ended, if it has."""
        if self._process is None:
            return None
        # It is not reaped here, so that its group keeps its number until the group is ended.
        return os.waitid(os.P_PID, self._process.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT)

    def stop(self) -> None:
        """Ends the process and whatever it started: SIGTERM, then SIGKILL."""
        if self._process is not None:
            os.killpg(self._process.pid, signal.SIGTERM)
            self._ended(STOP_SECONDS)
        self.kill()

    def dismiss(self) -> None:
        """Asks the process and whatever it started to end (SIGTERM), and does not wait until they have."""
        if self._process is not None:
            os.killpg(self._process.pid, signal.SIGTERM)

    def kill(self) -> None:
        """Ends the process and whatever it started with SIGKILL."""
        if self._process is not None:
            os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()
        super().stop()

    def variant(self, **config: Any) -> CommandNode:
        """Returns another node of the same command, not started yet.

        Args:
            config: Nothing, or where it shall connect, and what goes with that (``CONNECTING``).

        Raises:
            NotApplicable: Another configuration is wanted, and nobody knows how the command takes one.
        """
        endpoints = config.get("connect__endpoints", [])
        if endpoints and CONNECT not in self._text:
            raise NotApplicable(f"needs a node that connects to us; {CONNECT} in the command says where")
        if config and not (endpoints and config.keys() <= CONNECTING):
            raise NotApplicable("needs a node that is started with a configuration of its own")
        if len(endpoints) > 1:
            raise NotApplicable("needs a node that connects to several places at once")
        if config.get("mode", self._role) != self._role:
            raise NotApplicable(f"needs a node that can be made a {config['mode']}")
        made = CommandNode(
            self._logs,
            self._text,
            self.profile,
            self._variant_name(),
            transports=self._places.asked,
            tls=self.tls,
            time_scale=self._scale,
        )
        made._endpoint = next(iter(endpoints), "")
        self._tell_user(made)
        return made

    @property
    def _role(self) -> str:
        """What a node is taken for that connects to us: whoever takes no links is a client."""
        return "peer" if self.listens else "client"


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
