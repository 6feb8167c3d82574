"""What the checks of code objects demand is missed where it is not so."""

# mypy: allow-untyped-defs

import struct
from dataclasses import replace

import pytest

import haulage
from codegen.collector import Collector
from doubles import amd_loader, amd_objects
from doubles.amd_described import Launch, check_descriptors, check_launch, check_reading
from haulage import cuda
from haulage.targets.amd_metadata import kernels


@cuda.jit(launch_bounds=128)
def weighed(a, x, n):
    own = cuda.local.array(50, "float32")
    tile = cuda.shared.array(128, "float32")
    for k in range(50):
        own[k] = x[k]
    tile[cuda.threadIdx.x] = own[n % 50] * a
    cuda.syncthreads()
    x[cuda.grid(1)] = tile[127 - cuda.threadIdx.x]


# An address, its owner's, elements, their size, data, shape and strides; of three arguments.
CODE = haulage.compile(weighed, "void(float32, float32[::1], int16)", "gfx90a")
LAUNCH = Launch(
    architecture="gfx90a",
    format="@fPPqqP2qh",
    offsets=(0, 8, 16, 24, 32, 40, 48, 56, 64),
    argument_bytes=66,
    shared_bytes=512,
    local_bytes=CODE.metadata["local_bytes"],
    max_threads=128,
    lanes=64,
)


needs_reader = pytest.mark.skipif(
    amd_objects.reader() is None, reason="no llvm-readelf: make amd-tools"
)


def test_what_a_launch_passes_is_what_the_code_says():
    assert LAUNCH.local_bytes >= 200
    check_launch(CODE.code, LAUNCH)


@pytest.mark.parametrize(
    "other",
    [
        {"architecture": "gfx942"},
        # A number of another size, a number for an address, one too few, and too many.
        {"format": "@dPPqqP2qh"},
        {"format": "@fPPqqq2qh"},
        {"format": "@fPPqqPqh"},
        {"format": "@fPPqqP2qhh"},
        {"offsets": (0, 8, 16, 24, 32, 40, 48, 56, 66)},
        {"argument_bytes": 72},
        {"shared_bytes": 0},
        {"local_bytes": LAUNCH.local_bytes + 16},
        {"max_threads": 1024},
        {"lanes": 32},
    ],
)
def test_a_launch_that_passes_something_else_is_missed(other):
    with pytest.raises(AssertionError):
        check_launch(CODE.code, replace(LAUNCH, **other))


@pytest.mark.parametrize(
    ("name", "other"),
    [
        # In the place of one of the same length.
        (b"hidden_block_count_x", b"hidden_queue_pointer"),
        (b"hidden_group_size_x", b"hidden_group_size_y"),
        (b"by_value", b"by_place"),
    ],
)
def test_arguments_of_another_kind_are_missed(name, other):
    assert name in CODE.code
    with pytest.raises(AssertionError):
        check_launch(CODE.code.replace(name, other), LAUNCH)


# What of a descriptor is at which place, and how it can be wrong.
_WRONG = {
    "shared memory": (0, "<I", lambda old: old + 4),
    "scratch": (4, "<I", lambda old: 0),
    "arguments": (8, "<I", lambda old: old - 8),
    "entry": (16, "<q", lambda old: old + 4),
    "no scratch": (52, "<I", lambda old: old & ~1),
    "lanes": (56, "<H", lambda old: old ^ 1 << 10),
    "stack": (56, "<H", lambda old: old ^ 1 << 11),
}


def _in_file(address, code=CODE.code):
    """Where in a code object that is which is loaded at an address."""
    (found,) = (
        offset - start + address
        for kind, _, offset, start, _, nbytes, _, _ in amd_loader.segments(code)
        if kind == 1 and start <= address < start + nbytes
    )
    return found


@pytest.mark.parametrize("what", _WRONG)
def test_a_descriptor_that_says_something_else_is_missed(what):
    check_descriptors(CODE.code)
    place, kind, wrong = _WRONG[what]
    at = _in_file(amd_loader.load(CODE.code, base=0).kernels["weighed"].address) + place
    spoiled = bytearray(CODE.code)
    (old,) = struct.unpack_from(kind, spoiled, at)
    struct.pack_into(kind, spoiled, at, wrong(old))
    with pytest.raises(AssertionError):
        check_descriptors(bytes(spoiled))


@pytest.mark.parametrize(("name", "more"), [(b".vgpr_count", 9), (b".sgpr_count", 65)])
def test_more_registers_than_the_hardware_is_told_of_are_missed(name, more):
    spoiled = bytearray(CODE.code)
    spoiled[spoiled.index(name) + len(name)] = more
    assert kernels(bytes(spoiled))["weighed"] != kernels(CODE.code)["weighed"]
    with pytest.raises(AssertionError):
        check_descriptors(bytes(spoiled))


@needs_reader
def test_what_llvms_reader_reads_of_a_kernel_without_arguments_is_the_same():
    @cuda.jit
    def nothing():
        pass

    code = haulage.compile(nothing, "void()", "gfx1100").code
    check_reading(code, amd_objects._said(amd_objects.reader(), "--notes", of=[code]))


@needs_reader
def test_what_llvms_reader_reads_otherwise_is_missed():
    printed = amd_objects._said(amd_objects.reader(), "--notes", of=[CODE.code])
    check_reading(CODE.code, printed)
    for old, new in (
        (".size:           8", ".size:           4"),
        (" weighed\n", " weight\n"),
        ("        .value_kind:     by_value\n", ""),
    ):
        assert old in printed
        with pytest.raises(AssertionError):
            check_reading(CODE.code, printed.replace(old, new, 1))


def test_what_is_tried_is_compared_with_its_launch():
    launches = []

    def check(code: bytes, launch: Launch | None) -> tuple[str, ...]:
        launches.append(launch)
        return ("ld.lld",)

    collector = Collector(all_of_them=True, check=check, kinds=["amd"])
    collector.start()
    haulage.compile(weighed, "void(float32, float32[::1], int16)")
    outcome = collector.stop()
    expected = [each for each in launches if each is not None and each.architecture == "gfx90a"]
    assert expected == [LAUNCH]
    assert {each.architecture: each.lanes for each in launches if each is not None} == {
        **dict.fromkeys(("gfx900", "gfx90a", "gfx942"), 64),
        **dict.fromkeys(("gfx1030", "gfx1100", "gfx1201"), 32),
    }
    read = {"llvm-objdump", "llvm-readelf"} & outcome.programs.keys()
    assert outcome.programs == {"ld.lld": 6, **dict.fromkeys(read, 6)}
    for each in {"llvm-objdump", "llvm-readelf"} - read:
        assert f"not for want of {each}" in outcome.line()


def test_code_that_llvms_programs_do_not_read_is_found_among_others(monkeypatch):
    @cuda.jit
    def first(x):
        x[0] = 1

    @cuda.jit
    def second(x):
        x[0] = 2

    def read(codes):
        assert not any(b"second.kd" in code for code in codes), "one is unreadable"
        return ("llvm-readelf",)

    monkeypatch.setattr(amd_objects, "read", read)
    collector = Collector(kinds=["amd"])
    collector.start()
    for kernel in (first, second):
        haulage.compile(kernel, "void(int32[::1])")
    outcome = collector.stop()
    ((where, what),) = outcome.failures
    assert "second" in where
    assert what.startswith("one is unreadable")
    assert (sum(outcome.assembled.values()), outcome.programs["llvm-readelf"]) == (1, 1)


@amd_objects.needs_disassembler
@needs_reader
def test_code_objects_are_read_together():
    narrow = haulage.compile(weighed, "void(float32, float32[::1], int16)", "gfx1100").code
    codes = [CODE.code, narrow, CODE.code]
    assert amd_objects.read(codes) == ("llvm-readelf", "llvm-objdump")
    at = amd_loader.load(CODE.code, base=0).functions["weighed"].address
    unknown = bytearray(CODE.code)
    unknown[_in_file(at) : _in_file(at) + 4] = b"\xff" * 4
    with pytest.raises(AssertionError, match=r"\.long 0xffffffff"):
        amd_objects.read([CODE.code, bytes(unknown)])
    with pytest.raises(AssertionError):
        amd_objects.read([CODE.code, CODE.code[:-70]])


def _with_words(words):
    """Code for gfx1100 that begins with these."""
    code = bytearray(haulage.compile(weighed, "void(float32, float32[::1], int16)", "gfx1100").code)
    function = amd_loader.load(bytes(code), base=0).functions["weighed"]
    at, nbytes = _in_file(function.address, code), 4 * len(words)
    assert nbytes < function.nbytes
    code[at : at + nbytes] = struct.pack(f"<{len(words)}I", *words)
    return bytes(code)


_UPPER = 1 << 24


def _to_half(operation, source=0x101):
    """The instruction of gfx11 with one operand that writes the upper half of register 1."""
    return 0x7E000000 | _UPPER | 1 << 17 | operation << 9 | source


# Conversions to halves, and what is made of halves; of registers of lanes and of wavefronts, and of
# constants.
_TO_HALVES = [_to_half(operation) for operation in (0x0A, *range(0x50, 0x65))]
_TO_HALVES += [_to_half(0x55, source) for source in (0, 105, 107, 128, 208, 240, 248, 511)]


@amd_objects.needs_disassembler
@needs_reader
def test_upper_halves_of_registers_are_read_on_gfx11():
    amd_objects.read([_with_words(_TO_HALVES)])
    # The same of lower halves, which LLVM 19 knows by itself.
    amd_objects.read([_with_words([word ^ _UPPER for word in _TO_HALVES])])


@amd_objects.needs_disassembler
@needs_reader
@pytest.mark.parametrize(
    "word",
    [
        # No such instruction, and of no such operand.
        *(_to_half(0x4F), _to_half(0x6C)),
        *(_to_half(0x55, source) for source in (209, 232, 249)),
        *(_to_half(operation, 209) ^ _UPPER for operation in (0x0B, 0x55)),
        # With another beginning.
        _to_half(0x0A) ^ 1 << 31,
    ],
    ids=hex,
)
def test_a_word_that_is_no_instruction_is_found_on_gfx11(word):
    with pytest.raises(AssertionError, match=rf"\.long {word:#010x}"):
        amd_objects.read([_with_words([word])])
