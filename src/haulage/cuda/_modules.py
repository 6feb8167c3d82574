"""The modules and names of numba.cuda that only give names of other modules, and those missing."""

from haulage.compat.modules import Module, Table

_NOT_NVIDIA = "it is of code for NVIDIA's GPUs, which this version does not make"
_SIMULATOR = (
    "Numba's simulator of CUDA; Haulage compiles kernels for the CPU instead (HAULAGE_DEVICE=cpu)"
)
_MATHEMATICS = (
    "kernels say math.sin, NumPy's ufuncs or cuda.libdevice.sin, and @numba.extending.overload "
    "adds functions"
)
_UFUNCS = {"haulage.lib.ufuncs": "guvectorize=cuda_guvectorize vectorize=cuda_vectorize"}
_EXTENDING = "haulage.compiler.frontend.extending"

_MODULES = {
    "api": Module(
        "The host's side, under numba's long name for it.",
        {
            "haulage.api": """
                as_cuda_array close current_context default_stream defer_cleanup detect
                device_array device_array_like event event_elapsed_time external_stream
                from_cuda_array_interface get_current_device gpus is_cuda_array
                is_float16_supported legacy_default_stream list_devices managed_array mapped
                mapped_array mapped_array_like open_ipc_array per_thread_default_stream pinned
                pinned_array pinned_array_like profile_start profile_stop profiling
                require_context select_device stream synchronize to_device
            """
        },
    ),
    "api_util": Module(
        "The arithmetic of shapes and strides, under numba's long name for it.",
        {
            "haulage.compat.arrays": """
                _fill_stride_by_order=fill_stride_by_order prepare_shape_strides_dtype
            """
        },
    ),
    "args": Module(
        "Which way arguments of kernels are copied, under numba's long name for it.",
        {"haulage.api": "ArgHint In InOut Out wrap_arg"},
    ),
    "cache_hints": Module(
        "Loads and stores with a hint for the caches, under numba-cuda's name for their module.",
        {"haulage.lang.cached": "ldca ldcg ldcs ldcv ldlu stcg stcs stwb stwt"},
    ),
    "cg": Module(
        "`numba.cuda.cg`: cooperative groups.", {"haulage.lang.cg": "GridGroup this_grid"}
    ),
    "codegen": Module(
        "The classes that gather a kernel's LLVM IR, under numba's long names for them.",
        {"haulage.compiler.frontend.codegen": "CUDACodeLibrary=IRLibrary JITCUDACodegen=IRCodegen"},
        missing=_NOT_NVIDIA,
    ),
    "compiler": Module(
        "Compiling for NVIDIA's GPUs and for kernels, under numba's long names for it.",
        {
            "haulage.compiler.frontend.pipeline": "CUDACompiler=SIMTPipeline",
            "haulage.compat.kernels": "compile_cuda",
            "haulage.kernel.ptx": """
                compile compile_all compile_for_current_device compile_ptx
                compile_ptx_for_current_device
            """,
        },
        missing="it is a step of numba.cuda's own compilation; "
        "haulage.compile(function, signature).stages has every step's text here",
    ),
    "cuda_paths": Module(
        "Where NVIDIA's files are; nothing of it is here.",
        missing="it looks for NVIDIA's compiler and libraries, which this version needs none of; "
        "`haulage info --verbose` says which devices there are and what was looked for",
    ),
    "cudadecl": Module(
        "Where programs say what calls and attributes in kernels give, under numba's long name.",
        {
            _EXTENDING: """
                registry=typing_registry register=typing_registry.register
                register_attr=typing_registry.register_attr
                register_global=typing_registry.register_global
            """
        },
        missing="kernels' words are typed by Haulage, one object each; the registry is for words "
        "of yours",
    ),
    "cudadrv": Module(
        "Where programs for numba.cuda look for its private side; modules are imported when named.",
        {"haulage.cuda.cudadrv": "devicearray devices driver error runtime"},
        missing="it is a part of NVIDIA's driver that Haulage has no use of",
    ),
    "cudadrv.devicearray": Module(
        "The classes of arrays, under numba's long name for their module.",
        {
            "haulage.runtime.arrays.copying": "DeviceNDArrayBase",
            "haulage.api": "DeviceNDArray DeviceRecord MappedNDArray ManagedNDArray IpcArrayHandle",
            "haulage.compat.arrays": """
                array_core auto_device check_array_compatibility errmsg_contiguous_buffer
                from_array_like from_record_like is_contiguous is_cuda_ndarray
                require_cuda_ndarray sentry_contiguous verify_cuda_ndarray_interface
            """,
            # Programs import it from here: their editors found it in numba's module.
            "functools": "lru_cache",
        },
    ),
    "cudadrv.devices": Module(
        "The devices and which one is current, under numba's long name for their module.",
        {
            "haulage.api": """
                gpus get_context=current_context require_context reset=close
                _DeviceList=gpus.__class__
            """
        },
    ),
    "cudadrv.driver": Module(
        "The driver's things, under numba's long name for their module.",
        {
            "haulage.api": """
                BaseCUDAMemoryManager Context Event GetIpcHandleMixin HostOnlyCUDAMemoryManager
                IpcHandle ManagedMemory MappedMemory MemoryInfo MemoryPointer PinnedMemory Stream
                event_elapsed_time get_version=runtime.get_version profile_start profile_stop
                profiling runtime set_memory_manager
            """,
            "haulage.errors": """
                CudaAPIError=DeviceError CudaDriverError=DeviceError
                CudaSupportError=DeviceNotFound
            """,
            "haulage.runtime.devices.device": "Device",
            "haulage.runtime.plugins.managers": """
                NumbaCUDAMemoryManager=DriverMemoryManager _PendingDeallocs=PendingDeallocations
            """,
            "haulage.runtime.plugins.pointers": """
                AutoFreePointer OwnedPointer ManagedOwnedPointer=OwnedPointer
                MappedOwnedPointer=OwnedPointer
            """,
            "haulage.compat.driver": "Driver SUPPORTS_IPC USE_NV_BINDING driver",
            "haulage.compat.nvidia": """
                DeadMemoryError Linker LinkerError _have_nvjitlink=have_nvjitlink launch_kernel
            """,
            "haulage.compat.arrays": """
                device_ctypes_pointer device_extents device_memory_depends device_memory_size
                device_memset device_pointer device_to_device device_to_host host_memory_extents
                host_memory_size host_pointer host_to_device is_device_memory
                memory_size_from_info require_device_memory
            """,
            "haulage.cuda.cudadrv": "enums",
        },
        missing="it is a part of NVIDIA's driver; driver.driver answers what Haulage can",
        kind="haulage.compat.driver.DriverModule",
    ),
    "cudadrv.drvapi": Module(
        "The types of CUDA's driver interface, under numba's long name for their module.",
        {
            "haulage.compat.nvidia": """
                CU_STREAM_DEFAULT CU_STREAM_LEGACY CU_STREAM_PER_THREAD cu_context cu_device
                cu_device_attribute cu_device_ptr cu_event cu_function cu_function_attribute
                cu_ipc_mem_handle cu_jit_input_type cu_jit_option cu_link_state cu_module
                cu_occupancy_b2d_size cu_stream cu_stream_callback_pyobj cu_uuid
            """
        },
        missing="it is a part of NVIDIA's driver interface; call driver.driver",
    ),
    "cudadrv.dummyarray": Module(
        "Shapes and strides without memory, under numba's long name for their module.",
        {"haulage.compat.dummy_array": "Array Dim Element Extent"},
    ),
    "cudadrv.enums": Module(
        "Numbers of CUDA's driver, under numba's long name for their module.",
        {"haulage.compat.cuda_numbers": "*"},
    ),
    "cudadrv.error": Module(
        "The errors, under the names that numba.cuda gives them.",
        {
            "haulage.errors": """
                CudaDriverError=DeviceError CudaRuntimeError=DeviceError
                CudaSupportError=DeviceNotFound
            """,
            "haulage.compat.nvidia": """
                NvrtcCompilationError NvrtcError NvrtcSupportError NvvmError NvvmSupportError
                NvvmWarning
            """,
        },
    ),
    "cudadrv.libs": Module(
        "The search for NVIDIA's libraries, of which Haulage needs none.",
        {"haulage.compat.nvidia": "test=test_libraries"},
        missing="it looks for NVIDIA's libraries; `haulage info --verbose` shows what devices were "
        "looked for",
    ),
    "cudadrv.linkable_code": Module(
        "Code of others that kernels are linked with, under numba-cuda's long name for its module.",
        {
            "haulage.kernel.linkable": """
                Archive CUSource Cubin Fatbin LTOIR LinkableCode Object PTXSource
            """
        },
        missing="it is an inner part of numba-cuda's way to link code",
    ),
    "cudadrv.ndarray": Module(
        "Memory for host arrays, under numba's long name for its module.",
        {"haulage.compat.arrays": "ndarray_device_allocate_data"},
    ),
    "cudadrv.nvrtc": Module(
        "NVIDIA's compiler NVRTC, which Haulage does not use, under numba's long name for it.",
        {"haulage.compat.nvidia": "NvrtcCompilationError NvrtcError NvrtcSupportError"},
        missing="it compiles CUDA C++ for NVIDIA's devices; write the kernel in Python with "
        "@cuda.jit",
    ),
    "cudadrv.nvvm": Module(
        "NVIDIA's compiler NVVM, which Haulage does not use, under numba's long name for it.",
        {
            "haulage.compat.nvidia": """
                NvvmError NvvmSupportError NvvmWarning find_closest_arch
                is_available=nvvm_is_available nvvm_result
            """
        },
        missing="it is a part of NVIDIA's compiler, and Haulage compiles with LLVM; "
        "kernel.inspect_llvm() and kernel.inspect_asm() show what it makes",
    ),
    "cudadrv.rtapi": Module(
        "The prototypes of NVIDIA's runtime library, which Haulage does not call.",
        missing="it describes functions of NVIDIA's runtime library; cuda.runtime tells its "
        "version",
    ),
    "cudadrv.runtime": Module(
        "The version of CUDA's runtime, under numba's long name for its module.",
        {
            "haulage.errors": "CudaRuntimeAPIError=DeviceError",
            "haulage.api": "Runtime=runtime.__class__ get_version=runtime.get_version runtime",
        },
    ),
    "cudaimpl": Module(
        "Where programs say what LLVM IR calls and attributes become, under numba's long name.",
        {
            _EXTENDING: """
                registry=lowering_registry lower=lowering_registry.lower
                lower_attr=lowering_registry.lower_getattr
                lower_constant=lowering_registry.lower_constant
            """
        },
        missing="kernels' words are lowered by Haulage, one object each; the registry is for words "
        "of yours",
    ),
    "cudamath": Module(
        "Where programs type functions of mathematics, under numba's long name for it.",
        {_EXTENDING: "infer_global=typing_registry.register_global registry=typing_registry"},
        missing=f"Numba's typing of math functions for PTX; {_MATHEMATICS}",
    ),
    "decorators": Module(
        "What makes kernels, under numba's long name for its module.",
        {"haulage.kernel": "jit=cuda_jit declare_device"},
    ),
    "descriptor": Module(
        "`cuda_target`: what kernels of the current device are typed and lowered with.",
        others="haulage.compat.kernels.current_descriptor",
    ),
    "device_init": Module(
        "The names of numba.cuda, under numba's long name for where it takes them from.",
        {"haulage.cuda": "*"},
    ),
    "deviceufunc": Module(
        "How generalised ufuncs take shapes apart, under numba's long name for it.",
        {"haulage.compat.gufunc_schedule": "GUFuncEngine GUFuncSchedule"},
        missing="classes to derive a ufunc of another device from; Haulage's ufuncs are made by "
        "cuda.vectorize and cuda.guvectorize only",
    ),
    "dispatcher": Module(
        "The classes of kernels, under numba's long names for them.",
        {
            "haulage.kernel.as_function": "CUDADispatcher=AsFunction Dispatcher=AsFunction",
            "haulage.kernel.launcher": "ForAll=Launcher _LaunchConfiguration=Launcher",
            "haulage.kernel.overload": "_Kernel=Overload",
        },
        missing="it is a part of numba.cuda's own dispatcher; kernels are made by cuda.jit, and "
        "cache=True keeps their code in Haulage's folder",
    ),
    "errors": Module(
        "The errors of kernels, and what is checked before a launch, under numba's long names.",
        {
            "haulage.errors": "CudaLoweringError=CompileError KernelRuntimeError=KernelError",
            "haulage.compat.kernels": "missing_launch_config_msg normalize_kernel_dimensions",
        },
    ),
    "extending": Module(
        "Extending the kernel language; names that are not here are those of `numba.extending`.",
        {
            _EXTENDING: """
                core_models infer infer_getattr intrinsic lower_getattr_generic
                lower_setattr_generic overload overload_attribute overload_method
            """
        },
        others=f"{_EXTENDING}.__getattr__",
    ),
    "initialize": Module(
        "Numba's registration of its own compiler for NVIDIA's GPUs; nothing of it is here.",
        missing="it registers Numba's own compiler for NVIDIA's GPUs; nothing needs that here",
    ),
    "intrinsic_wrapper": Module(
        "The words that warps exchange values with, under numba's long name for them.",
        {
            "haulage.lang.warp": """
                all_sync any_sync ballot_sync eq_sync shfl_down_sync shfl_sync shfl_up_sync
                shfl_xor_sync
            """
        },
    ),
    "intrinsics": Module(
        "The words for a thread's place and its block's barriers, under numba's long name.",
        {
            "haulage.lang.index": "grid gridsize",
            "haulage.lang.sync": "syncthreads syncthreads_and syncthreads_count syncthreads_or",
        },
    ),
    "kernels": Module(
        "Kernels that come with numba.cuda, under numba's long name for them.",
        {"haulage.cuda.kernels": "reduction transpose"},
    ),
    "kernels.reduction": Module(
        "`cuda.reduce`, under numba's long name for it.", {"haulage.lib.reduce": "Reduce"}
    ),
    "kernels.transpose": Module(
        "Transposes on the device, under numba's long name for them.",
        {"haulage.lib.transpose": "transpose"},
    ),
    "libdevice": Module(
        "The functions of CUDA's libdevice: `from haulage.cuda import libdevice`.",
        {"haulage.lang.libdevice.words": "*"},
    ),
    "libdevicefuncs": Module(
        "The prototypes of libdevice's functions as Numba's types, under numba's long name.",
        {"haulage.lang.libdevice.prototypes": "arg create_signature functions"},
    ),
    "mathimpl": Module(
        "Where programs lower functions of mathematics, under numba's long name for it.",
        {_EXTENDING: "lower=lowering_registry.lower registry=lowering_registry"},
        missing=f"Numba's lowering of math functions to libdevice; {_MATHEMATICS}",
    ),
    "models": Module(
        "What values of a type are made of in kernels, under numba's long name for it.",
        {_EXTENDING: "cuda_data_manager=data_models register_model"},
        missing="register_model is for types of yours; base classes are in numba.extending.models",
    ),
    "np": Module(
        "numba-cuda's copies of Numba's modules on NumPy: those below this are Numba's own.",
        {"haulage.cuda.np": "ufunc"},
    ),
    "np.ufunc": Module("What makes ufuncs, under numba-cuda's long name for its package.", _UFUNCS),
    "np.ufunc.decorators": Module(
        "What makes ufuncs, under numba-cuda's long name for its module.", _UFUNCS
    ),
    "nvvmutils": Module(
        "What users' lowerings read of a thread's place, under numba's long name for it.",
        {"haulage.compat.kernels": "SREG_MAPPING SRegBuilder call_sreg get_global_id"},
        missing="it declares a function of NVIDIA's libraries; kernels' words give LLVM IR instead",
    ),
    "printimpl": Module(
        "How Numba lowers `print` for NVIDIA's GPUs; nothing of it is here.",
        missing="print is lowered by Haulage and takes strings, numbers, bools, dates and tuples",
    ),
    "random": Module(
        "The names of numba.cuda.random, on any device: `from haulage.cuda import random`.",
        {"haulage.lib.random": "*"},
        others="haulage.lib.random.__getattr__",
    ),
    "simulator": Module(
        "Numba's simulator, which Haulage's CPU device stands in for; nothing of it is here.",
        missing=f"{_SIMULATOR}, and debug=True finds failing threads there",
    ),
    "simulator.api": Module(
        "The names of numba.cuda for the host, under the long name of the simulator's own.",
        {"haulage.cuda.api": "*"},
    ),
    "simulator.kernel": Module(
        "The kernels of Numba's simulator; nothing of them is here.", missing=_SIMULATOR
    ),
    "stubs": Module(
        "What kernels can say, under numba's long name for it.",
        {
            "haulage.cuda": """
                activemask atomic blockDim blockIdx brev cbrt clz const ffs fma fp16 gridDim
                laneid lanemask_lt local match_all_sync match_any_sync nanosleep popc selp shared
                syncwarp threadIdx threadfence threadfence_block threadfence_system warpsize
            """,
            "haulage.lang.vectors": "*",
        },
    ),
    "target": Module(
        "The classes of what kernels are typed and lowered with, under numba's long names.",
        {
            "haulage.compiler.frontend.convention": "CUDACallConv=CallConvention",
            "haulage.compiler.frontend.target": """
                CUDATargetContext=SIMTContext CUDATypingContext=SIMTTypingContext
            """,
        },
        missing=_NOT_NVIDIA,
    ),
    "types": Module(
        "The types of kernels' words; names that are not here are those of `numba.types`.",
        {"haulage.compiler.frontend.kinds": "CUDADispatcher Dim3 GridGroup grid_group"},
        others="haulage.compiler.frontend.kinds.__getattr__",
    ),
    "ufuncs": Module(
        "How Numba lowers NumPy's ufuncs for NVIDIA's GPUs; nothing of it is here.",
        missing="Numba's table of libdevice behind NumPy's ufuncs; kernels call the ufuncs "
        "themselves",
    ),
    "vector_types": Module(
        "The types of short vectors as Numba sees them, under numba's long name for them.",
        {
            "haulage.lang.vector_type": "VectorType",
            "haulage.lang.vector_types": "vector_types",
        },
    ),
    "vectorizers": Module(
        'What `numba.vectorize(target="cuda")` takes and makes, under numba\'s long names.',
        {
            "haulage.lib.ufuncs.builders": "CUDAGUFuncVectorize CUDAVectorize",
            "haulage.lib.ufuncs": "CUDAGeneralizedUFunc=GUFunc CUDAUFuncDispatcher=UFunc",
        },
        missing="an inner part of Numba's ufuncs; Haulage's are made by vectorize and guvectorize",
    ),
}

# What few programs name: it is imported then.
_NAMES = {
    "haulage.cuda.types": """
        Dim3 GridGroup grid_group
        b1 bool bool_ boolean byte c8 c16 char complex64 complex128 deferred_type double f4 f8
        ffi ffi_forced_object float32 float64 i1 i2 i4 i8 int8 int16 int32 int64 int_ intc intp
        long_ longlong none optional short size_t ssize_t u1 u2 u4 u8 uchar uint uint8 uint16
        uint32 uint64 uintc uintp ulong ulonglong ushort void
    """,
    "haulage.kernel.linkable": "Archive CUSource Cubin Fatbin LTOIR LinkableCode Object PTXSource",
    "haulage.lib.reduce": "Reduce reduce=Reduce",
    "haulage.lib.ufuncs": "guvectorize=cuda_guvectorize vectorize=cuda_vectorize",
    "haulage.cuda.cudadrv": "devicearray devices driver nvvm",
    "haulage.cuda.kernels": "reduction",
    "numba": "literal_unroll",
    "numba.core": "config",
}

_OFFERED = """
    cg cudadrv extending libdevice random testing types
    boolean complex64 complex128 float32 float64 int8 int16 int32 int64 intp uint8 uint16 uint32
    uint64 uintp void
"""

_MISSING = {
    "a type that kernels do not have yet": "bfloat16 bf16 fp8",
    "a type of Numba's own, for its compiler; the word is `Dim3` in `numba.cuda.types`": "dim3",
    "an inner part of numba-cuda; its words are in `cuda` itself": """
        cext flags fp16 launchconfig literal locks memory_management cudadrv.mappings
    """,
    "about numba-cuda itself: which GPUs it makes code for": """
        config_default_cc numba_cuda_default_ptx_cc
    """,
    "an inner part of Numba's": """
        alias prepare_shape_strides_dtype shfl_sync_intrinsic vote_sync_intrinsic libdevicedecl
        libdeviceimpl
    """,
    "runs Numba's own tests: `haulage run -m numba.runtests numba.cuda.tests` does": "test",
    _SIMULATOR: """
        simulator.compiler simulator.cudadrv simulator.kernelapi simulator.reduction
        simulator.vector_types
    """,
    "Numba removed it; `cuda.jit` compiles for the types that a kernel is called with": "autojit",
    "kernels take the functions of `math` and `numpy`, and those of `cuda.libdevice`": """
        abs acos asin atan atan2 ceil cos cosh erf exp fabs floor hypot isnan log log10 log2 max
        min pow rsqrt sin sinh sqrt tan tanh
    """,
}

TABLE = Table("haulage.cuda", __file__, _MODULES, _NAMES, _OFFERED, _MISSING)
