"""What users' lowerings read of a thread's place, under numba's long name for it."""

from haulage.compat.absent import absent
from haulage.compat.special_registers import SREG_MAPPING, SRegBuilder, call_sreg, get_global_id

__all__ = ["SREG_MAPPING", "SRegBuilder", "call_sreg", "get_global_id"]

__getattr__ = absent(
    __name__, "it declares a function of NVIDIA's libraries; kernels' words give LLVM IR instead"
)
