"""`haulage.roc.gcn_occupancy`: by what GCN's registers and wavefronts a group is limited."""

import pytest

from haulage.roc.gcn_occupancy import get_limiting_factors

SCALARS, VECTORS = "allowed_wave_due_to_sgpr", "allowed_wave_due_to_vgpr"


@pytest.mark.parametrize(
    ("group", "vectors", "scalars", "waves", "registers", "occupancy", "reasons"),
    [
        # Two wavefronts in each part, of which one only has its vector registers.
        (400, 130, 50, (10, 1, 1), 128, 0, {VECTORS, "allowed_wave", "group_size"}),
        # One of them fits.
        (256, 130, 50, (10, 1, 1), 256, 0.1, set()),
        # Eight, and scalar registers for six.
        (2048, 20, 80, (6, 12, 6), 32, 0, {SCALARS, "allowed_wave", "group_size"}),
        # Eight fit, and groups are too large all the same.
        (2048, 30, 51, (10, 8, 8), 32, 0, {"group_size"}),
        # Few work-items take a wavefront in each part too.
        (3, 128, 8, (64, 2, 2), 256, 0.1, set()),
        # A work-item takes more than there are.
        (3, 300, 4, (128, 0, 0), 256, 0, {VECTORS, "allowed_wave"}),
        # What takes no registers takes one.
        (64, 0, 0, (512, 256, 10), 256, 0.1, set()),
    ],
)
def test_what_limits_a_group(group, vectors, scalars, waves, registers, occupancy, reasons):
    found = get_limiting_factors(group, vectors, scalars)
    assert (found.allowed_wave_due_to_sgpr, found.allowed_wave_due_to_vgpr) == waves[:2]
    assert found.allowed_wave == waves[2]
    assert found.allowed_vgpr_per_workitem == registers
    assert found.occupancy == pytest.approx(occupancy)
    assert found.reasons == reasons
    assert len(found.suggestions) == len(reasons)
    assert any("reducing group-size" in line for line in found.suggestions) is (
        "allowed_wave" in reasons
    )
