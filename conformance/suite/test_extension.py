"""Extension chains and variable-length integers, in whatever message they stand."""

from __future__ import annotations

import pytest

from conformance.expect import check
from conformance.plugin import req
from conformance.suite.common import frame, greet, inquiry, listed, not_taken, pair, settle, unknown
from conformance.tester import Tester
from scapy_layers.codes import CloseReason, Enc
from scapy_layers.message import UnknownExtension
from scapy_layers.network import ResponseFinal
from scapy_layers.transport import KeepAlive, TransportOam

ENCODINGS = pytest.mark.parametrize("enc", ["unit", "z64", "zbuf"])


# Chains -------------------------------------------------------------------------------------------


@req("ZN-EXT-101")
@pytest.mark.parametrize("count", [1, 2, 8])
@ENCODINGS
def test_chain_is_parsed_to_its_end(tester: Tester, enc: str, count: int) -> None:
    both = pair(tester)
    both.put("before")
    chain = [unknown(enc) for _ in range(count)]
    both.pub.send(KeepAlive(extensions=chain), frame(both.pub, both.push("a", extensions=chain)))
    both.expect("PUT before=", "PUT a=1")


@req("ZN-EXT-101")
def test_chain_may_mix_encodings(tester: Tester) -> None:
    both = pair(tester)
    chain = [unknown("zbuf"), unknown("unit"), unknown("z64"), unknown("zbuf")]
    both.pub.send(KeepAlive(extensions=chain), frame(both.pub, both.push("a", extensions=chain)))
    both.expect("PUT a=1")


@req("ZN-EXT-102")
@ENCODINGS
def test_unknown_optional_extension_of_init_is_skipped(tester: Tester, enc: str) -> None:
    greet(tester, extensions=[unknown(enc)])


@req("ZN-EXT-103")
@ENCODINGS
def test_unknown_mandatory_extension_of_init_is_unsupported(tester: Tester, enc: str) -> None:
    greet(tester, extensions=[unknown(enc)])
    link = tester.link()
    link.send(tester.init(extensions=[unknown(enc, mandatory=True)]))
    link.expect_refusal(CloseReason.UNSUPPORTED)


@req("ZN-EXT-104")
def test_encoding_3_is_refused(tester: Tester) -> None:
    greet(tester, extensions=[unknown("zbuf")])
    link = tester.link()
    link.send(tester.init(extensions=[UnknownExtension(ext_id=0xE, ENC=Enc.RESERVED)]), b"\x01\x00")
    not_taken(link)


# Variable-length integers -----------------------------------------------------------------------------


@req("ZN-VLE-101", "ZN-VLE-102")
@pytest.mark.parametrize(
    "value", [0, 127, 128, 16_383, 16_384, 1 << 21, 1 << 28, (1 << 32) - 1, 1 << 56, 1 << 63, (1 << 64) - 1]
)
def test_number_of_any_size_is_read_to_its_end(tester: Tester, value: int) -> None:
    both = pair(tester)
    both.put("before")
    oam = TransportOam(oam_id=0x55, ENC=Enc.Z64, z64=value)
    both.pub.send(oam, frame(both.pub, both.push("behind")))
    both.expect("PUT before=", "PUT behind=1")


@req("ZN-VLE-102")
@pytest.mark.parametrize(
    "number", [b"\x80\x80\x80\x80\x10", b"\xff\xff\xff\xff\x7f"], ids=["2^32", "2^35 - 1"]
)
def test_request_id_beyond_z32_is_refused(tester: Tester, number: bytes) -> None:
    both = inquiry(tester)
    known, request = both.asked()
    both.finish(request)
    both.expect(known)
    raw = bytes(both.request("a", request_id=0))
    end = both.asker
    end.send(frame(end), raw[:1] + number + raw[2:])
    settle(end)
    asked = [seen.message for seen in both.answerer.inbox if seen.message.name == "REQUEST"]
    check(len(asked) == 1, "no query with such an id", "a query")


@req("ZN-VLE-103")
@pytest.mark.parametrize("padding", [1, 2])
def test_padded_number_is_its_value_or_refused(tester: Tester, padding: int) -> None:
    both = inquiry(tester, queryables=0)
    end = both.asker
    key = f"harness/unused/{tester.word()}"
    raw = bytes(both.request(key_suffix=key, request_id=5))
    end.send(frame(end), raw)
    end.expect(ResponseFinal, request_id=5)
    raw = bytes(both.request(key_suffix=key, request_id=6))
    end.send(frame(end), raw[:1] + b"\x86" + b"\x80" * (padding - 1) + b"\x00" + raw[2:])
    settle(end)
    finals = [seen.message.request_id for seen in end.inbox if isinstance(seen.message, ResponseFinal)]
    others = [str(number) for number in finals if number not in {5, 6, *range(1, end.next_id())}]
    check(not others, "id 6, or a refusal", listed(others))
