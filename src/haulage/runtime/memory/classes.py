"""Size classes of small blocks: 8 to a doubling, all multiples of 256 bytes, up to 64 KiB.

So a block takes at most an eighth more than was asked for, but for the smallest, where the
alignment of 256 bytes, which drivers promise for their allocations, takes more.
"""

ALIGNMENT = 256
LARGEST = 64 << 10

_SHIFT = ALIGNMENT.bit_length() - 1


def _class_of(nbytes: int) -> int:
    last = nbytes - 1
    shift = max(_SHIFT, last.bit_length() - 4)
    return ((shift - _SHIFT) << 3) + (last >> shift)


def _size_of(number: int) -> int:
    if number < 8:
        return (number + 1) << _SHIFT
    doubling, step = divmod(number, 8)
    return (step + 9) << (_SHIFT + doubling - 1)


# Classes by the number of whole 256 bytes before the last byte.
_CLASSES = tuple(_class_of(n) for n in range(ALIGNMENT, LARGEST + 1, ALIGNMENT))

# Bytes of a block of each class.
SIZES = tuple(_size_of(number) for number in range(_CLASSES[-1] + 1))


def class_of(nbytes: int) -> int:
    """The number of the smallest class that holds `nbytes`, 1 to `LARGEST`."""
    return _CLASSES[(nbytes - 1) >> _SHIFT]


def slab_bytes(number: int) -> int:
    """Bytes that are cut into blocks of a class at once: 64 KiB, or room for 8 of them."""
    return max(LARGEST, 8 * SIZES[number])
