"""The modules and names of numba.roc that only give names of other modules, and those missing."""

from haulage.compat.modules import Module, Table

_MODULES = {
    "api": Module(
        "The words, under numba's long name for them.",
        {
            "haulage.roc": """
                CLK_GLOBAL_MEM_FENCE CLK_LOCAL_MEM_FENCE activelanepermute_wavewidth barrier
                coarsegrain_array deregister device_array device_array_like ds_bpermute
                ds_permute finegrain_array get_context get_global_id get_global_size get_group_id
                get_local_id get_local_size get_num_groups get_work_dim jit mem_fence register
                shared stream to_device wavebarrier
            """
        },
    ),
    "cg": Module(
        "Cooperative groups, which numba.roc did not have; as `haulage.cuda.cg`.",
        {"haulage.lang.cg": "GridGroup this_grid"},
    ),
    "compiler": Module(
        "Kernels compiled for types that are named, under numba's long names for it.",
        {
            "haulage.kernel.roc_kernel": """
                AutoJitHSAKernel=RocKernel HSAKernel=RocKernel HSAKernelBase=RocKernel
            """,
            "haulage.kernel.device_function": "DeviceFunction",
            "haulage.compat.kernels": "compile_device compile_device_template compile_kernel",
        },
        missing="it is a step of numba.roc's own compilation; "
        "haulage.compile(function, signature).stages has every step's text here",
    ),
    "decorators": Module(
        "What makes kernels, under numba's long name for its module.",
        {"haulage.kernel": "jit=roc_jit"},
    ),
    "dispatch": Module(
        "The classes of ufuncs, under numba's long names for them.",
        {"haulage.lib.ufuncs": "HSAGenerializedUFunc=GUFunc HsaUFuncDispatcher=UFunc"},
        missing="it is a part of numba.roc's own ufuncs",
    ),
    "enums": Module(
        "The flags of barriers and fences, under numba's long name for them.",
        {"haulage.lang.sync": "CLK_GLOBAL_MEM_FENCE CLK_LOCAL_MEM_FENCE"},
    ),
    "hsadrv": Module(
        "Where programs for numba.roc look for its classes by their long names.",
        {"haulage.roc.hsadrv": "devicearray devices driver error"},
    ),
    "hsadrv.devicearray": Module(
        "The classes of arrays, under numba's long name for their module.",
        {
            "haulage.runtime.arrays.copying": "DeviceNDArrayBase",
            "haulage.api": """
                DeviceNDArray DeviceRecord HostArray=MappedNDArray ManagedNDArray MappedNDArray
            """,
            "haulage.compat.arrays": """
                errmsg_contiguous_buffer is_hsa_ndarray=is_cuda_ndarray
                require_hsa_ndarray=require_cuda_ndarray sentry_contiguous
                verify_hsa_ndarray_interface=verify_cuda_ndarray_interface
            """,
            "haulage.roc.arguments": "auto_device from_array_like",
        },
    ),
    "hsadrv.devices": Module(
        "The devices and their contexts, under numba's long name for their module.",
        {
            "haulage.api": "cus=gpus get_context=current_context require_context reset=close",
            "haulage.compat.hsa": "get_all_contexts get_cpu_context get_gpu get_num_gpus",
        },
    ),
    "hsadrv.driver": Module(
        "The classes of the driver's things, under numba's long name for their module.",
        {
            "haulage.runtime.devices.device": "Agent=Device",
            "haulage.runtime.context": "Context",
            "haulage.compat.hsa": "Driver dgpu_count hsa",
            "haulage.api": "Stream",
            "haulage.compat.arrays": "is_device_memory=is_cuda_ndarray",
        },
        others="haulage.compat.hsa.dgpu_present",
    ),
    "hsadrv.error": Module(
        """The errors, under the names that numba.roc gave them.

A failed launch and a mismatch of contexts are `HsaDriverError`s there, as failures of the driver
are; so it is the base of all errors here.
""",
        {
            "haulage.errors": """
                HsaDriverError=HaulageError HsaApiError=DeviceError HsaSupportError=DeviceNotFound
                HsaContextMismatchError=DeviceMismatch HsaKernelLaunchError=LaunchError
            """,
            "haulage.compat.hsa": "HsaWarning",
        },
    ),
    "random": Module(
        "The names of random numbers in kernels of roc: those of `haulage.cuda.random`.",
        {"haulage.lib.random": "*"},
        others="haulage.lib.random.__getattr__",
    ),
    "stubs": Module(
        "What kernels can say, under numba's long name for it.",
        {
            "haulage.roc": """
                activelanepermute_wavewidth atomic barrier ds_bpermute ds_permute get_global_id
                get_global_size get_group_id get_local_id get_local_size get_num_groups
                get_work_dim mem_fence shared wavebarrier
            """
        },
    ),
    "vectorizers": Module(
        'What `numba.vectorize(target="roc")` takes, under numba\'s long name for it.',
        {
            "haulage.lib.ufuncs.builders": """
                HsaGUFuncVectorize=ROCGUFuncVectorize HsaVectorize=ROCVectorize
            """
        },
    ),
}

# What few programs name: it is imported then.
_NAMES = {
    "haulage.lib.reduce": "Reduce reduce=Reduce",
    "haulage.lib.ufuncs": "guvectorize=roc_guvectorize vectorize=roc_vectorize",
    "haulage.roc.testing": "test",
}

_MISSING = {
    "an inner part of numba.roc; its words are in `roc` itself": "codegen target",
}

TABLE = Table("haulage.roc", __file__, _MODULES, _NAMES, "cg hsadrv random", _MISSING)
