"""Tests with the packages beside which Haulage is used: `make test-neighbours`."""

from support.neighbours import versions


def pytest_report_header():
    found = versions()
    there = ", ".join(f"{name} {version}" for name, version in found.items() if version)
    lacking = ", ".join(name for name, version in found.items() if not version)
    return [f"neighbours: {there or 'none'}", *([f"not installed: {lacking}"] if lacking else [])]
