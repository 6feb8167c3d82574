"""Atomic operations in code for AMD's GPUs: instructions where they are right for all memory that a
kernel can be given, which may be the host's, behind PCI Express; else loops.

Source: AMD's table of what its GPUs' atomic operations do to which memory ("Hardware atomics
operation support" in ROCm's documents).
"""

# mypy: allow-untyped-defs

import re

import numba
import pytest

from doubles.amd_objects import ARCHITECTURES, instructions, needs_disassembler
from haulage import cuda

pytestmark = needs_disassembler

# On others what PCI Express has not does nothing to memory of the host.
COMPLETE = ("gfx942", "gfx1201")
# What it has: additions, exchanges, and those after a comparison.
ANYWHERE = ("add", "sub", "exch")
# What a word is called that is called otherwise.
NAMES = {"sub": "add", "exch": "swa", "and_": "and"}
LOOP = r"(global_atomic_cmpswap|ds_cmpst)"


def changes(architecture, kernel, kind):
    """The words of the atomic instructions of a kernel."""
    lines = instructions(kernel, f"void({kind}[::1], int32[::1])", architecture)
    plain = r"ds_(read|write|load|store|swizzle|bpermute)"
    return [line for line in lines if "_atomic_" in line or re.match(rf"ds_(?!{plain[3:]})", line)]


def kernel_of(words, kind, *, is_shared=False):
    """A kernel that makes one change after the other."""
    element = getattr(numba, kind)
    lines = ["def kernel(x, y):", " i = cuda.grid(1)", " room = x"]
    if is_shared:
        lines += [" room = cuda.shared.array(64, element)", " room[i] = x[i]"]
        lines += [" cuda.syncthreads()"]
    lines += [" j, change = y[i] & 31, element(y[i + 64])"]
    lines += [f" cuda.atomic.{word}(room, j + {n}, change)" for n, word in enumerate(words)]
    if is_shared:
        lines += [" cuda.syncthreads()", " x[i] = room[i]"]
    names = {"cuda": cuda, "element": element}
    exec("\n".join(lines), names)
    return cuda.jit(names["kernel"])


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_changes_of_ints_are_instructions_where_these_reach_all_memory(architecture):
    for words, kind in (
        (("add", "sub", "exch", "max", "and_", "inc"), "uint32"),
        (("sub", "xor", "min"), "int64"),
    ):
        made = changes(architecture, kernel_of(words, kind), kind)
        plain = [line for line in made if not re.match(LOOP, line)]
        expected = [word for word in words if word in ANYWHERE or architecture in COMPLETE]
        named = [re.match(r"global_atomic_(?:[us](?=m))?([a-z]{2,3})", line)[1] for line in plain]
        assert named == [NAMES.get(word, word) for word in expected]
        assert len(made) - len(plain) == len(words) - len(expected)
        # Nobody asks for the old value.
        assert not [line for line in plain if re.search(r"\b(sc0|glc|TH_ATOMIC_RETURN)\b", line)]


@pytest.mark.parametrize("architecture", ["gfx900", "gfx1201"])
def test_changes_of_ints_in_shared_memory_are_instructions(architecture):
    words = ("sub", "max", "or_", "inc")
    made = changes(architecture, kernel_of(words, "uint32", is_shared=True), "uint32")
    names = [re.match(r"ds_(\w+)_[a-z]\d+ ", line)[1] for line in made]
    assert names == ["add", "max", "or", "inc"]


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_sums_of_floats_are_instructions_where_these_reach_all_memory(architecture):
    known = {"float32": ("gfx942", "gfx1201"), "float64": ("gfx942",)}
    for kind, having in known.items():
        for only in changes(architecture, kernel_of(("add", "sub"), kind), kind):
            named = only.startswith(f"global_atomic_add_f{kind[5:]}")
            assert named == (architecture in having), only
            assert named or re.match(LOOP, only)
    # Of a block's memory nobody else has any.
    (only,) = changes(architecture, kernel_of(("sub",), "float64", is_shared=True), "float64")
    assert only.startswith("ds_add_f64") == (architecture in ("gfx90a", "gfx942")), only


@pytest.mark.parametrize("architecture", ["gfx90a", *COMPLETE])
def test_the_larger_float_is_that_of_the_larger_int_where_there_are_instructions(architecture):
    made = changes(architecture, kernel_of(("max",), "float32"), "float32")
    if architecture in COMPLETE:
        # Of floats that are not negative, and of those that are.
        found = {re.match(r"global_atomic_\w*?(max|min)", line)[1] for line in made}
        assert found == {"max", "min"}
        assert len(made) == 2
    else:
        assert len(made) == 1
        assert re.match(LOOP, made[0])
