"""The driver's functions that the NVIDIA back end calls are those that `cuda-bindings` publishes.

Their signatures are the first lines of its functions' docstrings, and in C those of `cydriver.pxd`,
with which the stand-in driver is compared as well.
"""

import ast
import inspect
import re
from pathlib import Path

import pytest

from doubles import libcuda
from haulage.backends.gpu_driver.calls import LOST
from haulage.backends.nvidia_driver import calls, forms
from support.driver_calls import calls_by_name, trees_of

driver = pytest.importorskip("cuda.bindings.driver", reason="cuda-bindings is not installed")


def name_of(node):
    """`cuMemAlloc` of `driver.cuMemAlloc` and `self._driver.cuMemAlloc`; None of others."""
    if isinstance(node, ast.Attribute) and re.match(r"cu[A-Z]|CU[a-z]|CUDA_MEMCPY", node.attr):
        return node.attr
    return None


def functions_called(tree):
    """(function of the driver, how many arguments it is given) where both stand in a file."""
    for node in ast.walk(tree):
        if not isinstance(node, ast.Call) or any(isinstance(a, ast.Starred) for a in node.args):
            continue
        called = name_of(node.func)
        if called and called.startswith("cu"):
            yield called, len(node.args)


def published(name):
    """The names of a function's parameters, and how many of them must be given."""
    text = getattr(driver, name).__doc__.split("\n")[0]
    inside = text[text.index("(") + 1 : text.rindex(")")]
    parameters = re.split(r", (?![^\[]*\])", inside) if inside else []
    return parameters, [p for p in parameters if "=" not in p]


TREES = trees_of("nvidia")
# Calls of forms of their own, whose functions are called in a form's text.
FORMS = forms.forms(driver, 0)
CALLS = sorted(
    {(*call, file) for file, tree in TREES for call in functions_called(tree)}
    | {(f"cu{name}", *rest) for name, *rest in calls_by_name(TREES) if name not in FORMS}
)
# It asks the library itself, as cuda-bindings may not be there.
BY_CTYPES = "looking.py"


def test_calls_are_found():
    names = {name for name, _, _ in CALLS}
    assert {"cuMemAlloc", "cuGraphLaunch", "cuMemMap", "cuMemCreate"} <= names
    assert len(names) > 50


@pytest.mark.parametrize(("name", "given", "file"), CALLS)
def test_a_call_gives_the_arguments_that_are_published(name, given, file):
    parameters, needed = (C[name], C[name]) if file == BY_CTYPES else published(name)
    assert len(needed) <= given <= len(parameters), f"{file}: {name}{parameters}"


@pytest.mark.parametrize("name", sorted(FORMS))
def test_a_call_of_a_form_of_its_own_takes_what_it_is_given(name):
    taken = len(inspect.signature(FORMS[name]).parameters)
    assert {given for each, given, _ in calls_by_name(TREES) if each == name} <= {taken}


def test_all_names_of_the_driver_are_there():
    names = {name_of(node) for _, tree in TREES for node in ast.walk(tree)} - {None}
    missing = [name for name in sorted(names) if not hasattr(driver, name)]
    assert missing == []


# ---- the same in C ------------------------------------------------------------------------------


def declared():
    """C's parameters of the driver's functions, by name."""
    text = (Path(driver.__file__).parent / "cydriver.pxd").read_text()
    found = re.findall(r"^cdef CUresult (\w+)\((.*?)\) except", text, re.M)
    return {name: parameters.split(", ") if parameters else [] for name, parameters in found}


C = declared()
# What the double calls by another name than the header, which chooses among versions.
SAME = {
    "cuGetProcAddress_v2": "cuGetProcAddress",
    "cuGraphInstantiateWithFlags": "cuGraphInstantiate",
}
FOUR_BYTES = re.compile(r"(unsigned )?int \w+|CU(device|result|device_attribute|jit_option) \w+")


def width(parameter):
    """How a parameter is passed: by 4 or 8 bytes, a pointer, or a small structure."""
    if "*" in parameter or "[]" in parameter:
        return "pointer"
    if re.search(r"\b(size_t|uint64_t|CUdeviceptr|cuuint64_t|unsigned long long)\b", parameter):
        return "8"
    if re.search(r"\b(unsigned char|unsigned short)\b", parameter):
        return "small"
    if re.search(r"\b(CUmemLocation|struct location|CUipcMemHandle|struct handle)\b", parameter):
        return "structure"
    handles = (
        r"\bCU(stream|context|event|module|function|graph|graphExec|graphNode|hostFn|linkState"
        r"|library|kernel|streamCallback|occupancyB2DSize)\b"
    )
    if re.search(handles, parameter) or "CUmemGenericAllocationHandle" in parameter:
        return "handle"
    return "4"


def double_functions():
    for source in libcuda.SOURCES:
        text = source.read_text()
        for name, inside in re.findall(
            r"^EXPORT CUresult (cu\w+)\(\s*(.*?)\)\s*\{", text, re.M | re.S
        ):
            parameters = " ".join(inside.split())
            yield name, [] if parameters == "void" else parameters.split(", ")


@pytest.mark.parametrize(("name", "parameters"), list(double_functions()))
def test_the_double_has_the_signatures_of_the_driver(name, parameters):
    expected = [width(p) for p in C[SAME.get(name, name)]]
    assert len(parameters) == len(expected), C[SAME.get(name, name)]
    for own, real in zip(map(width, parameters), expected, strict=True):
        # A handle is a pointer, which the double may have as a number.
        assert own == real or (real == "handle" and own in ("8", "pointer")), (parameters, expected)


@pytest.mark.parametrize(
    ("name", "types"),
    [
        ("cuLaunchKernel", "CUfunction unsigned unsigned unsigned unsigned unsigned unsigned "
         "unsigned CUstream void** void**"),
        ("cuCtxGetCurrent", "CUcontext*"),
        ("cuEventElapsedTime", "float* CUevent CUevent"),
        ("cuCtxSynchronize", ""),
        ("cuMemcpyAsync", "CUdeviceptr CUdeviceptr size_t CUstream"),
        ("cuStreamSynchronize", "CUstream"),
        ("cuStreamQuery", "CUstream"),
        ("cuStreamWaitEvent", "CUstream CUevent unsigned"),
        ("cuStreamIsCapturing", "CUstream CUstreamCaptureStatus*"),
        ("cuThreadExchangeStreamCaptureMode", "CUstreamCaptureMode*"),
        ("cuEventRecord", "CUevent CUstream"),
        ("cuEventSynchronize", "CUevent"),
        ("cuEventQuery", "CUevent"),
    ],
)  # fmt: skip
def test_functions_that_are_called_by_address_have_the_types_that_are_passed(name, types):
    assert [parameter.split()[0] for parameter in C[name]] == types.split()


def test_of_all_that_are_called_by_address_this_is_looked_at():
    mark = test_functions_that_are_called_by_address_have_the_types_that_are_passed.pytestmark[0]
    assert {name for name, _ in mark.args[1]} >= set(calls.BY_ADDRESS)


# ---- failures -----------------------------------------------------------------------------------

# Of an error of a device outside of GPUs it is so only at times.
EXTERNAL_DEVICE = 911


def test_failures_after_which_nothing_works_any_more_are_known():
    final = {
        int(status)
        for status in driver.CUresult
        if "process must be terminated" in " ".join((status.__doc__ or "").split())
    }
    if not final:
        pytest.skip("this version of cuda-bindings has no words on each status")
    assert len(final) > 8
    assert final - {EXTERNAL_DEVICE} <= set(LOST)
    for number in LOST:
        driver.CUresult(number)  # raises where there is no such status
