"""Tests with the packages beside which Haulage is used: `make test-neighbours`."""

from support.neighbours import versions


def pytest_report_header():
    found = versions()
    there = ", ".join(f"{name} {version}" for name, version in found.items() if version)
    lacking = ", ".join(name for name, version in found.items() if not version)
    return [f"neighbours: {there or 'none'}", *([f"not installed: {lacking}"] if lacking else [])]


def pytest_configure(config):
    # The CPU device is told of forks. Python warns of them from 3.12 on where threads are, and JAX,
    # once a test has imported it, wherever they are.
    for warning in (
        ".*is multi-threaded, use of fork:DeprecationWarning",
        r"os\.fork\(\) was called:RuntimeWarning",
    ):
        config.addinivalue_line("filterwarnings", f"ignore:{warning}")
