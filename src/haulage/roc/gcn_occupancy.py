"""How many wavefronts a compute unit of AMD's first GCN GPUs holds of a kernel: arithmetic only.

No launch asks this: limits are those that the device tells. `kernel.get_regs_per_thread()` gives
the vector registers of a kernel that is compiled.
"""

from typing import NamedTuple

# A compute unit has this many parts, over which the wavefronts of a group are spread evenly.
simd_per_cu = 4
wave_size = 64
max_wave_count = 10
# Of each part: vector registers for each lane, and scalar registers, which a wavefront shares.
_VECTOR_REGISTERS = 256
sgpr_per_simd = 512
max_group_size = 256

_SUGGESTIONS = {
    "allowed_wave": "* The group has more wavefronts than fit. Try reducing group-size.",
    "allowed_wave_due_to_sgpr": "* The scalar registers do not suffice for its wavefronts.",
    "allowed_wave_due_to_vgpr": "* The vector registers do not suffice for its wavefronts.",
    "group_size": f"* The group has more than {max_group_size} work-items.",
}


class Limits(NamedTuple):
    """What `get_limiting_factors` gives.

    Wavefronts are those of one of the four parts of a compute unit. `occupancy` is the part of the
    greatest number of wavefronts that one group makes up, 0 if the group does not fit. `reasons`
    has the names of the figures by which it does not, `suggestions` a line for each.
    """

    allowed_wave_due_to_sgpr: int
    allowed_wave_due_to_vgpr: int
    allowed_wave: int
    allowed_vgpr_per_workitem: int
    occupancy: float
    reasons: set[str]
    suggestions: list[str]


def get_limiting_factors(group_size: int, vgpr_per_workitem: int, sgpr_per_wave: int) -> Limits:
    """Whether a group of `group_size` work-items fits into a compute unit, and what limits it.

    Args:
        group_size: work-items of a group.
        vgpr_per_workitem: vector registers that a work-item takes.
        sgpr_per_wave: scalar registers that a wavefront takes.
    """
    needed = -(-group_size // (simd_per_cu * wave_size))
    by_scalars = sgpr_per_simd // max(sgpr_per_wave, 1)
    by_vectors = _VECTOR_REGISTERS // max(vgpr_per_workitem, 1)
    allowed = min(by_scalars, by_vectors, max_wave_count)
    reasons = {
        name
        for name, most in (
            ("allowed_wave_due_to_sgpr", by_scalars),
            ("allowed_wave_due_to_vgpr", by_vectors),
            ("allowed_wave", allowed),
        )
        if most < needed
    }
    if group_size > max_group_size:
        reasons.add("group_size")
    return Limits(
        allowed_wave_due_to_sgpr=by_scalars,
        allowed_wave_due_to_vgpr=by_vectors,
        allowed_wave=allowed,
        allowed_vgpr_per_workitem=-(-_VECTOR_REGISTERS // needed),
        occupancy=0 if reasons else needed / max_wave_count,
        reasons=reasons,
        suggestions=[_SUGGESTIONS[name] for name in sorted(reasons)],
    )
