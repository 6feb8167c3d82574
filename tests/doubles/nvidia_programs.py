"""The conformance suite's kernels in PTX, written by hand."""

import functools

from haulage.channel import CHANNEL, FAULTS_AT, MODULE

_HEAD = f""".version 6.3
.target sm_75
.address_size 64

.visible .global .align 8 .u64 {CHANNEL};
.visible .global .align 4 .u32 {MODULE};
"""

# The place of a thread: %r1 to %r12 are blockIdx, threadIdx, gridDim and blockDim; %r13 is g, %r14
# the threads of a block, %r15 is b, %r16 is i.
_PLACE = "".join(
    f"  mov.u32 %r{3 * k + j + 1}, %{register}.{axis};\n"
    for k, register in enumerate(("ctaid", "tid", "nctaid", "ntid"))
    for j, axis in enumerate("xyz")
) + (
    """  mad.lo.u32 %r13, %r3, %r8, %r2;
  mad.lo.u32 %r13, %r13, %r7, %r1;
  mul.lo.u32 %r14, %r10, %r11;
  mad.lo.u32 %r15, %r6, %r11, %r5;
  mad.lo.u32 %r15, %r15, %r10, %r4;
  mul.lo.u32 %r14, %r14, %r12;
  mad.lo.u32 %r16, %r13, %r14, %r15;
"""
)


def _entry(name: str, kinds: tuple[str, ...], body: str) -> str:
    parameters = ",\n".join(f"  .param .{kind} {name}_{k}" for k, kind in enumerate(kinds))
    return f"""
.visible .entry {name}(
{parameters}
)
{{
  .reg .pred %p<4>;
  .reg .b16 %h<4>;
  .reg .b32 %r<24>;
  .reg .f32 %f<4>;
  .reg .b64 %rd<16>;
  .reg .f64 %fd<4>;
{_PLACE}{body}  ret;
}}
"""


def _pointer(name: str, parameter: int, register: int) -> str:
    return f"""  ld.param.u64 %rd{register}, [{name}_{parameter}];
  cvta.to.global.u64 %rd{register}, %rd{register};
"""


def _where() -> str:
    lines = [_pointer("where", 0, 1), "  mul.wide.u32 %rd2, %r16, 48;\n"]
    lines.append("  add.s64 %rd3, %rd1, %rd2;\n")
    lines += [f"  st.global.u32 [%rd3+{4 * k}], %r{k + 1};\n" for k in range(12)]
    return _entry("where", ("u64",), "".join(lines))


def _types() -> str:
    integers = ("s8", "u8", "s16", "u16", "s32", "u32", "s64", "u64")
    lines = [_pointer("types", 0, 1), _pointer("types", 1, 2)]
    lines.append("  setp.ne.u32 %p1, %r16, 0;\n  @%p1 bra DONE;\n")
    for k, kind in enumerate(integers):
        load = {"8": "%h1", "16": "%h1", "32": "%r17", "64": "%rd3"}[kind[1:]]
        lines.append(f"  ld.param.{kind} {load}, [types_{k + 2}];\n")
        if kind[1:] != "64":
            # A register of 16 bits has the value of 8, filled by its sign or with zeros.
            wide = {"8": "16", "16": "16", "32": "32"}[kind[1:]]
            lines.append(f"  cvt.{kind[0]}64.{kind[0]}{wide} %rd3, {load};\n")
        lines.append(f"  st.global.u64 [%rd1+{8 * k}], %rd3;\n")
    lines.append("  ld.param.f32 %f1, [types_10];\n  cvt.f64.f32 %fd1, %f1;\n")
    lines.append("  st.global.f64 [%rd2], %fd1;\n  ld.param.f64 %fd2, [types_11];\n")
    lines.append("  st.global.f64 [%rd2+8], %fd2;\nDONE:\n")
    return _entry("types", ("u64", "u64", *integers, "f32", "f64"), "".join(lines))


_SCALE = """  ld.param.u64 %rd2, [scale_1];
  ld.param.f32 %f1, [scale_2];
  cvt.u64.u32 %rd3, %r16;
  setp.ge.s64 %p1, %rd3, %rd2;
  @%p1 bra DONE;
  shl.b64 %rd4, %rd3, 2;
  add.s64 %rd5, %rd1, %rd4;
  ld.global.f32 %f2, [%rd5];
  mul.f32 %f3, %f2, %f1;
  st.global.f32 [%rd5], %f3;
DONE:
"""

# Each step needs the one before it, and their end is stored in a case that never comes.
_CHAIN = """  ld.param.u64 %rd2, [chain_1];
  ld.param.u64 %rd3, [chain_2];
  ld.param.u64 %rd4, [chain_3];
  setp.ne.u32 %p1, %r16, 0;
  @%p1 bra DONE;
  mov.u32 %r17, 1;
  mov.u64 %rd5, 0;
STEP:
  mad.lo.u32 %r17, %r17, 1664525, 1013904223;
  add.s64 %rd5, %rd5, 1;
  setp.lt.s64 %p2, %rd5, %rd4;
  @%p2 bra STEP;
  ld.global.u64 %rd7, [%rd1];
  mul.lo.s64 %rd8, %rd7, %rd2;
  add.s64 %rd9, %rd8, %rd3;
  st.global.u64 [%rd1], %rd9;
  setp.ne.u32 %p3, %r17, 0;
  @%p3 bra DONE;
  st.global.u32 [%rd1], %r17;
DONE:
"""

_STOP = f"""  ld.param.u64 %rd2, [stop_1];
  cvt.u64.u32 %rd3, %r13;
  shl.b64 %rd4, %rd3, 3;
  add.s64 %rd5, %rd1, %rd4;
  mov.u64 %rd6, 1;
  st.global.u64 [%rd5], %rd6;
  setp.ne.u32 %p1, %r13, 1;
  @%p1 bra DONE;
  setp.ne.u32 %p2, %r15, 0;
  @%p2 bra DONE;
  ld.global.u64 %rd7, [{CHANNEL}];
  ld.global.u32 %r17, [{MODULE}];
  mul.wide.u32 %rd8, %r17, 4;
  add.s64 %rd9, %rd7, %rd8;
  cvt.u32.u64 %r18, %rd2;
  atom.max.u32 %r19, [%rd9+{FAULTS_AT}], %r18;
  mov.u32 %r20, 1;
  st.volatile.u32 [%rd7], %r20;
DONE:
"""


class NVIDIAPrograms:
    """The suite's kernels, and what they leave in their device's channel."""

    reports_faults = True
    overlaps = True

    @functools.cache  # noqa: B019 (one object for the whole run)
    def code(self) -> bytes:
        """One module."""
        signed = "s64"
        parts = [
            _where(),
            _types(),
            _entry("scale", ("u64", signed, "f32"), _pointer("scale", 0, 1) + _SCALE),
            _entry("chain", ("u64", signed, signed, signed), _pointer("chain", 0, 1) + _CHAIN),
            _entry("stop", ("u64", signed), _pointer("stop", 0, 1) + _STOP),
        ]
        return (_HEAD + "".join(parts)).encode()
