"""The conformance suite's kernels as SPIR-V, for drivers of OpenCL."""

import functools

_PLACES = """
declare i64 @_Z12get_group_idj(i32)
declare i64 @_Z12get_local_idj(i32)
declare i64 @_Z14get_num_groupsj(i32)
declare i64 @_Z14get_local_sizej(i32)

define internal i64 @linear_block() {
  %x = call i64 @_Z12get_group_idj(i32 0)
  %y = call i64 @_Z12get_group_idj(i32 1)
  %z = call i64 @_Z12get_group_idj(i32 2)
  %nx = call i64 @_Z14get_num_groupsj(i32 0)
  %ny = call i64 @_Z14get_num_groupsj(i32 1)
  %zy = mul i64 %z, %ny
  %yz = add i64 %y, %zy
  %yzx = mul i64 %yz, %nx
  %all = add i64 %x, %yzx
  ret i64 %all
}

define internal i64 @linear_thread() {
  %x = call i64 @_Z12get_local_idj(i32 0)
  %y = call i64 @_Z12get_local_idj(i32 1)
  %z = call i64 @_Z12get_local_idj(i32 2)
  %nx = call i64 @_Z14get_local_sizej(i32 0)
  %ny = call i64 @_Z14get_local_sizej(i32 1)
  %zy = mul i64 %z, %ny
  %yz = add i64 %y, %zy
  %yzx = mul i64 %yz, %nx
  %all = add i64 %x, %yzx
  ret i64 %all
}

define internal i64 @threads() {
  %x = call i64 @_Z14get_local_sizej(i32 0)
  %y = call i64 @_Z14get_local_sizej(i32 1)
  %z = call i64 @_Z14get_local_sizej(i32 2)
  %xy = mul i64 %x, %y
  %all = mul i64 %xy, %z
  ret i64 %all
}

define internal i64 @linear() {
  %g = call i64 @linear_block()
  %b = call i64 @linear_thread()
  %n = call i64 @threads()
  %gn = mul i64 %g, %n
  %i = add i64 %gn, %b
  ret i64 %i
}
"""

_REST = """
define spir_kernel void @scale(i64 %x, i64 %n, float %factor) {
  %i = call i64 @linear()
  %inside = icmp slt i64 %i, %n
  br i1 %inside, label %do, label %done
do:
  %base = inttoptr i64 %x to ptr addrspace(1)
  %at = getelementptr float, ptr addrspace(1) %base, i64 %i
  %old = load float, ptr addrspace(1) %at
  %new = fmul float %old, %factor
  store float %new, ptr addrspace(1) %at
  br label %done
done:
  ret void
}

define spir_kernel void @chain(i64 %x, i64 %a, i64 %b, i64 %rounds) {
entry:
  %cell = alloca i64
  br label %step
step:
  %i = phi i64 [ 0, %entry ], [ %i1, %step ]
  store volatile i64 %i, ptr %cell
  %back = load volatile i64, ptr %cell
  %i1 = add i64 %back, 1
  %more = icmp slt i64 %i1, %rounds
  br i1 %more, label %step, label %done
done:
  %at = inttoptr i64 %x to ptr addrspace(1)
  %old = load i64, ptr addrspace(1) %at
  %ax = mul i64 %old, %a
  %new = add i64 %ax, %b
  store i64 %new, ptr addrspace(1) %at
  ret void
}

define spir_kernel void @stop(i64 %x, i64 %fault, i64 %haulage_channel, i32 %haulage_module) {
  %g = call i64 @linear_block()
  %b = call i64 @linear_thread()
  %base = inttoptr i64 %x to ptr addrspace(1)
  %at = getelementptr i64, ptr addrspace(1) %base, i64 %g
  store i64 1, ptr addrspace(1) %at
  %g_is_1 = icmp eq i64 %g, 1
  %b_is_0 = icmp eq i64 %b, 0
  %stops = and i1 %g_is_1, %b_is_0
  br i1 %stops, label %tell, label %done
tell:
  %number = zext i32 %haulage_module to i64
  %offset = shl i64 %number, 2
  %faults = add i64 %haulage_channel, 64
  %cell = add i64 %faults, %offset
  %cell_at = inttoptr i64 %cell to ptr addrspace(1)
  %code = trunc i64 %fault to i32
  %before = atomicrmw umax ptr addrspace(1) %cell_at, i32 %code seq_cst
  %any = inttoptr i64 %haulage_channel to ptr addrspace(1)
  %was = atomicrmw xchg ptr addrspace(1) %any, i32 1 seq_cst
  br label %done
done:
  ret void
}
"""


def _where() -> str:
    lines = [
        "define spir_kernel void @where(i64 %out) {",
        "%i = call i64 @linear()",
        "%row = mul i64 %i, 12",
        "%base = inttoptr i64 %out to ptr addrspace(1)",
    ]
    words = ("_Z12get_group_idj", "_Z12get_local_idj", "_Z14get_num_groupsj", "_Z14get_local_sizej")
    for k, (word, axis) in enumerate((word, axis) for word in words for axis in range(3)):
        lines += [
            f"%w{k} = call i64 @{word}(i32 {axis})",
            f"%t{k} = trunc i64 %w{k} to i32",
            f"%p{k} = add i64 %row, {k}",
            f"%a{k} = getelementptr i32, ptr addrspace(1) %base, i64 %p{k}",
            f"store i32 %t{k}, ptr addrspace(1) %a{k}",
        ]
    return "\n".join([*lines, "ret void", "}\n"])


def _types() -> str:
    integers = ("i8", "i8", "i16", "i16", "i32", "i32", "i64", "i64")
    given = [f"{kind} %a{k}" for k, kind in enumerate(integers)]
    lines = [
        f"define spir_kernel void @types(i64 %ints, i64 %floats, {', '.join(given)}, "
        "float %f, double %d) {",
        "%to = inttoptr i64 %ints to ptr addrspace(1)",
        "%tof = inttoptr i64 %floats to ptr addrspace(1)",
    ]
    for k, kind in enumerate(integers):
        widen = "add i64 0," if kind == "i64" else ("zext" if k % 2 else "sext") + f" {kind}"
        lines.append(f"%w{k} = {widen} %a{k}" + ("" if kind == "i64" else " to i64"))
        lines.append(f"%s{k} = getelementptr i64, ptr addrspace(1) %to, i64 {k}")
        lines.append(f"store i64 %w{k}, ptr addrspace(1) %s{k}")
    lines += ["%wide = fpext float %f to double", "store double %wide, ptr addrspace(1) %tof"]
    lines += ["%second = getelementptr double, ptr addrspace(1) %tof, i64 1"]
    lines += ["store double %d, ptr addrspace(1) %second", "ret void", "}\n"]
    return "\n".join(lines)


class OpenCLPrograms:
    """The suite's kernels as one SPIR-V module."""

    reports_faults = True
    # Who waits on the processor lends a hand, and may have taken up a long kernel.
    overlaps = False

    @functools.cache  # noqa: B019 (one module for the whole run)
    def code(self) -> bytes:
        import llvmlite.binding as llvm

        llvm.initialize_all_targets()
        llvm.initialize_all_asmprinters()
        triple = "spirv64-unknown-unknown"
        text = f'target triple = "{triple}"\n' + _PLACES + _where() + _types() + _REST
        module = llvm.parse_assembly(text)
        module.verify()
        machine = llvm.Target.from_triple(triple).create_target_machine(opt=2)
        return machine.emit_object(module)
