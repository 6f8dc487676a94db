import dataclasses
import json
import re
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

from spark_reports.captures import traffic_page
from spark_reports.captures.traffic_report import (
    BINS,
    Bin,
    CaptureLine,
    Count,
    ErrorLine,
    GapLine,
    KeyLine,
    Latency,
    LatencyBin,
    NodeLine,
    Numbers,
    RequestLine,
    SessionLine,
    Traffic,
    bin_width,
)
from spark_reports.errors import WrongUse

HOSTILE = "<img src=x onerror=alert(1)>\u202e{{ 7 * 7 }}</style><script>alert(1)</script>\x00'\"&"
START = 1_763_700_000_000_000_000
SECOND = 1_000_000_000

NUMBERS: dict[str, Any] = {
    "events": 3,
    "puts": 1,
    "deletes": 0,
    "queries": 1,
    "replies": 1,
    "errors": 0,
    "payload_bytes": 1_500,
}
LATENCY: dict[str, Any] = dict.fromkeys(
    field for field in Latency.__dataclass_fields__ if field.startswith(("first", "final_"))
)


def make(text: str = "robot/pose", **values: Any) -> Traffic:
    request = RequestLine(
        capture=text,
        packet=4,
        request_id=7,
        keyexpr=text,
        source_zid=text,
        target_zid=None,
        replies=1,
        errors=0,
        first_answer_ns=1_000,
        final_ns=2_500_000,
    )
    latency = Latency(
        **(
            LATENCY
            | {"first_answer_count": 1, "final_count": 1, "final_median": 2_500_000}
            | {"sent": 2, "answered": 1, "unanswered": 1, "finals_without_request": 0}
        )
    )
    standard: dict[str, Any] = {
        "captures": (
            CaptureLine(
                capture=text, messages=12, refused=1, first_ns=START, last_ns=START + 4 * SECOND, damage=text
            ),
        ),
        "counts": (Count(message="push", body="put", messages=1),),
        "total": Numbers(**NUMBERS),
        "keys": (
            KeyLine(keyexpr=text, first_ns=START, last_ns=START, **NUMBERS),
            KeyLine(keyexpr=None, first_ns=START, last_ns=START, **NUMBERS),
        ),
        "nodes": (NodeLine(zid=text, messages=12, events=3, payload_bytes=1_500),),
        "interval_ns": SECOND,
        "over_time": (Bin(start_ns=START, **NUMBERS), Bin(start_ns=START + 3 * SECOND, **NUMBERS)),
        "keys_over_time": (Bin(start_ns=START, keyexpr=text, **NUMBERS),),
        "latency": latency,
        "latency_bins": (LatencyBin(from_ns=2**21, to_ns=2**22, requests=1),),
        "slowest": (request,),
        "unanswered": (request,),
        "sessions": (
            SessionLine(
                capture=text,
                session=0,
                source_zid=text,
                target_zid=None,
                ends=text,
                connections=1,
                grouped=False,
                lowlatency=True,
                compression=None,
                messages=12,
                first_ns=START,
                last_ns=START + SECOND,
                disordered=0,
            ),
        ),
        "gaps": (
            GapLine(capture=text, why=text, gaps=2, missing_bytes=10, of_unknown_size=1, skipped_bytes=5),
        ),
        "lost": 2,
        "disordered": 0,
        "errors": (ErrorLine(error=text, count=1, capture=text, packet=3),),
        "left_out": ("keys",),
    }
    return Traffic(**(standard | values))


class Tags(HTMLParser):
    """Collects what a browser would see of a page."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: set[str] = set()
        self.attributes: set[str] = set()
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        self.attributes |= {name for name, _ in attrs}


def test_hostile_words_in_a_page_do_nothing() -> None:
    text = traffic_page.html(traffic_page.make_page(make(HOSTILE)))
    seen, plain = Tags(text), Tags(traffic_page.html(traffic_page.make_page(make("k"))))
    assert seen.tags == plain.tags
    assert "script" not in seen.tags
    assert not {name for name in seen.attributes if name.startswith("on")}
    assert "49" not in re.sub(r"[\d.]{3,}", "", text)
    assert "\u202e" not in text
    assert "\x00" not in text
    assert "\\u202e" in text
    assert "http://" not in text
    assert "https://" not in text


def test_page_says_what_travelled() -> None:
    page = traffic_page.make_page(make())
    assert page.headline == "12 messages, 3 events"
    assert page.span == "1 capture; 2 gaps; 1 refused batch; 1 damaged capture"
    assert page.tone == "bad"
    assert page.top_rate == 3.0
    assert page.chart.count("<g>") == 2
    text = traffic_page.html(page)
    assert "2.5 ms" in text
    assert "alias from before the capture" in text
    assert "2025-11-21" in text
    assert "More in the tables" in text


def test_page_counts_what_it_does_not_list() -> None:
    page = traffic_page.make_page(make(lost=1_300, left_out=("gaps", "keys")))
    assert page.span.startswith("1 capture; 1 300 gaps; ")
    text = traffic_page.html(page)
    assert "; 1\N{NARROW NO-BREAK SPACE}300 gaps; " in text
    assert "Gaps <b>1\N{NARROW NO-BREAK SPACE}300</b>" in text
    assert re.findall(r"(Keys|Nodes|Sessions) <b>(.*?)</b>", text) == [
        ("Keys", f"{len(page.keys)}+"),
        ("Nodes", f"{len(page.traffic.nodes)}"),
        ("Sessions", f"{len(page.traffic.sessions)}"),
    ]


def test_page_tells_of_links_that_were_captured_out_of_order() -> None:
    report = make()
    (session,) = report.sessions
    words = "captured out of order"
    assert words not in traffic_page.html(traffic_page.make_page(report))
    late = make(disordered=2, sessions=(dataclasses.replace(session, disordered=2),))
    page = traffic_page.make_page(late)
    assert page.span.endswith("; 2 links captured out of order")
    text = traffic_page.html(page)
    assert f"{words}</span></td>" in text, "beside its session"
    assert f"2 links {words}: an answer" in text, "below the requests"


def test_captures_without_times_or_events_have_a_page() -> None:
    nothing = Numbers(**dict.fromkeys(NUMBERS, 0))
    line = CaptureLine(capture="c", messages=1, refused=0, first_ns=None, last_ns=None, damage=None)
    empty: dict[str, Any] = dict.fromkeys(
        ("keys", "over_time", "keys_over_time", "latency_bins", "slowest", "unanswered", "gaps", "errors"), ()
    )
    latency = Latency(
        **(
            LATENCY
            | dict.fromkeys(("sent", "answered", "unanswered"), 0)
            | {"finals_without_request": 0, "first_answer_count": 0, "final_count": 0}
        )
    )
    report = make(captures=(line,), total=nothing, latency=latency, left_out=(), lost=0, **empty)
    page = traffic_page.make_page(report)
    assert page.tone == "good"
    text = traffic_page.html(page)
    assert "No puts, deletes or queries" in text
    assert "None: every link is complete" in text


def test_same_report_same_bytes(tmp_path: Path) -> None:
    first, second = tmp_path / "1", tmp_path / "2"
    for folder in (first, second):
        folder.mkdir()
        assert traffic_page.write(make(HOSTILE), folder) == folder / "traffic.html"
    for name in ("traffic.html", "traffic.json"):
        assert (first / name).read_bytes() == (second / name).read_bytes()
    told = json.loads((first / "traffic.json").read_text())
    assert told["keys"][0]["keyexpr"] == HOSTILE
    assert told["traffic_version"] == 1


def test_folder_is_not_there_error_says_so(tmp_path: Path) -> None:
    with pytest.raises(WrongUse, match="name another --out"):
        traffic_page.write(make(), tmp_path / "missing")


@pytest.mark.parametrize(
    ("seconds", "interval", "width"),
    [
        (0, 1.0, 1.0),
        (10, 1.0, 1.0),
        (BINS, 1.0, 1.0),
        (BINS * 1.5, 1.0, 2.0),
        (3600, 1.0, 30.0),
        (10, 0.001, 0.1),
        (0.3, 0.001, 0.005),
        (86_400 * 365, 1.0, 86_400 * 4),
        (3600, 7.0, 30.0),
    ],
)
def test_columns_over_time_are_few_and_readable(seconds: float, interval: float, width: float) -> None:
    assert bin_width(START, START + round(seconds * SECOND), interval) == round(width * SECOND)


def test_without_times_columns_are_as_wide_as_asked_for() -> None:
    assert bin_width(None, None, 0.5) == SECOND // 2
