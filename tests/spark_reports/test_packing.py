import os
import subprocess
import sys
from pathlib import Path

from spark_reports.engine.packing import pack


def test_packed_code_is_imported_from_the_zip_file(tmp_path: Path) -> None:
    packed = pack(tmp_path)
    code = (
        "import scapy_layers.scan, spark_reports.captures.capture_source as source, spark_reports.engine.settings as settings\n"
        "print(source.__file__, settings.LOCAL)"
    )
    done = subprocess.run(
        [sys.executable, "-S", "-c", f"import sys; sys.path[:0] = {[str(packed)]!r}\n{code}"],
        env={
            **os.environ,
            "PYTHONPATH": os.pathsep.join(path for path in sys.path if "site-packages" in path),
        },
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.stderr, done.stdout.split()) == (
        "",
        [str(packed / "spark_reports" / "captures" / "capture_source.py"), "local[*]"],
    )


def test_same_code_is_packed_into_the_same_bytes(tmp_path: Path) -> None:
    places = [tmp_path / name for name in "ab"]
    for place in places:
        place.mkdir()
    first, second = (pack(place).read_bytes() for place in places)
    assert first == second
