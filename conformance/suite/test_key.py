"""Key expressions on the wire: what is no key is not routed."""

from __future__ import annotations

import pytest

from conformance.expect import check
from conformance.plugin import req
from conformance.suite.common import DECLARATIONS, declare, listed, pair, settle, undropped, watcher
from conformance.tester import Tester
from scapy_layers.data import Put
from scapy_layers.keyexpr import is_valid
from scapy_layers.network import Declare, Push

NO_KEYS = ["a//b", "a/", "a#b", "a?b", "a$b", "a/b*"]
"""Relative to a base, so that only a subscriber of this test could get them."""

NOT_CANONICAL = ["a/**/**/b", "a/**/*/b", "a/$*/b"]


@req("ZN-KEX-101")
@pytest.mark.parametrize("key", NO_KEYS)
def test_what_is_no_key_is_not_routed(tester: Tester, key: str) -> None:
    both = pair(tester)
    both.put("a/b", b"1")
    both.put(key, b"2")
    both.expect("PUT a/b=1")


@req("ZN-KEX-101")
@pytest.mark.parametrize("key", ["", "/", "/a"], ids=["empty", "slash", "leading slash"])
def test_empty_key_is_not_routed(tester: Tester, key: str) -> None:
    both = pair(tester)
    everything = tester.session()
    everything.declare_subscriber("**")
    both.pub.post(undropped(key_scope=0, key_suffix=key, body=Put(data=b"no key")))
    both.put("a/b", b"1")
    both.expect("PUT a/b=1")
    before = everything.until(Push, key=both.at("a/b"))
    seen = [push for push in before if isinstance(push, Push) and push.body.data == b"no key"]
    check(not seen, "no PUSH", "PUSH")


@req("ZN-KEX-102")
@pytest.mark.parametrize("kind", DECLARATIONS)
@pytest.mark.parametrize("key", NOT_CANONICAL)
def test_node_tells_nobody_of_a_key_that_is_not_canonical(tester: Tester, key: str, kind: str) -> None:
    body = DECLARATIONS[kind][0]
    made = body.shape().name
    told = watcher(tester)
    told.ask()
    told.snapshot()
    control = tester.session()
    declare(control, kind, told.at("a/**/c"))
    told.until(f"{made} a/**/c")
    other = tester.session()
    other.post(Declare(body=body(entity_id=1, key_suffix=told.at(key))))
    settle(other)
    declare(control, kind, told.at("control"))
    before = told.until(f"{made} control")
    keys = [words.partition(" ")[2] for words in before]
    check(all(map(is_valid, keys)), "nothing, or the canonical key", listed(before))


@req("ZN-KEX-102")
@pytest.mark.parametrize("key", NOT_CANONICAL)
def test_publication_under_a_key_that_is_not_canonical_is_refused_or_made_canonical(
    tester: Tester, key: str
) -> None:
    both = pair(tester)
    both.put("a/**/c", b"1")
    both.expect("PUT a/**/c=1")
    both.put(key, b"2")
    keys = [both.sub.key(push) for push in both.delivered()]
    check(all(map(is_valid, keys)), "nothing, or the canonical key", f"PUT {key}")
