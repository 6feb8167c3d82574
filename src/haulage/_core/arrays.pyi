from typing import Any

class Header:
    block: Any
    device: Any
    device_pointer: Any
    dtype: Any
    layout: Any
    readonly: Any
    shape: Any
    size: Any
    stream: Any
    strides: Any

def know(dtype_type: type, array_type: type, stream_type: type) -> None: ...
def know_dtype(given: object, dtype: object) -> None: ...
def new_array(shape: object, dtype: object, order: str, stream: object) -> Any: ...
