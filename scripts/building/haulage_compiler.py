"""Which C compiler builds the extension."""

import importlib.util
import os
import shlex
import shutil
import sys
import sysconfig

_NAMES = ("cc", "gcc", "clang")


def found() -> str | None:
    """The command of a C compiler that is there: the variable CC, that of this Python, or another.

    Raises:
        SystemExit: the variable CC names none.
    """
    given = os.environ.get("CC")
    commands = (given,) if given else (sysconfig.get_config_var("CC") or _NAMES[0], *_NAMES)
    there = next((each for each in commands if shutil.which(shlex.split(each)[0])), None)
    if given and there is None:
        raise SystemExit(
            f"CC is {given!r}, and there is no such program. Set CC to a C compiler, or unset it: "
            f"one of {', '.join(_NAMES)} is taken then, or that of the package ziglang."
        )
    return there


def requirements() -> list[str]:
    """What has to be installed to have one."""
    return [] if found() else ["ziglang>=0.13"]


def choose() -> str | None:
    """Let setuptools take what is found, or else Zig; the reason if that is not there, either."""
    command, lacking = found(), None
    if command is None:
        # Without a word about the processor, Zig makes code for that of this machine only.
        command = f"{shlex.quote(sys.executable)} -m ziglang cc -mcpu=baseline"
        # Pip has it for its builds.
        if importlib.util.find_spec("ziglang") is None:
            lacking = (
                f"There is no C compiler: install one ({', '.join(_NAMES)}), or the package "
                f"ziglang, by {sys.executable} -m pip install ziglang"
            )
    # With its own and with CC it knows what to do.
    if command not in (os.environ.get("CC"), sysconfig.get_config_var("CC")):
        os.environ["CC"] = command
        os.environ.setdefault("LDSHARED", f"{command} -shared")
    return lacking
