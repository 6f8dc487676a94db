"""What somebody sees who types the name of a command and nothing else."""

from importlib import import_module

import pytest


@pytest.mark.parametrize(
    ("package", "command"),
    [("scapy_layers", "wireshark"), ("fuzz", "replay"), ("spark_reports", "build")],
)
def test_command_without_arguments_says_what_it_can_do_and_is_wrong_use(
    package: str, command: str, capsys: pytest.CaptureFixture[str]
) -> None:
    try:
        code = import_module(f"{package}.__main__").main([])
    except SystemExit as ended:
        code = ended.code
    said = capsys.readouterr()
    assert (code, said.out) == (2, "")
    assert f"\n    {command}" in said.err


@pytest.mark.parametrize("package", ["scapy_layers", "fuzz", "spark_reports"])
def test_version_is_told(package: str, capsys: pytest.CaptureFixture[str]) -> None:
    try:
        code = import_module(f"{package}.__main__").main(["--version"])
    except SystemExit as ended:
        code = ended.code
    name, version = capsys.readouterr().out.split()
    assert (code, name[:6]) == (0, "zenoh-")
    assert version == "unknown" or version[0].isdigit()
