"""Size classes of small blocks: 8 to a doubling, all multiples of 256 bytes, up to 64 KiB.

So a block takes at most an eighth more than was asked for, but for the smallest, where the
alignment of 256 bytes, which drivers promise for their allocations, takes more.
"""

from haulage._core.memory import ALIGNMENT, LARGEST, class_of

__all__ = ["ALIGNMENT", "LARGEST", "SIZES", "class_of", "slab_bytes"]

_SHIFT = ALIGNMENT.bit_length() - 1


def _size_of(number: int) -> int:
    if number < 8:
        return (number + 1) << _SHIFT
    doubling, step = divmod(number, 8)
    return (step + 9) << (_SHIFT + doubling - 1)


# Bytes of a block of each class.
SIZES = tuple(_size_of(number) for number in range(class_of(LARGEST) + 1))


def slab_bytes(number: int) -> int:
    """Bytes that are cut into blocks of a class at once: 64 KiB, or room for 8 of them."""
    return max(LARGEST, 8 * SIZES[number])
