"""mumott: its projectors and reconstructions for GPUs against those for the CPU."""

import numpy as np
import pytest
from mumott.core.projection_stack import Projection
from mumott.data_handling import DataContainer
from mumott.methods.basis_sets import GaussianKernels
from mumott.methods.projectors import SAXSProjector, SAXSProjectorCUDA
from mumott.methods.utilities import get_tensor_sirt_preconditioner, get_tensor_sirt_weights
from mumott.pipelines import async_pipelines, sparse_pipelines
from scipy.spatial.transform import Rotation

VOLUME, PIXELS, SEGMENTS = (8, 7, 9), (10, 10), 4


@pytest.fixture
def measured():
    """Made-up measurements: six directions of the beam, four segments of the detector."""
    numbers = np.random.default_rng(3)
    container = DataContainer()
    for _ in range(6):
        direction = Rotation.from_rotvec(numbers.normal(size=3)).as_matrix()
        offsets = {"j_offset": float(numbers.normal()), "k_offset": float(numbers.normal())}
        data = numbers.random((*PIXELS, SEGMENTS))
        ones = np.ones_like(data)
        container.projections.append(
            Projection(data, ones[..., 0], ones, rotation=direction, **offsets)
        )
    geometry = container.geometry
    geometry.volume_shape = np.array(VOLUME)
    geometry.detector_angles = np.linspace(0, np.pi, SEGMENTS, endpoint=False)
    return container


@pytest.mark.parametrize("channels", [1, 3, 9, 28])
def test_projections_and_their_adjoints_are_those_of_the_cpu(measured, channels):
    numbers = np.random.default_rng(0)
    field = numbers.random((*VOLUME, channels))
    projections = numbers.random((6, *PIXELS, channels))
    gpu, cpu = SAXSProjectorCUDA(measured.geometry), SAXSProjector(measured.geometry)
    forward, adjoint = gpu.forward(field.astype("f4")), gpu.adjoint(projections.astype("f4"))
    assert np.allclose(forward, cpu.forward(field), atol=1e-4)
    assert np.allclose(adjoint, cpu.adjoint(projections), atol=1e-4)


def test_tensor_sirt_is_the_same_iteration_on_the_cpu(measured):
    basis = GaussianKernels(grid_scale=2, probed_coordinates=measured.geometry.probed_coordinates)
    told = async_pipelines.run_tensor_sirt(measured, maxiter=5, basis_set=basis)
    cpu = SAXSProjector(measured.geometry)
    weights = get_tensor_sirt_weights(projector=cpu, basis_set=basis)
    preconditioner = get_tensor_sirt_preconditioner(projector=cpu, basis_set=basis)
    field = np.zeros((*VOLUME, len(basis)))
    for _ in range(5):
        residual = weights * (basis.forward(cpu.forward(field)) - measured.data)
        field -= preconditioner * cpu.adjoint(basis.gradient(residual))
    assert np.allclose(told["reconstruction"], field, atol=1e-4)
    assert np.allclose(told["projection"], basis.forward(cpu.forward(field)), atol=1e-4)


@pytest.mark.parametrize(
    "pipeline",
    [
        async_pipelines.run_motr,
        async_pipelines.run_radtt,
        sparse_pipelines.run_smotr,
        sparse_pipelines.run_spradtt,
    ],
)
def test_reconstructions_come_ever_closer_to_the_measurements(measured, pipeline):
    told = pipeline(measured, maxiter=20, update_frequency=5, lower_bound=0.0)
    losses = told["loss_curve"][:, 1]
    assert len(losses) == 4
    assert np.isfinite(told["reconstruction"]).all()
    assert told["reconstruction"].min() >= 0
    assert losses[-1] < losses[0]
