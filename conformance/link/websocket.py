"""WebSocket (RFC 6455) around batches, without a socket: one binary message is one batch."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from itertools import pairwise

from websockets.client import ClientProtocol
from websockets.exceptions import PayloadTooBig
from websockets.frames import CloseCode, Frame, Opcode
from websockets.http11 import Request, Response
from websockets.protocol import OPEN
from websockets.server import ServerProtocol
from websockets.uri import parse_uri

from conformance.link.framing import Broken, Framing, with_length
from scapy_layers import websocket
from scapy_layers.errors import Overlong

LARGEST = 1 << 20
"""Bytes of the largest message that is read at all; ``limit`` is asked when it is whole."""

END_OF_HEADER = b"\r\n\r\n"


class WebSocket(Framing):
    """One link over WebSocket.

    Args:
        authority: Host and port, where we connect; None for an end that accepts.
    """

    talks = True

    def __init__(self, authority: str | None) -> None:
        super().__init__()
        self.opened = False
        self._client = authority is not None
        self._protocol: ClientProtocol | ServerProtocol = (
            ServerProtocol(max_size=LARGEST)
            if authority is None
            else ClientProtocol(parse_uri(f"ws://{authority}/"), max_size=LARGEST)
        )
        self._frames: deque[Frame] = deque()
        # One buffer, not a list of parts: frames of no bytes shall take none.
        self._message = bytearray()
        self._tee = bytearray()
        self._raw = b""
        self._closed = False

    def start(self) -> None:
        """Asks for the upgrade."""
        assert isinstance(self._protocol, ClientProtocol)
        self._protocol.send_request(self._protocol.connect())

    def feed(self, data: bytes) -> None:
        """Takes bytes of the stream."""
        if self.log is not None:
            self._tee += data
        self._protocol.receive_data(data)
        for event in self._protocol.events_received():
            match event:
                case Frame():
                    self._frames.append(event)
                case Request():
                    self._note_header("WebSocket upgrade request")
                    assert isinstance(self._protocol, ServerProtocol)
                    self._protocol.send_response(self._protocol.accept(event))
                case Response():
                    self._note_header(f"WebSocket upgrade answer {event.status_code}")
        if not self.opened:
            if self._protocol.handshake_exc is not None:
                raise Broken(f"no upgrade to WebSocket: {self._protocol.handshake_exc}")
            self.opened = self._protocol.state is OPEN

    def take(self) -> bytes | None:
        """Returns the next binary message."""
        while self._frames:
            frame = self._frames.popleft()
            raw = self._cut_tee()
            match frame.opcode:
                case Opcode.TEXT:
                    self._protocol.fail(CloseCode.UNSUPPORTED_DATA, "a batch is a binary message")
                    raise Broken("a text message, where a batch is a binary one")
                case Opcode.BINARY | Opcode.CONT:
                    self._raw = raw if frame.opcode is Opcode.BINARY else self._raw + raw
                    whole = frame.fin and not self._message
                    batch = bytes(frame.data) if whole else b""
                    if not whole:
                        self._message += frame.data
                    size = len(batch) + len(self._message)
                    if size > self.limit:
                        raise Overlong("batch length", f"{size} bytes, at most {self.limit}")
                    if frame.fin:
                        batch = batch or bytes(self._message)
                        self._message.clear()
                        return batch
                case _:
                    self._note(False, raw, f"WebSocket {Opcode(frame.opcode).name}")
                    if frame.opcode is Opcode.CLOSE:
                        code = self._protocol.close_rcvd.code if self._protocol.close_rcvd else "without code"
                        self.over = f"end of stream (WebSocket CLOSE {code})"
                        return None
        if self._protocol.parser_exc is not None and not self.over:
            error = self._protocol.parser_exc
            if isinstance(error, PayloadTooBig):
                raise Overlong("batch length", f"a message above {LARGEST} bytes")
            raise Broken(f"WebSocket: {error}")
        return None

    def frame(self, batch: bytes, length: int | None, prefix: int | None) -> bytes:
        """Returns a binary message.

        A ``prefix`` other than 0 stands inside the message. Without one, ``length`` is what the WebSocket frame says.
        """
        if prefix:
            batch, length = with_length(batch, length, prefix), None
        if self._closed or self._protocol.state is not OPEN:
            return b""
        if length is not None:
            return _lying(batch, length, masked=self._client)
        self._protocol.send_binary(batch)
        return b"".join(self._protocol.data_to_send())

    def frame_cut(self, batch: bytes, cuts: Sequence[int]) -> bytes:
        """Returns one message in several frames."""
        if self._closed or self._protocol.state is not OPEN:
            return b""
        edges = [0, *cuts, len(batch)]
        for number, (start, end) in enumerate(pairwise(edges)):
            fin = number == len(edges) - 2
            if number == 0:
                self._protocol.send_binary(batch[start:end], fin)
            else:
                self._protocol.send_continuation(batch[start:end], fin)
        return b"".join(self._protocol.data_to_send())

    def came_as(self, batch: bytes) -> bytes:  # noqa: ARG002  (its frames were kept)
        """Returns the frames of the message taken last."""
        return self._raw

    @property
    def pending(self) -> bytes:
        """Bytes of a message that is not complete, where a record is wanted."""
        return bytes(self._tee)

    def answer(self) -> bytes:
        """Returns what WebSocket itself says: the handshake, PONG, CLOSE."""
        data = b"".join(self._protocol.data_to_send())
        if data:
            head = data.startswith((b"GET ", b"HTTP/"))
            self._note(True, data, "WebSocket upgrade" if head else "WebSocket control frame")
        return data

    def goodbye(self) -> bytes:
        """Returns CLOSE."""
        if self._protocol.state is OPEN and not self._closed:
            self._closed = True
            # Inside a message in several frames there is no orderly farewell.
            if not self._protocol.expect_continuation_frame:
                self._protocol.send_close(CloseCode.NORMAL_CLOSURE)
        return self.answer()

    def stream_ended(self) -> str:
        """Tells an end with CLOSE from a stream that was cut."""
        if not self.opened:
            return "end of stream in the WebSocket handshake"
        return self.over or "end of stream without WebSocket CLOSE"

    def _note_header(self, words: str) -> None:
        if self.log is not None:
            end = self._tee.find(END_OF_HEADER)
            end = end + len(END_OF_HEADER) if end >= 0 else len(self._tee)
            self._note(False, bytes(self._tee[:end]), words)
            del self._tee[:end]

    def _note(self, ours: bool, data: bytes, words: str) -> None:
        if self.log is not None:
            self.log.append((ours, data, words))

    def _cut_tee(self) -> bytes:
        """Returns the bytes of the frame that is looked at, as they came; nothing where no record is wanted."""
        if self.log is None:
            return b""
        found = websocket.frame(self._tee, 0)
        if found is None:
            return b""
        raw = bytes(self._tee[: found.end])
        del self._tee[: found.end]
        return raw


def _lying(batch: bytes, length: int, *, masked: bool) -> bytes:
    """Returns a binary message whose frame says another length than it has; the mask is zero."""
    if not 0 <= length < 1 << 63:
        raise ValueError(f"a WebSocket frame cannot say {length} bytes")
    bit = 0x80 if masked else 0
    if length < 126:
        head = bytes([0x82, bit | length])
    elif length <= 0xFFFF:
        head = bytes([0x82, bit | 126]) + length.to_bytes(2, "big")
    else:
        head = bytes([0x82, bit | 127]) + length.to_bytes(8, "big")
    return head + bytes(4 if masked else 0) + batch
