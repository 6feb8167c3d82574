"""raystrack: what its GPU solver says of radiating surfaces is what its CPU solver says."""

import numpy as np
import pytest
from raystrack import (
    Accuracy,
    Budget,
    Channel,
    Mesh,
    Query,
    Sampling,
    Scene,
    SolveOptions,
    Solver,
)

FACES = np.array([[0, 1, 2], [0, 2, 3]], np.int32)


def _square(height, side=1.0, *, down=False):
    corners = np.array([[-1, -1, 0], [1, -1, 0], [1, 1, 0], [-1, 1, 0]], np.float32) * side / 2
    return Mesh(corners + np.float32([0, 0, height]), FACES[:, ::-1] if down else FACES)


def _solved(device, query, acceleration="flat", rays=16, **meshes):
    options = SolveOptions(
        sampling=Sampling(density=4, rays_per_cell=rays, seed=7),
        accuracy=Accuracy(max_replicates=4, min_replicates=4, tolerance=0, mode="delta"),
    )
    scene = Scene.from_meshes(meshes)
    with Solver(scene, device=device, acceleration=acceleration, auto_tune=False) as solver:
        return solver.solve(query, options, Budget(rays=10**6))


@pytest.mark.parametrize("acceleration", ["flat", "instanced"])
@pytest.mark.parametrize("sky", ["merged", "tregenza145"])
def test_rows_of_the_gpu_are_those_of_the_cpu(acceleration, sky):
    meshes = {"floor": _square(0), "roof": _square(1, down=True), "shade": _square(0.5, 0.4)}
    query = Query.row("floor", sky=sky)
    gpu = _solved("cuda", query, acceleration, **meshes)
    cpu = _solved("cpu", query, acceleration, **meshes)
    assert gpu.cumulative_rays == cpu.cumulative_rays
    assert np.allclose(gpu.dense(), cpu.dense(), atol=1e-3)


def test_two_parallel_squares_see_of_one_another_what_the_formula_says():
    told = _solved(
        "cuda", Query.row("floor"), rays=256, floor=_square(0), roof=_square(1, down=True)
    )
    seen = told.value("floor", Channel("surface", "roof", "front"))
    # Opposite unit squares at distance 1; Howell, A Catalog of Radiation Transfer Configuration
    # Factors, C-11.
    assert abs(seen - 0.19982) < 5e-3
