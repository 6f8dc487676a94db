"""Extension chains and variable-length integers, in whatever message they stand."""

from __future__ import annotations

import pytest

from conformance.expect import check
from conformance.plugin import req
from conformance.suite.common import (
    frame,
    goes_on,
    greet,
    inquiry,
    listed,
    not_taken,
    pair,
    settle,
    unknown,
    watcher,
)
from conformance.tester import Tester
from scapy_layers.codes import CloseReason, Enc
from scapy_layers.data import Put
from scapy_layers.message import UnknownExtension
from scapy_layers.network import Declare, ResponseFinal
from scapy_layers.transport import Fragment, KeepAlive, TransportOam

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
    goes_on(*greet(tester, extensions=[unknown(enc)]))


@req("ZN-EXT-103")
@ENCODINGS
def test_unknown_mandatory_extension_of_init_is_unsupported(tester: Tester, enc: str) -> None:
    greet(tester, extensions=[unknown(enc)])
    link = tester.link()
    link.send(tester.init(extensions=[unknown(enc, mandatory=True)]))
    link.expect_refusal(CloseReason.UNSUPPORTED)


@req("ZN-EXT-103")
@ENCODINGS
def test_unknown_mandatory_extension_of_request_makes_it_unacceptable(tester: Tester, enc: str) -> None:
    both = inquiry(tester)
    _, request = both.asked("optional", extensions=[unknown(enc)])
    check(both.answerer.key(request) == both.at("optional"), "the query that is acceptable", "another")
    both.ask("mandatory", extensions=[unknown(enc, mandatory=True)])
    if not settle(both.asker):
        both.asker = tester.session()
    _, request = both.asked("control")
    seen = both.answerer.key(request).removeprefix(f"{both.base}/")
    check(seen == "control", "no query with a mandatory extension", f"a query of {seen}")


@req("ZN-EXT-103")
@ENCODINGS
def test_unknown_mandatory_extension_of_interest_makes_it_unacceptable(tester: Tester, enc: str) -> None:
    told = watcher(tester)
    told.ask(tokens=1, extensions=[unknown(enc)])
    told.snapshot()
    number = told.ask(tokens=1, extensions=[unknown(enc, mandatory=True)])
    settle(told.end)
    answers = [
        seen
        for seen in told.end.inbox
        if isinstance(seen.message, Declare) and seen.message.interest_id == number
    ]
    check(not answers, "no answer to an interest with a mandatory extension", "DECLARE")


@req("ZN-EXT-103")
@ENCODINGS
def test_unknown_mandatory_extension_of_fragment_makes_it_unacceptable(tester: Tester, enc: str) -> None:
    both = pair(tester)
    for key, mandatory in (("optional", False), ("mandatory", True)):
        raw = bytes(both.push(key))
        for part, more in ((raw[:9], 1), (raw[9:], 0)):
            chain = [unknown(enc, mandatory=mandatory)]
            sn = both.pub.session.take_sn()
            both.pub.send(Fragment(R=1, M=more, sn=sn, extensions=chain, data=part))
            if mandatory:
                # The node may end the link with the first of them.
                both.pub.wait(lambda: both.pub.link.ended is not None, 0)
    both.expect("PUT optional=1")


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


@req("ZN-VLE-102")
@pytest.mark.parametrize("what", ["scope", "schema"])
def test_number_beyond_its_field_makes_a_publication_unacceptable(tester: Tester, what: str) -> None:
    both = pair(tester)
    both.pub.post(both.push("before", body=Put(data=b"1", encoding=1, schema=b"s" * 255)))
    both.expect("PUT before=1")
    if what == "schema":
        # z8: a length of 256 needs two bytes, which is allowed, and is larger than the field.
        raw = bytes(both.push("a", body=Put(data=b"1", encoding=1, schema=b"s" * 256)))
    else:
        # z16: scope 0 as 2^16, which would be the global one if its upper bits were cut.
        whole = bytes(both.push("a"))
        raw = whole[:1] + b"\x80\x80\x04" + whole[2:]
    both.pub.send(frame(both.pub), raw)
    both.expect()


@req("ZN-VLE-102")
def test_all_bits_of_the_ninth_byte_count(tester: Tester) -> None:
    both = pair(tester)
    both.put("before")
    largest = bytes(TransportOam(oam_id=0x55, ENC=Enc.Z64, z64=(1 << 64) - 1))
    check(largest.endswith(b"\xff" * 9), "nine bytes of 0xff", "another spelling")
    # A tenth byte is no part of the number any more: here it is a KEEP_ALIVE.
    both.pub.send(largest, KeepAlive(), frame(both.pub, both.push("behind")))
    both.expect("PUT before=", "PUT behind=1")


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
