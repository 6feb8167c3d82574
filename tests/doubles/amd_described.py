"""What a code object says of its kernels, field by field: a launch passes it, the hardware is told
the same, and LLVM's reader finds what ours does."""

import re
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from doubles import amd_loader
from haulage.backends import message_pack
from haulage.backends.amd_driver.metadata import GRID_COUNTER
from haulage.targets.amd_architectures import version
from haulage.targets.amd_metadata import Argument, KernelMetadata, _note, kernels

_TARGET = "amdgcn-amd-amdhsa--"
# Where each is of what the runtime adds, from where that begins, and its size ("AMDGPU User Guide",
# Code Object V5 Metadata). The others want something prepared, and none of them is asked for.
_HIDDEN = {
    **{f"hidden_block_count_{axis}": (4 * i, 4) for i, axis in enumerate("xyz")},
    **{f"hidden_group_size_{axis}": (12 + 2 * i, 2) for i, axis in enumerate("xyz")},
    **{f"hidden_remainder_{axis}": (18 + 2 * i, 2) for i, axis in enumerate("xyz")},
    **{f"hidden_global_offset_{axis}": (40 + 8 * i, 8) for i, axis in enumerate("xyz")},
    "hidden_grid_dims": (64, 2),
    # In the place of the bytes of dynamic shared memory, see `amd_linker.link`.
    "hidden_none": (120, 4),
}
_HIDDEN_BYTES, _HIDDEN_ALIGN = 256, 8
# GPUs whose registers are given out by eights in wavefronts of 64 too.
_BY_EIGHTS = ((9, 0, 10), (9, 4, 2), (9, 5, 0))


@dataclass(frozen=True)
class Launch:
    """What is known where a kernel is launched: how `struct` calls its arguments, what the code's
    metadata has, and what it was compiled for."""

    architecture: str
    format: str
    offsets: tuple[int, ...]
    argument_bytes: int
    shared_bytes: int
    local_bytes: int
    max_threads: int
    lanes: int

    def arguments(self) -> Iterator[tuple[int, int, str]]:
        """(offset, bytes, kind) of each argument, as `struct` packs it."""
        end = 0
        for count, letter in re.findall(r"(\d*)([^@\d])", self.format):
            nbytes = struct.calcsize(letter)
            for _ in range(int(count or 1)):
                offset = -(-end // nbytes) * nbytes
                yield offset, nbytes, "global_buffer" if letter == "P" else "by_value"
                end = offset + nbytes


def architecture(code: bytes) -> str:
    """What a code object says that it is for."""
    target: str = message_pack.read(_note(code))["amdhsa.target"]
    return target.removeprefix(_TARGET)


def check_launch(code: bytes, launch: Launch) -> None:
    """Raise an AssertionError unless the one kernel of a code object takes what `launch` passes."""
    assert architecture(code) == launch.architecture
    (kernel,) = kernels(code).values()
    hidden = [each for each in kernel.arguments if each.is_hidden]
    read = [(each.offset, each.nbytes, each.kind) for each in kernel.arguments]
    packed = list(launch.arguments())
    assert tuple(offset for offset, _, _ in packed) == launch.offsets
    end = max((offset + nbytes for offset, nbytes, _ in packed), default=0)
    assert struct.calcsize(launch.format) == launch.argument_bytes == end
    if any(each.name == GRID_COUNTER for each in kernel.arguments):
        # The back end adds it.
        packed.append((-(-end // 8) * 8, 8, "global_buffer"))
        end = packed[-1][0] + 8
    assert read[: len(read) - len(hidden)] == packed
    _check_hidden(kernel, hidden, end)
    aligned = [_HIDDEN_ALIGN] * bool(hidden) + [nbytes for _, nbytes, _ in packed]
    assert kernel.argument_align == max([4, *aligned])
    assert kernel.shared_bytes == launch.shared_bytes
    assert kernel.local_bytes == launch.local_bytes
    assert kernel.max_threads == launch.max_threads
    assert kernel.lanes == launch.lanes
    # By which the launch finds it, and the loader.
    assert kernel.descriptor == f"{kernel.name}.kd"
    # Functions that call themselves have room for more than one call.
    assert not kernel.uses_dynamic_stack or kernel.local_bytes > 4096


def _check_hidden(kernel: KernelMetadata, hidden: list[Argument], end: int) -> None:
    if not hidden:
        assert kernel.argument_bytes == -(-end // 4) * 4
        return
    start = -(-end // _HIDDEN_ALIGN) * _HIDDEN_ALIGN
    assert kernel.argument_bytes == start + _HIDDEN_BYTES
    for each in hidden:
        assert (each.offset - start, each.nbytes) == _HIDDEN.get(each.kind), each


def check_descriptors(code: bytes) -> None:
    """Raise an AssertionError unless the descriptors, by which the hardware goes, say what the note
    does, by which the runtime goes ("AMDGPU User Guide", Kernel Descriptor)."""
    loaded, found = amd_loader.load(code), kernels(code)
    number = version(architecture(code))
    assert found.keys() == loaded.kernels.keys()
    for name, kernel in found.items():
        assert loaded.entry(name) == loaded.functions[name].address
        said = loaded.read(loaded.kernels[name].address, 64)
        nbytes = (kernel.shared_bytes, kernel.local_bytes, kernel.argument_bytes)
        assert struct.unpack_from("<III", said) == nbytes
        registers, enabled, properties = struct.unpack_from("<IIH", said, 48)
        assert (properties >> 10 & 1) == (kernel.lanes == 32)
        assert (properties >> 11 & 1) == kernel.uses_dynamic_stack
        assert (enabled & 1) == bool(kernel.local_bytes or kernel.uses_dynamic_stack)
        by = 8 if kernel.lanes == 32 or number in _BY_EIGHTS else 4
        assert by * (1 + (registers & 63)) >= kernel.registers
        if number < (10, 0, 0):
            assert 16 * (1 + (registers >> 6 & 15) // 2) >= kernel.scalar_registers


def check_reading(code: bytes, printed: str) -> None:
    """Raise an AssertionError unless llvm-readelf, which has printed that, finds in the note what
    `amd_metadata` does."""
    start = printed.index("---\n")
    lines = printed[start : printed.index("\n...\n", start)].splitlines()
    found = [re.fullmatch(r"(?:- | )*([.\w]+): +([^\s\[].*)", line) for line in lines]
    theirs = [(each[1], each[2].strip("'")) for each in found if each]
    assert theirs == list(_flat(message_pack.read(_note(code))))


def _flat(value: Any) -> Iterator[tuple[str, str]]:
    """The texts and numbers of tables in one another, in order, but for those in lists."""
    for key, each in value.items():
        if isinstance(each, list):
            for inner in each:
                yield from _flat(inner) if isinstance(inner, dict) else ()
        else:
            yield key, str(each).lower() if isinstance(each, bool) else str(each)
