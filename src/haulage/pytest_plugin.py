"""The plugin for pytest: with `pytest --haulage`, numba.cuda is Haulage's in the tests.

It is begun before any `conftest.py` is imported. Without the option nothing of Haulage is imported
but this file.
"""

from __future__ import annotations

import os

import pytest

_DEVICE = "HAULAGE_DEVICE"
_WORDS = "numba.cuda, numba.roc and numba.hip"

# What is to be undone or told, of a run that began Haulage.
_told_key = pytest.StashKey[list[str]]()
_installed_key = pytest.StashKey[bool]()
_device_before_key = pytest.StashKey[str | None]()


def pytest_addoption(parser: pytest.Parser) -> None:
    """The options `--haulage` and `--haulage-device`, and the setting `haulage`."""
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
    parser.addini("haulage", "true: as if --haulage were given", type="bool", default=False)


@pytest.hookimpl(tryfirst=True)
def pytest_load_initial_conftests(early_config: pytest.Config) -> None:
    """Begin, if asked to.

    Raises:
        pytest.UsageError: the device that is asked for is not there.
    """
    options = early_config.known_args_namespace
    if not (options.haulage or options.haulage_device or early_config.getini("haulage")):
        return
    from haulage.hook import numba_settings
    from haulage.hook.installing import install, installed

    device = _device(options.haulage_device)
    early_config.stash[_device_before_key] = os.environ.get(_DEVICE)
    if options.haulage_device:
        os.environ[_DEVICE] = options.haulage_device
    early_config.stash[_told_key] = [
        f"haulage: {_WORDS} are Haulage's, on {device}",
        *(f"haulage: {aside}" for aside in numba_settings.set_aside()),
    ]
    early_config.stash[_installed_key] = not installed()
    install(children=True)


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


def _device(asked: str | None) -> str:
    import haulage.platforms  # noqa: F401  (it makes the devices known)
    from haulage.errors import DeviceNotFound
    from haulage.runtime.device import current_device, find

    try:
        device = find(asked, "--haulage-device") if asked else current_device()
    except DeviceNotFound as no:
        raise pytest.UsageError(" ".join(str(no).split())) from no
    return f"{device} ({device.name})"
