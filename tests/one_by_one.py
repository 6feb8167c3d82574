"""A plugin of pytest's for scripts/gpu-check: `-p one_by_one --outcomes FILE`.

What comes of each test is written to the file at once, a line before it and one after it, so that
it is known when the process dies in a test. Tests that the file tells of are left out. A test after
which the device is lost has failed, whatever it found, and is the last: each later one would fail
for it.
"""

import json
import sys
from pathlib import Path

import pytest

# What CUDA's driver answers from then on to all calls of the process.
_LOST = {214, 220, 226, 700, 702, 710, 714, 715, 716, 717, 718, 719, 721, 810, 999}
_WORST_FIRST = ("failed", "skipped", "passed")


def pytest_addoption(parser):
    parser.addoption("--outcomes", type=Path, metavar="FILE", help="what has come of tests")


def pytest_configure(config):
    config.pluginmanager.register(_Outcomes(config.getoption("--outcomes")))


class _Outcomes:
    def __init__(self, path):
        self.path = path
        self.found = {}

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(self, config, items):
        lines = self.path.read_text().splitlines() if self.path.exists() else []
        known = {json.loads(line)["test"] for line in lines}
        left_out = [item for item in items if item.nodeid in known]
        if left_out:
            config.hook.pytest_deselected(items=left_out)
            items[:] = [item for item in items if item.nodeid not in known]

    def pytest_runtest_logstart(self, nodeid):
        self.found = {}
        self._write(test=nodeid)

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_teardown(self, item):
        try:
            return (yield)
        finally:
            lost = _lost()
            if lost:
                item.session.shouldstop = f"the device is lost: {lost}"
                pytest.fail(f"the device is lost after this test: {lost}", pytrace=False)

    def pytest_runtest_logreport(self, report):
        text = getattr(report.longrepr, "reprcrash", None)
        words = str(text.message if text else report.longrepr or "")
        self.found.setdefault(report.outcome, []).append(" ".join(words.split())[:300])

    def pytest_runtest_logfinish(self, nodeid):
        outcome = next(each for each in _WORST_FIRST if each in self.found)
        words = "; ".join(filter(None, self.found[outcome]))
        self._write(test=nodeid, outcome=outcome, message=words)

    def _write(self, **what):
        with self.path.open("a") as file:
            print(json.dumps(what), file=file)


def _lost():
    driver = sys.modules.get("cuda.bindings.driver")
    if driver is None:
        return None
    try:
        status = driver.cuCtxSynchronize()[0]
    except RuntimeError:
        return None  # there is no driver
    return status.name if int(status) in _LOST else None
