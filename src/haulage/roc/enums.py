"""The flags of barriers and fences, under numba's long name for them."""

from haulage.lang.sync import CLK_GLOBAL_MEM_FENCE, CLK_LOCAL_MEM_FENCE

__all__ = ["CLK_GLOBAL_MEM_FENCE", "CLK_LOCAL_MEM_FENCE"]
