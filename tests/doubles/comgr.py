"""AMD's code object manager (libamd_comgr of ROCm, or of Debian's libamd-comgr2), which needs no
GPU: what it reads from a code object."""

import ctypes
from collections.abc import Callable
from typing import Any

_EXECUTABLE = 8  # AMD_COMGR_DATA_KIND_EXECUTABLE
_STRING, _MAP, _LIST = 1, 2, 3  # AMD_COMGR_METADATA_KIND_...
# AMD_COMGR_SYMBOL_INFO_...
_NAME_LENGTH, _NAME, _SIZE, _IS_UNDEFINED, _VALUE = 0, 1, 3, 4, 5

_Handle = ctypes.c_uint64


def library() -> Any:
    """The library, or None where it is not installed."""
    for name in ("libamd_comgr.so.3", "libamd_comgr.so.2"):
        try:
            return ctypes.CDLL(name)
        except OSError:
            continue
    return None


def metadata(code: bytes) -> Any:
    """What a code object says of its kernels: dicts, lists, and strings for all else."""
    comgr = library()
    data = _data(comgr, code)
    found = _Handle()
    _done(comgr.amd_comgr_get_data_metadata(data, ctypes.byref(found)))
    made = _value(comgr, found)
    _done(comgr.amd_comgr_destroy_metadata(found))
    _done(comgr.amd_comgr_release_data(data))
    return made


def symbols(code: bytes) -> dict[str, tuple[int, int]]:
    """(address, size) of the symbols that a code object defines, by name."""
    comgr = library()
    data, found = _data(comgr, code), {}

    def take(symbol: int, _: Any) -> int:
        def asked(what: int) -> int:
            value = ctypes.c_uint64()
            comgr.amd_comgr_symbol_get_info(_Handle(symbol), what, ctypes.byref(value))
            return value.value

        name = ctypes.create_string_buffer(asked(_NAME_LENGTH) + 1)
        comgr.amd_comgr_symbol_get_info(_Handle(symbol), _NAME, name)
        if not asked(_IS_UNDEFINED) & 1:
            found[name.value.decode()] = asked(_VALUE), asked(_SIZE)
        return 0

    call = ctypes.CFUNCTYPE(ctypes.c_int, _Handle, ctypes.c_void_p)(take)
    _done(comgr.amd_comgr_iterate_symbols(data, call, None))
    _done(comgr.amd_comgr_release_data(data))
    return found


def _data(comgr: Any, code: bytes) -> _Handle:
    data = _Handle()
    _done(comgr.amd_comgr_create_data(_EXECUTABLE, ctypes.byref(data)))
    _done(comgr.amd_comgr_set_data(data, ctypes.c_size_t(len(code)), code))
    return data


def _value(comgr: Any, of: _Handle) -> Any:
    kind, size = ctypes.c_int(), ctypes.c_size_t()
    _done(comgr.amd_comgr_get_metadata_kind(of, ctypes.byref(kind)))
    if kind.value == _STRING:
        _done(comgr.amd_comgr_get_metadata_string(of, ctypes.byref(size), None))
        text = ctypes.create_string_buffer(size.value)
        _done(comgr.amd_comgr_get_metadata_string(of, ctypes.byref(size), text))
        return text.value.decode()
    if kind.value == _MAP:
        made = {}

        def take(key: int, value: int, _: Any) -> int:
            made[_value(comgr, _Handle(key))] = _value(comgr, _Handle(value))
            return 0

        call: Callable[..., int] = ctypes.CFUNCTYPE(
            ctypes.c_int, _Handle, _Handle, ctypes.c_void_p
        )(take)
        _done(comgr.amd_comgr_iterate_map_metadata(of, call, None))
        return made
    assert kind.value == _LIST, kind.value
    _done(comgr.amd_comgr_get_metadata_list_size(of, ctypes.byref(size)))
    listed = []
    for number in range(size.value):
        each = _Handle()
        _done(comgr.amd_comgr_index_list_metadata(of, ctypes.c_size_t(number), ctypes.byref(each)))
        listed.append(_value(comgr, each))
        _done(comgr.amd_comgr_destroy_metadata(each))
    return listed


def _done(status: int) -> None:
    assert status == 0, status
