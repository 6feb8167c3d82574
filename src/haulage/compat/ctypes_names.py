"""The types of ctypes that `numba.cuda.cudadrv` names for CUDA's driver and compiler."""

from ctypes import CFUNCTYPE, c_byte, c_int, c_size_t, c_void_p, py_object

cu_device = c_int
nvvm_result = c_int
cu_device_attribute = c_int
cu_function_attribute = c_int
cu_jit_option = c_int
cu_jit_input_type = c_int
cu_device_ptr = c_size_t
cu_context = c_void_p
cu_module = c_void_p
cu_function = c_void_p
cu_stream = c_void_p
cu_event = c_void_p
cu_link_state = c_void_p
cu_ipc_mem_handle = c_byte * 64
cu_uuid = c_byte * 16
cu_stream_callback_pyobj = CFUNCTYPE(None, cu_stream, c_int, py_object)
cu_occupancy_b2d_size = CFUNCTYPE(c_size_t, c_int)

CU_STREAM_DEFAULT = 0
CU_STREAM_LEGACY = 1
CU_STREAM_PER_THREAD = 2
