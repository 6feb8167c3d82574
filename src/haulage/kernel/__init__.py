"""`@jit`: from a Python function to kernels that run where their arguments are."""

from haulage.kernel.compilation import compile, result_type
from haulage.kernel.decorator import cuda_jit, jit, roc_jit
from haulage.kernel.device_function import DeviceFunction, declare_device
from haulage.kernel.kernel import Kernel
from haulage.kernel.launcher import Launcher
from haulage.kernel.overload import Overload
from haulage.kernel.vocabulary import CUDA, ROC, Vocabulary

__all__ = [
    "CUDA",
    "ROC",
    "DeviceFunction",
    "Kernel",
    "Launcher",
    "Overload",
    "Vocabulary",
    "compile",
    "cuda_jit",
    "declare_device",
    "jit",
    "result_type",
    "roc_jit",
]
