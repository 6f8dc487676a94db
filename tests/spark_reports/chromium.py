"""A small client for headless Chromium: the DevTools protocol over a pipe, so no port and no dependency.

Chromium reads commands from its descriptor 3 and writes answers and events to 4, each a JSON text that ends
with a zero byte.
"""

import argparse
import base64
import contextlib
import fcntl
import json
import os
import select
import shutil
import signal
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

NAMES = ("chromium", "chromium-browser", "google-chrome")
SECONDS = 20.0
"""So long an answer may take on a busy machine."""

_FLAGS = (
    "--headless=new",
    "--no-sandbox",
    "--remote-debugging-pipe",
    "--disable-gpu",
    "--disable-extensions",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-default-apps",
    "--disable-dev-shm-usage",
    "--disable-sync",
    "--hide-scrollbars",
    "--no-first-run",
    "--proxy-server=127.0.0.1:9",
)

_TWO_FRAMES = "new Promise(done => requestAnimationFrame(() => requestAnimationFrame(() => done(1))))"


def find() -> str | None:
    """Returns the path of Chromium; None if there is none."""
    return next((path for name in NAMES if (path := shutil.which(name))), None)


class Trouble(Exception):
    """Chromium did not answer, or answered with an error."""


class Browser:
    """A running Chromium."""

    def __init__(self, program: str, profile: Path) -> None:
        theirs_in, ours_out = os.pipe()
        ours_in, theirs_out = os.pipe()
        # They become 3 and 4 over there, so they must be neither here.
        high = [fcntl.fcntl(end, fcntl.F_DUPFD_CLOEXEC, 10) for end in (theirs_in, theirs_out)]
        null = os.open(os.devnull, os.O_RDWR)
        self._process = os.posix_spawn(
            program,
            [program, *_FLAGS, f"--user-data-dir={profile}", "about:blank"],
            {**os.environ, "HOME": str(profile), "DBUS_SESSION_BUS_ADDRESS": "disabled:"},
            file_actions=[
                *((os.POSIX_SPAWN_DUP2, null, number) for number in (0, 1, 2)),
                (os.POSIX_SPAWN_DUP2, high[0], 3),
                (os.POSIX_SPAWN_DUP2, high[1], 4),
            ],
            setpgroup=0,
        )
        for end in (theirs_in, theirs_out, null, *high):
            os.close(end)
        self._in, self._out = ours_in, ours_out
        self._buffer = b""
        self._last = 0
        self._events: list[dict[str, Any]] = []

    def ask(self, method: str, session: str | None = None, **params: Any) -> dict[str, Any]:
        """Sends a command and returns its result.

        Raises:
            Trouble: It failed, or nothing came within ``SECONDS``.
        """
        self._last += 1
        message: dict[str, Any] = {"id": self._last, "method": method, "params": params}
        if session is not None:
            message["sessionId"] = session
        data = json.dumps(message).encode() + b"\0"
        while data:
            data = data[os.write(self._out, data) :]
        while True:
            answer = self._read(method)
            if answer.get("id") == self._last:
                if "error" in answer:
                    raise Trouble(f"{method}: {answer['error']}")
                result: dict[str, Any] = answer["result"]
                return result
            self._events.append(answer)

    def wait(self, method: str, session: str) -> dict[str, Any]:
        """Returns the next event of a kind; those before it are kept for ``events``."""
        seen = 0
        while True:
            for event in self._events[seen:]:
                if event.get("method") == method and event.get("sessionId") == session:
                    self._events.remove(event)
                    params: dict[str, Any] = event["params"]
                    return params
            seen = len(self._events)
            self._events.append(self._read(method))

    def events(self, session: str) -> list[dict[str, Any]]:
        """Returns, and forgets, the events of a session."""
        mine = [event for event in self._events if event.get("sessionId") == session]
        self._events = [event for event in self._events if event.get("sessionId") != session]
        return mine

    def close(self) -> None:
        """Ends Chromium and all of its processes."""
        with contextlib.suppress(Trouble, OSError):
            self.ask("Browser.close")
        deadline = time.monotonic() + 5
        while os.waitpid(self._process, os.WNOHANG) == (0, 0):
            if time.monotonic() > deadline:
                os.killpg(self._process, signal.SIGKILL)
                os.waitpid(self._process, 0)
                break
            # Its end of the pipe is closed when it is gone.
            select.select([self._in], [], [], 0.05)
        os.close(self._in)
        os.close(self._out)

    def _read(self, what: str) -> dict[str, Any]:
        deadline = time.monotonic() + SECONDS
        while b"\0" not in self._buffer:
            ready, _, _ = select.select([self._in], [], [], max(0.0, deadline - time.monotonic()))
            data = os.read(self._in, 1 << 20) if ready else b""
            if not data:
                raise Trouble(f"{what}: {'Chromium is gone' if ready else 'no answer'}")
            self._buffer += data
        text, _, self._buffer = self._buffer.partition(b"\0")
        message: dict[str, Any] = json.loads(text)
        return message


class Tab:
    """A tab without network that keeps what a page complains about and asks for.

    Attributes:
        complaints: Errors, warnings and messages of the console, in words.
        requests: Addresses that were asked for, that of the page itself left out.
    """

    def __init__(self, browser: Browser) -> None:
        self._browser = browser
        self._target: str = browser.ask("Target.createTarget", url="about:blank")["targetId"]
        attached = browser.ask("Target.attachToTarget", targetId=self._target, flatten=True)
        self._session: str = attached["sessionId"]
        self.complaints: list[str] = []
        self.requests: list[str] = []
        self._scripts = True
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.ask(f"{domain}.enable")
        self.size(1280, 900)

    def ask(self, method: str, **params: Any) -> dict[str, Any]:
        """Sends a command to this tab."""
        return self._browser.ask(method, self._session, **params)

    def open(self, path: Path) -> None:
        """Loads a file and waits until it is there."""
        self.ask("Page.navigate", url=path.as_uri())
        self._browser.wait("Page.loadEventFired", self._session)
        # What the page did when it was loaded has been said by the time this is answered.
        if self._scripts:
            self.run(_TWO_FRAMES)
        self.collect(path.as_uri())

    def collect(self, own: str) -> None:
        """Sorts what has happened into complaints and requests."""
        for event in self._browser.events(self._session):
            params = event.get("params", {})
            match event.get("method"):
                case "Runtime.exceptionThrown":
                    self.complaints.append(str(params["exceptionDetails"]))
                case "Runtime.consoleAPICalled":
                    self.complaints.append(str(params["args"]))
                case "Log.entryAdded":
                    self.complaints.append(params["entry"]["text"])
                case "Network.requestWillBeSent" if params["request"]["url"].partition("#")[0] != own:
                    self.requests.append(params["request"]["url"][:200])
                case _:
                    pass

    def run(self, script: str) -> Any:
        """Returns what an expression of JavaScript is, a promise awaited.

        Raises:
            Trouble: It threw something.
        """
        answer = self.ask("Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True)
        if "exceptionDetails" in answer:
            raise Trouble(f"{script}: {answer['exceptionDetails']}")
        return answer["result"].get("value")

    def size(self, width: int, height: int) -> None:
        """Makes the window as large, in CSS pixels."""
        self.ask(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=height,
            deviceScaleFactor=1,
            mobile=False,
        )

    def media(self, *, dark: bool = False, kind: str = "") -> None:
        """Says what the system prefers, and whether this is paper (``print``)."""
        scheme = "dark" if dark else "light"
        features = [{"name": "prefers-color-scheme", "value": scheme}]
        self.ask("Emulation.setEmulatedMedia", media=kind, features=features)

    def script(self, *, allowed: bool) -> None:
        """Switches JavaScript of pages on or off, from the next page on."""
        self.ask("Emulation.setScriptExecutionDisabled", value=not allowed)
        self._scripts = allowed

    def click(self, selector: str) -> None:
        """Presses and releases the mouse in the middle of an element."""
        element = f"document.querySelector({json.dumps(selector)})"
        self.run(f"{element}.scrollIntoView({{block: 'center', behavior: 'instant'}})")
        # A click that comes before the frame with the new place would hit what was there before.
        self.run(_TWO_FRAMES)
        place = self.run(
            f"(() => {{ const b = {element}.getBoundingClientRect();"
            " return [b.x + b.width / 2, b.y + b.height / 2]; })()"
        )
        for kind in ("mousePressed", "mouseReleased"):
            self.ask(
                "Input.dispatchMouseEvent", type=kind, x=place[0], y=place[1], button="left", clickCount=1
            )

    def type(self, selector: str, text: str) -> None:
        """Types a text into an input."""
        self.run(f"document.querySelector({json.dumps(selector)}).focus()")
        self.ask("Input.insertText", text=text)

    def picture(self, clip: dict[str, float] | None = None) -> bytes:
        """Returns a PNG of the window, or of a part of the page (``x y width height scale``)."""
        more = {} if clip is None else {"clip": clip, "captureBeyondViewport": True}
        return base64.b64decode(self.ask("Page.captureScreenshot", format="png", **more)["data"])

    def paper(self) -> bytes:
        """Returns the page as a PDF."""
        return base64.b64decode(self.ask("Page.printToPDF", printBackground=True)["data"])

    def close(self) -> None:
        """Closes the tab."""
        self._browser.ask("Target.closeTarget", targetId=self._target)


@contextlib.contextmanager
def running(program: str) -> Iterator[Browser]:
    """Runs Chromium with a profile of its own."""
    with tempfile.TemporaryDirectory(prefix="chromium-", ignore_cleanup_errors=True) as profile:
        browser = Browser(program, Path(profile))
        try:
            yield browser
        finally:
            browser.close()


def main(arguments: list[str] | None = None) -> None:
    """Takes the picture of a page that the documents show."""
    parser = argparse.ArgumentParser(description="Writes a picture of a page, as Chromium shows it.")
    parser.add_argument("page", type=Path)
    parser.add_argument("picture", type=Path)
    parser.add_argument("--dark", action="store_true")
    parser.add_argument("--width", type=int, default=1280)
    parser.add_argument("--height", type=int, default=1180)
    given = parser.parse_args(arguments)
    program = find()
    if program is None:
        parser.error("no Chromium on this machine")
    with running(program) as browser:
        tab = Tab(browser)
        tab.media(dark=given.dark)
        tab.size(given.width, given.height)
        tab.open(given.page.resolve())
        given.picture.write_bytes(tab.picture())


if __name__ == "__main__":
    main()
