"""The build backend of Haulage: that of setuptools, which is told which C compiler to take.

Where none is found, the package `ziglang` is asked for, which has one.
"""

import os
import shlex
import shutil
import sys
import sysconfig
from pathlib import Path
from typing import Any

from setuptools import build_meta
from setuptools.build_meta import (
    build_sdist,
    get_requires_for_build_sdist,
    prepare_metadata_for_build_editable,
    prepare_metadata_for_build_wheel,
)

__all__ = [
    "build_editable",
    "build_sdist",
    "build_wheel",
    "get_requires_for_build_editable",
    "get_requires_for_build_sdist",
    "get_requires_for_build_wheel",
    "prepare_metadata_for_build_editable",
    "prepare_metadata_for_build_wheel",
]

_COMPILERS = ("cc", "gcc", "clang")


def get_requires_for_build_wheel(config_settings: Any = None) -> list[str]:
    """What the build needs beside what pyproject.toml names."""
    wanted = build_meta.get_requires_for_build_wheel(config_settings)
    return wanted if _found() else [*wanted, "ziglang>=0.13"]


get_requires_for_build_editable = get_requires_for_build_wheel


def build_wheel(
    wheel_directory: str, config_settings: Any = None, metadata_directory: str | None = None
) -> str:
    """A wheel of what lies in `src` now; its name."""
    _set_compiler()
    # Setuptools leaves files there that have been deleted in `src` since.
    for left in Path("build").glob("lib*"):
        shutil.rmtree(left)
    return build_meta.build_wheel(wheel_directory, config_settings, metadata_directory)


def build_editable(
    wheel_directory: str, config_settings: Any = None, metadata_directory: str | None = None
) -> str:
    """A wheel that leads to `src`, where the extension is built; its name."""
    _set_compiler()
    return build_meta.build_editable(wheel_directory, config_settings, metadata_directory)


def _found() -> str | None:
    """The command of a C compiler that is there."""
    given = os.environ.get("CC")
    if given:
        if shutil.which(shlex.split(given)[0]) is None:
            raise SystemExit(
                f"CC is {given!r}, and there is no such program. Set CC to a C compiler, or unset "
                f"it: one of {', '.join(_COMPILERS)} is taken then, or that of the package ziglang."
            )
        return given
    own = sysconfig.get_config_var("CC") or _COMPILERS[0]
    commands = (own, *_COMPILERS)
    return next((each for each in commands if shutil.which(shlex.split(each)[0])), None)


def _set_compiler() -> None:
    command = _found()
    if command is None:
        # Without a word about the processor, Zig makes code for that of this machine only.
        command = f"{shlex.quote(sys.executable)} -m ziglang cc -mcpu=baseline"
    if "CC" not in os.environ and command != sysconfig.get_config_var("CC"):
        os.environ["CC"] = command
        os.environ.setdefault("LDSHARED", f"{command} -shared")
