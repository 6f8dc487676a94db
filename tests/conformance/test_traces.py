"""What processes say of a failure, cut to where it was and why."""

from __future__ import annotations

import pytest

from conformance.nodes.traces import goes_on, told

PYTHON = """Traceback (most recent call last):
  File "/srv/node/main.py", line 9, in main
    serve(link)
  File "/srv/node/session.py", line 88, in on_declare
    self.table[key].remove(face)
  File "/usr/lib/python3.11/collections/__init__.py", line 1015, in __getitem__
    return self.data[key]
           ^^^^^^^^^^^^^^
KeyError: '7'
"""

GO = """panic: runtime error: invalid memory address or nil pointer dereference
[signal SIGSEGV: segmentation violation code=0x1 addr=0x18 pc=0x4a51b2]

goroutine 9 [running]:
panic({0x4c1f80, 0x5a2b30})
\t/usr/local/go/src/runtime/panic.go:770 +0x132
main.(*Table).find(...)
\t/srv/build/node/table.go:41
main.main()
\t/srv/build/node/main.go:22 +0x1d
exit status 2
"""

SANITIZER = """==7==ERROR: AddressSanitizer: heap-buffer-overflow on address 0x602000000014
READ of size 4 at 0x602000000014 thread T1
    #0 0x55d0c0a4f1b1 in decode /build/src/codec/message.c:512:9

SUMMARY: AddressSanitizer: heap-buffer-overflow /build/src/codec/message.c:512:9 in decode
==7==ABORTING
"""

RUST = "thread 'rx-0' panicked at src/face.rs:83:22:\ncalled unwrap\nnote: run with\n"


@pytest.mark.parametrize(
    ("said", "line"),
    [
        (
            PYTHON,
            "Traceback (most recent call last): File \"/srv/node/session.py\", line 88, in on_declare KeyError: '7'",
        ),
        (
            GO,
            "panic: runtime error: invalid memory address or nil pointer dereference /srv/build/node/table.go:41",
        ),
        (RUST, "thread 'rx-0' panicked at src/face.rs:83:22: called unwrap"),
        ("panic: nil\n", "panic: nil"),
    ],
    ids=["python", "go", "rust", "short"],
)
def test_a_trace_is_told_by_its_own_place_and_reason(said: str, line: str) -> None:
    assert told(said.splitlines(), 0) == line


@pytest.mark.parametrize("said", [PYTHON, GO, SANITIZER], ids=["python", "go", "sanitizer"])
def test_a_trace_goes_on_until_its_place_is_known(said: str) -> None:
    first, _, _ = said.partition("\n")
    assert goes_on(first.encode())
    assert not goes_on(said.encode())
    assert not goes_on(RUST.encode())


INTERCEPTED = """==7==ERROR: AddressSanitizer: stack-buffer-overflow on address 0x7ffc15e1882c
WRITE of size 611 at 0x7ffc15e1882c thread T0
    #0 0x7f3f68848060 in __interceptor_memcpy ../../../../src/libsanitizer/sanitizer_common/sanitizer_common_interceptors.inc:827
    #1 0x55a486bbf62b in read_key {own}
    #2 0x7f3f68645249 in __libc_start_call_main ../sysdeps/nptl/libc_start_call_main.h:58

Address 0x7ffc15e1882c is located in stack of thread T0 at offset 348 in frame
    #0 0x55a486bbf431 in elsewhere /build/src/codec/other.c:246
SUMMARY: AddressSanitizer: stack-buffer-overflow ../../../../src/libsanitizer/sanitizer_common/sanitizer_common_interceptors.inc:827 in __interceptor_memcpy
"""


@pytest.mark.parametrize("own", ["/build/src/codec/key.c:251:9", "(/build/node+0x262b)"])
def test_what_a_sanitizer_saw_in_the_c_library_is_told_by_the_place_that_called_it(own: str) -> None:
    lines = INTERCEPTED.format(own=own).splitlines()
    assert told(lines, len(lines) - 1) == (
        f"SUMMARY: AddressSanitizer: stack-buffer-overflow {own} in read_key"
    )


LEAKED = """
=================================================================
==7==ERROR: LeakSanitizer: detected memory leaks

Direct leak of 8192 byte(s) in 1 object(s) allocated from:
    #0 0x7fa6ea4b89cf in __interceptor_malloc ../../../../src/libsanitizer/asan/asan_malloc_linux.cpp:69
    #1 0x5583d60541e3 in accept_session /build/src/node/session.c:481

SUMMARY: AddressSanitizer: 8192 byte(s) leaked in 1 allocation(s).
"""


def test_what_was_never_freed_is_told_by_the_place_where_the_most_of_it_was_taken() -> None:
    lines = LEAKED.splitlines()
    assert told(lines, len(lines) - 1) == (
        "SUMMARY: AddressSanitizer: leak /build/src/node/session.c:481 in accept_session: 8192 byte(s) leaked in 1 "
        "allocation(s)."
    )
    assert told(lines[-1:], 0) == lines[-1]


def test_what_a_sanitizer_saw_nowhere_else_is_told_as_it_says() -> None:
    lines = [line for line in INTERCEPTED.splitlines() if "read_key" not in line]
    assert told(lines, len(lines) - 1) == lines[-1]
