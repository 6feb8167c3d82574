"""The reader of PTX: memory, calls, and threads that wait for one another."""

import struct

import numpy as np
import pytest

from doubles import ptxas
from doubles.ptx import runtime
from doubles.ptx.loading import Loaded, run
from doubles.ptx.syntax import PTXError
from haulage.errors import DeviceError

pytestmark = pytest.mark.skipif(
    runtime.compiler() is None, reason="the reader of PTX needs a C compiler"
)

HEAD = ".version 8.5\n.target sm_90\n.address_size 64\n"


def program(body, before=""):
    """A text with an entry `k` that has the address of an array in %out, the thread's number in
    %t, and the address of its element of 4 bytes in %mine."""
    return f"""{HEAD}{before}
.visible .entry k(.param .u64 out)
{{
  .reg .b64 %out, %mine, %offset, %a<9>;
  .reg .b32 %t, %r<20>;
  .reg .f32 %f<9>;
  .reg .pred %p<9>;
  ld.param.u64 %out, [out];
  mov.u32 %t, %tid.x;
  mul.wide.u32 %offset, %t, 4;
  add.u64 %mine, %out, %offset;
  {body}
  ret;
}}
"""


def ran(body, threads=32, *, before="", grid=1, shared=0, cells=None, together=False, text=None):
    """What the entry leaves in the array."""
    text = text or program(body, before)
    if ptxas.program() is not None:
        ptxas.assemble(text)
    out = np.zeros(cells or threads, np.uint32)
    packed = struct.pack("<Q", out.ctypes.data)
    run(text, "k", (grid, 1, 1), (threads, 1, 1), shared, packed, together=together)
    return out


# ---- memory --------------------------------------------------------------------------------------


def test_special_registers_tell_the_place_of_a_thread():
    body = """
      mov.u32 %r1, %ntid.x; mov.u32 %r2, %ctaid.x; mad.lo.u32 %r3, %r1, %r2, %t;
      mul.wide.u32 %a1, %r3, 4; add.u64 %a2, %out, %a1;
      mov.u32 %r4, %laneid; mov.u32 %r5, %warpid; mov.u32 %r6, %nctaid.x;
      mad.lo.u32 %r7, %r5, 100, %r4; mad.lo.u32 %r7, %r6, 10000, %r7;
      st.global.u32 [%a2], %r7;"""
    expected = [(t // 32) * 100 + t % 32 + 30000 for t in range(40)] * 3
    assert ran(body, 40, grid=3, cells=120).tolist() == expected


def test_masks_of_lanes():
    names = ("eq", "lt", "le", "gt", "ge")
    body = "mul.wide.u32 %a1, %t, 20; add.u64 %a2, %out, %a1;"
    for number, name in enumerate(names):
        body += f"mov.u32 %r1, %lanemask_{name}; st.global.u32 [%a2+{4 * number}], %r1;"
    found = ran(body, 32, cells=160).reshape(32, 5)
    own = [1 << lane for lane in range(32)]
    below = [(1 << lane) - 1 for lane in range(32)]
    all_ones = 2**32 - 1
    assert found[:, 0].tolist() == own
    assert found[:, 1].tolist() == below
    assert found[:, 2].tolist() == [a | b for a, b in zip(own, below, strict=True)]
    assert found[:, 3].tolist() == [all_ones ^ a ^ b for a, b in zip(own, below, strict=True)]
    assert found[:, 4].tolist() == [all_ones ^ b for b in below]


def test_an_array_that_threads_share_is_seen_behind_a_barrier():
    body = """
      mov.u64 %a1, s; add.u64 %a2, %a1, %offset; st.shared.u32 [%a2], %t;
      bar.sync 0;
      sub.u32 %r1, 95, %t; mul.wide.u32 %a3, %r1, 4; add.u64 %a4, %a1, %a3;
      ld.shared.u32 %r2, [%a4]; st.global.u32 [%mine], %r2;"""
    found = ran(body, 96, before=".shared .align 4 .b8 s[384];")
    assert found.tolist() == list(range(95, -1, -1))


def test_dynamic_shared_memory_lies_behind_the_static_one():
    before = ".shared .align 4 .b8 s[20]; .extern .shared .align 16 .b8 d[];"
    body = """
      mov.u32 %r1, 7; st.shared.u32 [s+16], %r1;
      mov.u64 %a1, d; add.u64 %a2, %a1, %offset; st.shared.u32 [%a2], %t;
      bar.sync 0;
      ld.shared.u32 %r2, [s+16]; ld.shared.u32 %r3, [%a2]; mov.u32 %r4, %dynamic_smem_size;
      mad.lo.u32 %r5, %r2, 1000, %r3; mad.lo.u32 %r5, %r4, 10000, %r5;
      st.global.u32 [%mine], %r5;"""
    found = ran(body, 8, before=before, shared=32)
    assert found.tolist() == [327000 + t for t in range(8)]


def test_shared_memory_has_generic_addresses_too():
    body = """
      mov.u64 %a1, s; cvta.shared.u64 %a2, %a1; add.u64 %a3, %a2, %offset;
      st.u32 [%a3], %t; bar.sync 0;
      cvta.to.shared.u64 %a4, %a3; ld.shared.u32 %r1, [%a4];
      isspacep.shared %p1, %a3; isspacep.global %p2, %a3; isspacep.global %p3, %mine;
      selp.u32 %r2, 100, 0, %p1; selp.u32 %r3, 1000, 0, %p2; selp.u32 %r4, 10000, 0, %p3;
      add.u32 %r1, %r1, %r2; add.u32 %r1, %r1, %r3; add.u32 %r1, %r1, %r4;
      st.global.u32 [%mine], %r1;"""
    found = ran(body, 8, before=".shared .align 4 .b8 s[32];")
    assert found.tolist() == [10100 + t for t in range(8)]


def test_local_memory_is_each_threads_own():
    body = """
      .local .align 4 .b8 l[16];
      mov.u64 %a1, l; st.local.u32 [%a1+4], %t; bar.sync 0;
      cvta.local.u64 %a2, %a1; ld.u32 %r1, [%a2+4]; st.global.u32 [%mine], %r1;
      isspacep.local %p1, %a2; @%p1 st.global.u32 [%mine], %r1;"""
    assert ran(body, 64).tolist() == list(range(64))


def test_variables_begin_with_their_values_and_addresses():
    before = """
      .global .align 4 .u32 numbers[3] = {5, -1, 0x10};
      .const .align 8 .f64 half = 0d3FE0000000000000;
      .global .align 8 .u64 places[2] = {numbers+8, generic(numbers)+4};"""
    body = """
      ld.global.u64 %a1, [places]; ld.global.u32 %r1, [%a1]; st.global.u32 [%out], %r1;
      ld.global.u64 %a2, [places+8]; ld.u32 %r2, [%a2]; st.global.u32 [%out+4], %r2;
      ld.const.u64 %a3, [half]; shr.u64 %a3, %a3, 32; st.global.u32 [%out+8], %a3;"""
    assert ran(body, 1, before=before, cells=3).tolist() == [16, 2**32 - 1, 0x3FE00000]


def test_vectors_are_loaded_and_stored_in_order():
    body = """
      ld.global.v4.u32 {%r1, %r2, %r3, %r4}, [%out];
      add.u32 %r1, %r1, 1; add.u32 %r2, %r2, 2; add.u32 %r3, %r3, 3; add.u32 %r4, %r4, 4;
      st.global.v2.u32 [%out+8], {%r1, %r2}; st.global.v2.u32 [%out], {%r3, %r4};"""
    text = program(body)
    room = np.zeros(8, np.uint32)
    out = room[-room.ctypes.data % 16 // 4 :][:4]
    out[:] = (10, 20, 30, 40)
    run(text, "k", (1, 1, 1), (1, 1, 1), 0, struct.pack("<Q", out.ctypes.data))
    assert out.tolist() == [33, 44, 11, 22]


def test_narrow_loads_extend_and_narrow_stores_cut_off():
    body = """
      mov.u32 %r1, 0x1FF; st.global.u8 [%mine], %r1;
      ld.global.s8 %r2, [%mine]; st.global.u32 [%mine+4], %r2;
      ld.global.u8 %r3, [%mine]; st.global.u32 [%mine+8], %r3;"""
    assert ran(body, 1, cells=3).tolist() == [0xFF, 2**32 - 1, 0xFF]


@pytest.mark.parametrize(
    ("access", "what"),
    [
        ("ld.global.u32 %r1, [%out+2];", "no multiple|which is no multiple"),
        ("ld.global.v2.u32 {%r1, %r2}, [%out+4];", "multiple"),
        ("st.shared.u32 [s+32], %t;", "shared memory, which has 32"),
        ("mov.u64 %a1, s; ld.shared.u32 %r1, [%a1+-4];", "shared memory"),
        ("trap;", "trap"),
        ("mov.u64 %a1, s; cvta.shared.u64 %a2, %a1; ld.global.u32 %r1, [%a2];", "of shared memory"),
        (".local .b32 l; mov.u64 %a1, l; cvta.local.u64 %a2, %a1; st.global.u32 [%a2], 1;", "own"),
        (".local .b32 l; mov.u64 %a1, l; cvta.local.u64 %a2, %a1; red.add.u32 [%a2], 1;", "own"),
        ("mov.u64 %a1, 64; ld.global.u32 %r1, [%a1];", "of no memory"),
    ],
)
def test_what_hardware_does_not_allow_is_an_error_with_the_line(access, what):
    room = np.zeros(16, np.uint32)
    aligned = room.ctypes.data + -room.ctypes.data % 16
    text = program(access, ".shared .align 4 .b8 s[32];")
    line = next(n for n, each in enumerate(text.splitlines(), 1) if access in each)
    with pytest.raises(DeviceError, match=f"line {line}: .*({what})"):
        run(text, "k", (1, 1, 1), (1, 1, 1), 0, struct.pack("<Q", aligned))


# ---- atomic operations ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("instruction", "begin", "result"),
    [
        ("red.global.add.u32 [%out], 3;", 1, 1 + 3 * 64),
        ("red.global.add.f32 [%out], 0f3F000000;", 0, 0x42000000),
        ("red.global.max.s32 [%out], %t;", -5, 63),
        ("red.global.min.s32 [%out], -1;", 3, -1),
        ("red.global.min.u32 [%out], -1;", 3, 3),
        ("red.global.and.b32 [%out], 0xF0;", 0xFF, 0xF0),
        ("red.global.or.b32 [%out], 0x100;", 1, 0x101),
        ("red.global.xor.b32 [%out], 3;", 1, 1),
        # Behind its operand it begins anew: 64 steps in a circle of 10.
        ("red.global.inc.u32 [%out], 9;", 0, 4),
        ("red.global.dec.u32 [%out], 9;", 3, 9),
        ("mov.u32 %r1, 0x3C003800; red.global.add.noftz.f16x2 [%out], %r1;", 0, 0x54005000),
        (".reg .b16 %h; mov.b16 %h, 0x3C00; red.global.add.noftz.f16 [%out], %h;", 0, 0x5400),
        ("atom.global.exch.b32 %r1, [%out], 9;", 1, 9),
    ],
)
def test_atomic_operations_of_all_threads(instruction, begin, result):
    text = program(instruction)
    if ptxas.program() is not None:
        ptxas.assemble(text)
    out = np.array([begin], np.int64).astype(np.uint32)
    run(text, "k", (1, 1, 1), (64, 1, 1), 0, struct.pack("<Q", out.ctypes.data))
    assert out[0] == result & 0xFFFFFFFF


@pytest.mark.parametrize(
    ("before", "result"),
    [
        # The least normal number less the least one of all, as memory of each kind makes it.
        ("add.u64 %a2, %out, 0;", 0x00800000),
        ("mov.u64 %a1, s; cvta.shared.u64 %a2, %a1;", 0x007FFFFF),
    ],
)
def test_sums_in_global_memory_know_no_subnormal_numbers(before, result):
    body = f"""
      {before} mov.u32 %r1, 0x00800000; st.u32 [%a2], %r1;
      red.add.f32 [%a2], 0f80000001; ld.u32 %r2, [%a2]; st.global.u32 [%out], %r2;"""
    assert ran(body, 1, before=".shared .align 4 .b8 s[4];").tolist() == [result]


def test_what_is_loaded_as_staying_the_same_may_not_have_been_written():
    body = """
      ld.global.nc.u32 %r1, [%mine]; add.u32 %r1, %r1, ADD; st.global.u32 [%mine], %r1;
      bar.sync 0; ld.global.nc.u32 %r2, [%out+AT];"""
    same, body = body.replace("ADD", "0"), body.replace("ADD", "1")
    assert ran(same.replace("AT", "28"), 8).tolist() == [0] * 8
    assert ran(body.replace("AT", "32"), 8, cells=9).tolist() == [1] * 8 + [0]
    with pytest.raises(DeviceError, match=r"stays as it is, .* which this launch has written"):
        ran(body.replace("AT", "28"), 8)
    with pytest.raises(DeviceError, match="has written"):
        ran("red.global.add.u32 [%out], 1; ld.global.nc.u32 %r2, [%out];", 1)


def test_what_nobody_has_written_is_no_zero():
    body = """
      .local .align 4 .b8 l[8]; mov.u64 %a1, l; ld.local.u32 %r2, [%a1+4];
      st.global.u32 [%out], %r1; st.global.u32 [%out+4], %r2; ld.shared.u32 %r3, [s];
      st.global.u32 [%out+8], %r3;"""
    found = ran(body, 1, cells=3, before=".shared .align 4 .b8 s[4];").tolist()
    assert found == [0xDEADBEE5, 0xA5A5A5A5, 0xA5A5A5A5]


def test_an_atomic_operation_gives_what_was_there_before():
    body = "atom.global.add.u32 %r1, [%out+256], 1; st.global.u32 [%mine], %r1;"
    assert sorted(ran(body, 64, cells=65)[:64].tolist()) == list(range(64))


def test_compare_and_swap_writes_only_over_what_is_expected():
    body = """
      atom.global.acq_rel.gpu.cas.b32 %r1, [%out], 0, 7; st.global.u32 [%out+4], %r1;
      atom.global.cas.b32 %r2, [%out], 5, 9; st.global.u32 [%out+8], %r2;"""
    assert ran(body, 1, cells=3).tolist() == [7, 0, 7]


def test_threads_of_a_warp_take_turns_with_a_lock():
    # As since Volta: a thread that spins does not keep out the one that has the lock.
    body = """
    AGAIN:
      atom.global.acquire.gpu.cas.b32 %r1, [%out+4], 0, 1;
      setp.ne.u32 %p1, %r1, 0;
      @%p1 bra AGAIN;
      ld.volatile.global.u32 %r2, [%out]; add.u32 %r2, %r2, 1;
      st.volatile.global.u32 [%out], %r2;
      membar.gl;
      atom.global.exch.b32 %r3, [%out+4], 0;"""
    assert ran(body, 256, cells=2).tolist() == [256, 0]


# ---- where control goes --------------------------------------------------------------------------


def test_a_table_of_labels():
    body = """
      ts: .branchtargets ONE, TWO, THREE;
      rem.u32 %r1, %t, 3;
      brx.idx %r1, ts;
    ONE: mov.u32 %r2, 11; bra.uni DONE;
    TWO: mov.u32 %r2, 22; bra.uni DONE;
    THREE: mov.u32 %r2, 33;
    DONE: st.global.u32 [%mine], %r2;"""
    assert ran(body, 6).tolist() == [11, 22, 33, 11, 22, 33]


def test_a_function_that_calls_itself():
    before = """
      .func (.param .b32 result) sum(.param .b32 n)
      {
        .reg .b32 %r<5>; .reg .pred %p;
        ld.param.b32 %r1, [n];
        mov.u32 %r2, 0;
        setp.eq.u32 %p, %r1, 0;
        @%p bra END;
        add.s32 %r3, %r1, -1;
        {
          .param .b32 given; .param .b32 got;
          st.param.b32 [given], %r3;
          call.uni (got), sum, (given);
          ld.param.b32 %r2, [got];
        }
        add.u32 %r2, %r2, %r1;
      END:
        st.param.b32 [result], %r2;
        ret;
      }"""
    body = """
      { .param .b32 given; .param .b32 got;
        st.param.b32 [given], %t; call.uni (got), sum, (given); ld.param.b32 %r1, [got]; }
      st.global.u32 [%mine], %r1;"""
    assert ran(body, 32, before=before).tolist() == [n * (n + 1) // 2 for n in range(32)]


def test_a_call_by_address_and_a_structure_as_parameter():
    before = """
      .func (.param .b32 result) f(.param .align 8 .b8 pair[16])
      { .reg .b32 %r<3>; .reg .b64 %a;
        ld.param.b32 %r1, [pair]; ld.param.b64 %a, [pair+8]; cvt.u32.u64 %r2, %a;
        sub.u32 %r1, %r1, %r2; st.param.b32 [result], %r1; ret; }"""
    body = """
      mov.u64 %a1, f; cvt.u64.u32 %a2, %t;
      { .param .align 8 .b8 given[16]; .param .b32 got;
        st.param.b32 [given], 50; st.param.b64 [given+8], %a2;
        proto: .callprototype (.param .b32 _) _ (.param .align 8 .b8 _[16]);
        call (got), %a1, (given), proto;
        ld.param.b32 %r1, [got]; }
      st.global.u32 [%mine], %r1;"""
    assert ran(body, 4, before=before).tolist() == [50, 49, 48, 47]


def test_exit_ends_a_thread_inside_of_a_function():
    before = """
      .func f(.param .b32 n) { .reg .b32 %r; .reg .pred %p; ld.param.b32 %r, [n];
        setp.gt.u32 %p, %r, 3; @%p exit; ret; }"""
    body = """
      { .param .b32 given; st.param.b32 [given], %t; call.uni f, (given); }
      mov.u32 %r1, 1; st.global.u32 [%mine], %r1;"""
    assert ran(body, 8, before=before).tolist() == [1, 1, 1, 1, 0, 0, 0, 0]


# ---- barriers ------------------------------------------------------------------------------------


def test_a_barrier_does_not_wait_for_threads_that_have_exited():
    body = """
      setp.ge.u32 %p1, %t, 40; @%p1 exit;
      bar.sync 0; mov.u32 %r1, 1; st.global.u32 [%mine], %r1;"""
    assert ran(body, 64).tolist() == [1] * 40 + [0] * 24


def test_barriers_that_count_predicates():
    body = """
      setp.lt.u32 %p1, %t, 10;
      barrier.cta.red.popc.aligned.u32 %r1, 0, %p1;
      bar.red.and.pred %p2, 1, %p1; bar.red.or.pred %p3, 1, !%p1;
      selp.u32 %r2, 100, 0, %p2; selp.u32 %r3, 1000, 0, %p3;
      add.u32 %r1, %r1, %r2; add.u32 %r1, %r1, %r3; st.global.u32 [%mine], %r1;"""
    assert set(ran(body, 64).tolist()) == {1010}
    assert set(ran(body, 8).tolist()) == {108}


def test_a_barrier_of_some_warps_only_and_one_at_which_nobody_waits():
    body = """
      setp.lt.u32 %p1, %t, 32; @%p1 bra PRODUCE;
      bar.sync 3, 64; ld.volatile.shared.u32 %r1, [s]; st.global.u32 [%mine], %r1; bra.uni END;
    PRODUCE:
      mov.u32 %r2, 5; st.volatile.shared.u32 [s], %r2; bar.arrive 3, 64;
    END: """
    assert ran(body, 64, before=".shared .align 4 .b8 s[4];").tolist() == [0] * 32 + [5] * 32


@pytest.mark.parametrize(("order", "last"), [("up", 7), ("down", 0)])
def test_threads_are_run_in_either_order(monkeypatch, order, last):
    monkeypatch.setenv("HAULAGE_PTX_ORDER", order)
    assert ran("st.global.u32 [%out], %t;", 8, cells=1).tolist() == [last]


def test_an_aligned_barrier_may_not_part_a_warp_but_others_may():
    body = """
      setp.lt.u32 %p1, %t, 16; @%p1 bra LOW;
      KIND 0; bra.uni END;
    LOW: KIND 0;
    END: mov.u32 %r1, 1; st.global.u32 [%mine], %r1;"""
    assert set(ran(body.replace("KIND", "barrier.sync"), 32).tolist()) == {1}
    with pytest.raises(DeviceError, match="aligned barrier"):
        ran(body.replace("KIND", "bar.sync"), 32)


def test_a_barrier_that_is_missed_is_an_error():
    body = """
      setp.lt.u32 %p1, %t, 32; @%p1 bra SPIN; bar.sync 0; bra.uni END;
    SPIN: bar.sync 1;
    END: """
    with pytest.raises(DeviceError, match=r"nobody can go on: .* waits at barrier 1, where 32"):
        ran(body, 64)


def test_blocks_that_wait_for_one_another_when_all_are_there():
    body = """
      setp.ne.u32 %p1, %t, 0; @%p1 bra WAIT;
      red.release.gpu.global.add.u32 [%out+0], 1;
    LOOK: ld.acquire.gpu.global.u32 %r1, [%out]; setp.ne.u32 %p2, %r1, 8; @%p2 bra LOOK;
    WAIT: bar.sync 0;
      mov.u32 %r2, %ctaid.x; mul.wide.u32 %a1, %r2, 4; add.u64 %a2, %out, %a1;
      ld.global.u32 %r3, [%out]; st.global.u32 [%a2+4], %r3;"""
    assert ran(body, 32, grid=8, cells=9, together=True).tolist() == [8] * 9


# ---- words of warps ------------------------------------------------------------------------------


def shuffled(kind, by, clamp, lane):
    """The lane that is read, and the predicate, by the document's own pseudocode."""
    by, segment, clamp = by & 31, clamp >> 8 & 31, clamp & 31
    last, first = (lane & segment) | (clamp & ~segment), lane & segment
    source, inside = {
        "up": (lane - by, lane - by >= last),
        "down": (lane + by, lane + by <= last),
        "bfly": (lane ^ by, lane ^ by <= last),
        "idx": (first | (by & ~segment), (first | (by & ~segment)) <= last),
    }[kind]
    return (source if inside else lane), inside


@pytest.mark.parametrize("kind", ["up", "down", "bfly", "idx"])
@pytest.mark.parametrize("by", [0, 1, 5, 16, 31])
@pytest.mark.parametrize("width", [32, 8])
def test_shuffles(kind, by, width):
    clamp = (32 - width) << 8 | (0 if kind == "up" else 31)
    body = f"""
      shfl.sync.{kind}.b32 %r1|%p1, %t, {by}, {clamp}, -1;
      selp.u32 %r2, 100, 0, %p1; add.u32 %r1, %r1, %r2; st.global.u32 [%mine], %r1;"""
    expected = []
    for lane in range(32):
        source, inside = shuffled(kind, by, clamp, lane)
        expected.append(source + 100 * inside)
    assert ran(body).tolist() == expected


def test_a_shuffle_by_an_amount_of_each_lane_and_of_some_lanes_only():
    body = """
      setp.ge.u32 %p1, %t, 8; @%p1 exit;
      sub.u32 %r1, 7, %t; mul.lo.u32 %r2, %t, %t;
      shfl.sync.idx.b32 %r3, %r2, %r1, 31, 0xFF; st.global.u32 [%mine], %r3;"""
    assert ran(body).tolist() == [(7 - t) ** 2 for t in range(8)] + [0] * 24


def test_votes():
    body = """
      setp.lt.u32 %p1, %t, 5;
      vote.sync.ballot.b32 %r1, %p1, -1;
      vote.sync.all.pred %p2, %p1, -1; vote.sync.any.pred %p3, %p1, -1;
      vote.sync.uni.pred %p4, !%p1, -1;
      selp.u32 %r2, 0x1000, 0, %p2; selp.u32 %r3, 0x2000, 0, %p3; selp.u32 %r4, 0x4000, 0, %p4;
      or.b32 %r1, %r1, %r2; or.b32 %r1, %r1, %r3; or.b32 %r1, %r1, %r4;
      st.global.u32 [%mine], %r1;"""
    assert set(ran(body).tolist()) == {0x201F}
    # Where a block ends in the midst of a warp, nobody else is there.
    assert set(ran(body, 3).tolist()) == {0x7007}


def test_a_vote_of_lanes_that_came_by_different_ways():
    body = """
      and.b32 %r1, %t, 1; setp.eq.u32 %p1, %r1, 0; @%p1 bra EVEN;
      vote.sync.ballot.b32 %r2, %p1, 0xAAAAAAAA; bra.uni END;
    EVEN: vote.sync.ballot.b32 %r2, %p1, 0x55555555;
    END: st.global.u32 [%mine], %r2;"""
    assert ran(body).tolist() == [0x55555555, 0] * 16


def test_matches():
    body = """
      shr.u32 %r1, %t, 3; cvt.u64.u32 %a1, %r1; shl.b64 %a1, %a1, 40;
      match.any.sync.b32 %r2, %r1, -1; match.any.sync.b64 %r3, %a1, -1;
      match.all.sync.b32 %r4|%p1, %r1, -1; match.all.sync.b32 %r5|%p2, 7, -1;
      setp.ne.u32 %p3, %r2, %r3; @%p3 trap; @%p1 trap; @!%p2 trap;
      add.u32 %r6, %r4, %r5; setp.ne.u32 %p4, %r6, -1; @%p4 trap;
      st.global.u32 [%mine], %r2;"""
    assert ran(body).tolist() == [0xFF << 8 * (t // 8) for t in range(32)]


@pytest.mark.parametrize(
    ("kind", "result"),
    [
        ("add.u32", 496 - 160),
        ("min.s32", -5),
        ("max.u32", 2**32 - 1),
        ("max.s32", 26),
        ("xor.b32", 0),
    ],
)
def test_reductions(kind, result):
    body = f"""
      add.s32 %r1, %t, -5; redux.sync.{kind} %r2, %r1, -1; st.global.u32 [%mine], %r2;"""
    values = [t - 5 for t in range(32)]
    if kind == "xor.b32":
        for value in values:
            result ^= value & 0xFFFFFFFF
    assert set(ran(body).tolist()) == {result & 0xFFFFFFFF}


def test_the_lanes_that_are_here_now_and_one_of_them():
    body = """
      and.b32 %r1, %t, 3; setp.eq.u32 %p1, %r1, 0; @%p1 bra HERE;
      mov.u32 %r2, 0; bra.uni END;
    HERE: activemask.b32 %r2; elect.sync %r3|%p2, 0x11111111; @%p2 st.global.u32 [%out+128], %t;
    END: st.global.u32 [%mine], %r2;"""
    found = ran(body, cells=33)
    assert found[:32].tolist() == [0x11111111, 0, 0, 0] * 8
    assert found[32] == 0


def test_lanes_exchange_values_at_one_place():
    body = """
      setp.lt.u32 %p1, %t, 16; @%p1 bra LOW;
      WORD; bra.uni END;
    LOW: WORD;
    END: """
    ran(body.replace("WORD", "bar.warp.sync -1"))
    with pytest.raises(DeviceError, match=r"where lane .* of its mask is at that of line"):
        ran(body.replace("WORD", "shfl.sync.idx.b32 %r1, %t, 0, 31, -1"))


def test_a_lane_that_is_not_in_its_own_mask_is_an_error():
    with pytest.raises(DeviceError, match="not in the mask 0x1"):
        ran("vote.sync.ballot.b32 %r1, %p1, 1;".replace("%p1", "1"), 2)


def test_lanes_that_wait_for_one_that_never_comes_are_an_error():
    body = """
      setp.eq.u32 %p1, %t, 0; @%p1 bra OTHER;
      bar.warp.sync -1; bra.uni END;
    OTHER: bar.warp.sync 1; bar.sync 0;
    END: """
    with pytest.raises(DeviceError, match="nobody can go on"):
        ran(body)


# ---- what is not known ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ("frobnicate.s32 %r1, %r2;", r"k, line \d+: frobnicate.s32: .* not known"),
        ("cvt.rs.f16x2.f32 %r1, %f1, %f2, %r3;", "cvt.rs"),
        ("mov.u32 %r1, %r99;", "%r99 is no register"),
        ("ld.global.u64 %r1, [%out];", "64 bits do not fit"),
        ("mov.u32 %r1, nothing;", "there is no nothing"),
        ("shfl.idx.b32 %r1, %r2, 0, 31;", "sm_70"),
    ],
)
def test_what_is_not_known_is_an_error_that_names_it(body, message):
    with pytest.raises(PTXError, match=message):
        Loaded(program(body))


def test_more_local_memory_than_a_thread_can_have_is_an_error():
    with pytest.raises(PTXError, match="k has 600000 bytes of local memory"):
        Loaded(program(".local .b8 l[600000];"))


def test_more_shared_memory_than_a_block_can_have_is_an_error():
    with pytest.raises(PTXError, match="50000 bytes of shared memory; 49152 is all"):
        Loaded(program("", ".shared .b8 s[50000];"))


def test_parameters_lie_at_multiples_of_what_is_loaded():
    text = f"{HEAD}.entry k(.param .b32 a, .param .align 8 .b8 b[16])\n{{ .reg .b64 %r<3>; BODY }}"
    Loaded(text.replace("BODY", "ld.param.v2.b64 {%r1, %r2}, [b];").replace(".b32 a", ".b64 a[2]"))
    with pytest.raises(PTXError, match="16 bytes at an address that need be no multiple"):
        Loaded(text.replace("BODY", "ld.param.v2.b64 {%r1, %r2}, [b];"))
    with pytest.raises(PTXError, match="8 bytes at an address"):
        Loaded(text.replace("BODY", "ld.param.b64 %r1, [b+4];"))


def test_a_function_that_nobody_defines_is_an_error():
    before = ".extern .func missing();"
    with pytest.raises(PTXError, match="missing is declared and nowhere defined"):
        Loaded(program("call.uni missing;", before))


def test_a_launch_beyond_the_limits_of_the_entry_is_refused():
    text = f"{HEAD}.visible .entry k() .maxntid 64, 1, 1 .maxclusterrank 4\n{{ ret; }}"
    run(text, "k", (1, 1, 1), (64, 1, 1), 0, b"")
    with pytest.raises(DeviceError, match="up to 64"):
        run(text, "k", (1, 1, 1), (65, 1, 1), 0, b"")
    with pytest.raises(DeviceError, match="no entry 'other'; it has k"):
        run(text, "other", (1, 1, 1), (1, 1, 1), 0, b"")
