"""The AMD back end's own kernels (`backends.gpu_driver.kernels`): copies between any strides, and
fills.

All that a kernel is given is read where the launch has put it, the axes of a copy in a loop over
them, and nothing is asked of the hidden arguments: how many threads there are stands in the packet.
"""

from functools import cache

from haulage.backends.gpu_driver.kernels import AXES, COPY, FILL, SIZES, THREADS
from haulage.compiler import llvm
from haulage.compiler.gpu.amd.build import with_version
from haulage.targets.amd import TRIPLE, target
from haulage.targets.amd_linker import link

# Where the tables of a copy's axes are, and the value of a fill.
_SIZES_AT = 24
_TARGET_STEPS_AT = _SIZES_AT + 4 * AXES
_SOURCE_STEPS_AT = _TARGET_STEPS_AT + 8 * AXES
_VALUE_AT = 16
# Threads of the whole launch, in its packet (`hsa_kernel_dispatch_packet_t.grid_size_x`).
_ALL_THREADS_AT = 12

_HEAD = f"""target triple = "{TRIPLE}"
declare i32 @llvm.amdgcn.workgroup.id.x()
declare i32 @llvm.amdgcn.workitem.id.x()
declare ptr addrspace(4) @llvm.amdgcn.dispatch.ptr()
"""
_ATTRIBUTES = (
    f'"amdgpu-flat-work-group-size"="{THREADS},{THREADS}" "uniform-work-group-size"="true" '
    '"amdgpu-no-implicitarg-ptr" nounwind'
)

# From the kernel's first thread to its last: `%number` is an element's.
_KERNEL = """
define protected amdgpu_kernel void @{name}(ptr addrspace(4) byref([{nbytes} x i8]) align 8 %given)
    {attributes} {{
entry:
  %group = call i32 @llvm.amdgcn.workgroup.id.x()
  %lane = call i32 @llvm.amdgcn.workitem.id.x()
  %packet = call ptr addrspace(4) @llvm.amdgcn.dispatch.ptr()
  %threads.at = getelementptr i8, ptr addrspace(4) %packet, i64 {threads_at}
  %threads = load i32, ptr addrspace(4) %threads.at, align 4
  %before = mul i32 %group, {threads}
  %first = add i32 %before, %lane
  %target = load i64, ptr addrspace(4) %given, align 8
{reads}
  %some = icmp ult i32 %first, %total
  br i1 %some, label %next, label %done
next:
  %number = phi i32 [ %first, %entry ], [ %following, %moved ]
{body}
moved:
  %following = add i32 %number, %threads
  %more = icmp ult i32 %following, %total
  br i1 %more, label %next, label %done
done:
  ret void
}}
"""
_READ = """  %{name}.at = getelementptr i8, ptr addrspace(4) %given, i64 {at}
  %{name} = load i{bits}, ptr addrspace(4) %{name}.at, align {align}"""

_COPY = """
  br label %along
along:
  %axis = phi i32 [ 0, %next ], [ %axis.next, %along ]
  %rest = phi i32 [ %number, %next ], [ %places, %along ]
  %to = phi i64 [ %target, %next ], [ %to.next, %along ]
  %of = phi i64 [ %source, %next ], [ %of.next, %along ]
  %axis.wide = zext i32 %axis to i64
  %axis.4 = shl i64 %axis.wide, 2
  %axis.8 = shl i64 %axis.wide, 3
  %size.at = getelementptr i8, ptr addrspace(4) %sizes.at, i64 %axis.4
  %size = load i32, ptr addrspace(4) %size.at, align 4
  %places = udiv i32 %rest, %size
  %whole = mul i32 %places, %size
  %place = sub i32 %rest, %whole
  %place.wide = zext i32 %place to i64
  %to.step.at = getelementptr i8, ptr addrspace(4) %to.steps.at, i64 %axis.8
  %to.step = load i64, ptr addrspace(4) %to.step.at, align 8
  %to.more = mul i64 %place.wide, %to.step
  %to.next = add i64 %to, %to.more
  %of.step.at = getelementptr i8, ptr addrspace(4) %of.steps.at, i64 %axis.8
  %of.step = load i64, ptr addrspace(4) %of.step.at, align 8
  %of.more = mul i64 %place.wide, %of.step
  %of.next = add i64 %of, %of.more
  %axis.next = add i32 %axis, 1
  %axes.left = icmp ult i32 %axis.next, %axes
  br i1 %axes.left, label %along, label %move
move:
  %to.pointer = inttoptr i64 %to.next to ptr addrspace(1)
  %of.pointer = inttoptr i64 %of.next to ptr addrspace(1)
  %value = load {kind}, ptr addrspace(1) %of.pointer, align {size}
  store {kind} %value, ptr addrspace(1) %to.pointer, align {size}
  br label %moved
"""
_FILL = """
  %step = mul i32 %units, {size}
  %step.wide = zext i32 %step to i64
  %number.wide = zext i32 %number to i64
  %from = mul i64 %number.wide, %step.wide
  %start = add i64 %target, %from
  br label %each
each:
  %unit = phi i32 [ 0, %next ], [ %unit.next, %each ]
  %unit.wide = zext i32 %unit to i64
  %far = mul i64 %unit.wide, {size}
  %part.at = getelementptr i8, ptr addrspace(4) %value.at, i64 %far
  %part = load {kind}, ptr addrspace(4) %part.at, align {align}
  %at = add i64 %start, %far
  %pointer = inttoptr i64 %at to ptr addrspace(1)
  store {kind} %part, ptr addrspace(1) %pointer, align {size}
  %unit.next = add i32 %unit, 1
  %units.left = icmp ult i32 %unit.next, %units
  br i1 %units.left, label %each, label %moved
"""
# By the bytes of an element.
_KINDS = {1: "i8", 2: "i16", 4: "i32", 8: "i64", 16: "<2 x i64>"}


@cache
def code(architecture: str) -> bytes:
    """The code object of all of them for an architecture.

    Raises:
        ValueError: there is no code generator for it.
    """
    made_for = target(architecture)
    with llvm.LOCK:
        module = llvm.parse(text())
        return link(llvm.object_code(module, made_for))


def text() -> str:
    """The module, in LLVM's language."""
    return with_version(_HEAD + "".join(_copy(size) + _fill(size) for size in SIZES), 0)


def _copy(size: int) -> str:
    reads = [
        _READ.format(name="source", at=8, bits=64, align=8),
        _READ.format(name="total", at=16, bits=32, align=4),
        _READ.format(name="axes", at=20, bits=32, align=4),
        _place("sizes.at", _SIZES_AT),
        _place("to.steps.at", _TARGET_STEPS_AT),
        _place("of.steps.at", _SOURCE_STEPS_AT),
    ]
    body = _COPY.format(kind=_KINDS[size], size=size)
    return _kernel(f"haulage_copy_{size}", COPY.size, reads, body)


def _fill(size: int) -> str:
    reads = [
        _READ.format(name="total", at=8, bits=32, align=4),
        _READ.format(name="units", at=12, bits=32, align=4),
        _place("value.at", _VALUE_AT),
    ]
    body = _FILL.format(kind=_KINDS[size], size=size, align=min(size, 8))
    return _kernel(f"haulage_fill_{size}", FILL.size, reads, body)


def _place(name: str, at: int) -> str:
    return f"  %{name} = getelementptr i8, ptr addrspace(4) %given, i64 {at}"


def _kernel(name: str, nbytes: int, reads: list[str], body: str) -> str:
    return _KERNEL.format(
        name=name,
        nbytes=nbytes,
        attributes=_ATTRIBUTES,
        threads_at=_ALL_THREADS_AT,
        threads=THREADS,
        reads="\n".join(reads),
        body=body.strip("\n"),
    )
