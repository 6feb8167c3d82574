"""What libdevice's functions mean, in exact arithmetic or another library's words.

`WHOLE` maps names to functions of Python ints whose results are exact; `DOCUMENTED` to how far
NVIDIA's own may be off.
"""

import math
import struct
from decimal import Decimal, getcontext
from fractions import Fraction

import numpy as np

getcontext().prec = 60
LOW = 2**32 - 1
PI = Decimal("3.14159265358979323846264338327950288419716939937510582097494")

# What NVIDIA's documentation says of libdevice's functions in float32 and float64, in units of the
# last place from the nearest float (CUDA C++ Programming Guide, mathematical functions).
DOCUMENTED = {
    **{"acos": (2, 2), "acosh": (4, 3), "asin": (2, 2), "asinh": (3, 3), "atan": (2, 2)},
    **{"atanh": (3, 2), "cbrt": (1, 1), "cos": (2, 2), "cosh": (2, 1), "erf": (2, 2)},
    **{"erfc": (4, 5), "exp": (2, 1), "exp2": (2, 1), "expm1": (1, 1), "log": (1, 1)},
    **{"log10": (2, 1), "log1p": (1, 1), "log2": (1, 1), "sin": (2, 2), "sinh": (3, 2)},
    **{"tan": (4, 2), "tanh": (2, 2), "atan2": (3, 2), "hypot": (3, 2), "pow": (4, 2)},
    **{"exp10": (2, 1), "rsqrt": (2, 1)},
}


def allowed(name, is_double, ulp, device):
    """The units of the last place that a function may be off on a device: `ulp` on the processor,
    on GPUs as many as is documented, if that is more."""
    if device.kind == "cpu" or name not in DOCUMENTED:
        return ulp
    return max(ulp, DOCUMENTED[name][is_double] + 0.5)


def signed(value, bits=32):
    value %= 2**bits
    return value - 2**bits if value >= 2 ** (bits - 1) else value


def u32(x):
    return int(x) % 2**32


def u64(x):
    return int(x) % 2**64


def pattern(x, bits=32):
    return f"{int(x) % 2**bits:0{bits}b}"


def lowest(x, bits):
    text = pattern(x, bits)
    return bits - text.rindex("1") if "1" in text else 0


def permuted(x, y, s):
    source = u32(x).to_bytes(4, "little") + u32(y).to_bytes(4, "little")
    return int.from_bytes(bytes(source[(s >> 4 * k) & 7] for k in range(4)), "little", signed=True)


def low24(x):
    return signed(x, 24)


WHOLE = {
    "abs": abs,
    "llabs": abs,
    "brev": lambda x: signed(int(pattern(x)[::-1], 2)),
    "brevll": lambda x: signed(int(pattern(x, 64)[::-1], 2), 64),
    "byte_perm": permuted,
    "clz": lambda x: 32 - u32(x).bit_length(),
    "clzll": lambda x: 64 - u64(x).bit_length(),
    "ffs": lambda x: lowest(x, 32),
    "ffsll": lambda x: lowest(x, 64),
    "popc": lambda x: u32(x).bit_count(),
    "popcll": lambda x: u64(x).bit_count(),
    "hadd": lambda x, y: (x + y) // 2,
    "rhadd": lambda x, y: -(-(x + y) // 2),
    "uhadd": lambda x, y: signed((u32(x) + u32(y)) // 2),
    "urhadd": lambda x, y: signed((u32(x) + u32(y) + 1) // 2),
    "max": max,
    "min": min,
    "llmax": max,
    "llmin": min,
    "umax": lambda x, y: signed(max(u32(x), u32(y))),
    "umin": lambda x, y: signed(min(u32(x), u32(y))),
    "ullmax": lambda x, y: signed(max(u64(x), u64(y)), 64),
    "ullmin": lambda x, y: signed(min(u64(x), u64(y)), 64),
    "mul24": lambda x, y: signed(low24(x) * low24(y)),
    "umul24": lambda x, y: signed((x % 2**24) * (y % 2**24)),
    "mulhi": lambda x, y: (x * y) >> 32,
    "umulhi": lambda x, y: signed((u32(x) * u32(y)) >> 32),
    "mul64hi": lambda x, y: (x * y) >> 64,
    "umul64hi": lambda x, y: signed((u64(x) * u64(y)) >> 64, 64),
    "sad": lambda x, y, z: signed(abs(x - y) + z),
    "usad": lambda x, y, z: signed(abs(u32(x) - u32(y)) + z),
}


# ---- rounding -----------------------------------------------------------------------------------


def rounded(exact, direction, kind=np.float64):
    """A fraction as a float of `kind`, rounded in one of `rn rz rd ru`."""
    limit = Fraction(float(np.finfo(kind).max))
    with np.errstate(all="ignore"):
        below = kind(float(max(min(exact, limit), -limit)))
        while below > -np.inf and (below == np.inf or Fraction(float(below)) > exact):
            below = np.nextafter(below, kind(-np.inf))
        while True:
            above = np.nextafter(below, kind(np.inf))
            if above == np.inf or Fraction(float(above)) > exact:
                break
            below = above
    if below > -np.inf and Fraction(float(below)) == exact:
        return float(below)
    if direction == "rz":
        direction = "rd" if exact > 0 else "ru"
    if direction != "rn":
        return float(below if direction == "rd" else above)
    # Beyond the greatest number the grid goes on for a step.
    step = limit - Fraction(float(np.nextafter(kind(float(limit)), kind(0))))
    low = Fraction(float(below)) if below > -np.inf else -limit - step
    high = Fraction(float(above)) if above < np.inf else limit + step
    even = (low / (high - low)) % 2 == 0
    nearer_below = exact - low < high - exact or (exact - low == high - exact and even)
    return float(below if nearer_below else above)


def rounded_root(x, direction, kind=np.float64):
    """The square root of a positive number, rounded."""
    root = Fraction(math.isqrt(int(Fraction(x) * 4**700)), 2**700)
    exact = root if root * root == Fraction(x) else root + Fraction(1, 2**1400)
    return rounded(exact, direction, kind)


def whole(x, direction):
    function = {"rn": round, "rz": math.trunc, "rd": math.floor, "ru": math.ceil}[direction]
    return function(x)


def clipped(x, direction, low, high, nothing):
    """A float as an int between two limits."""
    if math.isnan(x):
        return nothing
    if math.isinf(x):
        return high if x > 0 else low
    return max(low, min(high, whole(x, direction)))


# ---- bits ---------------------------------------------------------------------------------------


def recast(source, target):
    return lambda x: struct.unpack(target, struct.pack(source, x))[0]


BITS = {
    "double_as_longlong": recast("d", "q"),
    "longlong_as_double": recast("q", "d"),
    "float_as_int": recast("f", "i"),
    "int_as_float": recast("i", "f"),
    "double2hiint": lambda x: recast("d", "q")(x) >> 32,
    "double2loint": lambda x: signed(recast("d", "q")(x)),
    "hiloint2double": lambda high, low: recast("q", "d")((high << 32) | u32(low)),
    "half2float": lambda b: float(np.array([b], np.int16).view(np.float16)[0]),
    "float2half_rn": lambda x: int(np.float16(x).view(np.int16)) if x == x else 0x7FFF,
}


# ---- special functions --------------------------------------------------------------------------


def exact_erfc(x):
    """erfc of a double, to 40 digits, by the power series of erf in enough digits."""
    size = int(0.87 * float(x) ** 2) + 60
    getcontext().prec = size
    value = Decimal(x)
    term, total, k = value, value, 0
    while abs(term) > Decimal(10) ** (-size):
        k += 1
        term = -term * value * value / k
        total += term / (2 * k + 1)
    root_pi = pi_to(size).sqrt()
    result = 1 - 2 * total / root_pi
    getcontext().prec = 60
    return +result


def pi_to(digits):
    """Pi by Machin's formula."""
    getcontext().prec = digits + 5

    def arctangent(n):
        power, total, k = Decimal(1) / n, Decimal(1) / n, 1
        while power > Decimal(10) ** (-digits - 5):
            power /= n * n
            total += power / (2 * k + 1) * (-1 if k % 2 else 1)
            k += 1
        return total

    return 4 * (4 * arctangent(5) - arctangent(239))


def exact_normcdf(x):
    getcontext().prec = 60
    scaled = -Decimal(x) / Decimal(2).sqrt()
    return exact_erfc(scaled) / 2


def exact_erfcx(x):
    return exact_erfc(x) * (Decimal(x) ** 2).exp()


def exact_bessel(order, x):
    """J of a whole order by its power series."""
    getcontext().prec = 90
    half = Decimal(x) / 2
    term = half**order / math.factorial(order)
    total, k = term, 0
    while abs(term) > Decimal(10) ** -70:
        k += 1
        term = -term * half * half / (k * (k + order))
        total += term
    getcontext().prec = 60
    return +total
