"""Kernels inside of functions that `jax.jit` compiles, by XLA's foreign function interface.

`register(name, launch)` makes a handler of `launch(inputs, outputs)`, which is called with NumPy
arrays over XLA's own buffers; nothing is copied. It uses what JAX publishes: `jax.ffi`, and the C
structures of `xla/ffi/api/c_api.h`, which `jax.ffi.include_dir()` finds and of which those that are
needed stand below (version 0 of that interface). It is for JAX's arrays on the CPU.

`python examples/jax_ffi.py` squares numbers in a jitted function.
"""

import ctypes
from collections.abc import Callable
from ctypes import CFUNCTYPE, POINTER, Structure, c_char_p, c_int, c_int64, c_size_t, c_void_p
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from haulage import cuda


class Extension(Structure):
    """XLA_FFI_Extension_Base; XLA asks a handler once for its version by one of type 1."""


Extension._fields_ = (
    ("struct_size", c_size_t),
    ("type", c_int),
    ("next", POINTER(Extension)),
)


class Version(Structure):
    """XLA_FFI_Api_Version."""

    _fields_ = (
        ("struct_size", c_size_t),
        ("extension", c_void_p),
        ("major", c_int),
        ("minor", c_int),
    )


class Metadata(Structure):
    """The beginning of XLA_FFI_Metadata."""

    _fields_ = (("struct_size", c_size_t), ("version", Version), ("traits", ctypes.c_uint32))


class MetadataExtension(Structure):
    """XLA_FFI_Metadata_Extension."""

    _fields_ = (("base", Extension), ("metadata", POINTER(Metadata)))


class Buffer(Structure):
    """XLA_FFI_Buffer."""

    _fields_ = (
        ("struct_size", c_size_t),
        ("extension", c_void_p),
        ("dtype", c_int),
        ("data", c_void_p),
        ("rank", c_int64),
        ("dims", POINTER(c_int64)),
    )


class Buffers(Structure):
    """XLA_FFI_Args and XLA_FFI_Rets."""

    _fields_ = (
        ("struct_size", c_size_t),
        ("extension", c_void_p),
        ("size", c_int64),
        ("types", POINTER(c_int)),
        ("buffers", POINTER(POINTER(Buffer))),
    )


class Failure(Structure):
    """XLA_FFI_Error_Create_Args."""

    _fields_ = (
        ("struct_size", c_size_t),
        ("extension", c_void_p),
        ("message", c_char_p),
        ("code", c_int),
    )


class Api(Structure):
    """The beginning of XLA_FFI_Api."""

    _fields_ = (
        ("struct_size", c_size_t),
        ("extension", c_void_p),
        ("version", Version),
        ("internal", c_void_p),
        ("error_create", CFUNCTYPE(c_void_p, POINTER(Failure))),
    )


class Call(Structure):
    """The beginning of XLA_FFI_CallFrame."""

    _fields_ = (
        ("struct_size", c_size_t),
        ("extension", POINTER(Extension)),
        ("api", POINTER(Api)),
        ("context", c_void_p),
        ("stage", c_int),
        ("inputs", Buffers),
        ("outputs", Buffers),
    )


_METADATA, _INTERNAL = 1, 13
# XLA_FFI_DataType
_DTYPES = {
    **{1: "?", 2: "i1", 3: "i2", 4: "i4", 5: "i8", 6: "u1", 7: "u2", 8: "u4", 9: "u8"},
    **{10: "f2", 11: "f4", 12: "f8", 15: "c8", 18: "c16"},
}
_HANDLER = CFUNCTYPE(c_void_p, POINTER(Call))
# XLA calls them as long as the process lives.
_handlers = []

Launch = Callable[[list[np.ndarray], list[np.ndarray]], Any]


def register(name: str, launch: Launch) -> None:
    """Let `jax.ffi.ffi_call(name, ...)` call `launch(inputs, outputs)` on the CPU.

    An exception that it raises becomes the error of the jitted function.
    """

    @_HANDLER
    def handle(given: Any) -> Any:
        call = given.contents
        if call.extension and call.extension.contents.type == _METADATA:
            asked = ctypes.cast(call.extension, POINTER(MetadataExtension)).contents
            asked.metadata.contents.version.major = 0
            asked.metadata.contents.version.minor = 1
            return None
        try:
            launch(_arrays(call.inputs, writeable=False), _arrays(call.outputs, writeable=True))
        except Exception as error:
            text = f"{type(error).__name__}: {error}".encode()
            failure = Failure(ctypes.sizeof(Failure), None, text, _INTERNAL)
            return call.api.contents.error_create(ctypes.byref(failure))
        return None

    _handlers.append(handle)
    jax.ffi.register_ffi_target(name, jax.ffi.pycapsule(handle), platform="cpu")


def _arrays(given: Buffers, writeable: bool) -> list[np.ndarray]:
    return [_array(given.buffers[n].contents, writeable) for n in range(given.size)]


def _array(buffer: Buffer, writeable: bool) -> np.ndarray:
    if buffer.dtype not in _DTYPES:
        raise TypeError(f"XLA's type {buffer.dtype} has no dtype in NumPy")
    shape = tuple(buffer.dims[: buffer.rank])
    dtype = np.dtype(_DTYPES[buffer.dtype])
    memory = (ctypes.c_char * (dtype.itemsize * int(np.prod(shape)))).from_address(buffer.data or 0)
    array = np.frombuffer(memory, dtype).reshape(shape)
    array.flags.writeable = writeable
    return array


# ---- a kernel in a jitted function --------------------------------------------------------------


@cuda.jit
def square(x, y):
    i = cuda.grid(1)
    if i < x.size:
        y[i] = x[i] * x[i]


def launch_square(inputs: list[np.ndarray], outputs: list[np.ndarray]) -> None:
    """Launch `square` on arrays of any shape."""
    x, y = inputs[0].reshape(-1), outputs[0].reshape(-1)
    if x.size:
        square[(x.size + 127) // 128, 128](x, y)


register("haulage_square", launch_square)


def squared(x: jax.Array) -> jax.Array:
    """The squares of an array, by the kernel; for `jax.jit` and `jax.vmap`."""
    shape = jax.ShapeDtypeStruct(x.shape, x.dtype)
    return jax.ffi.ffi_call("haulage_square", shape, vmap_method="broadcast_all")(x)


if __name__ == "__main__":
    print(jax.jit(lambda x: squared(x) + 1)(jnp.arange(5.0)))
