"""Attributes of numba.cuda that lie in other modules, which are imported when they are named."""

# Modules that numba.cuda has under shorter names.
MODULES = {
    "config": "numba.core.config",
    "devicearray": "haulage.cuda.cudadrv.devicearray",
    "devices": "haulage.cuda.cudadrv.devices",
    "driver": "haulage.cuda.cudadrv.driver",
    "nvvm": "haulage.cuda.cudadrv.nvvm",
    "reduction": "haulage.cuda.kernels.reduction",
}

_TYPES = """
    Dim3 GridGroup grid_group
    b1 bool bool_ boolean byte c8 c16 char complex64 complex128 deferred_type double f4 f8 ffi
    ffi_forced_object float32 float64 i1 i2 i4 i8 int8 int16 int32 int64 int_ intc intp long_
    longlong none optional short size_t ssize_t u1 u2 u4 u8 uchar uint uint8 uint16 uint32 uint64
    uintc uintp ulong ulonglong ushort void
"""

# Of these and of the submodules what `dir()` gives: what programs write.
_OFFERED = """
    cg cudadrv extending libdevice random testing types
    boolean complex64 complex128 float32 float64 int8 int16 int32 int64 intp uint8 uint16 uint32
    uint64 uintp void
"""
OFFERED = _OFFERED.split()

_LINKABLE = "Archive CUSource Cubin Fatbin LTOIR LinkableCode Object PTXSource"

# Names, and the full names of what they name.
NAMES = (
    {name: f"haulage.cuda.types.{name}" for name in _TYPES.split()}
    | {name: f"haulage.kernel.linkable.{name}" for name in _LINKABLE.split()}
    | {
        "Reduce": "haulage.lib.reduce.Reduce",
        "guvectorize": "haulage.lib.ufuncs.cuda_guvectorize",
        "literal_unroll": "numba.literal_unroll",
        "reduce": "haulage.lib.reduce.Reduce",
        "vectorize": "haulage.lib.ufuncs.cuda_vectorize",
    }
)
