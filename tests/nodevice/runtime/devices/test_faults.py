"""From what a back end reports about a stopped kernel to the exception that its user sees."""

import struct

import pytest

from haulage.backends.base import KernelCrashed, KernelStopped
from haulage.backends.null import NullBackend
from haulage.errors import IllegalAddress, KernelError
from haulage.runtime.devices import faults
from haulage.runtime.process import runtime


class Told(NullBackend):
    """What threads told: (fault, index of the thread, of its block, figures)."""

    def __init__(self, *threads):
        super().__init__()
        self.threads = threads

    def messages(self, channel):
        told = [
            (-fault, struct.pack(f"={6 + len(figures)}q", *tid, *block, *figures))
            for fault, tid, block, *figures in self.threads
        ]
        self.threads = ()
        return told, 0


def test_a_kernel_describes_its_own_faults(monkeypatch):
    monkeypatch.setattr(runtime.current, "describe", {7: lambda stopped: ValueError(stopped.code)})
    assert faults.translate(KernelStopped(7, 3)).args == (3,)
    other = faults.translate(KernelStopped(8, 3))
    assert type(other) is KernelError
    assert "function 0x8 stopped with fault 3" in str(other)


@pytest.mark.parametrize(
    ("crash", "words"),
    [
        ({"address": 0x10}, "accessed address 0x10, where the process has no memory"),
        ({}, "accessed an unknown address"),
        ({"address": 16, "bus": True}, "whose memory the system could not provide"),
        ({"blocks": (0, 0)}, r"a thread of block \[0, 0, 0\] accessed"),
        (
            {"blocks": (1, 5), "grid": (2, 3, 4)},
            r"a thread of one of the blocks \[1, 0, 0\] to \[1, 2, 0\] accessed",
        ),
    ],
)
def test_an_access_outside_of_memory_is_told_with_its_place(crash, words):
    error = faults.crashed(KernelCrashed(1, 2, **crash), "add", "zyx")
    assert isinstance(error, IllegalAddress)
    with pytest.raises(IllegalAddress, match=words):
        raise error


def test_blocks_are_counted_along_the_axes_in_their_order():
    crash = KernelCrashed(1, 2, blocks=(1, 4), grid=(2, 3, 4))
    assert "[0, 0, 1] to [0, 1, 0]" in str(faults.crashed(crash, "add", "xyz"))
    assert "[1, 0, 0] to [0, 2, 0]" in str(faults.crashed(crash, "add", "zyx"))


def test_a_stack_that_was_used_up_is_a_recursion_error():
    error = faults.crashed(KernelCrashed(1, 2, stack=3 << 20), "add", "zyx")
    assert isinstance(error, RecursionError)
    assert isinstance(error, KernelError)
    assert "used up its stack of 3 MiB" in str(error)


def test_the_first_thread_in_linear_order_is_named_with_its_figures():
    backend = Told(
        (5, (1, 0, 0), (0, 0, 0), 77),
        (5, (0, 0, 0), (1, 0, 0), 88),
        (5, (9, 0, 0), (0, 0, 0), 99),
        (6, (3, 2, 1), (0, 4, 0)),
    )
    words = faults.told(backend, 5, "index {}", (5,))
    assert words == ("index 77", "tid=[1, 0, 0] ctaid=[0, 0, 0]")
    # It is told once; what others told is kept.
    assert faults.told(backend, 5, "index {}", (5,)) == ("", "")
    assert faults.told(backend, 6, "index", (6,)) == ("", "tid=[3, 2, 1] ctaid=[0, 4, 0]")


def test_each_wait_raises_what_had_failed_with_its_notes(monkeypatch):
    flushed = []
    monkeypatch.setattr(runtime.current, "describe", {})
    monkeypatch.setattr(runtime.current, "observer", None)
    monkeypatch.setattr(runtime.current, "printing", {1: None})
    monkeypatch.setattr(faults.printing, "flush", lambda: flushed.append(1))

    def wait(fails):
        if fails:
            stopped = KernelStopped(1, 2)
            stopped.add_note("a note")
            raise stopped
        return "done"

    assert faults.waited(wait, False) == "done"
    with pytest.raises(KernelError, match="a kernel stopped") as raised:
        faults.waited(wait, True)
    assert raised.value.__notes__ == ["a note"]
    assert raised.value.__cause__ is None
    assert len(flushed) == 2  # what kernels printed is shown either way
