"""What the AMD back end calls: functions that the HIP runtime has, with their parameters."""

import ast
import ctypes
import inspect
import re

import pytest

from doubles import libamdhip64, libcuda
from haulage.backends.amd_driver import figures, forms, library
from support.driver_calls import calls_by_name, files_of, trees_of

TREES = trees_of("amd")
# Calls of forms of their own, with an old runtime.
FORMS = forms.forms(lambda name: lambda *args: (0,), lambda name: False, (5, 0))


def function_of(name):
    return library.OTHERWISE.get(name, f"hip{name}")


def of_forms():
    """Calls of the runtime's functions in the text of a form."""
    (tree,) = [tree for file, tree in TREES if file == "forms.py"]
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Call):
            called = node.func
            if getattr(called.func, "id", "") == "of" and isinstance(called.args[0], ast.Constant):
                yield called.args[0].value, len(node.args), "forms.py"


CALLS = sorted(
    {
        *of_forms(),
        *((function_of(name), *rest) for name, *rest in calls_by_name(TREES) if name not in FORMS),
    }
)


def test_calls_are_found():
    names = {name for name, _, _ in CALLS}
    assert {"hipHostFree", "hipGraphLaunch", "hipMemMap", "hipModuleLoadData"} <= names
    assert len(names) > 40


@pytest.mark.parametrize(("name", "given", "file"), CALLS)
def test_a_call_gives_as_many_arguments_as_go_in(name, given, file):
    taken = [kind for kind in library.SIGNATURES[name] if not issubclass(kind, ctypes._Pointer)]
    assert given == len(taken), file


@pytest.mark.parametrize("name", sorted(FORMS))
def test_a_call_of_a_form_of_its_own_takes_what_it_is_given(name):
    taken = len(inspect.signature(FORMS[name]).parameters)
    assert {given for each, given, _ in calls_by_name(TREES) if each == name} <= {taken}


def test_every_function_of_the_runtimes_is_called():
    text = "".join(file.read_text() for file in files_of("amd"))
    named = set(re.findall(r'"(hip[A-Z]\w+|[A-Z]\w+)"', text))
    called = {function_of(name) if not name.startswith("hip") else name for name in named}
    assert set(library.SIGNATURES) <= called


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
        for _, tree in TREES
        for node in ast.walk(tree)
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
