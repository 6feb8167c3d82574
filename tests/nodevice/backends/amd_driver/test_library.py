"""What the AMD back end calls: functions that the HIP runtime has, with their parameters."""

import ast
import ctypes
import re
from pathlib import Path

import pytest

import haulage
from doubles import libamdhip64, libcuda
from haulage.backends.amd_driver import figures, library

BACKENDS = Path(haulage.__file__).parent / "backends"
FILES = [BACKENDS / "amd.py", *sorted((BACKENDS / "amd_driver").glob("*.py"))]
# What passes a call on by the name of its function, and how many out parameters of its own it adds.
PASSED_ON = {
    **{"_calls": 0, "calls": 0, "_call": 0, "status": 0, "self": 0},
    **{"handle": 1, "number": 1, "size": 1, "asked": 1},
}


def calls():
    """(function, how many arguments it is given, file) where both stand in the text."""
    for file in FILES:
        for node in ast.walk(ast.parse(file.read_text())):
            if not isinstance(node, ast.Call) or not node.args:
                continue
            first = node.args[0]
            called = getattr(node.func, "attr", getattr(node.func, "id", ""))
            named = isinstance(first, ast.Constant) and str(first.value).startswith("hip")
            starred = any(isinstance(each, ast.Starred) for each in node.args)
            if named and not starred and called in PASSED_ON:
                yield first.value, len(node.args) - 1 + PASSED_ON[called], file.name


CALLS = sorted(set(calls()))


def test_calls_are_found():
    names = {name for name, _, _ in CALLS}
    assert {"hipHostFree", "hipStreamSynchronize", "hipMemMap", "hipModuleLoadData"} <= names
    assert len(names) > 40


@pytest.mark.parametrize(("name", "given", "file"), CALLS)
def test_a_call_gives_as_many_arguments_as_there_are(name, given, file):
    assert given == len(library.SIGNATURES[name]), file


def test_every_name_of_the_runtimes_has_a_signature():
    text = "".join(file.read_text() for file in FILES)
    others = {"hipGetErrorName", "hipGetErrorString", "hipIpcMemHandle_t"}
    names = set(re.findall(r'"(hip[A-Z]\w+)"', text)) - others
    assert names == set(library.SIGNATURES)


def doubles_functions():
    function = r"^API hipError_t (hip\w+)\((.*?)\)\s*\{"
    for source in libamdhip64.SOURCES:
        if source.parent.name == "libamdhip64":
            for name, inside in re.findall(function, source.read_text(), re.M | re.S):
                yield name, [] if inside.strip() == "void" else inside.split(",")


def width(parameter):
    if "*" in parameter or "uint64_t" in parameter or "size_t" in parameter:
        return 8
    if "struct handle" in parameter:
        return 64
    return {"unsigned char": 1, "unsigned short": 2}.get(" ".join(parameter.split()[:2]), 4)


@pytest.mark.parametrize(("name", "parameters"), list(doubles_functions()))
def test_the_stand_in_has_the_same_parameters(name, parameters):
    expected = [ctypes.sizeof(each) for each in library.SIGNATURES[name]]
    assert [width(each) for each in parameters] == expected


def test_the_runtime_of_rocm_5_has_all_but_what_came_later():
    try:
        runtime = ctypes.CDLL("libamdhip64.so.5")
    except OSError:
        pytest.skip("libamdhip64.so.5 is not installed (Debian's package libamdhip64-5)")
    number = ctypes.c_int()
    runtime.hipRuntimeGetVersion(ctypes.byref(number))
    here = library.version(number.value)
    missing = {name for name in library.SIGNATURES if not hasattr(runtime, name)}
    assert missing == {name for name, since in library.SINCE.items() if since > here}
    assert library.SINCE.keys() <= library.SIGNATURES.keys()


# With which ROCm HIP's functions came, by AMD's tables of them and of CUDA's (HIPIFY).
DOCUMENTED = {
    (5, 0): ("hipGraphNodeGetType", "hipStreamIsCapturing"),
    (5, 2): (
        *("hipDeviceGetUuid", "hipMemAddressFree", "hipMemAddressReserve", "hipMemCreate"),
        *("hipMemExportToShareableHandle", "hipMemGetAllocationGranularity", "hipMemMap"),
        *("hipMemImportFromShareableHandle", "hipMemRelease", "hipMemRetainAllocationHandle"),
        *("hipMemSetAccess", "hipMemUnmap"),
    ),
    (5, 5): ("hipModuleLaunchCooperativeKernel",),
}


def test_functions_came_with_the_versions_that_amd_says():
    for version, names in DOCUMENTED.items():
        for name in names:
            assert name in library.SIGNATURES
            assert library.SINCE.get(name, (5, 0)) == version, name


@pytest.mark.skipif(libcuda.compiler() is None, reason="there is no C compiler")
def test_the_stand_in_for_rocm_5_lacks_what_came_later():
    """So the tests on it show that something else is done then, or that it is refused."""
    text = libamdhip64.build(5).read_bytes()
    assert {name for name in library.SINCE if name.encode() + b"\0" in text} == set()


def test_no_structure_is_named_whose_layout_changed():
    """hipDeviceProp_t is filled by the runtime, and searched; of others only what never moved."""
    defined = {
        node.name
        for file in FILES
        for node in ast.walk(ast.parse(file.read_text()))
        if isinstance(node, ast.ClassDef)
        and any(getattr(base, "attr", "") == "Structure" for base in node.bases)
    }
    assert defined == {
        "IpcHandle",  # hipIpcMemHandle_t
        *("_Pitched", "_Three", "_Box"),  # hipPitchedPtr, hipPos and hipExtent, hipMemcpy3DParms
        "_Attributes",  # hipPointerAttribute_t: the beginning, with room for more
        *("_Location", "_Wanted", "_Access"),  # of memory without addresses, since ROCm 6
    }


# hipDeviceAttribute_t of ROCm 5.2 and of 6.4: (name here, number).
@pytest.mark.parametrize(
    ("name", "number"),
    [
        ("ECC_ENABLED", 0),
        ("COMPUTE_CAPABILITY_MAJOR", 23),
        ("MAX_BLOCK_DIM_X", 26),
        ("MAX_GRID_DIM_Z", 31),
        ("MAX_THREADS_PER_BLOCK", 56),
        ("COMPUTE_CAPABILITY_MINOR", 61),
        ("MULTIPROCESSOR_COUNT", 63),
        ("MAX_SHARED_MEMORY_PER_BLOCK", 74),
        ("WARP_SIZE", 87),
        ("VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED", 89),
    ],
)
def test_attributes_have_the_numbers_of_the_runtime(name, number):
    assert figures.ATTRIBUTES[name] == number


@pytest.mark.parametrize(
    ("number", "version"),
    [(50221153, (5, 2)), (60443484, (6, 4)), (70151803, (7, 1)), (100_200_000, (10, 2))],
)
def test_versions_of_the_runtime_are_those_of_rocm(number, version):
    assert library.version(number) == version


@pytest.mark.parametrize(
    ("architectures", "floats"),
    [
        ("gfx900 gfx906 gfx90c gfx1030", "float16"),
        ("gfx908 gfx90a gfx1100 gfx1151", "float16 bfloat16"),
        ("gfx942 gfx950 gfx1201", "float16 bfloat16 fp8"),
    ],
)
def test_the_small_floats_of_an_architecture(architectures, floats):
    for architecture in architectures.split():
        assert figures.floats(architecture) == tuple(floats.split()), architecture
