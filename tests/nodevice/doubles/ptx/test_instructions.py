"""The reader of PTX: single instructions, with values worked out from NVIDIA's PTX ISA document."""

import math
import struct

import pytest

from doubles import ptxas
from doubles.ptx import runtime, snippets
from doubles.ptx.loading import Loaded
from doubles.ptx.snippets import Snippet

pytestmark = pytest.mark.skipif(
    runtime.compiler() is None, reason="the reader of PTX needs a C compiler"
)

NAN, INF = math.nan, math.inf
NAN32, NAN16 = 0x7FFFFFFF, 0x7FFF
LEAST32, LEAST64 = -(2**31), -(2**63)
# The least float32 above 1; half its distance from 1.
AFTER_ONE, HALF_STEP = 0x3F800001, 2.0**-24

INTEGERS = [
    Snippet("add.s32 {o0}, {i0}, {i1};", "s32 s32 -> s32", [(1, 2, 3), (2**31 - 1, 1, LEAST32)]),
    Snippet(
        "add.sat.s32 {o0}, {i0}, {i1};",
        "s32 s32 -> s32",
        [(2**31 - 1, 1, 2**31 - 1), (LEAST32, -1, LEAST32), (5, -7, -2)],
    ),
    Snippet("sub.u16 {o0}, {i0}, {i1};", "u16 u16 -> u16", [(3, 5, 0xFFFE)]),
    Snippet(
        "add.cc.u32 {o0}, {i0}, {i1}; addc.u32 {o1}, {i2}, {i3};",
        "u32 u32 u32 u32 -> u32 u32",
        [(2**32 - 1, 1, 7, 1, 0, 9), (1, 1, 7, 1, 2, 8)],
    ),
    Snippet(
        "add.cc.u32 {o0}, {i0}, {i0}; addc.cc.u32 {o1}, {i1}, {i2}; addc.u32 {o2}, 0, 0;",
        "u32 u32 u32 -> u32 u32 u32",
        [(2**31, 2**32 - 1, 0, 0, 0, 1), (0, 2**32 - 1, 2, 0, 1, 1), (0, 1, 2, 0, 3, 0)],
    ),
    Snippet(
        "sub.cc.u32 {o0}, {i0}, {i1}; subc.u32 {o1}, {i2}, {i3};",
        "u32 u32 u32 u32 -> u32 u32",
        [(1, 2, 7, 1, 2**32 - 1, 5), (2, 2, 7, 1, 0, 6)],
    ),
    Snippet(
        "mad.lo.cc.u32 {o0}, {i0}, {i1}, {i2}; madc.hi.u32 {o1}, {i0}, {i1}, {i3};",
        "u32 u32 u32 u32 -> u32 u32",
        [(2**31, 3, 2**31, 5, 0, 7), (3, 5, 1, 2, 16, 2)],
    ),
    Snippet("mul.lo.s32 {o0}, {i0}, {i1};", "s32 s32 -> s32", [(-3, 7, -21), (2**16, 2**16, 0)]),
    Snippet(
        "mul.hi.s32 {o0}, {i0}, {i1};", "s32 s32 -> s32", [(-1, 1, -1), (2**30, 8, 2), (-2, -3, 0)]
    ),
    Snippet("mul.hi.u32 {o0}, {i0}, {i1};", "u32 u32 -> u32", [(2**32 - 1, 2, 1)]),
    Snippet("mul.hi.u64 {o0}, {i0}, {i1};", "u64 u64 -> u64", [(2**63, 6, 3)]),
    Snippet("mul.wide.s32 {o0}, {i0}, {i1};", "s32 s32 -> s64", [(-5, 7, -35)]),
    Snippet("mul.wide.u16 {o0}, {i0}, {i1};", "u16 u16 -> u32", [(0xFFFF, 0xFFFF, 0xFFFE0001)]),
    Snippet("mad.wide.s32 {o0}, {i0}, {i1}, {i2};", "s32 s32 s64 -> s64", [(-5, 7, -1, -36)]),
    Snippet(
        "mad.hi.sat.s32 {o0}, {i0}, {i1}, {i2};",
        "s32 s32 s32 -> s32",
        [(2**30, 8, 2**31 - 1, 2**31 - 1), (1, 1, -3, -3)],
    ),
    Snippet("mul24.lo.u32 {o0}, {i0}, {i1};", "u32 u32 -> u32", [(0xFF000003, 5, 15)]),
    Snippet("div.s32 {o0}, {i0}, {i1};", "s32 s32 -> s32", [(-7, 2, -3), (7, -2, -3)]),
    Snippet("div.u64 {o0}, {i0}, {i1};", "u64 u64 -> u64", [(2**64 - 1, 2, 2**63 - 1)]),
    Snippet("rem.s32 {o0}, {i0}, {i1};", "s32 s32 -> s32", [(-7, 2, -1), (7, -2, 1)]),
    Snippet("div.s32 {o0}, {i0}, {i1};", "s32 s32 -> s32", [(1, 0, None), (LEAST32, -1, None)]),
    Snippet("sad.s32 {o0}, {i0}, {i1}, {i2};", "s32 s32 s32 -> u32", [(-3, 4, 10, 17)]),
    Snippet("abs.s32 {o0}, {i0};", "s32 -> s32", [(-3, 3), (3, 3)]),
    Snippet("neg.s64 {o0}, {i0};", "s64 -> s64", [(3, -3)]),
    Snippet("min.s32 {o0}, {i0}, {i1};", "s32 s32 -> s32", [(-1, 1, -1)]),
    Snippet("min.u32 {o0}, {i0}, {i1};", "u32 u32 -> u32", [(-1, 1, 1)]),
    Snippet("max.s64 {o0}, {i0}, {i1};", "s64 s64 -> s64", [(-1, 1, 1)]),
    Snippet(
        "max.u16x2 {o0}, {i0}, {i1};", "b32 b32 -> b32", [(0x00010005, 0xFFFF0004, 0xFFFF0005)]
    ),
    Snippet(
        "dp4a.s32.u32 {o0}, {i0}, {i1}, {i2};",
        "b32 b32 s32 -> s32",
        [(0xFF020304, 0xFF050607, 1, -255 + 10 + 18 + 28 + 1)],
    ),
    Snippet(
        "dp2a.hi.u32.s32 {o0}, {i0}, {i1}, {i2};",
        "b32 b32 s32 -> s32",
        [(0x00020003, 0xFF05AAAA, 1, 2 * -1 + 3 * 5 + 1)],
    ),
]

BITS = [
    Snippet(
        "shl.b32 {o0}, {i0}, {i1};", "b32 u32 -> b32", [(3, 31, 2**31), (3, 32, 0), (3, -1, 0)]
    ),
    Snippet("shr.u32 {o0}, {i0}, {i1};", "u32 u32 -> u32", [(-1, 31, 1), (-1, 32, 0), (-1, 64, 0)]),
    Snippet("shr.s32 {o0}, {i0}, {i1};", "s32 u32 -> s32", [(-8, 2, -2), (-8, 32, -1), (8, 99, 0)]),
    Snippet("shr.s64 {o0}, {i0}, {i1};", "s64 u32 -> s64", [(-8, 63, -1), (-8, 64, -1)]),
    Snippet("shl.b16 {o0}, {i0}, {i1};", "b16 u32 -> b16", [(3, 15, 0x8000), (3, 16, 0)]),
    Snippet(
        "shf.l.wrap.b32 {o0}, {i0}, {i1}, {i2};",
        "b32 b32 u32 -> b32",
        [(0x80000000, 1, 1, 3), (0x80000000, 1, 33, 3), (5, 9, 32, 9)],
    ),
    Snippet(
        "shf.l.clamp.b32 {o0}, {i0}, {i1}, {i2};",
        "b32 b32 u32 -> b32",
        [(0x80000000, 1, 1, 3), (5, 9, 32, 5), (5, 9, 77, 5)],
    ),
    Snippet(
        "shf.r.clamp.b32 {o0}, {i0}, {i1}, {i2};",
        "b32 b32 u32 -> b32",
        [(2, 1, 1, 0x80000001), (5, 9, 32, 9), (5, 9, 77, 9)],
    ),
    Snippet("shf.r.wrap.b32 {o0}, {i0}, {i1}, {i2};", "b32 b32 u32 -> b32", [(5, 9, 32, 5)]),
    Snippet(
        "prmt.b32 {o0}, {i0}, {i1}, {i2};",
        "b32 b32 b32 -> b32",
        [(0x33221100, 0x77665544, 0x7531, 0x77553311), (0x80, 0x7F, 0x8C48, 0xFF007FFF)],
    ),
    Snippet(
        "prmt.b32.f4e {o0}, {i0}, {i1}, {i2};",
        "b32 b32 b32 -> b32",
        [(0x33221100, 0x77665544, 1, 0x44332211)],
    ),
    Snippet(
        "prmt.b32.rc16 {o0}, {i0}, {i1}, {i2};",
        "b32 b32 b32 -> b32",
        [(0x33221100, 0, 1, 0x33223322)],
    ),
    Snippet(
        "bfe.u32 {o0}, {i0}, {i1}, {i2};",
        "u32 u32 u32 -> u32",
        [
            (0xABCD1234, 8, 8, 0x12),
            (0xABCD1234, 28, 8, 0xA),
            (0xABCD1234, 4, 0, 0),
            (-1, 256, 4, 15),
        ],
    ),
    Snippet(
        "bfe.s32 {o0}, {i0}, {i1}, {i2};",
        "s32 u32 u32 -> s32",
        [
            (0x0000F000, 12, 4, -1),
            (0x00007000, 12, 4, 7),
            (LEAST32, 28, 9, -8),
            (LEAST32, 40, 4, -1),
        ],
    ),
    Snippet("bfe.s64 {o0}, {i0}, {i1}, {i2};", "s64 u32 u32 -> s64", [(0xF << 40, 40, 4, -1)]),
    Snippet(
        "bfi.b32 {o0}, {i0}, {i1}, {i2}, {i3};",
        "b32 b32 u32 u32 -> b32",
        [
            (0xFF, 0, 4, 8, 0xFF0),
            (0xFF, 0, 28, 8, 0xF0000000),
            (0, -1, 4, 8, 0xFFFFF00F),
            (1, 2, 0, 0, 2),
        ],
    ),
    Snippet("brev.b32 {o0}, {i0};", "b32 -> b32", [(1, 2**31), (0x80000003, 0xC0000001)]),
    Snippet("popc.b64 {o0}, {i0};", "b64 -> u32", [(-1, 64), (5, 2)]),
    Snippet("clz.b32 {o0}, {i0};", "b32 -> u32", [(0, 32), (1, 31)]),
    Snippet("clz.b64 {o0}, {i0};", "b64 -> u32", [(0, 64), (1, 63)]),
    Snippet("bfind.u32 {o0}, {i0};", "u32 -> u32", [(0, -1), (1, 0), (2**31, 31)]),
    Snippet("bfind.s32 {o0}, {i0};", "s32 -> u32", [(-1, -1), (-2, 0), (4, 2)]),
    Snippet("bfind.shiftamt.u64 {o0}, {i0};", "u64 -> u32", [(1, 63), (0, -1)]),
    Snippet(
        "lop3.b32 {o0}, {i0}, {i1}, {i2}, 0xE8;",
        "b32 b32 b32 -> b32",
        [(0b1100, 0b1010, 0b1001, 0b1000)],
    ),
    Snippet("lop3.b32 {o0}, {i0}, {i1}, {i2}, 0x40;", "b32 b32 b32 -> b32", [(15, 10, 8, 2)]),
    Snippet("not.b16 {o0}, {i0};", "b16 -> b16", [(0xF0F0, 0x0F0F)]),
    Snippet("cnot.b32 {o0}, {i0};", "b32 -> b32", [(0, 1), (7, 0)]),
    Snippet("xor.pred {o0}, {i0}, {i1};", "pred pred -> pred", [(1, 1, 0), (0, 1, 1)]),
    Snippet("szext.wrap.s32 {o0}, {i0}, {i1};", "s32 u32 -> s32", [(0xFF, 8, -1), (0x7F, 8, 127)]),
    Snippet("szext.clamp.u32 {o0}, {i0}, {i1};", "u32 u32 -> u32", [(0xFFF, 8, 0xFF), (7, 99, 7)]),
    Snippet(
        "bmsk.clamp.b32 {o0}, {i0}, {i1};", "u32 u32 -> b32", [(4, 8, 0xFF0), (30, 8, 0xC0000000)]
    ),
]

FLOATS = [
    Snippet(
        "add.rn.f32 {o0}, {i0}, {i1};", "f32 f32 -> f32", [(1.0, HALF_STEP, 1.0), (NAN, 1.0, NAN32)]
    ),
    Snippet("add.rp.f32 {o0}, {i0}, {i1};", "f32 f32 -> f32", [(1.0, 2.0**-60, AFTER_ONE)]),
    Snippet(
        "add.rz.f32 {o0}, {i0}, {i1};", "f32 f32 -> f32", [(AFTER_ONE, 1.5 * HALF_STEP, AFTER_ONE)]
    ),
    Snippet("add.rm.f64 {o0}, {i0}, {i1};", "f64 f64 -> f64", [(1.0, -(2.0**-80), 1 - 2.0**-53)]),
    Snippet(
        "add.ftz.f32 {o0}, {i0}, {i1};",
        "f32 f32 -> f32",
        [
            (2.0**-130, 2.0**-130, 0.0),
            (-(2.0**-130), 0x80000000, 0x80000000),
            (2.0**-126, 0.0, 2.0**-126),
        ],
    ),
    Snippet("add.f32 {o0}, {i0}, {i1};", "f32 f32 -> f32", [(2.0**-130, 2.0**-130, 2.0**-129)]),
    Snippet(
        "add.sat.f32 {o0}, {i0}, {i1};",
        "f32 f32 -> f32",
        [(2.0, 1.0, 1.0), (-2.0, 1.0, 0.0), (NAN, 1.0, 0.0), (0.25, 0.5, 0.75)],
    ),
    Snippet("sub.rn.f64 {o0}, {i0}, {i1};", "f64 f64 -> f64", [(1.0, 3.0, -2.0)]),
    Snippet(
        "mul.ftz.f32 {o0}, {i0}, {i1};",
        "f32 f32 -> f32",
        [(2.0**-70, 2.0**-70, 0.0), (-(2.0**-70), 2.0**-70, 0x80000000)],
    ),
    Snippet("mul.rz.f32 {o0}, {i0}, {i1};", "f32 f32 -> f32", [(AFTER_ONE, AFTER_ONE, 0x3F800002)]),
    Snippet("mul.rp.f32 {o0}, {i0}, {i1};", "f32 f32 -> f32", [(AFTER_ONE, AFTER_ONE, 0x3F800003)]),
    Snippet(
        "fma.rn.f32 {o0}, {i0}, {i1}, {i2};",
        "f32 f32 f32 -> f32",
        [(AFTER_ONE, AFTER_ONE, -1.0, 2.0**-22 + 2.0**-46)],
    ),
    Snippet(
        "fma.rn.f64 {o0}, {i0}, {i1}, {i2};",
        "f64 f64 f64 -> f64",
        [(1 + 2.0**-52, 1 - 2.0**-52, -1.0, -(2.0**-104))],
    ),
    Snippet(
        "fma.rz.f32 {o0}, {i0}, {i1}, {i2};",
        "f32 f32 f32 -> f32",
        [(1.0, 1.0, -(2.0**-60), 1 - 2.0**-24)],
    ),
    Snippet("fma.rn.sat.f32 {o0}, {i0}, {i1}, {i2};", "f32 f32 f32 -> f32", [(2.0, 2.0, 2.0, 1.0)]),
    Snippet("mad.rn.f32 {o0}, {i0}, {i1}, {i2};", "f32 f32 f32 -> f32", [(2.0, 3.0, 4.0, 10.0)]),
    Snippet(
        "div.rn.f32 {o0}, {i0}, {i1};",
        "f32 f32 -> f32",
        [(1.0, 3.0, 0x3EAAAAAB), (1.0, 0.0, INF), (0.0, 0.0, NAN32)],
    ),
    Snippet("div.rz.f32 {o0}, {i0}, {i1};", "f32 f32 -> f32", [(1.0, 3.0, 0x3EAAAAAA)]),
    Snippet("div.full.f32 {o0}, {i0}, {i1};", "f32 f32 -> f32", [(6.0, 3.0, 2.0)]),
    Snippet(
        "div.approx.ftz.f32 {o0}, {i0}, {i1};",
        "f32 f32 -> f32",
        [(6.0, 3.0, 2.0), (1.0, 2.0**-130, INF), (-(2.0**126), 1.5 * 2.0**126, -0.0)],
    ),
    Snippet("rcp.rn.f64 {o0}, {i0};", "f64 -> f64", [(4.0, 0.25)]),
    Snippet("rcp.rp.f32 {o0}, {i0};", "f32 -> f32", [(3.0, 0x3EAAAAAB)]),
    Snippet("rcp.rm.f32 {o0}, {i0};", "f32 -> f32", [(3.0, 0x3EAAAAAA)]),
    # The 32 lower bits of the result are zero.
    Snippet("rcp.approx.ftz.f64 {o0}, {i0};", "f64 -> f64", [(3.0, 0x3FD5555500000000)]),
    Snippet("rsqrt.approx.ftz.f64 {o0}, {i0};", "f64 -> f64", [(3.0, 0x3FE279A700000000)]),
    Snippet("rsqrt.approx.f64 {o0}, {i0};", "f64 -> f64", [(0.5, math.sqrt(2))]),
    Snippet("sqrt.rn.f64 {o0}, {i0};", "f64 -> f64", [(2.25, 1.5), (-1.0, None)]),
    Snippet("sqrt.rz.f32 {o0}, {i0};", "f32 -> f32", [(2.0, 0x3FB504F3)]),
    Snippet("sqrt.rp.f32 {o0}, {i0};", "f32 -> f32", [(2.0, 0x3FB504F4)]),
    Snippet("rsqrt.approx.f32 {o0}, {i0};", "f32 -> f32", [(4.0, 0.5), (0.0, INF)]),
    Snippet("sin.approx.f32 {o0}, {i0};", "f32 -> f32", [(0.0, 0.0), (INF, NAN32)]),
    Snippet("cos.approx.f32 {o0}, {i0};", "f32 -> f32", [(0.0, 1.0)]),
    Snippet("lg2.approx.f32 {o0}, {i0};", "f32 -> f32", [(8.0, 3.0), (0.0, -INF), (-1.0, NAN32)]),
    Snippet("lg2.approx.ftz.f32 {o0}, {i0};", "f32 -> f32", [(2.0**-130, -INF)]),
    Snippet(
        "ex2.approx.f32 {o0}, {i0};", "f32 -> f32", [(3.0, 8.0), (-INF, 0.0), (-130.0, 2.0**-130)]
    ),
    Snippet("ex2.approx.ftz.f32 {o0}, {i0};", "f32 -> f32", [(-130.0, 0.0)]),
    Snippet("tanh.approx.f32 {o0}, {i0};", "f32 -> f32", [(0.0, 0.0), (INF, 1.0)]),
    Snippet("abs.f32 {o0}, {i0};", "f32 -> f32", [(-1.5, 1.5), (0x80000000, 0.0)]),
    Snippet("abs.ftz.f32 {o0}, {i0};", "f32 -> f32", [(-(2.0**-130), 0.0)]),
    Snippet("neg.f64 {o0}, {i0};", "f64 -> f64", [(0.0, 1 << 63), (-2.0, 2.0)]),
    Snippet(
        "min.f32 {o0}, {i0}, {i1};",
        "f32 f32 -> f32",
        [
            (1.0, 2.0, 1.0),
            (NAN, 2.0, 2.0),
            (2.0, NAN, 2.0),
            (NAN, NAN, NAN32),
            (0.0, 0x80000000, 0x80000000),
        ],
    ),
    Snippet(
        "max.f64 {o0}, {i0}, {i1};",
        "f64 f64 -> f64",
        [(-1.0, -2.0, -1.0), (NAN, 2.0, 2.0), (1 << 63, 0.0, 0.0), (-INF, -1.0, -1.0)],
    ),
    Snippet(
        "max.NaN.f32 {o0}, {i0}, {i1};", "f32 f32 -> f32", [(1.0, NAN, NAN32), (1.0, 2.0, 2.0)]
    ),
    Snippet(
        "min.xorsign.abs.f32 {o0}, {i0}, {i1};",
        "f32 f32 -> f32",
        [(-3.0, 2.0, -2.0), (-3.0, -4.0, 3.0)],
    ),
    Snippet(
        "copysign.f32 {o0}, {i0}, {i1};", "f32 f32 -> f32", [(-1.0, 5.0, -5.0), (1.0, -5.0, 5.0)]
    ),
    Snippet("testp.finite.f32 {o0}, {i0};", "f32 -> pred", [(1.0, 1), (INF, 0), (NAN, 0)]),
    Snippet(
        "testp.subnormal.f64 {o0}, {i0};", "f64 -> pred", [(2.0**-1030, 1), (0.0, 0), (1.0, 0)]
    ),
    Snippet(
        "testp.normal.f32 {o0}, {i0};", "f32 -> pred", [(2.0**-126, 1), (2.0**-127, 0), (INF, 0)]
    ),
    Snippet("testp.notanumber.f32 {o0}, {i0};", "f32 -> pred", [(NAN, 1), (INF, 0)]),
]

HALVES = [
    Snippet(
        "add.rn.f16 {o0}, {i0}, {i1};",
        "f16 f16 -> f16",
        [(1.0, 2.0**-11, 1.0), (1.0, 1.5 * 2.0**-11, 1 + 2.0**-10), (65504.0, 16.0, INF)],
    ),
    Snippet(
        "mul.f16 {o0}, {i0}, {i1};",
        "f16 f16 -> f16",
        [(3.0, 0.5, 1.5), (NAN, 1.0, NAN16), (2.0**-14, 2.0**-10, 2.0**-24)],
    ),
    # To round the product first, or to double's precision first, would give another last bit.
    Snippet(
        "fma.rn.f16 {o0}, {i0}, {i1}, {i2};",
        "f16 f16 f16 -> f16",
        [
            (1 + 2.0**-10, 1 + 2.0**-10, -1.0, 2.0**-9 + 2.0**-20),
            (1 + 2.0**-10, 2.0**-11, 1.0, 1 + 2.0**-10),
        ],
    ),
    Snippet(
        "fma.rn.f16x2 {o0}, {i0}, {i1}, {i2};",
        "b32 b32 b32 -> b32",
        [(0x40003C00, 0x40004000, 0x3C003C00, 0x45004200)],
    ),
    Snippet(
        "add.f16x2 {o0}, {i0}, {i1};", "b32 b32 -> b32", [(0x3C004000, 0x3C003C00, 0x40004200)]
    ),
    Snippet("neg.f16 {o0}, {i0};", "f16 -> f16", [(1.0, -1.0)]),
    Snippet("min.f16 {o0}, {i0}, {i1};", "f16 f16 -> f16", [(1.0, NAN, 1.0), (-1.0, 1.0, -1.0)]),
    Snippet(
        "fma.rn.bf16 {o0}, {i0}, {i1}, {i2};",
        "b16 b16 b16 -> b16",
        [(0x4000, 0x4040, 0x3F80, 0x40E0)],
    ),
    Snippet("setp.lt.f16 {o0}, {i0}, {i1};", "f16 f16 -> pred", [(1.0, 2.0, 1), (NAN, 2.0, 0)]),
    Snippet(
        "setp.gt.f16x2 {o0}|{o1}, {i0}, {i1};",
        "b32 b32 -> pred pred",
        [(0x40003C00, 0x3C004000, 0, 1)],
    ),
    Snippet("ex2.approx.f16 {o0}, {i0};", "f16 -> f16", [(3.0, 8.0)]),
]

# Of GPUs from sm_100 on.
MIXED = [
    Snippet(
        "add.f32.f16 {o0}, {i0}, {i1};",
        "f16 f32 -> f32",
        [(1.0, 2.0**-20, 1 + 2.0**-20), (-2.0, 1e30, 1e30), (INF, 1.0, INF)],
    ),
    Snippet(
        "sub.rn.f32.f16 {o0}, {i0}, {i1};",
        "f16 f32 -> f32",
        [(1.0, 2.0**-24, 1 - 2.0**-24), (INF, INF, NAN32), (2.0**-24, 0.0, 2.0**-24)],
    ),
    Snippet("sub.rz.f32.f16 {o0}, {i0}, {i1};", "f16 f32 -> f32", [(1.0, 2.0**-30, 1 - 2.0**-24)]),
    Snippet("add.sat.f32.bf16 {o0}, {i0}, {i1};", "b16 f32 -> f32", [(0x3FC0, 3.0, 1.0)]),
    Snippet(
        "fma.rn.f32.f16 {o0}, {i0}, {i1}, {i2};",
        "f16 f16 f32 -> f32",
        [(1.5, -2.0, 2.0**-20, -3 + 2.0**-20), (65504.0, 65504.0, 0.0, 65504.0**2)],
    ),
    Snippet(
        "fma.rn.f32.bf16 {o0}, {i0}, {i1}, {i2};",
        "b16 b16 f32 -> f32",
        [(0x3FC0, 0xC000, 0.25, -2.75)],
    ),
]

COMPARISONS = [
    Snippet("setp.lt.s32 {o0}, {i0}, {i1};", "s32 s32 -> pred", [(-1, 1, 1)]),
    Snippet("setp.lt.u32 {o0}, {i0}, {i1};", "u32 u32 -> pred", [(-1, 1, 0)]),
    Snippet("setp.hi.u64 {o0}, {i0}, {i1};", "u64 u64 -> pred", [(-1, 1, 1)]),
    Snippet("setp.ls.u32 {o0}, {i0}, {i1};", "u32 u32 -> pred", [(1, 1, 1), (2, 1, 0)]),
    Snippet("setp.ne.b16 {o0}, {i0}, {i1};", "b16 b16 -> pred", [(1, 1, 0), (2, 1, 1)]),
    Snippet("setp.ne.f32 {o0}, {i0}, {i1};", "f32 f32 -> pred", [(1.0, 2.0, 1), (NAN, 1.0, 0)]),
    Snippet("setp.neu.f32 {o0}, {i0}, {i1};", "f32 f32 -> pred", [(1.0, 1.0, 0), (NAN, 1.0, 1)]),
    Snippet("setp.ltu.f64 {o0}, {i0}, {i1};", "f64 f64 -> pred", [(1.0, 1.0, 0), (NAN, 1.0, 1)]),
    Snippet("setp.num.f32 {o0}, {i0}, {i1};", "f32 f32 -> pred", [(1.0, 1.0, 1), (NAN, 1.0, 0)]),
    Snippet("setp.nan.f32 {o0}, {i0}, {i1};", "f32 f32 -> pred", [(1.0, 1.0, 0), (NAN, 1.0, 1)]),
    Snippet("setp.eq.ftz.f32 {o0}, {i0}, {i1};", "f32 f32 -> pred", [(2.0**-130, 0.0, 1)]),
    Snippet(
        "setp.lt.and.s32 {o0}|{o1}, {i0}, {i1}, {i2};",
        "s32 s32 pred -> pred pred",
        [(1, 2, 1, 1, 0), (1, 2, 0, 0, 0), (2, 1, 1, 0, 1)],
    ),
    Snippet(
        "setp.lt.or.s32 {o0}, {i0}, {i1}, !{i2};",
        "s32 s32 pred -> pred",
        [(2, 1, 0, 1), (2, 1, 1, 0)],
    ),
    Snippet("set.lt.u32.s32 {o0}, {i0}, {i1};", "s32 s32 -> u32", [(1, 2, -1), (2, 1, 0)]),
    Snippet("set.lt.f32.s32 {o0}, {i0}, {i1};", "s32 s32 -> f32", [(1, 2, 1.0), (2, 1, 0.0)]),
    Snippet(
        "selp.b32 {o0}, {i0}, {i1}, {i2};", "b32 b32 pred -> b32", [(1, 2, 1, 1), (1, 2, 0, 2)]
    ),
    Snippet(
        "slct.s32.f32 {o0}, {i0}, {i1}, {i2};",
        "s32 s32 f32 -> s32",
        [(1, 2, 0x80000000, 1), (1, 2, -1.0, 2), (1, 2, NAN, 2)],
    ),
    Snippet(
        "slct.b64.s32 {o0}, {i0}, {i1}, {i2};", "b64 b64 s32 -> b64", [(1, 2, 0, 1), (1, 2, -1, 2)]
    ),
]

CONVERSIONS = [
    Snippet(
        "cvt.rzi.s32.f32 {o0}, {i0};",
        "f32 -> s32",
        [(-1.9, -1), (3e9, 2**31 - 1), (-3e9, LEAST32), (NAN, 0)],
    ),
    Snippet("cvt.rni.s32.f32 {o0}, {i0};", "f32 -> s32", [(2.5, 2), (3.5, 4), (-2.5, -2)]),
    Snippet("cvt.rmi.s32.f64 {o0}, {i0};", "f64 -> s32", [(-1.5, -2), (NAN, LEAST32)]),
    Snippet(
        "cvt.rpi.u32.f32 {o0}, {i0};",
        "f32 -> u32",
        [(1.25, 2), (-5.0, 0), (5e9, 2**32 - 1), (NAN, 0)],
    ),
    Snippet(
        "cvt.rzi.s64.f32 {o0}, {i0};", "f32 -> s64", [(NAN, LEAST64), (1e19, 2**63 - 1), (-7.9, -7)]
    ),
    Snippet(
        "cvt.rzi.u64.f64 {o0}, {i0};", "f64 -> u64", [(1e19, 10**19), (NAN, 1 << 63), (-1.0, 0)]
    ),
    Snippet("cvt.rzi.s8.f32 {o0}, {i0};", "f32 -> s16", [(300.0, 127), (-300.0, -128)]),
    Snippet("cvt.rzi.u16.f16 {o0}, {i0};", "f16 -> u16", [(3.75, 3), (INF, 0xFFFF)]),
    Snippet("cvt.rzi.ftz.s32.f32 {o0}, {i0};", "f32 -> s32", [(2.0**-130, 0)]),
    Snippet("cvt.rpi.ftz.s32.f32 {o0}, {i0};", "f32 -> s32", [(2.0**-130, 0)]),
    Snippet("cvt.rn.f32.s32 {o0}, {i0};", "s32 -> f32", [(16777217, 16777216.0), (-3, -3.0)]),
    Snippet("cvt.rp.f32.s32 {o0}, {i0};", "s32 -> f32", [(16777217, 16777218.0)]),
    Snippet("cvt.rz.f32.u64 {o0}, {i0};", "u64 -> f32", [(2**64 - 1, 0x5F7FFFFF)]),
    Snippet("cvt.rn.f64.u64 {o0}, {i0};", "u64 -> f64", [(2**64 - 1, 2.0**64)]),
    Snippet("cvt.rm.f64.s64 {o0}, {i0};", "s64 -> f64", [(2**53 + 1, 2.0**53)]),
    Snippet("cvt.rn.f16.s32 {o0}, {i0};", "s32 -> f16", [(2049, 2048.0), (70000, INF)]),
    Snippet("cvt.f64.f32 {o0}, {i0};", "f32 -> f64", [(0.1, 0x3FB99999A0000000), (INF, INF)]),
    Snippet(
        "cvt.rn.f32.f64 {o0}, {i0};",
        "f64 -> f32",
        [(1 + 2.0**-24, 1.0), (1e300, INF), (NAN, NAN32)],
    ),
    Snippet("cvt.rz.f32.f64 {o0}, {i0};", "f64 -> f32", [(1e300, 0x7F7FFFFF)]),
    Snippet("cvt.rp.f32.f64 {o0}, {i0};", "f64 -> f32", [(1 + 2.0**-40, AFTER_ONE)]),
    Snippet("cvt.rn.ftz.f32.f64 {o0}, {i0};", "f64 -> f32", [(-(2.0**-130), 0x80000000)]),
    Snippet(
        "cvt.rn.f16.f32 {o0}, {i0};",
        "f32 -> f16",
        [
            (65519.0, 65504.0),
            (65520.0, INF),
            (2.0**-25, 0.0),
            (1.5 * 2.0**-25, 2.0**-24),
            (NAN, NAN16),
        ],
    ),
    Snippet(
        "cvt.rz.f16.f32 {o0}, {i0};", "f32 -> f16", [(65520.0, 65504.0), (-(2.0**-25), 0x8000)]
    ),
    # By way of float32 this would be rounded twice.
    Snippet("cvt.rn.f16.f64 {o0}, {i0};", "f64 -> f16", [(1 + 2.0**-11 + 2.0**-40, 1 + 2.0**-10)]),
    Snippet("cvt.f32.f16 {o0}, {i0};", "f16 -> f32", [(2.0**-24, 2.0**-24), (1.5, 1.5)]),
    Snippet(
        "cvt.rn.bf16.f32 {o0}, {i0};",
        "f32 -> b16",
        [(1.0, 0x3F80), (0x3F808000, 0x3F80), (0x3F818000, 0x3F82)],
    ),
    Snippet("cvt.rn.f16x2.f32 {o0}, {i0}, {i1};", "f32 f32 -> b32", [(1.0, 2.0, 0x3C004000)]),
    Snippet("cvt.rzi.f32.f32 {o0}, {i0};", "f32 -> f32", [(-1.75, -1.0), (-0.5, 0x80000000)]),
    Snippet("cvt.rni.f64.f64 {o0}, {i0};", "f64 -> f64", [(2.5, 2.0), (-3.5, -4.0)]),
    Snippet("cvt.sat.f32.f32 {o0}, {i0};", "f32 -> f32", [(2.0, 1.0), (-2.0, 0.0), (NAN, 0.0)]),
    Snippet("cvt.ftz.f32.f32 {o0}, {i0};", "f32 -> f32", [(-(2.0**-130), 0x80000000)]),
    Snippet("cvt.s64.s32 {o0}, {i0};", "s32 -> s64", [(-1, -1)]),
    Snippet("cvt.u64.u32 {o0}, {i0};", "u32 -> u64", [(-1, 2**32 - 1)]),
    Snippet("cvt.u32.s16 {o0}, {i0};", "s16 -> u32", [(-1, 2**32 - 1)]),
    Snippet("cvt.s32.s8 {o0}, {i0};", "b32 -> s32", [(0x1FF, -1), (0x17F, 127)]),
    Snippet("cvt.u8.u32 {o0}, {i0};", "u32 -> b32", [(0x1FF, 0xFF)]),
    Snippet("cvt.sat.s8.s32 {o0}, {i0};", "s32 -> s32", [(300, 127), (-300, -128)]),
    Snippet("cvt.sat.u16.s32 {o0}, {i0};", "s32 -> u16", [(-5, 0), (70000, 0xFFFF)]),
]

MOVES = [
    Snippet("mov.b64 {o0}, {{i0}, {i1}};", "b32 b32 -> b64", [(1, 2, 2 << 32 | 1)]),
    Snippet("mov.b64 {{o0}, {o1}}, {i0};", "b64 -> b32 b32", [(2 << 32 | 1, 1, 2)]),
    Snippet("mov.b32 {o0}, {{i0}, {i1}};", "b16 b16 -> b32", [(1, 2, 2 << 16 | 1)]),
    Snippet(
        "mov.b64 {{o0}, {o1}, {o2}, {o3}}, {i0};",
        "b64 -> b16 b16 b16 b16",
        [(4 << 48 | 3 << 32 | 2 << 16 | 1, 1, 2, 3, 4)],
    ),
    Snippet("mov.b64 {_, {o0}}, {i0};", "b64 -> b32", [(2 << 32 | 1, 2)]),
    Snippet("mov.f32 {o0}, 0f3F800000;", "-> f32", [(1.0,)]),
    Snippet("mov.f64 {o0}, 0dBFF0000000000000;", "-> f64", [(-1.0,)]),
    Snippet("mov.u32 {o0}, -1;", "-> u32", [(2**32 - 1,)]),
    Snippet("mov.u32 {o0}, 0x1F;", "-> u32", [(31,)]),
    Snippet("@{i0} mov.u32 {o0}, 1; @!{i0} mov.u32 {o0}, 2;", "pred -> u32", [(1, 1), (0, 2)]),
    Snippet(
        "{ .reg .b32 t; add.u32 t, {i0}, 1; { .reg .b32 t; mov.u32 t, 9; } mov.u32 {o0}, t; }",
        "u32 -> u32",
        [(1, 2)],
    ),
]

GROUPS = {
    "integers": INTEGERS,
    "bits": BITS,
    "floats": FLOATS,
    "halves": HALVES,
    "mixed": MIXED,
    "comparisons": COMPARISONS,
    "conversions": CONVERSIONS,
    "moves": MOVES,
}

# Target and version of PTX, where they are not the usual ones.
NEWER = {"mixed": ("sm_100", "8.6")}


def module(group):
    return snippets.module(GROUPS[group], *NEWER.get(group, ()))


@pytest.mark.parametrize("group", GROUPS)
def test_instructions_give_what_the_document_says(group):
    found = Loaded(module(group))
    wrong = []
    for number, snippet in enumerate(GROUPS[group]):
        results = snippets.outputs(found, f"s{number}", snippet)
        for row, result, wanted in zip(
            snippet.rows, results, snippets.expected(snippet), strict=True
        ):
            if any(b is not None and a != b for a, b in zip(result, wanted, strict=True)):
                wrong.append((snippet.text, row, [hex(each) for each in result]))
    found.close()
    assert not wrong


@pytest.mark.parametrize(
    ("name", "function", "absolute", "relative"),
    [
        ("sin", math.sin, 2**-20.5, 0),
        ("cos", math.cos, 2**-20.5, 0),
        ("lg2", math.log2, 2**-22, 2**-22),
        ("ex2", lambda x: 2.0**x, 0, 2**-22.5),
        ("rcp", lambda x: 1 / x, 0, 2**-22.5),
        ("sqrt", math.sqrt, 0, 2**-22.5),
        ("rsqrt", lambda x: 1 / math.sqrt(x), 0, 2**-22.4),
        ("tanh", math.tanh, 0, 2**-11),
    ],
)
def test_approximations_are_as_wrong_as_the_document_allows(name, function, absolute, relative):
    inputs = [struct.unpack("f", struct.pack("f", 0.05 + 0.037 * n))[0] for n in range(80)]
    snippet = Snippet(f"{name}.approx.f32 {{o0}}, {{i0}};", "f32 -> f32", [(x, 0) for x in inputs])
    found = Loaded(snippets.module([snippet]))
    results = [
        struct.unpack("f", struct.pack("I", row[0]))[0]
        for row in snippets.outputs(found, "s0", snippet)
    ]
    found.close()
    exact = [function(x) for x in inputs]
    off = [abs(a - b) for a, b in zip(results, exact, strict=True)]
    limits = [max(absolute, relative * abs(b)) for b in exact]
    assert all(a <= b for a, b in zip(off, limits, strict=True))
    assert sum(a > b / 5 for a, b in zip(off, limits, strict=True)) > 10


@pytest.mark.skipif(ptxas.program() is None, reason="needs NVIDIA's assembler")
@pytest.mark.parametrize("group", GROUPS)
def test_the_instructions_are_ones_that_nvidias_assembler_knows(group):
    assert ptxas.assemble(module(group))
