"""The back end's own kernels in OpenCL C, which each driver compiles: see `gpu_driver.kernels`."""

from haulage.backends.gpu_driver.kernels import AXES, COPY, FILL, SIZES
from haulage.backends.opencl_driver.spirv import Parameters

_TYPES = {1: "uchar", 2: "ushort", 4: "uint", 8: "ulong", 16: "uint4"}

_COMMON = f"""
typedef struct {{ uint at[{AXES}]; }} sizes_of;
typedef struct {{ long at[{AXES}]; }} steps_of;
typedef struct {{ uchar at[16]; }} value_of;
"""

_COPY = """
kernel void haulage_copy_{size}(ulong target, ulong source, uint total, uint axes, sizes_of sizes,
                                steps_of to, steps_of of)
{{
    for (size_t i = get_global_id(0); i < total; i += get_global_size(0)) {{
        uint left = (uint)i;
        ulong t = target, s = source;
        for (uint axis = 0; axis < axes; axis++) {{
            uint place = left % sizes.at[axis];
            left /= sizes.at[axis];
            t += place * to.at[axis];
            s += place * of.at[axis];
        }}
        *(global {type} *)t = *(global {type} *)s;
    }}
}}
"""

_FILL = """
kernel void haulage_fill_{size}(ulong target, uint total, uint units, value_of value)
{{
    for (size_t i = get_global_id(0); i < total; i += get_global_size(0)) {{
        global {type} *to = (global {type} *)target + i * units;
        for (uint unit = 0; unit < units; unit++)
            for (uint byte = 0; byte < {size}; byte++)
                ((global uchar *)(to + unit))[byte] = value.at[unit * {size} + byte];
    }}
}}
"""

TEXT = _COMMON + "".join(
    text.format(size=size, type=_TYPES[size]) for size in SIZES for text in (_COPY, _FILL)
)

_copy = ((0, 8), (8, 8), (16, 4), (20, 4), (24, 4 * AXES), (24 + 4 * AXES, 8 * AXES))
_COPY_PLACES = Parameters((*_copy, (24 + 12 * AXES, 8 * AXES)), ())
_FILL_PLACES = Parameters(((0, 8), (8, 4), (12, 4), (16, 16)), ())
assert COPY.size == 24 + 20 * AXES
assert FILL.size == 32

KERNELS = {f"haulage_copy_{size}": _COPY_PLACES for size in SIZES} | {
    f"haulage_fill_{size}": _FILL_PLACES for size in SIZES
}
