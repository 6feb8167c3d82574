"""Exchanges between lanes on AMD's GPUs: each lane gets what the language says, by whatever moves.

The moves are carried out here as the documents of AMD's instruction sets define them, for some of
the lanes at work, as in a branch that others do not take.
"""

# mypy: allow-untyped-defs

import random
import re

import pytest

import haulage
from doubles.amd_objects import ARCHITECTURES, count, instructions, needs_disassembler
from haulage import cuda, roc
from haulage.targets.amd_shuffles import moves

# Wavefronts of 64 lanes without, and of 32 with, what came with gfx10.
KINDS = {"gfx9": (64, False), "gfx10 and later": (32, True)}


def dpp_source(lane, control):
    """The lane that DPP reads, or None where there is none ("DPP_CTRL Enumerations")."""
    row, place = lane & ~15, lane & 15
    if control <= 0xFF:
        return (lane & ~3) + (control >> 2 * (lane & 3) & 3)
    number = control & 15
    if control in range(0x101, 0x110):
        return row + place + number if place + number < 16 else None
    if control in range(0x111, 0x120):
        return row + place - number if place >= number else None
    if control in range(0x121, 0x130):
        return row + (place - number) % 16
    if control == 0x130:
        return lane + 1 if lane < 63 else None
    if control == 0x138:
        return lane - 1 if lane > 0 else None
    if control == 0x140:
        return row + 15 - place
    if control == 0x141:
        return (lane & ~7) + 7 - (lane & 7)
    assert control in range(0x161, 0x170), hex(control)
    return row + (place ^ number)


def swizzle_source(lane, pattern):
    """The lane that `ds_swizzle` reads."""
    if pattern >= 0xC000:
        assert not pattern & 0x2000
        turned = -(pattern >> 5 & 31) if pattern & 0x400 else pattern >> 5 & 31
        keeps = pattern & 31
        return (lane & 32) | (lane & keeps) | ((lane + turned) & 31 & ~keeps)
    assert pattern < 0x8000
    within = ((lane & 31) & (pattern & 31) | pattern >> 5 & 31) ^ (pattern >> 10 & 31)
    return (lane & 32) | within


def permuted_source(lane, picks, crosses):
    """The lane that `v_permlane16` reads, or `v_permlanex16` of the other row."""
    return ((lane & ~15) ^ (16 if crosses else 0)) + (picks >> 4 * (lane & 15) & 15)


class Wavefront:
    """What LLVM's operations make of values that are lists, one number for each lane."""

    def __init__(self, lanes, here):
        self.lanes, self.here = lanes, here
        self.everyone = range(lanes)

    def read(self, value, source, otherwise):
        """Each lane that is here gets that of another one, if that is here too."""
        return [
            (value[source(lane)] if source(lane) in self.here else otherwise[lane])
            if lane in self.here
            else None
            for lane in self.everyone
        ]

    def call(self, word, given):
        zeros = [0] * self.lanes
        if word == "update.dpp.i32":
            kept, value, control, rows, banks, is_bound = given
            control, rows, banks = control[0], rows[0], banks[0]

            def writes(lane):
                return rows >> lane // 16 & 1 and banks >> lane // 4 % 4 & 1

            found = self.read(
                value, lambda lane: dpp_source(lane, control), zeros if is_bound[0] else kept
            )
            return [found[lane] if writes(lane) else kept[lane] for lane in self.everyone]
        if word == "ds.swizzle":
            return self.read(given[0], lambda lane: swizzle_source(lane, given[1][0]), zeros)
        if word.startswith("permlane"):
            _, value, low, high, _, is_bound = given
            assert is_bound[0]
            picks = low[0] % (1 << 32) | high[0] % (1 << 32) << 32
            crosses = word.startswith("permlanex")
            return self.read(value, lambda lane: permuted_source(lane, picks, crosses), zeros)
        if word == "ds.bpermute":
            address, value = given
            return self.read(value, lambda lane: address[lane] // 4 % self.lanes, zeros)
        if word == "readlane.i32":
            return [given[0][given[1][0]]] * self.lanes
        assert word in ("mbcnt.lo", "mbcnt.hi"), word
        assert given[0][0] == -1
        start = 0 if word == "mbcnt.lo" else 32
        return [more + min(max(n - start, 0), 32) for n, more in enumerate(given[1])]


CALL = re.compile(r"call [^@]*@llvm\.amdgcn\.([\w.]+)\((.*)\)")
PLAIN = {
    "add": lambda x, y: (x + y) % (1 << 32),
    "or": lambda x, y: x | y,
    "and": lambda x, y: x & y,
    "xor": lambda x, y: x ^ y,
    "shl": lambda x, y: (x << y) % (1 << 32),
    "eq": lambda x, y: x == y,
    "ne": lambda x, y: x != y,
    "ult": lambda x, y: x < y,
    "ugt": lambda x, y: x > y,
    "uge": lambda x, y: x >= y,
}


def executed(llvm, lanes, here):
    """What a kernel's stores are of, each as a list, if lanes have loaded their numbers."""
    wave, known, stored = Wavefront(lanes, here), {}, []

    def value(text):
        text = text.strip().split(" ")[-1]
        if text in known:
            return known[text]
        number = {"poison": None, "undef": None, "true": 1, "false": 0}.get(text, text)
        return [int(number) if isinstance(number, str) else number] * lanes

    for line in llvm[llvm.index("\ndefine ") :].splitlines():
        name, _, text = line.strip().partition(" = ")
        if " = load i32, ptr addrspace(1)" in line:
            known[name] = list(range(lanes))
        elif line.startswith("  store i32 "):
            stored.append(value(line.split(",")[0]))
        elif found := CALL.search(text):
            if not found[1].startswith(("workitem", "implicitarg")):
                known[name] = wave.call(found[1], [value(each) for each in found[2].split(", ")])
        elif text.startswith("select"):
            flags, first, second = map(value, text.split(", "))
            known[name] = [x if f else y for f, x, y in zip(flags, first, second, strict=True)]
        elif " i32 " in text and text.split(" ")[0] in ("icmp", *PLAIN):
            word = re.search(r"icmp (?:samesign )?(\w+)|^(\w+)", text)
            first, second = map(value, text.split(","))
            both = zip(first, second, strict=True)
            known[name] = [PLAIN[word[1] or word[2]](x, y) for x, y in both]
    return stored


def said(kind, number, lane, warp=32):
    """The lane that the language says is read."""
    first, own = lane - lane % warp, lane % warp
    number %= warp
    if kind == "lane":
        return first + number
    if kind == "xor":
        return first + (own ^ number)
    found = own + number if kind == "down" else own - number
    return first + (found if 0 <= found < warp else own)


def some_lanes(lanes):
    chosen = random.Random(7)
    yield set(range(lanes))
    for part in (2, 3, 5):
        yield {lane for lane in range(lanes) if chosen.randrange(part) == 0}
    yield set(range(0, lanes, 4))


def carried_out(made, wave):
    """What moves give lanes that have their own numbers."""
    results = []
    for move in made:
        given = list(range(wave.lanes)) if move.source < 0 else results[move.source]
        numbers = [[number] * wave.lanes for number in move.numbers]
        if move.word == "halves":
            low, high = results
            results.append([(high if lane >= 32 else low)[lane] for lane in wave.everyone])
        elif move.word.startswith("update.dpp"):
            kept = [None] * wave.lanes
            if move.kept is not None:
                kept = list(range(wave.lanes)) if move.kept < 0 else results[move.kept]
            flag = [[int(move.kept is None)]]
            results.append(wave.call(move.word, [kept, given, *numbers, *flag]))
        elif move.word.startswith("permlane"):
            results.append(wave.call(move.word, [None, given, *numbers, [0], [1]]))
        else:
            results.append(wave.call(move.word, [given, *numbers]))
    return results[-1] if results else list(range(wave.lanes))


@pytest.mark.parametrize("hardware", KINDS)
@pytest.mark.parametrize("kind", ["lane", "xor", "up", "down"])
def test_each_lane_reads_where_the_language_says(hardware, kind):
    lanes, is_new = KINDS[hardware]
    for number in range(32):
        reads = [said(kind, number, lane) for lane in range(lanes)]
        made = moves(reads, is_new=is_new)
        if kind in ("up", "down") and number > 16:
            assert made is None or len(made) == 1
            continue
        assert made is not None
        assert len(made) <= 3
        for here in some_lanes(lanes):
            found = carried_out(made, Wavefront(lanes, here))
            assert [found[lane] for lane in here if reads[lane] in here] == [
                reads[lane] for lane in here if reads[lane] in here
            ], (number, here)


@pytest.mark.parametrize("hardware", KINDS)
def test_any_pattern_is_one_that_is_asked_for_or_none(hardware):
    lanes, is_new = KINDS[hardware]
    chosen = random.Random(11)
    some = 0
    for _ in range(600):
        size = chosen.choice([2, 4, 8, 16, 32])
        within = [chosen.randrange(size) for _ in range(size)]
        turned = chosen.choice([0, 0, 16, 3, 20])
        reads = [
            (lane & ~31) + ((lane - lane % size + within[lane % size]) % 32 ^ turned)
            for lane in range(lanes)
        ]
        made = moves(reads, is_new=is_new)
        if made is not None:
            some += 1
            found = carried_out(made, Wavefront(lanes, set(range(lanes))))
            assert found == reads
    assert some > 100


def shuffled(x, y):
    lane = cuda.laneid
    t = cuda.threadIdx.x
    v = x[t]
    y[t] = cuda.shfl_xor_sync(-1, v, 5)
    y[t + 64] = cuda.shfl_sync(-1, v, lane ^ 4)
    y[t + 128] = cuda.shfl_down_sync(-1, v, 3)
    y[t + 192] = cuda.shfl_up_sync(-1, v, 33)
    y[t + 256] = cuda.shfl_down_sync(-1, v, 20)
    y[t + 320] = cuda.shfl_sync(-1, v, -2)
    y[t + 384] = cuda.shfl_sync(-1, v, (lane + 9) % 32)
    y[t + 448] = cuda.shfl_xor_sync(-1, v, 0)


@pytest.mark.parametrize("architecture", ["gfx942", "gfx1100"])
def test_code_reads_where_the_kernel_says(architecture):
    llvm = haulage.compile(shuffled, "void(int32[::1], int32[::1])", architecture).llvm
    lanes = 64 if architecture == "gfx942" else 32
    assert llvm.count("call i32 @llvm.amdgcn.ds.bpermute(") <= 1
    for here in some_lanes(lanes):
        stored = executed(llvm, lanes, here)
        assert len(stored) == 8
        for lane in here:
            own, first = lane % 32, lane - lane % 32
            wanted = [
                first + (own ^ 5),
                first + (own ^ 4),
                said("down", 3, lane),
                said("up", 1, lane),
                said("down", 20, lane),
                first + 30,
                first + (own + 9) % 32,
                lane,
            ]
            for source, found in zip(wanted, stored, strict=True):
                assert source not in here or found[lane] == source


@cuda.jit
def summed(x):
    value = x[cuda.grid(1)]
    step = 16
    while step > 0:
        value += cuda.shfl_xor_sync(0xFFFFFFFF, value, step)
        step //= 2
    x[cuda.grid(1)] = value


@pytest.mark.parametrize("architecture", ARCHITECTURES)
@needs_disassembler
def test_a_sum_of_a_warp_is_additions_of_moved_values(architecture):
    lines = instructions(summed, "void(float32[::1])", architecture)
    assert count(lines, "ds_bpermute|v_mbcnt") == 0
    added = [line for line in lines if line.startswith("v_add_f32_dpp")]
    controls = [re.search(r"(row_\w+:\d+|quad_perm:\S+)", line)[1] for line in added]
    if architecture in ("gfx900", "gfx90a", "gfx942"):
        assert count(lines, r"ds_swizzle_b32 .*swizzle\(SWAP,16\)") == 1
        assert controls == ["row_ror:8", "quad_perm:[2,3,0,1]", "quad_perm:[1,0,3,2]"]
        assert count(lines, "v_mov_b32_dpp .*row_ror:(4|12)") == 2
    else:
        assert count(lines, "ds_") == 0
        assert count(lines, "v_permlanex16_b32") == 1
        assert [each.split(":")[1] for each in controls[:2]] == ["8", "4"]
        assert len(controls) == 4


@pytest.mark.parametrize("architecture", ARCHITECTURES)
@needs_disassembler
def test_what_one_lane_has_is_read_as_a_scalar(architecture):
    @cuda.jit
    def handed(x):
        x[cuda.grid(1)] = cuda.shfl_sync(-1, x[cuda.grid(1)], 7)

    lines = instructions(handed, "void(int64[::1])", architecture)
    assert count(lines, "ds_") == 0
    # Two halves of 32 bits, of each of the two warps that a wavefront of 64 lanes has.
    is_old = architecture in ("gfx900", "gfx90a", "gfx942")
    assert count(lines, "v_readlane_b32") == (4 if is_old else 2)


@pytest.mark.parametrize("architecture", ARCHITECTURES)
@needs_disassembler
def test_lanes_that_only_the_run_knows_are_read_by_addresses(architecture):
    @cuda.jit
    def picked(x, y):
        i = cuda.grid(1)
        x[i] = cuda.shfl_sync(-1, x[i], y[i])

    lines = instructions(picked, "void(int32[::1], int32[::1])", architecture)
    assert count(lines, "ds_bpermute_b32") == 1


@needs_disassembler
def test_wavefronts_of_64_lanes_on_hardware_with_32():
    @roc.jit
    def permuted(x, y):
        i = roc.get_global_id(0)
        x[i] = roc.activelanepermute_wavewidth(x[i], y[i], 0, False)

    signature = "void(int32[::1], int32[::1])"
    halves = instructions(permuted, signature, "gfx1100")
    # Both halves are looked into, the other one with all lanes at work.
    assert count(halves, "v_permlane64_b32") == 1
    assert count(halves, "ds_bpermute_b32") == 2
    assert count(halves, "s_or_saveexec_b64 .*-1") >= 1
    assert count(halves, "v_readlane_b32") == 0
    assert count(instructions(permuted, signature, "gfx1201"), "ds_bpermute_b32") == 1
    one_by_one = instructions(permuted, signature, "gfx1030")
    assert count(one_by_one, "ds_bpermute_b32") == 0
    assert count(one_by_one, "v_readlane_b32") == 1
