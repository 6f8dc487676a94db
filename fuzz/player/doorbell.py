"""A listener that only tells that somebody came."""

from __future__ import annotations

import os
import select
import socket
import threading
from contextlib import suppress

from conformance.config import Locator
from fuzz.player.accepting import LOOPBACK


class Doorbell:
    """Listens, and lets go at once whoever connects.

    A node that follows a HELLO looks at no other before its link is open or given up. Somebody must let it go also when
    nobody waits for it any more, so that it is free for whoever is next.

    Attributes:
        locator: Where; the system chose the port.
        ended: How it ended; empty while it listens.
    """

    def __init__(self) -> None:
        self._listener = socket.create_server((LOOPBACK, 0))
        self.locator = Locator("tcp", LOOPBACK, self._listener.getsockname()[1])
        self.ended = ""
        self._rung = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
        self._thread = threading.Thread(target=self._listen, name="doorbell", daemon=True)
        self._thread.start()

    def fileno(self) -> int:
        """The file descriptor; readable when somebody came."""
        return self._rung

    def wait(self, seconds: float) -> bool:
        """Waits until somebody has come since the last call of ``drain``; tells whether somebody did."""
        poll = select.poll()
        poll.register(self._rung, select.POLLIN)
        return bool(poll.poll(max(0.0, seconds) * 1000))

    def drain(self) -> int:
        """Returns how often somebody came since the last call."""
        try:
            return os.eventfd_read(self._rung)
        except BlockingIOError:
            return 0

    def close(self) -> None:
        """Listens no more."""
        if self._rung < 0:
            return
        self.ended = "closed"
        with suppress(OSError):  # what has failed does not listen any more
            self._listener.shutdown(socket.SHUT_RDWR)
        self._thread.join()
        self._listener.close()
        os.close(self._rung)
        self._rung = -1

    def _listen(self) -> None:
        while True:
            try:
                made, _ = self._listener.accept()
            except ConnectionAbortedError:
                continue  # whoever it was has gone again
            except OSError as error:
                self.ended = self.ended or str(error)
                return
            made.close()
            os.eventfd_write(self._rung, 1)
