"""The conformance suite over every back end whose driver is there."""

import functools

import pytest

from doubles import libamdhip64
from doubles.far import FarBackend
from doubles.nvidia_programs import NVIDIAPrograms
from doubles.opencl_programs import OpenCLPrograms
from haulage.backends import conformance
from haulage.backends.amd import AMDBackend
from haulage.backends.base import Backend
from haulage.backends.cpu import CPUBackend
from haulage.backends.nvidia import NVIDIABackend
from haulage.backends.opencl import OpenCLBackend
from haulage.platforms import PLATFORMS

# A kernel of the CPU is `i64 entry(ptr launch, i64 first block, i64 last block)`; `launch` has the
# grid and block extents as u32, and the arguments from byte 32 on. Here each is a loop over blocks
# and threads around a function of one thread, (launch, block, thread) -> fault.
ENTRY = """
define i64 @{name}(ptr %launch, i64 %first, i64 %last) {{
entry:
  %bx_at = getelementptr i32, ptr %launch, i64 3
  %bx = load i32, ptr %bx_at
  %by_at = getelementptr i32, ptr %launch, i64 4
  %by = load i32, ptr %by_at
  %bz_at = getelementptr i32, ptr %launch, i64 5
  %bz = load i32, ptr %bz_at
  %bxy = mul i32 %bx, %by
  %bxyz = mul i32 %bxy, %bz
  %threads = zext i32 %bxyz to i64
  br label %block
block:
  %g = phi i64 [ %first, %entry ], [ %g1, %next_block ]
  %block_fault = phi i64 [ 0, %entry ], [ %fault1, %next_block ]
  %more_blocks = icmp ult i64 %g, %last
  br i1 %more_blocks, label %thread, label %done
thread:
  %b = phi i64 [ 0, %block ], [ %b1, %thread ]
  %fault = phi i64 [ %block_fault, %block ], [ %fault1, %thread ]
  %new = call i64 @{name}.thread(ptr %launch, i64 %g, i64 %b, i64 %threads)
  %fault1 = or i64 %fault, %new
  %b1 = add i64 %b, 1
  %more_threads = icmp ult i64 %b1, %threads
  br i1 %more_threads, label %thread, label %next_block
next_block:
  %g1 = add i64 %g, 1
  br label %block
done:
  ret i64 %block_fault
}}
"""


def _arguments(*types: str) -> str:
    """IR that loads the packed arguments into %a0, %a1, ... by a C struct's rules."""
    fields = ", ".join(types)
    lines = ["%args = getelementptr i8, ptr %launch, i64 32"]
    for i, kind in enumerate(types):
        lines.append(f"%p{i} = getelementptr {{ {fields} }}, ptr %args, i32 0, i32 {i}")
        lines.append(f"%a{i} = load {kind}, ptr %p{i}")
    return "\n  ".join(lines)


def _thread(name: str, body: str) -> str:
    signature = "ptr %launch, i64 %g, i64 %b, i64 %threads"
    return f"define internal i64 @{name}.thread({signature}) alwaysinline {{\nentry:\n{body}}}\n"


def _where() -> str:
    lines = [_arguments("ptr"), "%gt = mul i64 %g, %threads", "%i = add i64 %gt, %b"]
    lines += ["%row_at = mul i64 %i, 12", "%row = getelementptr i32, ptr %a0, i64 %row_at"]
    for k, axis in enumerate(("gx", "gy", "gz", "bx", "by", "bz")):
        lines.append(f"%{axis}_at = getelementptr i32, ptr %launch, i64 {k}")
        lines.append(f"%{axis} = load i32, ptr %{axis}_at")
        lines.append(f"%o{axis} = getelementptr i32, ptr %row, i64 {6 + k}")
        lines.append(f"store i32 %{axis}, ptr %o{axis}")
    for k, (linear, size) in enumerate((("g", "g"), ("b", "b"))):
        lines += [
            f"%{linear}32 = trunc i64 %{linear} to i32",
            f"%{linear}_x = urem i32 %{linear}32, %{size}x",
            f"%{linear}_r = udiv i32 %{linear}32, %{size}x",
            f"%{linear}_y = urem i32 %{linear}_r, %{size}y",
            f"%{linear}_z = udiv i32 %{linear}_r, %{size}y",
        ]
        for j, axis in enumerate("xyz"):
            lines.append(f"%i{linear}{axis} = getelementptr i32, ptr %row, i64 {3 * k + j}")
            lines.append(f"store i32 %{linear}_{axis}, ptr %i{linear}{axis}")
    return _thread("where", "\n".join(lines) + "\nret i64 0\n")


def _types() -> str:
    integers = ("i8", "i8", "i16", "i16", "i32", "i32", "i64", "i64")
    lines = [_arguments("ptr", "ptr", *integers, "float", "double")]
    for k, kind in enumerate(integers):
        widen = "add i64 0," if kind == "i64" else ("zext" if k % 2 else "sext") + f" {kind}"
        lines.append(f"%w{k} = {widen} %a{2 + k}" + ("" if kind == "i64" else " to i64"))
        lines.append(f"%s{k} = getelementptr i64, ptr %a0, i64 {k}")
        lines.append(f"store i64 %w{k}, ptr %s{k}")
    lines += ["%wide = fpext float %a10 to double", "store double %wide, ptr %a1"]
    lines += ["%second = getelementptr double, ptr %a1, i64 1", "store double %a11, ptr %second"]
    return _thread("types", "\n".join(lines) + "\nret i64 0\n")


def _scale() -> str:
    return _thread(
        "scale",
        f"""
  {_arguments("ptr", "i64", "float")}
  %gt = mul i64 %g, %threads
  %i = add i64 %gt, %b
  %inside = icmp slt i64 %i, %a1
  br i1 %inside, label %do, label %done
do:
  %at = getelementptr float, ptr %a0, i64 %i
  %x = load float, ptr %at
  %y = fmul float %x, %a2
  store float %y, ptr %at
  br label %done
done:
  ret i64 0
""",
    )


def _chain() -> str:
    return _thread(
        "chain",
        f"""
  {_arguments("ptr", "i64", "i64", "i64")}
  %cell = alloca i64
  br label %step
step:
  %i = phi i64 [ 0, %entry ], [ %i1, %step ]
  store volatile i64 %i, ptr %cell
  %back = load volatile i64, ptr %cell
  %i1 = add i64 %back, 1
  %more = icmp slt i64 %i1, %a3
  br i1 %more, label %step, label %done
done:
  %x = load i64, ptr %a0
  %ax = mul i64 %x, %a1
  %y = add i64 %ax, %a2
  store i64 %y, ptr %a0
  ret i64 0
""",
    )


def _stop() -> str:
    return _thread(
        "stop",
        f"""
  {_arguments("ptr", "i64")}
  %at = getelementptr i64, ptr %a0, i64 %g
  store i64 1, ptr %at
  %g_is_1 = icmp eq i64 %g, 1
  %b_is_0 = icmp eq i64 %b, 0
  %stops = and i1 %g_is_1, %b_is_0
  %fault = select i1 %stops, i64 %a1, i64 0
  ret i64 %fault
""",
    )


class CPUPrograms:
    """The suite's kernels as a host object."""

    reports_faults = True
    overlaps = True

    @functools.cache  # noqa: B019 (one object for the whole run)
    def code(self) -> bytes:
        import llvmlite.binding as llvm

        llvm.initialize_native_target()
        llvm.initialize_native_asmprinter()
        threads = _where() + _types() + _scale() + _chain() + _stop()
        entries = "".join(ENTRY.format(name=name) for name in conformance.KERNELS)
        module = llvm.parse_assembly(threads + entries)
        module.verify()
        machine = llvm.Target.from_default_triple().create_target_machine(
            opt=2, reloc="pic", codemodel="default"
        )
        return machine.emit_object(module)


class AMDPrograms:
    """The suite's kernels as the stand-in for the HIP runtime has them."""

    reports_faults = True
    overlaps = True

    def code(self) -> bytes:
        return libamdhip64.CODE


BACKENDS: dict[str, tuple[type[Backend], conformance.Programs]] = {
    "cpu": (CPUBackend, CPUPrograms()),
    "far": (FarBackend, CPUPrograms()),
    "nvidia": (NVIDIABackend, NVIDIAPrograms()),
    "amd": (AMDBackend, AMDPrograms()),
    "opencl": (OpenCLBackend, OpenCLPrograms()),
}


@functools.cache
def _backend(name: str) -> Backend:
    platform = PLATFORMS.get(name)
    return platform.new_backend() if platform else BACKENDS[name][0]()


@pytest.fixture(params=[n for n, (kind, _) in BACKENDS.items() if kind.probe().available])
def present(request: pytest.FixtureRequest) -> tuple[Backend, conformance.Programs]:
    backend = _backend(request.param)
    backend.activate(0)
    return backend, BACKENDS[request.param][1]


@pytest.mark.parametrize("check", conformance.checks(), ids=lambda check: check.__name__)
def test_backend(check, present):
    check(*present)
