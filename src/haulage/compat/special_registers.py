"""The registers that users' lowerings read, by the names that NVIDIA's have.

`builder` is an `llvmlite.ir.IRBuilder` that stands in a function of a kernel; what is built is for
that kernel's target.
"""

from typing import Any

from haulage.lang import tools
from haulage.lang.index import global_index
from haulage.lang.warp import laneid, warpsize

# NVIDIA's name -> the kernel's word for it.
SREG_MAPPING = {
    **{
        f"{theirs}.{axis}": f"{ours}.{axis}"
        for theirs, ours in (
            ("tid", "threadIdx"),
            ("ntid", "blockDim"),
            ("ctaid", "blockIdx"),
            ("nctaid", "gridDim"),
        )
        for axis in "xyz"
    },
    **{each.name: each.name for each in (laneid, warpsize)},
}


def call_sreg(builder: Any, name: str) -> Any:
    """The LLVM value, an i32, of the register called `name`.

    Raises:
        KeyError: there is none of that name; the names are those of `SREG_MAPPING`.
    """
    target = builder.module.haulage_target
    for register in (laneid, warpsize):
        if register.name == name:
            return register.read(builder, target)
    return target.register(builder, SREG_MAPPING[name])


class SRegBuilder:
    """The registers of one axis, `"x"`, `"y"` or `"z"`, and what is made of them."""

    def __init__(self, builder: Any) -> None:
        self.builder = builder

    def tid(self, xyz: str) -> Any:
        """The thread's place in its block, an i32."""
        return call_sreg(self.builder, f"tid.{xyz}")

    def ctaid(self, xyz: str) -> Any:
        """The block's place in the grid, an i32."""
        return call_sreg(self.builder, f"ctaid.{xyz}")

    def ntid(self, xyz: str) -> Any:
        """Threads of a block, an i32."""
        return call_sreg(self.builder, f"ntid.{xyz}")

    def nctaid(self, xyz: str) -> Any:
        """Blocks of the grid, an i32."""
        return call_sreg(self.builder, f"nctaid.{xyz}")

    def getdim(self, xyz: str) -> Any:
        """The thread's place in the grid, an i64."""
        return global_index(tools, self.builder.module.haulage_target, self.builder, xyz)


def get_global_id(builder: Any, dim: int) -> Any:
    """The thread's place in the grid: an i64 for `dim` 1, else a list of `dim`."""
    registers = SRegBuilder(builder)
    places = [registers.getdim(axis) for axis in "xyz"[:dim]]
    return places[0] if dim == 1 else places
