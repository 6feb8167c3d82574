"""The fixture `way` runs a test once in each way of running the threads of a block."""

import pytest


def pytest_generate_tests(metafunc):
    # `WAYS` of a module stands for the usual ones, which cut kernels or make threads coroutines.
    # Modules about what kernels work out add "scalar", with which both are to agree.
    if "way" in metafunc.fixturenames and not hasattr(metafunc.module, "way"):
        ways = getattr(metafunc.module, "WAYS", ("cut", "coroutines"))
        metafunc.parametrize("way", ways, indirect=True)


@pytest.fixture
def way(request, monkeypatch):
    """The way in which the CPU device runs the threads of a block during the test."""
    monkeypatch.setenv("HAULAGE_CPU_THREADS", request.param)
    return request.param
