"""Which of OpenCL's functions stand for those that lowered code calls.

Names and accuracies are those of "The OpenCL Extended Instruction Set Specification".
"""

from haulage.targets.opencl_ir import mangled

_KINDS = (("f", "float", "f32"), ("", "double", "f64"))

# Operations that give the one right result: LLVM's own.
_EXACT = {
    **{name: name for name in ("floor", "ceil", "trunc", "fabs", "fma", "rint", "copysign")},
    **{"sqrt": "sqrt", "nearbyint": "rint", "fmax": "maxnum", "fmin": "minnum", "round": "round"},
}

# The C library's functions of one, and of two, numbers that OpenCL has by the same name.
_OF_ONE = (
    *("acos", "acosh", "asin", "asinh", "atan", "atanh", "cbrt", "cos", "cosh", "erf", "erfc"),
    *("exp", "exp10", "exp2", "expm1", "lgamma", "log", "log10", "log1p", "log2", "logb", "rsqrt"),
    *("sin", "sinh", "tan", "tanh", "tgamma"),
)
_OF_TWO = ("atan2", "fdim", "fmod", "hypot", "nextafter", "pow", "remainder")

# Functions of this package, in terms of OpenCL's; see `compiler/gpu/opencl/mathematics.py`.
FREXP = "haulage_frexp"

NAMES: dict[str, str] = {
    **{f"{n}{s}": mangled(n, kind) for n in _OF_ONE for s, kind, _ in _KINDS},
    **{f"{n}{s}": mangled(n, kind, kind) for n in _OF_TWO for s, kind, _ in _KINDS},
    **{f"{n}{s}": f"llvm.{llvm}.{k}" for n, llvm in _EXACT.items() for s, _, k in _KINDS},
    **{f"numba_gamma{s}": mangled("tgamma", kind) for s, kind, _ in _KINDS},
    **{f"numba_nextafter{s}": mangled("nextafter", kind, kind) for s, kind, _ in _KINDS},
    **{
        f"{before}ldexp{s}": mangled("ldexp", kind, "i32")
        for before in ("numba_", "")
        for s, kind, _ in _KINDS
    },
    **{f"{before}frexp{s}": f"{FREXP}_{k}" for before in ("numba_", "") for s, _, k in _KINDS},
}

# What LLVM's optimiser may leave, by the names of its operations.
INTRINSICS: dict[str, str] = {
    **{f"llvm.{n}.{k}": NAMES[f"{n}{s}"] for n in (*_OF_ONE, "pow", "atan2") for s, _, k in _KINDS},
    **{f"llvm.powi.{k}.i32": mangled("pown", kind, "i32") for _, kind, k in _KINDS},
    **{f"llvm.ldexp.{k}.i32": mangled("ldexp", kind, "i32") for _, kind, k in _KINDS},
    **{f"llvm.maximumnum.{k}": f"llvm.maxnum.{k}" for _, _, k in _KINDS},
    **{f"llvm.minimumnum.{k}": f"llvm.minnum.{k}" for _, _, k in _KINDS},
}

# Of single precision, where a call may be approximated: as fast as the device can.
_APPROXIMATED = ("cos", "exp", "exp10", "exp2", "log", "log10", "log2", "sin", "tan", "rsqrt")
FAST: dict[str, str] = {
    called: mangled(f"native_{name}", "float")
    for name in _APPROXIMATED
    for called in (f"{name}f", f"llvm.{name}.f32")
}

# LLVM's type -> OpenCL's function for the remainder of a division.
REMAINDERS = {kind: mangled("fmod", kind, kind) for _, kind, _ in _KINDS}
