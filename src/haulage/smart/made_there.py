"""SmartArrays over what was made on a device."""

from haulage.runtime.arrays.array import DeviceNDArray
from haulage.runtime.coherence import Coherence
from haulage.runtime.stream import Stream
from haulage.smart.array import SmartArray


def made_there(array: DeviceNDArray, stream: Stream) -> SmartArray:
    """The SmartArray of a device array without gaps that work of `stream` has made: it is current
    on that device only. Nobody else uses the array or its memory."""
    name, grain = f"SmartArray {array.shape} {array.dtype}", array.dtype.itemsize or 1
    coherence = Coherence(array.nbytes, name, grain=grain)
    coherence.take_over(array.block, stream)
    made = object.__new__(SmartArray)
    made._set(coherence, 0, array.shape, array.strides, array.dtype, 0)
    return made
