"""Which functions of AMD's device library (OCML) stand for those that lowered code calls.

Names and signatures are those of `ocml.h` of ROCm's device libraries.
"""

# Operations that the hardware has, or that LLVM makes of its instructions, exactly.
_EXACT = {
    **{name: name for name in ("sqrt", "floor", "ceil", "trunc", "fabs", "fma", "rint")},
    **{name: name for name in ("copysign", "round", "nearbyint")},
    **{"fmax": "maxnum", "fmin": "minnum"},
}

# The C library's functions that OCML has by the same name, for doubles and (with f) floats.
_LIBRARY = (
    *("acos", "acosh", "asin", "asinh", "atan", "atan2", "atanh", "cbrt", "cos", "cosh", "erf"),
    *("erfc", "exp", "exp10", "exp2", "expm1", "fdim", "fmod", "hypot", "lgamma", "log", "log10"),
    *("log1p", "log2", "logb", "nextafter", "pow", "remainder", "rsqrt", "sin", "sinh", "tan"),
    *("tanh", "tgamma", "j0", "j1", "y0", "y1"),
)

# Operations of LLVM's that its code generator would call a library for, or abort the process.
_INTRINSICS = (
    *("acos", "asin", "atan", "atan2", "cos", "cosh", "exp", "exp10", "exp2", "log", "log10"),
    *("log2", "pow", "sin", "sinh", "tan", "tanh"),
)

_KINDS = (("f", "f32"), ("", "f64"))

# Functions of this package, in terms of LLVM's; see `compiler/gpu/amd/mathematics.py`.
FREXP = "haulage_frexp"

NAMES: dict[str, str] = {
    **{f"{n}{suffix}": f"__ocml_{n}_{kind}" for n in _LIBRARY for suffix, kind in _KINDS},
    **{
        f"{n}{suffix}": f"llvm.{llvm}.{kind}"
        for n, llvm in _EXACT.items()
        for suffix, kind in _KINDS
    },
    **{f"numba_gamma{suffix}": f"__ocml_tgamma_{kind}" for suffix, kind in _KINDS},
    **{f"numba_nextafter{suffix}": f"__ocml_nextafter_{kind}" for suffix, kind in _KINDS},
    **{
        f"{before}ldexp{suffix}": f"llvm.ldexp.{kind}.i32"
        for before in ("numba_", "")
        for suffix, kind in _KINDS
    },
    **{
        f"{before}frexp{suffix}": f"{FREXP}_{kind}"
        for before in ("numba_", "")
        for suffix, kind in _KINDS
    },
}

# What lowered code, and LLVM's optimiser, may have by the names of its operations.
INTRINSICS: dict[str, str] = {
    **{f"llvm.{n}.{kind}": f"__ocml_{n}_{kind}" for n in _INTRINSICS for _, kind in _KINDS},
    **{f"llvm.powi.{kind}.i32": f"__ocml_pown_{kind}" for _, kind in _KINDS},
}

# Of single precision, where a call may be approximated: the hardware's, by LLVM's operations.
FAST = ("cos", "exp", "exp10", "exp2", "log", "log10", "log2", "sin")
