import re
from pathlib import Path

import pytest

SCRIPTS = sorted(Path(__file__).parent.glob("bench_*.py"))


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda script: script.stem)
def test_script_finds_the_checkout_before_it_imports_of_it(script: Path) -> None:
    """Its folder is where Python looks first, and the package ``tests`` is installed nowhere."""
    text = script.read_text(encoding="utf-8")
    imports = re.search(r"^from tests\b", text, re.MULTILINE)
    if imports is not None:
        assert "sys.path.insert(0, str(Path(__file__).parents[2]))" in text[: imports.start()]
