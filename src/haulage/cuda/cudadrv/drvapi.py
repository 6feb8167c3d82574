"""The types of CUDA's driver interface, under numba's long name for their module."""

from haulage.compat.absent import absent
from haulage.compat.ctypes_names import (
    CU_STREAM_DEFAULT,
    CU_STREAM_LEGACY,
    CU_STREAM_PER_THREAD,
    cu_context,
    cu_device,
    cu_device_attribute,
    cu_device_ptr,
    cu_event,
    cu_function,
    cu_function_attribute,
    cu_ipc_mem_handle,
    cu_jit_input_type,
    cu_jit_option,
    cu_link_state,
    cu_module,
    cu_occupancy_b2d_size,
    cu_stream,
    cu_stream_callback_pyobj,
    cu_uuid,
)

__all__ = [
    "CU_STREAM_DEFAULT",
    "CU_STREAM_LEGACY",
    "CU_STREAM_PER_THREAD",
    "cu_context",
    "cu_device",
    "cu_device_attribute",
    "cu_device_ptr",
    "cu_event",
    "cu_function",
    "cu_function_attribute",
    "cu_ipc_mem_handle",
    "cu_jit_input_type",
    "cu_jit_option",
    "cu_link_state",
    "cu_module",
    "cu_occupancy_b2d_size",
    "cu_stream",
    "cu_stream_callback_pyobj",
    "cu_uuid",
]

__getattr__ = absent(__name__, "it is a part of NVIDIA's driver interface; call driver.driver")
