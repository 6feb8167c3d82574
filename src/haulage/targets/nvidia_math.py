"""Which of libdevice's functions stand for those that lowered code calls.

The functions' names are those of NVIDIA's libdevice User's Guide.
"""

# Operations that the hardware has, exactly: LLVM's own.
_EXACT = ("sqrt", "floor", "ceil", "trunc", "fabs", "fma", "rint", "copysign")

# The C library's functions that libdevice has by the same name, for doubles and (with f) floats.
_LIBRARY = (
    *("acos", "acosh", "asin", "asinh", "atan", "atan2", "atanh", "cbrt", "cos", "cosh", "erf"),
    *("erfc", "exp", "exp10", "exp2", "expm1", "fdim", "fmod", "frexp", "hypot", "ldexp", "lgamma"),
    *("log", "log10", "log1p", "log2", "logb", "modf", "nearbyint", "nextafter", "pow", "powi"),
    *("remainder", "remquo", "rint", "round", "rsqrt", "scalbn", "sin", "sincos", "sinh", "tan"),
    *("tanh", "tgamma", "j0", "j1", "jn", "y0", "y1", "yn", "fmax", "fmin"),
)

# Numba's own names -> those of the C library.
_NUMBA = {"gamma": "tgamma", "ldexp": "ldexp", "frexp": "frexp", "nextafter": "nextafter"}

# Operations of LLVM's that its code generator for PTX would call a library for.
_INTRINSICS = (
    *("acos", "asin", "atan", "atan2", "cos", "cosh", "exp", "exp10", "exp2", "log", "log10"),
    *("log2", "pow", "powi", "round", "sin", "sinh", "tan", "tanh"),
)


def _intrinsic(name: str, kind: str) -> str:
    return f"llvm.{name}.{kind}.i32" if name == "powi" else f"llvm.{name}.{kind}"


NAMES: dict[str, str] = {
    **{f"{name}{suffix}": f"__nv_{name}{suffix}" for name in _LIBRARY for suffix in ("", "f")},
    **{
        f"{name}{suffix}": f"llvm.{name}.{kind}"
        for name in _EXACT
        for suffix, kind in (("f", "f32"), ("", "f64"))
    },
    **{
        f"numba_{name}{suffix}": f"__nv_{c_name}{suffix}"
        for name, c_name in _NUMBA.items()
        for suffix in ("", "f")
    },
}

# What LLVM's optimiser may leave, by the names of its operations.
INTRINSICS: dict[str, str] = {
    _intrinsic(name, kind): f"__nv_{name}{suffix}"
    for name in _INTRINSICS
    for suffix, kind in (("f", "f32"), ("", "f64"))
}

# Of functions of single precision, whatever they are called by: libdevice's approximations.
_APPROXIMATED = ("cos", "exp", "exp10", "log", "log10", "log2", "pow", "sin", "tan")
FAST: dict[str, str] = {
    called: f"__nv_fast_{name}f"
    for name in _APPROXIMATED
    for called in (f"{name}f", f"llvm.{name}.f32")
}

# (type, libdevice's function) of the remainder of a division.
REMAINDERS = {"float": "__nv_fmodf", "double": "__nv_fmod"}
