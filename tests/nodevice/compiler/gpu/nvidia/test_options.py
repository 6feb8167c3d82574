"""Options of `jit` that make different code for NVIDIA's GPUs, and none for the CPU."""

import math
import re
import subprocess
import sys

import numpy as np
import pytest

import haulage
from doubles.ptxas import assemble
from haulage import cuda

UNARY = "void(float32[::1], float32)"


def scale(x, factor):
    i = cuda.grid(1)
    if i < x.size:
        x[i] = x[i] * factor + 1


def ptx(function, signature=UNARY, architecture="sm_90", **options) -> str:
    return haulage.compile(function, signature, architecture, **options).asm


def of(operation):
    def kernel(r, x):
        r[0] = operation(x)

    return kernel


FAST = [
    (math.sin, ["sin.approx.ftz.f32"]),
    (math.cos, ["cos.approx.ftz.f32"]),
    (math.tan, ["sin.approx.ftz.f32", "cos.approx.ftz.f32", "div.approx.ftz.f32"]),
    (math.log, ["lg2.approx.ftz.f32", "0f3F317218"]),
    (math.log2, ["lg2.approx.ftz.f32"]),
    (math.log10, ["lg2.approx.ftz.f32", "0f3E9A209B"]),
    (math.tanh, ["tanh.approx.f32"]),
    (math.sqrt, ["sqrt.approx.ftz.f32"]),
]


@pytest.mark.parametrize(("operation", "instructions"), FAST, ids=lambda value: str(value)[-12:])
def test_fastmath_takes_the_hardwares_approximations(operation, instructions) -> None:
    fast, precise = (ptx(of(operation), fastmath=each) for each in (True, False))
    for instruction in instructions:
        assert instruction in fast
    assert instructions[0] not in precise
    assert "__nv_" not in fast


def test_fastmath_divides_and_fuses_by_approximation_and_flushes() -> None:
    def kernel(r, x, y):
        r[0] = x * y + x / y
        r[1] = 1 / math.sqrt(x)

    signature = "void(float32[::1], float32, float32)"
    fast, precise = (ptx(kernel, signature, fastmath=each) for each in (True, False))
    assert {"div.approx.ftz.f32", "fma.rn.ftz.f32", "rsqrt.approx.ftz.f32"} <= words(fast)
    assert {"div.rn.f32", "fma.rn.f32", "sqrt.rn.f32"} <= words(precise)
    assert not any("approx" in word or "ftz" in word for word in words(precise))


def test_the_fast_exponential_has_no_polynomial() -> None:
    fast, precise = (ptx(of(math.exp), fastmath=each) for each in (True, False))
    assert "ex2.approx.ftz.f32" in words(fast)
    assert not any(word.startswith("fma") for word in words(fast))
    assert "fma.rn.f32" in words(precise)


def test_doubles_are_never_approximated() -> None:
    def kernel(r, x):
        r[0] = math.sin(x) / math.sqrt(x)

    text = ptx(kernel, "void(float64[::1], float64)", fastmath=True)
    assert {"div.rn.f64", "sqrt.rn.f64"} & words(text)
    assert not any("approx" in word and "f32" in word for word in words(text))


def test_a_flag_of_fastmath_gives_what_it_says_and_no_more() -> None:
    approximate = words(ptx(of(math.sin), fastmath={"afn"}))
    assert "sin.approx.f32" in approximate
    assert not any("ftz" in word for word in approximate)
    assert "sin.approx.f32" not in words(ptx(of(math.sin), fastmath={"nnan"}))


def test_a_fast_function_is_fast_in_a_kernel_that_is_not() -> None:
    @cuda.jit(device=True, fastmath=True)
    def root(x):
        return math.sqrt(x)

    def kernel(r, x):
        r[0] = root(x)
        r[1] = math.sqrt(r[2])

    assert {"sqrt.approx.f32", "sqrt.rn.f32"} <= words(ptx(kernel))


def words(text: str) -> set[str]:
    """The instructions of a PTX text."""
    return set(re.findall(r"(?m)^\s+(?:@!?%p\d+ )?([a-z][\w.]+)\s", text))


@pytest.mark.parametrize(
    ("bounds", "lines"),
    [
        (256, [".maxntid 256"]),
        ((256,), [".maxntid 256"]),
        ((np.int64(256), 2), [".maxntid 256", ".minnctapersm 2"]),
        ((256, 2, 4), [".maxntid 256", ".minnctapersm 2", ".maxclusterrank 4"]),
        (None, []),
    ],
    ids=str,
)
def test_launch_bounds_are_the_assemblers(bounds, lines) -> None:
    for text in (ptx(scale, launch_bounds=bounds), ptx(cuda.jit(launch_bounds=bounds)(scale))):
        assert re.findall(r"(?m)^\.(?:max|min).*$", text) == lines


def test_registers_are_bounded() -> None:
    assert ".maxnreg 32\n" in ptx(scale, max_registers=32)
    assert ".maxnreg" not in ptx(scale, max_registers=None)
    assert ".maxnreg 40\n" in ptx(cuda.jit(max_registers=40, launch_bounds=(64, 2))(scale))


@pytest.mark.parametrize("architecture", ["sm_75", "sm_90", "sm_120"])
@pytest.mark.parametrize("option", ["lineinfo", "debug"])
def test_line_information_names_the_lines_of_inlined_functions_too(architecture, option) -> None:
    @cuda.jit(device=True, **{option: True})
    def helper(value):
        doubled = value * 2
        return doubled + 1

    def kernel(r, x):
        r[0] = helper(x)

    text = ptx(kernel, architecture=architecture, **{option: True})
    assert re.search(rf'(?m)^\s*\.file\s+1 "{re.escape(__file__)}"', text)
    told = {int(line) for line in re.findall(r"\.loc\s+1 (\d+) ", text)}
    first = helper.py_func.__code__.co_firstlineno
    assert {first + 2, kernel.__code__.co_firstlineno + 1} <= told
    # Of variables nothing is told.
    assert ".debug_info" not in text
    assert assemble(text, "-lineinfo")


LINES_OF_ABS = """
import haulage

def kernel(out, x):
    out[0] = abs(x[0])

print(haulage.compile(kernel, "void(float64[::1], complex128[::1])", "sm_90", lineinfo=True).asm)
"""


def test_line_information_of_numbas_own_functions_is_of_lines_only_too(tmp_path) -> None:
    # In a process of its own: Numba keeps such a function as the first kernel with it has it.
    program = tmp_path / "program.py"
    program.write_text(LINES_OF_ABS)
    done = subprocess.run([sys.executable, program], check=True, capture_output=True, text=True)
    assert re.search(r"(?m)^\.target sm_90$", done.stdout)
    assert re.search(r"\.file\s+2 ", done.stdout)


def test_line_information_changes_no_instruction() -> None:
    def kernel(x, out):
        room = cuda.shared.array(64, np.float32)
        room[cuda.threadIdx.x] = x[cuda.grid(1)]
        cuda.syncthreads()
        for k in range(64):
            if room[k] > 3:
                out[k] += math.exp(room[k])
        if x[0] < 0:
            raise ValueError("negative")

    signature = "void(float32[::1], float32[::1])"
    plain, told = (ptx(kernel, signature, lineinfo=each) for each in (False, True))
    assert instructions(told) == instructions(plain)
    assert ".loc" not in plain


def instructions(text: str) -> list[str]:
    """The lines of a PTX text, without what is there for debuggers, and with labels in order."""
    lines = [
        re.sub(r"\$L__BB\d+_\d+|haulage_shared_\d+|// callseq.*", "", line.strip())
        for line in text.splitlines()
    ]
    return [
        line
        for line in lines
        if line
        and not line.startswith(
            (".loc", ".file", ".section", "$L__tmp", "$L__func", "//", "{", "}")
        )
    ]


def test_without_optimisation_all_that_is_written_is_there() -> None:
    def kernel(r, x):
        unused = math.sqrt(x)
        for k in range(4):
            r[k] = k
        r[4] = unused * 0

    plain, whole = (ptx(kernel, opt=each) for each in (True, False))
    assert len(instructions(whole)) > len(instructions(plain))
    assert "bra" in words(whole) | {word.partition(".")[0] for word in words(whole)}
    assert not any(word.startswith("bra") for word in words(plain))


def test_these_options_make_no_difference_on_the_cpu() -> None:
    plain = haulage.compile(scale, UNARY)
    options = {"lineinfo": True, "opt": False, "launch_bounds": (64, 2), "max_registers": 32}
    assert haulage.compile(scale, UNARY, **options).asm == plain.asm
    assert haulage.compile(cuda.jit(**options)(scale), UNARY).asm == plain.asm


@pytest.mark.parametrize(
    ("architecture", "options"),
    [
        ("sm_75", {"fastmath": True, "max_registers": 32}),
        ("sm_80", {"lineinfo": True, "launch_bounds": (128, 2)}),
        ("sm_86", {"debug": True, "opt": False}),
        ("sm_90", {"launch_bounds": (128, 2, 4), "max_registers": 40}),
        ("sm_120", {"fastmath": True, "lineinfo": True, "opt": False}),
    ],
    ids=str,
)
def test_what_is_made_with_options_assembles(architecture, options) -> None:
    def kernel(x, y):
        i = cuda.grid(1)
        if i < x.size:
            x[i] = math.tanh(x[i] / y[i]) + math.sin(math.sqrt(y[i])) // x[i]

    text = ptx(kernel, "void(float32[::1], float32[::1])", architecture, **options)
    assert assemble(text, *(["-lineinfo"] if "lineinfo" in options else []))


def test_a_kernels_options_hold_unless_others_are_given() -> None:
    kernel = cuda.jit(fastmath=True, lineinfo=True, launch_bounds=64)(of(math.sqrt))
    assert "sqrt.approx.ftz.f32" in (kept := ptx(kernel))
    assert ".loc" in kept
    assert "sqrt.rn.f32" in (other := ptx(kernel, fastmath=False, lineinfo=False))
    assert ".loc" not in other
    assert ".maxntid 64" in other


@pytest.mark.parametrize(
    ("options", "kind"),
    [
        ({"launch_bounds": "64"}, TypeError),
        ({"launch_bounds": (64, 2.5)}, TypeError),
        ({"launch_bounds": -1}, ValueError),
        ({"max_registers": "32"}, TypeError),
        ({"max_registers": -1}, ValueError),
    ],
    ids=str,
)
def test_options_that_no_device_takes_are_refused(options, kind) -> None:
    with pytest.raises(kind, match=next(iter(options))):
        haulage.compile(scale, UNARY, "sm_90", **options)
    with pytest.raises(kind, match=next(iter(options))):
        cuda.jit(**options)


def test_an_unknown_option_is_refused() -> None:
    with pytest.raises(TypeError, match="unknown options: speed"):
        haulage.compile(scale, UNARY, "sm_90", speed=3)
