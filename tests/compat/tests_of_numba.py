"""Numba's own tests: which modules and test functions there are, and how one module is run."""

import ast
import importlib
import time
import traceback
import unittest
from collections.abc import Callable, Iterator
from pathlib import Path

import numba

PACKAGE = "numba.cuda.tests"
FOLDER = Path(numba.__file__).parent / "cuda" / "tests"
FOLDERS = ("cudadrv", "cudapy", "cudasim", "doc_examples", "nocuda")

# (name of a test function, what became of it, why, seconds)
Report = Callable[[str, str, str, float], None]


def modules() -> list[str]:
    """The test modules by folder and name: `cudapy.test_lang`."""
    found = []
    for folder in FOLDERS:
        found += sorted(f"{folder}.{file.stem}" for file in (FOLDER / folder).glob("test_*.py"))
        found += sorted(
            f"{folder}.{sub.name}.{file.stem}"
            for sub in (FOLDER / folder).iterdir()
            for file in sub.glob("test_*.py")
        )
    return found


def written_in(module: str) -> list[str]:
    """The test functions that the text of a module has, for one that cannot be imported."""
    text = (FOLDER / (module.replace(".", "/") + ".py")).read_text(encoding="utf-8")
    return [
        f"{module}.{scope.name}.{function.name}"
        for scope in ast.parse(text).body
        if isinstance(scope, ast.ClassDef)
        for function in scope.body
        if isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef)
        and function.name.startswith("test")
    ]


def short_name(test: unittest.TestCase) -> str:
    """A test function's name without the package: `cudapy.test_lang.TestLang.test_zip`."""
    return test.id().removeprefix(PACKAGE + ".")


def run(module: str, wanted: Callable[[str], bool], report: Report) -> None:
    """Run the wanted tests of a module in this process and report what becomes of each.

    That is `listed` for each first, then `begun` and, in the end, `passed`, `failed` (with the
    traceback) or `skipped` (with the reason). The tests of a module that cannot be imported fail.
    """
    try:
        found = importlib.import_module(f"{PACKAGE}.{module}")
        suite = unittest.defaultTestLoader.loadTestsFromModule(found)
    except BaseException:
        # Also SystemExit: what a module does while it is imported is its tests' failure.
        why = traceback.format_exc()
        for name in filter(wanted, written_in(module)):
            report(name, "failed", why, 0.0)
        return
    chosen = [test for test in _flat(suite) if wanted(short_name(test))]
    for test in chosen:
        report(short_name(test), "listed", "", 0.0)
    result = _Result(report)
    unittest.TestSuite(chosen).run(result)
    for test in chosen:
        if short_name(test) not in result.ended:
            # The set-up of its class or module failed, or skipped them.
            report(short_name(test), *result.set_up, 0.0)


def _flat(suite: unittest.TestSuite) -> Iterator[unittest.TestCase]:
    for item in suite:
        if isinstance(item, unittest.TestSuite):
            yield from _flat(item)
        else:
            yield item


class _Result(unittest.TestResult):
    """Reports test functions, each once: its subtests are part of it."""

    def __init__(self, report: Report) -> None:
        super().__init__()
        self.report = report
        self.reasons: list[str] = []
        self.outcome = "passed"
        self.began = 0.0
        self.ended: set[str] = set()
        self.set_up = ("failed", "was not run")

    def startTest(self, test):
        super().startTest(test)
        self.reasons, self.outcome, self.began = [], "passed", time.monotonic()
        self.report(short_name(test), "begun", "", 0.0)

    def stopTest(self, test):
        super().stopTest(test)
        seconds = time.monotonic() - self.began
        self.ended.add(short_name(test))
        self.report(short_name(test), self.outcome, "\n".join(self.reasons), seconds)

    def _fail(self, reason: str) -> None:
        self.outcome = "failed"
        self.reasons.append(reason)

    def addError(self, test, err):
        super().addError(test, err)
        self._fail(self.errors[-1][1])
        if not isinstance(test, unittest.TestCase):
            self.set_up = ("failed", self.errors[-1][1])

    def addFailure(self, test, err):
        super().addFailure(test, err)
        self._fail(self.failures[-1][1])

    def addSubTest(self, test, subtest, err):
        super().addSubTest(test, subtest, err)
        if err is not None:
            text = "".join(traceback.format_exception(*err))
            self._fail(f"{subtest.id().removeprefix(test.id())}\n{text}")

    def addSkip(self, test, reason):
        super().addSkip(test, reason)
        if self.outcome == "passed":
            self.outcome = "skipped"
        self.reasons.append(reason)
        if not isinstance(test, unittest.TestCase):
            self.set_up = ("skipped", reason)

    def addUnexpectedSuccess(self, test):
        super().addUnexpectedSuccess(test)
        self._fail("passed, and was expected to fail")
