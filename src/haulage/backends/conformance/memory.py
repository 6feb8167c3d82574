"""Checks of devices, memory, copies and fills."""

import itertools
from collections.abc import Callable
from functools import partial

import numpy as np

from haulage.backends.base import (
    DEVICE,
    KINDS,
    NON_BLOCKING,
    PINNED,
    Backend,
)
from haulage.backends.conformance.room import (
    Programs,
    Room,
    address_of,
    check,
    raised,
    room_of,
    same,
)
from haulage.errors import OutOfMemory, Unsupported


@check
def devices_have_properties(backend: Backend, programs: Programs) -> None:
    """There is a device; its properties are sound and the same each time."""
    assert type(backend).probe().available, "a back end under test must find its driver"
    assert backend.count() >= 1
    first = backend.properties(0)
    assert first == backend.properties(0), "properties changed"
    assert first.name
    assert first.warp_size in (32, 64), f"warp size {first.warp_size}"
    assert first.multiprocessors >= 1
    assert all(extent >= 1 for extent in (*first.max_block, *first.max_grid))
    assert first.total_memory > 0


@check
def memory_info_is_sound(backend: Backend, programs: Programs) -> None:
    """Free memory lies between nothing and all."""
    free, total = backend.memory_info()
    assert 0 < free <= total, f"free {free}, total {total}"


@check
def every_kind_is_aligned_and_apart(backend: Backend, programs: Programs) -> None:
    """Memory of each kind and of odd sizes is aligned to 256 bytes and overlaps no other."""
    with room_of(backend, programs) as room:
        ranges = []
        for kind, nbytes in itertools.product(KINDS, (1, 3, 256, 1000, 100_000)):
            pointer = room.alloc(nbytes, kind)
            assert pointer % 256 == 0, f"{kind} memory of {nbytes} bytes at {pointer:#x}"
            ranges.append((pointer, pointer + nbytes))
        ranges.sort()
        for (_, end), (start, _) in itertools.pairwise(ranges):
            assert end <= start, "two allocations overlap"


@check
def host_pointers_are_host_memory(backend: Backend, programs: Programs) -> None:
    """What has a host pointer can be written by the host and read by a copy."""
    with room_of(backend, programs) as room:
        data = np.arange(100, dtype=np.uint8)
        for kind in KINDS:
            device, host = backend.alloc(data.nbytes, kind)
            if kind == PINNED:
                assert host, "pinned memory without a host pointer"
            if host:
                _host_view(host, data.nbytes)[...] = data
                same(room.get(device, data), data, f"{kind} memory written by the host")
            backend.free(device, host, kind)


def _host_view(address: int, nbytes: int) -> np.ndarray:
    class Raw:
        __array_interface__ = {  # noqa: RUF012
            "data": (address, False),
            "shape": (nbytes,),
            "typestr": "|u1",
            "version": 3,
        }

    return np.asarray(Raw())


@check
def too_much_is_out_of_memory(backend: Backend, programs: Programs) -> None:
    """More than there is raises OutOfMemory, which names the size; less is given after."""
    asked = 1 << 55
    for kind in (DEVICE, PINNED):
        what = f"{asked} bytes of {kind} memory"
        error = raised(OutOfMemory, partial(backend.alloc, asked, kind), what)
        digits = "".join(c for c in str(error) if c.isdigit())
        assert str(asked) in digits, f"the message does not name {asked}: {error}"
    with room_of(backend, programs) as room:
        room.alloc(1024)


@check
def host_memory_can_be_registered(backend: Backend, programs: Programs) -> None:
    """Registered memory is reached through its device pointer, until it is unregistered."""
    with room_of(backend, programs) as room:
        data = np.arange(1 << 16, dtype=np.uint8)
        pointer = backend.register(address_of(data), data.nbytes)
        same(room.get(pointer, data), data, "registered memory")
        backend.unregister(address_of(data))
        backend.register(address_of(data), data.nbytes)
        backend.unregister(address_of(data))


@check
def an_exported_allocation_has_one_handle(backend: Backend, programs: Programs) -> None:
    """Each allocation has a handle of its own, always the same; exporting keeps the contents."""
    with room_of(backend, programs) as room:
        data = [np.full(size, size % 251, np.uint8) for size in (10, 11, 5000, 1 << 20)]
        units = [(room.put(array), array.nbytes) for array in data]
        try:
            handles = [backend.ipc_export(*unit, *unit) for unit in units]
        except Unsupported:
            return
        assert len(set(handles)) == len(handles), "two allocations have the same handle"
        again = [backend.ipc_export(*unit, *unit) for unit in units]
        assert again == handles, "an allocation has two handles"
        for (pointer, _), array in zip(units, data, strict=True):
            same(room.get(pointer, array), array, f"{array.nbytes} exported bytes")


@check
def pieces_of_a_unit_are_exported_one_by_one(backend: Backend, programs: Programs) -> None:
    """Each piece has a handle of its own; the others keep their bytes and can be used by work that
    runs meanwhile; each that is withdrawn can be used again at the latest with the last one."""
    with room_of(backend, programs) as room:
        data = np.random.default_rng(1).integers(0, 256, 1 << 17, np.uint8)
        unit = room.put(data)
        cell = room.put(np.ones(1, np.int64))
        pieces = [(unit + 512 * k, 500) for k in (0, 3, 100)]
        try:
            handles = [backend.ipc_export(*piece, unit, data.nbytes) for piece in pieces]
        except Unsupported:
            return
        assert len(set(handles)) == len(handles), "two pieces have the same handle"
        again = [backend.ipc_export(*piece, unit, data.nbytes) for piece in pieces]
        assert again == handles, "a piece has two handles"
        stream = room.stream(NON_BLOCKING)
        free: list[int] = []
        for number, (pointer, _) in enumerate(pieces):
            room.chain(cell, 1, 1, stream)
            backend.fill(unit + 2048 + number, b"\7", 1, stream)
            data[2048 + number] = 7
            free += backend.ipc_withdraw(pointer)
            same(room.get(unit, data), data, "a unit with exported pieces")
        assert sorted(free) == [pointer for pointer, _ in pieces], f"{free} can be used again"
        assert backend.ipc_export(*pieces[1], unit, data.nbytes) not in handles, "an old handle"
        same(room.get(unit, data), data, "a unit that is exported once more")


@check
def mapped_parts_of_a_range_are_memory(backend: Backend, programs: Programs) -> None:
    """Parts of a reserved range are mapped and unmapped in any order; what stays keeps its bytes,
    and copies go across parts that touch."""
    part = backend.granularity()
    if not part:
        what = "a range of a back end without granularity"
        raised(Unsupported, partial(backend.reserve, 1), what)
        for method in (backend.release, backend.map, backend.unmap):
            raised(Unsupported, partial(method, 1, 1), what)
        return
    assert part & (part - 1) == 0, f"granularity {part}"
    with room_of(backend, programs) as room:
        start = backend.reserve(8 * part)
        other = backend.reserve(part)
        assert start % part == 0, f"a range at {start:#x}"
        assert other + part <= start or start + 8 * part <= other, "two ranges overlap"
        data = np.random.default_rng(1).integers(0, 256, 3 * part, np.uint8)
        for number in (4, 3, 2, 6):
            backend.map(start + number * part, part)
        room.write(start + 2 * part, data)
        backend.unmap(start + 3 * part, part)
        same(room.get(start + 2 * part, data[:part]), data[:part], "the part before an unmapped")
        same(room.get(start + 4 * part, data[:part]), data[2 * part :], "the part behind it")
        backend.map(start + 3 * part, part)
        room.write(start + 2 * part, data[::-1].copy())
        same(room.get(start + 2 * part, data), data[::-1], "a part that was mapped again")
        backend.unmap(start + 2 * part, 3 * part)  # mapped as four parts, unmapped as one
        backend.unmap(start + 6 * part, part)
        backend.release(start, 8 * part)
        backend.release(other, part)


@check
def too_large_a_range_is_out_of_memory(backend: Backend, programs: Programs) -> None:
    """More addresses than there are raise OutOfMemory; fewer are given after."""
    part = backend.granularity()
    if part:
        raised(OutOfMemory, partial(backend.reserve, 1 << 60), "a range of 2**60 bytes")
        backend.release(backend.reserve(part), part)


@check
def copies_go_every_way(backend: Backend, programs: Programs) -> None:
    """Host to device, device to device, device to host: the bytes arrive, their neighbours stay."""
    with room_of(backend, programs) as room:
        data = np.random.default_rng(1).integers(0, 256, 5000, np.uint8)
        first, second = room.put(data), room.put(np.zeros_like(data))
        backend.copy(second + 7, first + 3, 4000, 0)
        expected = np.zeros_like(data)
        expected[7:4007] = data[3:4003]
        same(room.get(second, data), expected, "device to device")


def _strided(room: Room, source: np.ndarray, target: np.ndarray, itemsize: int, what: str) -> None:
    """Copy `source` to `target` (views of one shape) on the device and compare with NumPy."""
    source_base, target_base = _base(source), _base(target)
    expected = target_base.copy()
    _like(target, target_base, expected)[...] = source
    src, dst = room.put(source_base), room.put(target_base)
    room.backend.copy_nd(
        dst + address_of(target) - address_of(target_base),
        target.strides,
        src + address_of(source) - address_of(source_base),
        source.strides,
        source.shape,
        itemsize,
        0,
    )
    same(room.get(dst, target_base), expected, what)


def _base(view: np.ndarray) -> np.ndarray:
    while isinstance(view.base, np.ndarray):
        view = view.base
    return view


def _like(view: np.ndarray, base: np.ndarray, other: np.ndarray) -> np.ndarray:
    """The same view of `other` as `view` is of `base`."""
    offset = address_of(view) - address_of(base)
    return np.ndarray(view.shape, view.dtype, other, offset, view.strides)


@check
def strided_copies(backend: Backend, programs: Programs) -> None:
    """Steps, transposes, reversals and broadcasts give NumPy's result, for every item size."""
    views: dict[str, tuple[Callable, Callable]] = {
        "steps": (lambda a: a[::2, 1:9:3], lambda a: a[3:9, 2:8:2]),
        "transpose": (lambda a: a.T, lambda a: a),
        "reversed source": (lambda a: a[::-1, ::-2], lambda a: a[:, 5:11]),
        "reversed target": (lambda a: a[:, :6], lambda a: a[::-1, ::2]),
        "broadcast row": (lambda a: np.broadcast_to(a[3], a.shape), lambda a: a),
        "broadcast item": (lambda a: np.broadcast_to(a[3, 4], a.shape), lambda a: a),
        "one item": (lambda a: a[5:6, 7:8], lambda a: a[:1, :1]),
        "nothing": (lambda a: a[5:5], lambda a: a[:0]),
        "a scalar": (lambda a: a[2, 3:4].reshape(()), lambda a: a[1, :1].reshape(())),
    }
    with room_of(backend, programs) as room:
        for dtype in ("u1", "u2", "f4", "f8", "c16", "V3", "V12", "V24"):
            for name, (of_source, of_target) in views.items():
                source, target = _numbered(12, dtype, 1), _numbered(12, dtype, 101)
                a, b = of_source(source), of_target(target)
                a, b = (a, b[: a.shape[0]]) if a.ndim else (a, b)
                _strided(room, a, b, source.itemsize, f"{name}, {dtype}")


def _numbered(side: int, dtype: str, start: int) -> np.ndarray:
    items = np.zeros((side, side), dtype)
    raw = items.reshape(-1).view(np.uint8)
    raw[...] = (np.arange(raw.size) + start) % 251
    if dtype in ("f4", "f8", "c16"):  # bytes of ordinary numbers, as NaN is unequal to itself
        items[...] = (np.arange(items.size) + start).reshape(items.shape)
    return items


@check
def three_dimensional_copies(backend: Backend, programs: Programs) -> None:
    """Axes can be permuted at will."""
    with room_of(backend, programs) as room:
        for axes in itertools.permutations(range(3)):
            source = np.arange(4 * 5 * 6, dtype=np.int32).reshape(4, 5, 6).copy()
            view = source.transpose(axes)
            _strided(room, view, np.zeros(view.shape, np.int32), 4, f"axes {axes}")


@check
def fills(backend: Backend, programs: Programs) -> None:
    """A value of 1 to 16 bytes is repeated; bytes before and after stay."""
    with room_of(backend, programs) as room:
        for size in range(1, 17):
            for value in (bytes(range(1, size + 1)), bytes(size), b"\xab" * size):
                around = np.full(1000, 7, np.uint8)
                pointer = room.put(around)
                backend.fill(pointer + 16, value, 50, 0)
                expected = around.copy()
                expected[16 : 16 + 50 * size] = np.frombuffer(value * 50, np.uint8)
                same(room.get(pointer, around), expected, f"fill with {value!r}")
