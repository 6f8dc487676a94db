"""What a process writes piece by piece is read as if it had been written at once."""

import re
import sys
from pathlib import Path
from typing import ClassVar

import pytest

from conformance.nodes.child import ChildNode


class Speaker(ChildNode):
    """A process that says what it is told to say."""

    complaint: ClassVar[re.Pattern[str]] = re.compile("panicked at")
    title = "speaker"

    def __init__(self, folder: Path) -> None:
        super().__init__(folder, {}, "speaker")
        self.log = folder / "speaker.stderr"

    def start(self) -> None:
        self._launch([sys.executable, "-c", "import time; time.sleep(60)"], self.log, -3)

    def write(self, words: str) -> None:
        with self.log.open("a") as log:
            log.write(words)


def test_a_line_is_judged_when_it_is_whole(tmp_path: Path) -> None:
    node = Speaker(tmp_path)
    with node:
        assert node.pid
        node.write("thread 'a' panic")
        assert node.complaints() == ""
        node.write("ked at src/some")
        assert node.complaints() == ""
        node.write("thing.rs:12:5:\nwhy\nnext")
        assert node.complaints() == "thread 'a' panicked at src/something.rs:12:5: why"
        assert node.complaints() == ""
    assert node.pid is None


@pytest.mark.parametrize("again", [1, 2])
def test_the_last_words_of_a_process_need_no_end(tmp_path: Path, again: int) -> None:
    node = Speaker(tmp_path)
    for _ in range(again):
        node.start()
        node.write("thread 'a' panicked at src/lib.rs:1")
        assert node.complaints() == ""
        assert node._process
        node._process.kill()
        node._process.wait()
        assert node.complaints() == "thread 'a' panicked at src/lib.rs:1"
        node.stop()
