"""The back end's own kernels (`gpu_driver.kernels`), as PTX."""

from haulage.backends.gpu_driver.kernels import AXES, SIZES

_HEAD = """.version 6.0
.target sm_50
.address_size 64
"""

_FIRST = """
  mov.u32 %r1, %ctaid.x;
  mov.u32 %r2, %ntid.x;
  mov.u32 %r3, %tid.x;
  mad.lo.u32 %r4, %r1, %r2, %r3;
  mov.u32 %r5, %nctaid.x;
  mul.lo.u32 %r6, %r5, %r2;
  ld.param.u32 %r7, [{name}_total];
  ld.param.u32 %r8, [{name}_{bound}];
  ld.param.u64 %rd1, [{name}_target];
  cvta.to.global.u64 %rd2, %rd1;
  setp.ge.u32 %p1, %r4, %r7;
  @%p1 bra DONE;
"""

_LAST = """
  add.u32 %r4, %r4, %r6;
  setp.lt.u32 %p3, %r4, %r7;
  @%p3 bra NEXT;
DONE:
  ret;
}}
"""

_COPY = """
.visible .entry {name}(
  .param .u64 {name}_target,
  .param .u64 {name}_source,
  .param .u32 {name}_total,
  .param .u32 {name}_axes,
  .param .align 4 .b8 {name}_sizes[32],
  .param .align 8 .b8 {name}_to[64],
  .param .align 8 .b8 {name}_of[64]
)
{{
  .reg .pred %p<4>;
  .reg .b32 %r<14>;
  .reg .b64 %rd<12>;
  {registers}
{first}
  ld.param.u64 %rd3, [{name}_source];
  cvta.to.global.u64 %rd4, %rd3;
NEXT:
  mov.u32 %r9, %r4;
  mov.u64 %rd5, %rd2;
  mov.u64 %rd6, %rd4;
{axes}
MOVE:
  ld.global.{type} {value}, [%rd6];
  st.global.{type} [%rd5], {value};
{last}"""

_AXIS = """
  setp.le.u32 %p2, %r8, {axis};
  @%p2 bra MOVE;
  ld.param.u32 %r10, [{name}_sizes+{at4}];
  div.u32 %r11, %r9, %r10;
  mul.lo.u32 %r12, %r11, %r10;
  sub.u32 %r13, %r9, %r12;
  cvt.u64.u32 %rd7, %r13;
  ld.param.u64 %rd8, [{name}_to+{at8}];
  mul.lo.s64 %rd9, %rd7, %rd8;
  add.s64 %rd5, %rd5, %rd9;
  ld.param.u64 %rd10, [{name}_of+{at8}];
  mul.lo.s64 %rd11, %rd7, %rd10;
  add.s64 %rd6, %rd6, %rd11;
  mov.u32 %r9, %r11;
"""

_FILL = """
.visible .entry {name}(
  .param .u64 {name}_target,
  .param .u32 {name}_total,
  .param .u32 {name}_units,
  .param .align 16 .b8 {name}_value[16]
)
{{
  .reg .pred %p<4>;
  .reg .b32 %r<14>;
  .reg .b64 %rd<12>;
  {registers}
{first}
  mul.lo.u32 %r9, %r8, {size};
  cvt.u64.u32 %rd3, %r9;
NEXT:
  cvt.u64.u32 %rd4, %r4;
  mul.lo.s64 %rd5, %rd4, %rd3;
  add.s64 %rd6, %rd2, %rd5;
{stores}
AFTER:
{last}"""

_STORE = """
  setp.le.u32 %p2, %r8, {unit};
  @%p2 bra AFTER;
  ld.param.{type} {value}, [{name}_value+{at}];
  st.global.{type} [%rd6+{at}], {value};
"""

# By the bytes of an element: the type in instructions, its registers, what is moved.
_TYPES = {
    1: ("u8", ".reg .b16 %v<1>;", "%v0"),
    2: ("u16", ".reg .b16 %v<1>;", "%v0"),
    4: ("u32", ".reg .b32 %v<1>;", "%v0"),
    8: ("u64", ".reg .b64 %v<1>;", "%v0"),
    16: ("v2.u64", ".reg .b64 %v<2>;", "{%v0, %v1}"),
}


def text() -> str:
    """The module."""
    return _HEAD + "".join(_copy(size) + _fill(size) for size in SIZES)


def _copy(size: int) -> str:
    name = f"haulage_copy_{size}"
    kind, registers, value = _TYPES[size]
    axes = "".join(
        _AXIS.format(name=name, axis=axis, at4=4 * axis, at8=8 * axis) for axis in range(AXES)
    )
    first, last = _FIRST.format(name=name, bound="axes"), _LAST.format()
    return _COPY.format(
        name=name, registers=registers, first=first, axes=axes, type=kind, value=value, last=last
    )


def _fill(size: int) -> str:
    name = f"haulage_fill_{size}"
    kind, registers, value = _TYPES[size]
    stores = "".join(
        _STORE.format(name=name, unit=unit, type=kind, value=value, at=size * unit)
        for unit in range(16 // size)
    )
    first, last = _FIRST.format(name=name, bound="units"), _LAST.format()
    return _FILL.format(
        name=name, registers=registers, first=first, size=size, stores=stores, last=last
    )
