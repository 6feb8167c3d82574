"""The plugin for pytest: `--haulage`, with which numba.cuda is Haulage's in the tests,
`--haulage-check`, with which a test fails whose kernels do something wrong, and the fixture
`haulage_leaks`, with which a test fails that leaves memory of a device behind.

The former is begun before any `conftest.py` is imported. Without the options and the fixture
nothing of Haulage is imported but this file.
"""

from __future__ import annotations

import copy
import os
from collections.abc import Generator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from haulage.memory import leaks

_DEVICE = "HAULAGE_DEVICE"
_WORDS = "numba.cuda, numba.roc and numba.hip"

_CHECK, _ALL = "--haulage-check", "all"
_MARKER_HELP = (
    "haulage_check(only='race,bounds', expect='race', off=True): with --haulage-check, makes only "
    "these checks in the test, lets it pass only if such findings are made, or makes no checks"
)
_checks_key = pytest.StashKey[str]()

# What is to be undone or told, of a run that began Haulage.
_told_key = pytest.StashKey[list[str]]()
_installed_key = pytest.StashKey[bool]()
_device_before_key = pytest.StashKey[str | None]()

# Of a test that is looked at: what looks, and whether the test has passed.
_leaks_key = pytest.StashKey["leaks"]()
_passed_key = pytest.StashKey[bool]()


def pytest_addoption(parser: pytest.Parser) -> None:
    """The options `--haulage`, `--haulage-device`, `--haulage-check` and `--haulage-leaks`, and
    settings of such names."""
    group = parser.getgroup("haulage", f"programs of {_WORDS}")
    group.addoption(
        "--haulage",
        action="store_true",
        help=f"let {_WORDS} be Haulage's, in child processes too",
    )
    group.addoption(
        "--haulage-device",
        metavar="D",
        help="the same, on a device: cpu, nvidia, amd, with a number if there are several "
        "(default: HAULAGE_DEVICE, else the best one present)",
    )
    group.addoption(
        "--haulage-leaks",
        action="store_true",
        help="a test that passes but leaves memory of a device behind is an error that names the "
        "lines which asked for it; as if each test used the fixture haulage_leaks",
    )
    group.addoption(
        _CHECK,
        nargs="?",
        const=_ALL,
        metavar="CHECKS",
        help="as --haulage on the CPU device, and a test fails in which `haulage check` finds "
        "something: races, indices out of bounds, ...; --haulage-check=race,bounds for some checks",
    )
    parser.addini(
        "haulage_check", "all, or names of checks: as if --haulage-check were given", default=""
    )
    for name in ("haulage", "haulage_leaks"):
        option = name.replace("_", "-")
        parser.addini(name, f"true: as if --{option} were given", type="bool", default=False)


@pytest.hookimpl(tryfirst=True)
def pytest_load_initial_conftests(
    early_config: pytest.Config, parser: pytest.Parser, args: list[str]
) -> None:
    """Begin, if asked to.

    Raises:
        pytest.UsageError: the device that is asked for is not there, or is none that checks; there
            are no such checks.
    """
    options = early_config.known_args_namespace
    if _CHECK in args:
        # Without a value it would take the file that may stand behind it.
        args[:] = [f"{_CHECK}={_ALL}" if word == _CHECK else word for word in args]
        again = parser.parse_known_args(args, copy.copy(early_config.option))
        options.haulage_check, options.file_or_dir = again.haulage_check, again.file_or_dir
    wanted = options.haulage_device
    checks = options.haulage_check or early_config.getini("haulage_check")
    if checks:
        _checks(checks)
        early_config.stash[_checks_key] = checks
        wanted = wanted or os.environ.get(_DEVICE) or "cpu"
        from haulage.platforms import checks_kernels

        if not checks_kernels(wanted):
            raise pytest.UsageError(
                f"{_CHECK}: kernels are checked on the CPU device only, and not on {wanted}; give "
                "--haulage-device cpu"
            )
    if not (options.haulage or wanted or early_config.getini("haulage")):
        return
    from haulage.hook import numba_settings
    from haulage.hook.installing import install, installed

    device = _device(wanted)
    early_config.stash[_device_before_key] = os.environ.get(_DEVICE)
    if wanted:
        os.environ[_DEVICE] = wanted
    early_config.stash[_told_key] = [
        f"haulage: {_WORDS} are Haulage's, on {device}",
        *(f"haulage: {aside}" for aside in numba_settings.set_aside()),
    ]
    early_config.stash[_installed_key] = not installed()
    install(children=True)


def pytest_configure(config: pytest.Config) -> None:
    """Let each test use the fixture `haulage_leaks`, and check each test, if asked to.

    Raises:
        pytest.UsageError: what pyproject.toml says of checks is wrong.
    """
    config.addinivalue_line("markers", _MARKER_HELP)
    if _checks_key in config.stash:
        from haulage.checking import suppressions
        from haulage.checking.pytest_checks import Checks

        try:
            known = suppressions.of_project(str(config.rootpath))
        except ValueError as wrong:
            raise pytest.UsageError(f"{_CHECK}: {wrong}") from wrong
        named = config.stash[_checks_key]
        checks = _checks(known.only if named == _ALL and known.only else named)
        config.pluginmanager.register(Checks(checks, known), "haulage-check")
    if config.getoption("haulage_leaks") or config.getini("haulage_leaks"):
        config.pluginmanager.register(_EachTest(), "haulage-leaks")


def pytest_report_header(config: pytest.Config) -> list[str]:
    """The device, and what was left out of the environment."""
    return config.stash.get(_told_key, [])


def pytest_unconfigure(config: pytest.Config) -> None:
    """Undo what this run began: another may follow in the same process."""
    if _told_key not in config.stash:
        return
    before = config.stash[_device_before_key]
    if before is not None:
        os.environ[_DEVICE] = before
    else:
        os.environ.pop(_DEVICE, None)
    if config.stash[_installed_key]:
        from haulage.hook.installing import uninstall

        uninstall()


# ---- memory that is left behind ---------------------------------------------------------------


@pytest.fixture
def haulage_leaks(request: pytest.FixtureRequest) -> leaks:
    """Fails a test that passes but leaves memory of a device behind, with who asked for it.

    What counts is what was allocated since, in the test and in fixtures that are set up after this
    one, and is still held when all fixtures of the test itself are torn down. Fixtures of a class,
    a module or the session, which come first, may keep what they have. See `haulage.memory.leaks`,
    which this is: its `report()` tells what there is so far.
    """
    from haulage.memory import leaks

    return request.node.stash.setdefault(_leaks_key, leaks().__enter__())


class _EachTest:
    @pytest.fixture(autouse=True)
    def _haulage_leaks_in_each_test(self, haulage_leaks: leaks) -> None:
        """For the option `--haulage-leaks`."""


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Note whether a test has passed: the traceback of one that has not holds what it used."""
    report = yield
    if report.when == "call":
        item.stash[_passed_key] = report.passed
    return report


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_teardown(item: pytest.Item) -> Generator[None, None, None]:
    """Look for what is left behind, when all that belongs to the test is torn down.

    Raises:
        pytest.fail.Exception: there is something; has the report.
    """
    yield
    check = item.stash.get(_leaks_key, None)
    if check is None or not item.stash.get(_passed_key, False):
        return
    del item.stash[_leaks_key]
    held = check.report()
    if held is not None:
        # The values of its fixtures are kept for a while; nobody needs them any more.
        getattr(item, "funcargs", {}).clear()
        held = check.report()
    if held is not None:
        pytest.fail(f"{held}\nfree them in the test, or in a fixture of it", pytrace=False)


# ---- --haulage --------------------------------------------------------------------------------


def _checks(named: str) -> frozenset[str]:
    from haulage.checking.names import USUAL, checks_of

    try:
        return checks_of(USUAL if named == _ALL else named)
    except ValueError as wrong:
        raise pytest.UsageError(f"{_CHECK}={named}: {wrong}") from wrong


def _device(asked: str | None) -> str:
    import haulage.platforms  # noqa: F401  (it makes the devices known)
    from haulage.errors import DeviceNotFound
    from haulage.runtime.devices.registry import current_device, find

    try:
        device = find(asked, "--haulage-device") if asked else current_device()
    except DeviceNotFound as no:
        raise pytest.UsageError(" ".join(str(no).split())) from no
    return f"{device} ({device.name})"
