"""Settings from the environment, each read when it is asked for, so that tests can set them."""

import os
from pathlib import Path

from haulage._core.environment import Variable
from haulage.errors import warn

# All settings of Haulage's own.
SETTINGS = (
    *("HAULAGE_ADVERSARY", "HAULAGE_AMD_LINKER", "HAULAGE_BOUNDSCHECK", "HAULAGE_CACHE_DIR"),
    "HAULAGE_CPU",
    *("HAULAGE_CPU_PASSES", "HAULAGE_CPU_THREADS", "HAULAGE_DEVICE", "HAULAGE_MEMORY"),
    *("HAULAGE_FULL_TRACEBACKS", "HAULAGE_NUM_THREADS", "HAULAGE_QUEUE_DEPTH"),
    # For children, of `haulage trace`, `advise`, `check` and `debug`.
    *("HAULAGE_ADVISE_SETTINGS", "HAULAGE_CHECK_SETTINGS", "HAULAGE_DEBUG_SETTINGS"),
    "HAULAGE_TRACE_SETTINGS",
)

# Numbers beyond these are refused as settings.
_MOST, _MOST_DIGITS = 1 << 63, 19
# Of a value so much is shown in an error.
_MOST_SHOWN = 60
# The most threads of the CPU device: so many a core, but so many on any machine.
_THREADS_PER_CORE, _ALWAYS_THREADS = 4, 64


# These are asked for in every launch.
# `HAULAGE_DEVICE`: a device by name and, if wished, number (`cpu`, `nvidia:1`), or "".
device_choice = Variable("HAULAGE_DEVICE")
# What the variable of `thread_way` says, whether that is right or not.
thread_way_text = Variable("HAULAGE_CPU_THREADS")
_interface_sync = Variable("NUMBA_CUDA_ARRAY_INTERFACE_SYNC")
# And this in each allocation.
_memory_way = Variable("HAULAGE_MEMORY")


def _text(name: str) -> str:
    return os.environ.get(name, "").strip()


def _whole(name: str, least: int, most: int, what: str, unset: str) -> int | None:
    """The whole number that a variable says, None if it is not set.

    Raises:
        ValueError: it says something else, or one outside of `least` to `most`.
    """
    text = _text(name)
    if not text:
        return None
    # Python's `int` takes more: '1_000', digits of other scripts, and fails for very many.
    digits = text.removeprefix("-")
    if digits.isascii() and digits.isdigit() and len(digits) <= _MOST_DIGITS:
        number = int(text)
        if least <= number <= most:
            return number
    raise ValueError(f"{name}={_shown(text)}: expected {what}; unset it for {unset}")


def _one_of(name: str, text: str, allowed: tuple[str, ...], unset: str) -> str:
    """`text` if it is one of those that a variable may say, the first of them if it is not set.

    Raises:
        ValueError: it says something else.
    """
    if not text:
        return allowed[0]
    if text not in allowed:
        *others, last = allowed
        expected = f"{', '.join(others)} or {last}"
        raise ValueError(f"{name}={_shown(text)}: expected {expected}; unset it for {unset}")
    return text


def _shown(text: str) -> str:
    return repr(text) if len(text) <= _MOST_SHOWN else f"{text[:_MOST_SHOWN]!r}..."


def full_tracebacks() -> bool:
    """`HAULAGE_FULL_TRACEBACKS`, or Numba's `NUMBA_FULL_TRACEBACKS`: whether errors are printed
    with all frames of Haulage and Numba, and with all that Numba said: 1; or not: 0, the default.

    Raises:
        ValueError: the first is set to something else.
    """
    text = _text("HAULAGE_FULL_TRACEBACKS")
    if not text:
        return _text("NUMBA_FULL_TRACEBACKS") not in ("", "0")
    what = "the lines of your program"
    return _one_of("HAULAGE_FULL_TRACEBACKS", text, ("0", "1"), what) == "1"


def worker_threads() -> int | None:
    """`HAULAGE_NUM_THREADS`: threads of the CPU device; None, the default, for all usable cores.

    It is asked for when the first kernel runs, and in a process that was forked when its first one
    does.

    Raises:
        ValueError: the variable is set to something that is no whole number of at least 1 and at
            most four for each core of the machine, or 64 if that is more.
    """
    most = max(_ALWAYS_THREADS, _THREADS_PER_CORE * (os.cpu_count() or 1))
    what = f"a positive whole number of threads, at most {most}"
    return _whole("HAULAGE_NUM_THREADS", 1, most, what, "every core")


def queue_depth() -> int:
    """`HAULAGE_QUEUE_DEPTH`: how many launches, copies, events and callbacks may wait in a stream
    of the CPU device (default 1024). Where so many do, the next one waits until half are done.

    Raises:
        ValueError: the variable is set to something that is not a whole number from 2 on.
    """
    what = "a whole number of pieces of work, at least 2"
    return _whole("HAULAGE_QUEUE_DEPTH", 2, _MOST, what, "1024") or 1024


def thread_way() -> str:
    """`HAULAGE_CPU_THREADS`: how the CPU device runs the threads of a block.

    `regions` (parallel regions between barriers, each a loop over the threads), `coroutines` (each
    thread on its own, for any placement of barriers), `scalar` (as `auto`, but one thread after the
    other in each region: no loop is vectorised, none interchanged with the loop over the threads)
    or `auto`, the default: regions where that can be done. All give the same results; the choice is
    for tests and for looking into a kernel's speed.

    Raises:
        ValueError: the variable is set to something else.
    """
    ways = ("auto", "regions", "scalar", "coroutines")
    return _one_of("HAULAGE_CPU_THREADS", thread_way_text(), ways, "auto")


def processor_level() -> str | None:
    """`HAULAGE_CPU`: the level of x86-64 (`x86-64`, `x86-64-v2`, `-v3`, `-v4`) whose instructions
    kernels on the CPU may use; None, the default, for all that the processor has.

    With it a program has the same results on all machines of that level or a higher one. Whether
    this is such a level, and one that the processor has, is seen when a kernel is compiled.
    """
    return _text("HAULAGE_CPU") or None


def passes_switched_off() -> str:
    """`HAULAGE_CPU_PASSES`: passes of the CPU compiler that do not run, as `-name,-name`; "", the
    default, for all that there are.

    For looking into a kernel's speed: results are the same. Whether there are such passes is seen
    when a kernel is compiled.
    """
    return _text("HAULAGE_CPU_PASSES")


def adversary_seed() -> int | None:
    """`HAULAGE_ADVERSARY`: the seed of the adversarial mode; None, the default, for without.

    Raises:
        ValueError: the variable is set to something that is no whole number.
    """
    what = "a whole number, the seed of the adversarial mode"
    return _whole("HAULAGE_ADVERSARY", -_MOST, _MOST, what, "the ordinary one")


def bounds_checks() -> bool | None:
    """`HAULAGE_BOUNDSCHECK`, or Numba's `NUMBA_BOUNDSCHECK`: whether kernels check their indices,
    whatever `jit` was told: 1, all of them; 0, none; None, the default, for as `jit` says.

    It is asked for when a function is decorated.

    Raises:
        ValueError: the variable is set to something else.
    """
    name = "HAULAGE_BOUNDSCHECK" if _text("HAULAGE_BOUNDSCHECK") else "NUMBA_BOUNDSCHECK"
    what = "1 to check the indices of all kernels, or 0 of none"
    told = _whole(name, 0, 1, what, "what jit says")
    return None if told is None else bool(told)


def cuda_is_disabled() -> bool:
    """`NUMBA_DISABLE_CUDA`: any number but 0 takes all devices away, as it does from numba.cuda.

    Raises:
        ValueError: the variable is set to something that is no whole number.
    """
    what = "0, or 1 to take all devices away"
    return bool(_whole("NUMBA_DISABLE_CUDA", -_MOST, _MOST, what, "0"))


def pools_memory() -> bool:
    """`HAULAGE_MEMORY`: where arrays get memory: `pool`, the default, keeps what is freed for the
    next ones; `driver` asks the device's driver for each.

    Raises:
        ValueError: the variable is set to something else.
    """
    return _one_of("HAULAGE_MEMORY", _memory_way(), ("pool", "driver"), "pool") == "pool"


def interface_sync() -> bool:
    """`NUMBA_CUDA_ARRAY_INTERFACE_SYNC`: whether work on arrays that come by the CUDA array
    interface is ordered with the stream that it names: 1, the default; or 0, not.

    Raises:
        ValueError: the variable is set to something that is no whole number.
    """
    if _interface_sync() in ("", "1"):
        return True
    what = "1, or 0 for no waiting"
    return _whole("NUMBA_CUDA_ARRAY_INTERFACE_SYNC", -_MOST, _MOST, what, "1") != 0


def memory_manager() -> str | None:
    """`NUMBA_CUDA_MEMORY_MANAGER`: the module of a plug-in that gives all memory of devices."""
    named = _text("NUMBA_CUDA_MEMORY_MANAGER")
    return named if named not in ("", "default") else None


def cache_folder() -> Path:
    """`HAULAGE_CACHE_DIR`: where compiled kernels are kept (default `~/.cache/haulage`)."""
    chosen = _text("HAULAGE_CACHE_DIR")
    if chosen:
        return Path(chosen).expanduser()
    base = _text("XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache") / "haulage"


def amd_linker() -> str:
    """`HAULAGE_AMD_LINKER`: what links code for AMD's GPUs: `haulage`, the default, its own linker;
    `lld`, the newest `ld.lld` of ROCm's or on PATH; or the path of one.

    Raises:
        ValueError: the variable is set to something else.
    """
    named = _text("HAULAGE_AMD_LINKER") or "haulage"
    if named not in ("haulage", "lld") and not os.path.dirname(named):
        raise ValueError(
            f"HAULAGE_AMD_LINKER={named!r}: expected haulage, lld or the path of an ld.lld; unset "
            "it for haulage"
        )
    return named


def _warn_of_misspelt() -> None:
    prefix = "HAULAGE_"
    unknown = [name for name in os.environ if name.startswith(prefix) and name not in SETTINGS]
    if not unknown:
        return
    from difflib import get_close_matches

    known = [name.removeprefix(prefix) for name in SETTINGS]
    for name in unknown:
        for meant in get_close_matches(name.removeprefix(prefix), known, 1, 0.7):
            warn(f"{name} is set, which is no setting of Haulage's: did you mean {prefix}{meant}?")


_warn_of_misspelt()
