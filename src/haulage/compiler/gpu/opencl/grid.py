"""What the barrier of a grid is made of on OpenCL devices; its counter is a parameter."""

from haulage.compiler.gpu.grid import GridWords
from haulage.targets.opencl_ir import ALL_MEMORY, HIDDEN, INDEX

_READ = "haulage_register."
_REGISTERS = {"tid": "threadIdx", "ctaid": "blockIdx", "ntid": "blockDim", "nctaid": "gridDim"}
_DEFINITION = """
define internal i32 @{name}() alwaysinline nounwind {{
  %value = call i32 @"{index}"()
  ret i32 %value
}}
declare i32 @"{index}"()
"""


def _definitions() -> str:
    parts = [
        "declare void @_Z7barrierj(i32) convergent nounwind",
        f'declare i64 @"{HIDDEN}grid_counter"() nounwind willreturn memory(none)',
    ]
    for register, group in _REGISTERS.items():
        for axis in "xyz":
            name, index = f"{_READ}{register}.{axis}", f"{INDEX}{group}.{axis}"
            parts.append(_DEFINITION.format(name=name, index=index))
    return "\n".join(parts)


WORDS = GridWords(
    read=_READ,
    barrier=f"call void @_Z7barrierj(i32 {ALL_MEMORY})",
    counter=f"""
  %counter.number = call i64 @"{HIDDEN}grid_counter"()
  %counter = inttoptr i64 %counter.number to ptr addrspace(1)
""",
    scope="device",
    others=_definitions(),
    inlined="alwaysinline",
)
