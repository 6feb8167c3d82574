"""The calls in front of accesses, as they stand in a checked kernel."""

from dataclasses import dataclass

from haulage._core import check
from haulage.compiler.simt.ir.model import Instruction

# What the names of all calls begin with.
CHECKS = "haulage_check_"
# And those of calls that only measure.
LINTS = "haulage_lint_"
THREAD = "haulage_check_thread"
READ, WRITE, ATOMIC = "haulage_check_read", "haulage_check_write", "haulage_check_atomic"
# Where a shared array is, and what stands behind a test of a local one: neither is an access of
# memory that other threads can see.
ARRAY, UNWRITTEN = "haulage_check_array", "haulage_check_unwritten"
# Where a thread ends.
ENDED = "haulage_check_ended"
ACCESSES = (READ, WRITE, ATOMIC)
FENCE = "haulage_check_fence"


@dataclass(frozen=True)
class Call:
    """A call in front of an access, and the block that it is in."""

    item: Instruction
    label: str

    @property
    def how(self) -> int:
        """How the access is described: see `check_native.h`."""
        number = self.item.operands[2].number
        assert number is not None
        return number

    @property
    def range(self) -> int:
        """The range of the launch that it is in, or `check.NO_RANGE`."""
        return self.how >> check.RANGE_AT & check.NO_RANGE

    @property
    def is_shared(self) -> bool:
        """Whether it is one of shared memory."""
        return bool(self.how & check.SHARED)

    @property
    def nbytes(self) -> int:
        """Bytes of the access."""
        return self.how >> check.SIZE_AT & 255
