"""Foreign device code: declared, called, linked by the driver; by the stand-in driver here."""

import io
import re
import shutil
import subprocess

import numpy as np
import pytest

import haulage
from doubles.ptxas import ARCHITECTURES, assemble, program
from haulage import cuda
from haulage.errors import CompileError, Unsupported
from haulage.kernel.linkable import LinkableCode
from support.nvidia_children import needs_compiler, run

SIGNATURE = "void(float32[::1])"


def half_more(x):
    return x * 1.5


def total_of_two(pair):
    return pair[0] + pair[1]


def ptx_of(function, signature, abi, architecture="sm_90", name=None) -> str:
    cc = tuple(divmod(int(architecture[3:]), 10))
    info = {"abi_name": name} if name else None
    ptx, _ = cuda.compile_ptx(function, signature, device=True, cc=cc, abi=abi, abi_info=info)
    return ptx


def test_a_declared_function_is_called_by_its_name_in_its_convention() -> None:
    for abi, returned, count in (("c", "b32", 1), ("numba", "b32", 2)):
        foreign = cuda.declare_device("foreign", "float32(float32)", abi=abi)

        def kernel(x):
            x[0] = foreign(x[1])  # noqa: B023

        code = haulage.compile(kernel, SIGNATURE, "sm_90")
        declared = code.asm[code.asm.index(".extern .func") :].partition(";")[0]
        assert f".param .{returned} func_retval0" in declared
        assert declared.count("foreign_param_") == count
        assert "call" in code.asm
        assert code.linked == ()
        assert assemble(code.asm, "-c")


def test_arguments_are_converted_to_the_types_that_are_declared() -> None:
    foreign = cuda.declare_device("foreign", "float64(float64, int32)", abi="c")

    def kernel(x):
        x[0] = foreign(x[1], np.int8(3))

    asm = haulage.compile(kernel, SIGNATURE, "sm_90").asm
    assert "cvt.f64.f32" in asm
    for wrong in (lambda x: foreign(x[0]), lambda x: foreign(x, 1)):

        def refused(x):
            wrong(x)  # noqa: B023

        with pytest.raises(CompileError, match="foreign"):
            haulage.compile(cuda.jit(refused), SIGNATURE, "sm_90")


@pytest.mark.parametrize("name", ["sin", "pow", "malloc", "haulage_channel", "_Z3addff", "kernel"])
def test_a_declared_function_is_called_whatever_else_has_its_name(name) -> None:
    foreign = cuda.declare_device(name, "float32(float32)", abi="c")

    def kernel(x):
        x[0] = foreign(x[1])

    asm = haulage.compile(kernel, SIGNATURE, "sm_90").asm
    assert f"call.uni (retval0), {name}, (param0);" in asm
    assert len(re.findall(rf"(?m)^\.\w+ \.(?:func|entry).* {name}\b", asm)) == 1
    assert assemble(asm, "-c")


def test_libdevices_functions_can_be_declared() -> None:
    foreign = cuda.declare_device("__nv_rsqrtf", "float32(float32)", abi="c")

    def kernel(x):
        x[0] = foreign(x[1])

    asm = haulage.compile(kernel, SIGNATURE, "sm_90").asm
    assert "rsqrt.approx.f32" in asm
    assert ".extern" not in asm


@pytest.mark.parametrize("name", ["a b", "", "1x", "f.g", "_", "WARP_SZ", "é", 5, None])
def test_what_no_function_can_be_called_is_refused(name) -> None:
    with pytest.raises(ValueError, match="expected the name of a function"):
        cuda.declare_device(name, "float32(float32)", abi="c")


def test_a_function_in_cs_convention_cannot_have_the_name_of_what_it_calls() -> None:
    half_more = cuda.declare_device("half_more", "float32(float32)", abi="c")

    def twice(x):
        return half_more(half_more(x))

    with pytest.raises(CompileError, match="abi_name"):
        cuda.compile(twice, "float32(float32)", abi_info={"abi_name": "half_more"})
    asm, _ = cuda.compile(twice, "float32(float32)", abi_info={"abi_name": "half"})
    assert assemble(asm, "-c")


@pytest.mark.parametrize("architecture", ARCHITECTURES)
@pytest.mark.parametrize("abi", ["c", "numba"])
@pytest.mark.skipif(shutil.which("nvlink") is None and program() is None, reason="no nvlink")
def test_nvidias_linker_takes_both_parts(tmp_path, architecture, abi) -> None:
    ptx = ptx_of(half_more, "float32(float32)", "c", architecture, "foreign")
    if abi == "numba":
        # The wrapper that such a function in CUDA C is.
        ptx = AS_NUMBA.format(head=ptx[: ptx.index("\n\n\t//")])
    foreign = cuda.declare_device("foreign", "float32(float32)", cuda.PTXSource(ptx), abi=abi)

    def kernel(x):
        x[0] = foreign(x[1])

    code = haulage.compile(kernel, SIGNATURE, architecture)
    parts = [code.asm, *(piece.data.decode() for piece in code.linked)]
    files = []
    for number, part in enumerate(parts):
        file = tmp_path / f"{number}.cubin"
        file.write_bytes(assemble(part, "-c"))
        files.append(str(file))
    nvlink = str(program()).replace("ptxas", "nvlink")
    made = tmp_path / "made.cubin"
    command = [nvlink, f"-arch={architecture}", *files, "-o", str(made)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    assert b"kernel" in made.read_bytes()


AS_NUMBA = """{head}
.visible .func (.param .b32 func_retval0) foreign(.param .b64 result, .param .b32 x)
{{
    .reg .b64 %to;
    .reg .f32 %x, %y;
    ld.param.b64 %to, [result];
    ld.param.f32 %x, [x];
    mul.rn.f32 %y, %x, 0f3FC00000;
    st.f32 [%to], %y;
    st.param.b32 [func_retval0], 0;
    ret;
}}
"""


def test_code_comes_from_files_and_objects(tmp_path) -> None:
    ptx = ptx_of(half_more, "float32(float32)", "c")
    file = tmp_path / "more.ptx"
    file.write_text(ptx)
    given = [str(file), file, [file], {str(file)}, cuda.PTXSource(io.StringIO(ptx), "more.ptx")]
    for link in given:
        declared = cuda.declare_device("half_more", "float32(float32)", link, abi="c")
        (piece,) = declared.haulage_linked
        assert (piece.kind, piece.name, piece.data) == ("ptx", "more.ptx", ptx.encode())
    for ending, kind in (
        ("cubin", cuda.Cubin),
        ("fatbin", cuda.Fatbin),
        ("o", cuda.Object),
        ("a", cuda.Archive),
    ):
        file = tmp_path / f"more.{ending}"
        file.write_bytes(b"code")
        assert type(LinkableCode.from_path(file)) is kind
        assert kind(b"code").linked().data == b"code"


@pytest.mark.parametrize(
    ("link", "words"),
    [
        ("code", "no extension"),
        ("code.cuh", "extension .cuh"),
        (cuda.CUSource("int x;"), "does not compile CUDA C"),
        (cuda.LTOIR(b"code"), "takes no LTO-IR"),
    ],
    ids=["no extension", "header", "CUSource", "LTOIR"],
)
def test_what_cannot_be_linked_says_why(link, words) -> None:
    for given in (lambda: cuda.jit(link=[link]), lambda: cuda.declare_device("f", "int32()", link)):
        with pytest.raises(Unsupported, match=words):
            given()


def test_mistakes_are_told() -> None:
    with pytest.raises(FileNotFoundError):
        cuda.jit(link="nowhere.ptx")
    with pytest.raises(TypeError, match="expected a path"):
        cuda.jit(link=[5])
    with pytest.raises(Unsupported, match="ABI: fastcall"):
        cuda.declare_device("f", "int32()", abi="fastcall")
    with pytest.raises(Unsupported, match="whole grid"):
        cuda.declare_device("f", "int32()", use_cooperative=True)
    with pytest.raises(Unsupported, match="setup_callback"):
        cuda.PTXSource("", setup_callback=print)
    for data in (5, None):
        with pytest.raises(TypeError, match="expected bytes or a text"):
            cuda.jit(link=[cuda.PTXSource(data)])
    with pytest.raises(ValueError, match="device=True"):
        cuda.jit(device=True, link=[cuda.PTXSource("")])


def test_a_kernel_with_linked_code_is_for_nvidias_gpus() -> None:
    kernel = cuda.jit(link=[cuda.PTXSource("// nothing")])(lambda x: None)
    with pytest.raises(Unsupported, match=r"link=.*NVIDIA's GPUs"):
        haulage.compile(kernel, SIGNATURE)
    code = haulage.compile(kernel, SIGNATURE, "sm_90")
    assert [piece.data for piece in code.linked] == [b"// nothing"]


def test_compile_all_has_the_code_to_link() -> None:
    foreign = cuda.declare_device("foreign", "float32(float32)", cuda.PTXSource("// f"), abi="c")

    def twice(x):
        return foreign(foreign(x))

    (own, other), _ = cuda.compile_all(twice, "float32(float32)")
    assert "call.uni (retval0), foreign," in own
    assert (other.kind, other.data) == ("ptx", b"// f")


PROGRAM = """
import numpy as np
from doubles.libcuda.reading import Reading
double.interpret(Reading())
from haulage import cuda

def half_more(x):
    return x * 1.5

ptx, _ = cuda.compile(half_more, "float32(float32)", cc=(9, 0))
more = cuda.declare_device("half_more", "float32(float32)", cuda.PTXSource(ptx), abi="c")
gives = ptx.replace("half_more", "status")
refuse = cuda.declare_device("status", "float32(float32)", cuda.PTXSource(gives), abi="c")

@cuda.jit
def kernel(x):
    i = cuda.grid(1)
    x[i] = more(x[i]) + refuse(x[i])

x = cuda.to_device(np.arange(8, dtype=np.float32))
kernel[2, 4](x)
print(x.copy_to_host().tolist())
print(double.calls("cuLinkAddData"), double.calls("cuLinkDestroy"))

bad = cuda.jit(link=[cuda.Cubin(b"no code", "broken.cubin")])(kernel.py_func)
try:
    bad[1, 8](x)
except RuntimeError as error:
    print(error)
"""


@needs_compiler
def test_the_driver_links_what_a_kernel_calls() -> None:
    pytest.importorskip("cuda.bindings.driver", reason="cuda-bindings is not installed")
    first, calls, *error = run(PROGRAM, HAULAGE_DEVICE="nvidia").splitlines()
    assert first == str([3.0 * x for x in range(8)])
    assert calls == "3 1"
    assert "cuLinkAddData" in " ".join(error)
    assert "broken.cubin is no PTX" in error
