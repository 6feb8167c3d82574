"""Which definition is behind each function of libdevice.

An entry is (definition, numbers given behind the arguments, letters of the types it computes in).
Floats are worked out in doubles unless a name says otherwise, so the result is rounded once more.
"""

from functools import cache
from typing import Any

from haulage.lang.libdevice import convert, reals, rounding, special, whole
from haulage.lang.libdevice.function import Defined
from haulage.lang.libdevice.rounding import DOWN, NEAREST, UP, ZERO

_DIRECTIONS = {"rn": NEAREST, "rz": ZERO, "rd": DOWN, "ru": UP}

# Names of the C library, for doubles; the same with an f behind it is the function for floats.
_NAMES = """acos acosh asin asinh atan atan2 atanh cbrt ceil copysign cos cosh erf erfc exp exp10
exp2 expm1 fabs fdim floor fma fmax fmin fmod hypot j0 j1 lgamma log log10 log1p log2 logb nextafter
pow remainder rint round sin sinh sqrt tan tanh tgamma trunc y0 y1"""
LIBRARY = frozenset(_NAMES.split())

# In the types of the arguments themselves; a text is a name of the C library.
WHOLE: dict[str, Any] = {
    "abs": whole.magnitude,
    "brev": whole.brev,
    "brevll": whole.brev,
    "byte_perm": whole.byte_perm,
    "clz": whole.clz,
    "clzll": whole.clz,
    "ffs": whole.ffs,
    "ffsll": whole.ffs,
    "hadd": whole.hadd,
    "llabs": whole.magnitude,
    "llmax": whole.larger,
    "llmin": whole.smaller,
    "max": whole.larger,
    "min": whole.smaller,
    "mul24": whole.mul24,
    "mul64hi": whole.mul64hi,
    "mulhi": whole.mulhi,
    "nextafterf": "nextafterf",
    "popc": whole.popc,
    "popcll": whole.popc,
    "rhadd": whole.rhadd,
    "sad": whole.sad,
    "uhadd": whole.uhadd,
    "ullmax": whole.ularger,
    "ullmin": whole.usmaller,
    "umax": whole.ularger,
    "umin": whole.usmaller,
    "umul24": whole.umul24,
    "umul64hi": whole.umul64hi,
    "umulhi": whole.umulhi,
    "urhadd": whole.urhadd,
    "usad": whole.usad,
    "double2hiint": convert.upper_bits,
    "double2loint": convert.lower_bits,
    "double_as_longlong": convert.double_bits,
    "float_as_int": convert.float_bits,
    "half2float": convert.half_to_float,
    "hiloint2double": convert.from_halves,
    "int_as_float": convert.float_of,
    "longlong_as_double": convert.double_of,
    "float2half_rn": convert.float_to_half,
    "int2double_rn": convert.int_to_double,
    "uint2double_rn": convert.uint_to_double,
}

# In doubles, also for floats.
REAL: dict[str, Any] = {
    "cospi": reals.cosine_of_half_turns,
    "erfcinv": special.erfcinv,
    "erfcx": special.erfcx,
    "erfinv": special.erfinv,
    "finite": reals.is_finite,
    "frexp": reals.split,
    "ilogb": reals.whole_logarithm,
    "isfinited": reals.is_finite,
    "isinf": reals.is_infinite,
    "isinfd": reals.is_infinite,
    "isnan": reals.is_nan,
    "isnand": reals.is_nan,
    "jn": special.jn,
    "ldexp": reals.scaled,
    "llround": convert.round_to_long,
    "modf": reals.parts,
    "normcdf": special.normcdf,
    "normcdfinv": special.normcdfinv,
    "powi": reals.whole_power,
    "rcbrt": reals.reciprocal_cube_root,
    "remquo": reals.remainder_and_quotient,
    "rsqrt": reals.reciprocal_root,
    "saturate": reals.saturate,
    "scalbn": reals.scaled,
    "signbit": reals.sign_bit,
    "signbitd": reals.sign_bit,
    "sincos": reals.sine_and_cosine,
    "sincospi": reals.sine_and_cosine_of_half_turns,
    "sinpi": reals.sine_of_half_turns,
    "yn": special.yn,
}

# With a direction of rounding behind the name.
ROUNDED: dict[str, Any] = {
    "dadd": rounding.add,
    "ddiv": rounding.divide,
    "dmul": rounding.multiply,
    "drcp": rounding.reciprocal,
    "dsqrt": rounding.square_root,
    "fma": rounding.multiply_add,
    "fadd": rounding.add_floats,
    "fdiv": rounding.divide_floats,
    "fmaf": rounding.multiply_add_floats,
    "fmul": rounding.multiply_floats,
    "frcp": rounding.reciprocal_float,
    "fsqrt": rounding.square_root_float,
    "fsub": rounding.subtract_floats,
    "double2float": rounding.to_float,
    "double2int": convert.double_to_int,
    "double2uint": convert.double_to_uint,
    "double2ll": convert.to_long,
    "double2ull": convert.to_ulong,
    "float2int": convert.float_to_int,
    "float2uint": convert.float_to_uint,
    "float2ll": convert.to_long,
    "float2ull": convert.to_ulong,
    "int2float": convert.int_to_float,
    "uint2float": convert.uint_to_float,
    "ll2double": convert.long_to_double,
    "ull2double": convert.ulong_to_double,
    "ll2float": convert.long_to_float,
    "ull2float": convert.ulong_to_float,
}

# Other names for what is above.
ALIASES = {
    "fast_fdividef": "fdiv_rn",
    "fmaf": "fmaf_rn",
    "frsqrt_rn": "rsqrtf",
    "llrint": "double2ll_rn",
    "llrintf": "float2ll_rn",
    "nearbyint": "rint",
    "nearbyintf": "rintf",
}


@cache
def definition(name: str, parameters: str) -> tuple[Any, tuple[int, ...], str]:
    """The entry of a function whose parameters have these letters."""
    name = ALIASES.get(name, name).removeprefix("fast_")
    if name in WHOLE:
        return WHOLE[name], (), parameters
    if name in LIBRARY:
        return name, (), parameters
    base, _, direction = name.rpartition("_")
    constants: tuple[int, ...] = ()
    if base in ROUNDED:
        function, constants = ROUNDED[base], (_DIRECTIONS[direction],)
    else:
        name = name if name in REAL else name.removesuffix("f")
        if name in LIBRARY:
            return name, (), parameters.replace("f", "d")
        function = REAL[name]
    if isinstance(function, Defined):
        function = function.definition()[0]
    return function, constants, parameters.replace("f", "d")
