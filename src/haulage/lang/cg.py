"""Cooperative groups: the whole grid as a group of threads that can wait for one another."""

from typing import Any

from haulage.lang.word import word

# Set on the `llvmlite.ir` module of code that names its grid as a group.
GRID_GROUP = "haulage_grid_group"


class GridGroup:
    """What `this_grid()` gives in a kernel: all threads of the grid."""

    def sync(self) -> None:
        """Wait until every thread of the grid is here; their writes are seen then."""
        raise RuntimeError("GridGroup.sync() means something only inside a kernel")


@word("cg.this_grid")
def this_grid(tools: Any) -> Any:
    """`cg.this_grid()`: the grid of this thread as a group; its `sync()` waits for all of it.

    All blocks of such a kernel are there at one time, so a grid has no more of them than the
    overload's `max_cooperative_grid_blocks(block)` says.
    """

    def generate(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        setattr(builder.module, GRID_GROUP, True)
        return context.get_dummy_value()

    return tools.signature(tools.GridGroupType()), generate


@word("GridGroup.sync")
def grid_sync(tools: Any, group: Any) -> Any:
    """`group.sync()`: wait until every thread of the grid is here; their writes are seen then."""

    def generate(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        setattr(builder.module, GRID_GROUP, True)
        place = context.haulage_faults.grid_barrier(builder.module, *tools.source_place(builder))
        context.haulage_target.grid_barrier(builder, place)
        return context.get_dummy_value()

    return tools.signature(tools.types.none, group), generate
