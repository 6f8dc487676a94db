"""INIT: session initialisation and negotiation."""

from __future__ import annotations

import pytest

from conformance.plugin import req
from conformance.tester import Tester
from scapy_layers.codes import CloseReason
from scapy_layers.transport import Init, Open


@req("ZN-INIT-001", "ZN-INIT-002")
def test_handshake_is_init_ack_then_open_ack(tester: Tester) -> None:
    end = tester.starting()
    end.open()
    names = [seen.message.name for seen in end.inbox]
    assert names[:2] == ["INIT", "OPEN"]


@req("ZN-INIT-045")
@pytest.mark.parametrize("version", [0x08, 0x0A, 0xFF], ids=hex)
def test_unsupported_version_is_refused_with_unsupported(tester: Tester, version: int) -> None:
    link = tester.link()
    link.send(tester.init(version=version))
    link.expect_refusal(CloseReason.UNSUPPORTED)
