"""Fixtures for all tests: `device` runs a test once on each device that is present."""

import contextlib
import dataclasses
import gc
import os
import signal
import tempfile
import threading
from pathlib import Path

import pytest

import haulage
from doubles import far as far_double
from doubles import libamdhip64, libcuda, not_checked, not_on_gpus
from doubles.far import far_device
from doubles.far_pair import far_pair
from doubles.ptx import device as ptx_double
from doubles.ptx.device import ptx_device
from doubles.ptx.runtime import compiler
from haulage.errors import Unsupported

pytest_plugins = ["shares"]

# A shell starts what runs in its background with Ctrl-C ignored, and programs hand that on to those
# that they start. The tests of Ctrl-C are about a program that hears it.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# No test uses or fills the user's own cache.
_cache = tempfile.TemporaryDirectory(prefix="haulage-cache-of-tests-")
os.environ["HAULAGE_CACHE_DIR"] = _cache.name


# Options that choose the devices of a run.
_CHOOSING = ("--far", "--far-second", "--ptx", "--nvidia-double", "--amd-double", "--devices")

_OF_DEVICES = Path(__file__).parent / "device"

# Fixtures that say how the processor runs the threads of a block.
_WAYS = ("way", "any_way")


def pytest_addoption(parser):
    parser.addoption(
        "--far",
        action="store_true",
        help="run the tests of devices on the far device only: the processor with addresses that "
        "the host cannot use, as a GPU's are",
    )
    parser.addoption(
        "--far-second",
        action="store_true",
        help="run the tests of devices on the second of two far devices, whose driver wants each "
        "call to come where the device was made active",
    )
    parser.addoption(
        "--ptx",
        action="store_true",
        help="run the tests of devices with kernels compiled for NVIDIA's GPUs, whose PTX the "
        "processor executes; for sm_80, or what HAULAGE_PTX_ARCHITECTURE names",
    )
    parser.addoption(
        "--nvidia-double",
        action="store_true",
        help="run the tests of devices on the NVIDIA back end, with a stand-in for NVIDIA's driver "
        "whose kernels the processor executes; for sm_80, or HAULAGE_PTX_ARCHITECTURE",
    )
    parser.addoption(
        "--amd-double",
        action="store_true",
        help="run the tests of devices on the AMD back end, with a stand-in for the HIP runtime; "
        "tests that need a kernel are skipped there. HAULAGE_TESTS_ROCM=5 for that version",
    )
    parser.addoption(
        "--devices",
        metavar="DEVICE",
        help="run the tests of devices on this one only, as cpu:0, or on all of a kind, as nvidia",
    )
    parser.addoption(
        "--codegen",
        choices=("none", "once", "all"),
        default="none",
        help="make code for GPUs too of each kernel that the tests compile, and check it: for one "
        "architecture in turn, or for all of them",
    )
    parser.addoption(
        "--codegen-for",
        choices=("nvidia", "amd"),
        help="the same for the GPUs of one maker only",
    )


_collector = pytest.StashKey()
# What came of it in each of pytest-xdist's workers.
_outcomes = pytest.StashKey()


def _has_workers(config):
    """Whether the tests run in processes that this one starts."""
    return bool(config.getoption("numprocesses", None))


def pytest_configure(config):
    if config.getoption("--nvidia-double") or config.getoption("--ptx"):
        config.addinivalue_line("filterwarnings", f"ignore:{libcuda.NO_MACHINE_CODE}")
    if config.getoption("--nvidia-double"):
        # Before anything has looked for the driver.
        libcuda.of_tests()
        haulage.use("nvidia")
    if config.getoption("--amd-double"):
        libamdhip64.of_tests()
        libamdhip64.skip_tests_with_kernels()
        haulage.use("amd")
    if config.getoption("--ptx"):
        # For all threads of the process, and until the last test.
        stack = contextlib.ExitStack()
        stack.enter_context(ptx_double.registered(ptx_device()))
        config.add_cleanup(stack.close)
        haulage.use(ptx_device())
    wanted = config.getoption("--codegen")
    if _has_workers(config):
        config.stash[_outcomes] = []
    elif wanted != "none":
        from codegen.collector import Collector

        maker = config.getoption("--codegen-for")
        kinds = {"kinds": [maker]} if maker else {}
        collector = config.stash[_collector] = Collector(all_of_them=wanted == "all", **kinds)
        collector.where = lambda: os.environ.get("PYTEST_CURRENT_TEST", "?")
        collector.start()


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node, error):
    outcome = getattr(node, "workeroutput", {}).get("codegen")
    if outcome is not None:
        node.config.stash[_outcomes].append(outcome)


def _outcome(config):
    """What came of the code for GPUs, or None if none was made."""
    collector = config.stash.get(_collector, None)
    if collector is not None:
        return collector.stop()
    parts = config.stash.get(_outcomes, None)
    if not parts:
        return None
    from codegen.collector import Outcome, together

    return together(Outcome(**part) for part in parts)


def pytest_sessionfinish(session):
    outcome = _outcome(session.config)
    if outcome is None:
        return
    if hasattr(session.config, "workeroutput"):
        session.config.workeroutput["codegen"] = dataclasses.asdict(outcome)
    elif outcome.failures and session.exitstatus == 0:
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


def pytest_terminal_summary(terminalreporter, config):
    outcome = _outcome(config)
    if outcome is not None:
        for where, what in outcome.failures:
            terminalreporter.section(where)
            terminalreporter.write_line(what)
        terminalreporter.write_line(outcome.line())


@pytest.fixture(scope="module", autouse=True)
def _collections_leave_other_modules_alone():
    """A garbage collection in a test looks at what its module has made: all that kernels of earlier
    modules have left would take it a second, and some tests collect a thousand times. What it has
    left itself goes at its end: later ones would keep it, and what it holds, to the end of all."""
    gc.freeze()
    yield
    gc.collect()
    gc.unfreeze()


def _below_device(path):
    """The path of a file below tests/device, as `not_on_gpus.toml` names it; else its whole one."""
    return (path.relative_to(_OF_DEVICES) if path.is_relative_to(_OF_DEVICES) else path).as_posix()


def _also_as_ptx(metafunc):
    """Whether a test is among those that are run by executing PTX besides, if that is possible."""
    chosen = any(metafunc.config.getoption(name) for name in _CHOOSING)
    marked = metafunc.definition.get_closest_marker("ptx_always") is not None
    return not chosen and marked and compiler() is not None


def pytest_generate_tests(metafunc):
    if "device" in metafunc.fixturenames:
        far = [far_device()]
        present = far if metafunc.config.getoption("--far") else haulage.devices()
        if metafunc.config.getoption("--ptx"):
            present = [ptx_device()]
        if metafunc.config.getoption("--nvidia-double"):
            # Messages of its kernels would meet those of the far device's.
            far = present = haulage.devices()[:1]
        if metafunc.config.getoption("--amd-double"):
            far = present = haulage.devices()[:1]
        if metafunc.config.getoption("--far-second"):
            far = present = [far_pair()[1]]
        named = metafunc.config.getoption("--devices")
        if named:
            present = [each for each in present if named in (each.kind, str(each))]
            if not present:
                raise pytest.UsageError(f"--devices {named}: there is none; see haulage info")
        elif getattr(metafunc.module, "ALSO_FAR", False) and far[0] not in present:
            present = present + far
        if _also_as_ptx(metafunc):
            present = [*present, ptx_device()]
        metafunc.parametrize("device", present, ids=str, indirect=True)


def pytest_itemcollected(item):
    """Of what is not checked by `--haulage-check` nothing is told."""
    if not_checked.holds(_below_device(item.path), item.name):
        item.add_marker(pytest.mark.haulage_check(off=True))


def pytest_collection_modifyitems(config, items):
    """Skip what does not hold on GPUs there. The ways of running threads are the processor's: what
    is PTX is run in one of them."""
    # Tests that name no device run on the one of `HAULAGE_DEVICE`.
    named = "opencl" if config.getoption("--devices") == "opencl" else None
    seen = set()
    kept, left_out = [], []
    for item in items:
        callspec = getattr(item, "callspec", None)
        given = {} if callspec is None else callspec.params
        kind = getattr(given.get("device"), "kind", named)
        if kind in (ptx_double.KIND, "nvidia", "amd", "opencl"):
            others = tuple(repr(each) for name, each in given.items() if name not in _WAYS)
            key = (item.path, item.originalname, others)
            if key in seen:
                left_out.append(item)
                continue
            seen.add(key)
            stands_in = libcuda.is_of_tests() or libamdhip64.is_of_tests()
            double = kind if kind == ptx_double.KIND or stands_in else None
            reason = not_on_gpus.reason(
                _below_device(item.path), item.name, kind=kind, double=double
            )
            if reason:
                item.add_marker(pytest.mark.skip(reason=reason))
        kept.append(item)
    if left_out:
        config.hook.pytest_deselected(items=left_out)
        items[:] = kept


@pytest.fixture
def device(request):
    """A device that is present; it is the current one during the test.

    Where a module says `ALSO_FAR = True`, that is also the one of `doubles.far`.
    """
    chosen = request.param
    with _registered(chosen), haulage.use(chosen) as device:
        yield device


def _registered(device):
    if device in far_pair():
        return far_double.registered(*far_pair())
    for double in (far_double, ptx_double):
        if device.kind == double.KIND and device not in haulage.devices():
            return double.registered(device)
    return contextlib.nullcontext()


@pytest.fixture
def far():
    """The device of `doubles.far`; it is the current one during the test."""
    with far_double.registered(far_device()) as device, haulage.use(device):
        yield device


@pytest.fixture
def hold_up(device):
    """A function that makes a stream stop until the `with` it opens is left."""

    @contextlib.contextmanager
    def held_up(stream):
        opened = threading.Event()
        try:
            device.backend.stream_callback(stream.handle, lambda: opened.wait(60))
        except Unsupported:
            pytest.skip(f"{device} has no stream callbacks to hold a stream up with")
        try:
            yield
        finally:
            opened.set()

    return held_up
