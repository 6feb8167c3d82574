"""Another library with arrays on a GPU, as PyTorch and CuPy are: it works in a stream of its own.

Its arrays are over memory of Haulage's arrays, so that tests can look into them.
"""

import ctypes
import itertools
from ctypes import POINTER, addressof, c_int, c_int32, c_int64, c_void_p, py_object

from haulage.backends.base import NON_BLOCKING
from haulage.runtime.protocols import dlpack
from haulage.runtime.protocols.dlpack_structs import DLManagedTensorVersioned, DLPackVersion, inside

_FROM_OBJECT = ctypes.PYFUNCTYPE(c_int, py_object, POINTER(c_void_p))
_TENSOR = ctypes.PYFUNCTYPE(c_int, py_object, c_void_p)
_STREAM = ctypes.PYFUNCTYPE(c_int, c_int32, c_int32, POINTER(c_void_p))
_DELETER = ctypes.PYFUNCTYPE(None, c_void_p)
_new_capsule = ctypes.PYFUNCTYPE(py_object, c_void_p, ctypes.c_char_p, c_void_p)(
    ("PyCapsule_New", ctypes.pythonapi)
)


class _Table(ctypes.Structure):
    _fields_ = (
        ("version", DLPackVersion),
        ("previous", c_void_p),
        ("allocate", c_void_p),
        ("managed", c_void_p),
        ("to_object", c_void_p),
        ("tensor", c_void_p),
        ("stream", c_void_p),
    )


def _capsule_of(array):
    return array.__dlpack__(max_version=(1, 1), stream=None if _is_on_host(array.device) else -1)


def _is_on_host(device):
    return device.properties.host_memory_is_device_memory


class Library:
    """One such library on one device.

    `current` is the handle of the stream that it works in; it does not wait for the default one.
    `held` are the tensors of its C API that were not given back, `version` is what they say they
    are of, and `tells_strides` whether they have any.
    """

    def __init__(self, device):
        self.device = device
        device.activate()
        self.current = device.backend.stream_create(NON_BLOCKING)
        self.asked = []
        self.held = {}
        self.version = (1, 3)
        self.tells_strides = True
        self._contexts = itertools.count(1)
        self.Array = self._with_exchange_api(type("Array", (), {"__module__": "somebody"}))
        self.Tensor = self._with_exchange_api(type("Tensor", (), {"__module__": "torch"}))

    def close(self):
        """Give its stream back."""
        self.device.activate()
        self.device.backend.stream_destroy(self.current)

    def busy(self):
        """Whether its stream has work that is not done."""
        self.device.activate()
        return not self.device.backend.stream_query(self.current)

    # ---- kinds of arrays ------------------------------------------------------------------------

    def with_exchange_api(self, array, kind=None):
        """An array that has DLPack and its C exchange API; a PyTorch tensor with kind=Tensor."""
        made = (kind or self.Array)()
        made.array = array
        return made

    def with_interface(self, array, **changes):
        """An array that has the CUDA array interface, as CuPy's."""
        library = self

        class Array:
            @property
            def __cuda_array_interface__(self):
                return {
                    "shape": array.shape,
                    "typestr": array.dtype.str,
                    "strides": array.strides,
                    "data": (array.device_pointer, array.readonly),
                    "version": 3,
                    "stream": library.current,
                } | changes

        return Array()

    def before_exchange_api(self, array):
        """A tensor of PyTorch before 2.10: the interface of version 2, and DLPack."""
        made = self.with_interface(array)
        described = made.__cuda_array_interface__
        del described["stream"]
        described["version"] = 2
        kind = type("Tensor", (), {})
        kind.__cuda_array_interface__ = property(lambda _: described)
        kind.__dlpack__ = lambda _, **options: self._capsule(array, options)
        kind.__dlpack_device__ = lambda _: dlpack.place_of(self.device)
        return kind()

    # ---- the C API ------------------------------------------------------------------------------

    def _with_exchange_api(self, kind):
        def managed(obj, out):
            capsule = _capsule_of(obj.array)
            made, context = DLManagedTensorVersioned(), next(self._contexts)
            theirs = inside(capsule)
            made.version = DLPackVersion(*self.version)
            made.manager_ctx = context
            made.deleter = ctypes.cast(self._deleter, c_void_p)
            made.flags = theirs.flags
            made.dl_tensor = theirs.dl_tensor
            if not self.tells_strides:
                made.dl_tensor.strides = None
            self.held[context] = made, capsule
            out[0] = addressof(made)
            return 0

        def tensor(obj, where):
            # The shape and the strides are the object's own.
            array = obj.array
            axes = len(array.shape)
            obj.shape = (c_int64 * axes)(*array.shape)
            steps = (step // array.dtype.itemsize for step in array.strides)
            obj.strides = (c_int64 * axes)(*steps)
            theirs = inside(_capsule_of(array)).dl_tensor
            theirs.shape = ctypes.cast(obj.shape, POINTER(c_int64))
            theirs.strides = ctypes.cast(obj.strides, POINTER(c_int64))
            ctypes.memmove(where, addressof(theirs), ctypes.sizeof(theirs))
            return 0

        def stream(device_type, device_id, out):
            assert (device_type, device_id) == dlpack.place_of(self.device)
            out[0] = self.current
            return 0

        def delete(address):
            made = DLManagedTensorVersioned.from_address(address)
            del self.held[made.manager_ctx]

        self._deleter = _DELETER(delete)
        functions = _FROM_OBJECT(managed), _TENSOR(tensor), _STREAM(stream)
        pointers = [ctypes.cast(function, c_void_p).value for function in functions]
        table = _Table(DLPackVersion(1, 3), None, 1, pointers[0], 1, pointers[1], pointers[2])
        name = b"dlpack_exchange_api"
        kind.__dlpack_c_exchange_api__ = _new_capsule(addressof(table), name, None)
        kind._kept = functions, table, name
        kind.__dlpack__ = lambda obj, **options: self._capsule(obj.array, options)
        kind.__dlpack_device__ = lambda obj: dlpack.place_of(self.device)
        return kind

    def _capsule(self, array, options):
        if _is_on_host(self.device):
            return array.__dlpack__(**options)
        self.asked.append(options.pop("stream", None))
        # The consumer's stream waits for the library's.
        backend = self.device.backend
        self.device.activate()
        event = backend.event_create(False)
        backend.event_record(event, self.current)
        consumer = {1: 0}.get(self.asked[-1], self.asked[-1])
        backend.stream_wait_event(consumer, event)
        backend.event_destroy(event)
        return array.__dlpack__(stream=-1, **options)
