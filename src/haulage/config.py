"""Settings from the environment, each read when it is asked for, so that tests can set them."""

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any


def _reader(name: str) -> Callable[[], str]:
    """What reads a variable, stripped, "" if it is not set, in a tenth of the time that
    `os.environ` takes, if it is as it was the last time."""
    environ: Any = os.environ
    table = getattr(environ, "_data", environ)
    key = environ.encodekey(name) if table is not environ else name
    last: tuple[object, str] = (None, "")

    def read() -> str:
        nonlocal last
        if key not in table:
            return ""
        raw = table.get(key)
        known = last
        if raw == known[0]:
            return known[1]
        last = known = raw, os.environ.get(name, "").strip()
        return known[1]

    return read


# These are asked for in every launch.
# `HAULAGE_DEVICE`: a device by name and, if wished, number (`cpu`, `nvidia:1`), or "".
device_choice = _reader("HAULAGE_DEVICE")
_thread_way = _reader("HAULAGE_CPU_THREADS")
_interface_sync = _reader("NUMBA_CUDA_ARRAY_INTERFACE_SYNC")
# And this in each allocation.
_memory_way = _reader("HAULAGE_MEMORY")
_native = _reader("HAULAGE_NATIVE")


def full_tracebacks() -> bool:
    """`HAULAGE_FULL_TRACEBACKS`, or Numba's `NUMBA_FULL_TRACEBACKS`: whether errors are printed
    with all frames of Haulage and Numba, and with all that Numba said: 1; or not: 0, the default.

    Raises:
        ValueError: the first is set to something else.
    """
    text = os.environ.get("HAULAGE_FULL_TRACEBACKS", "").strip()
    if text not in ("", "0", "1"):
        raise ValueError(
            f"HAULAGE_FULL_TRACEBACKS={text!r}: expected 0, or 1 for every frame; unset it for "
            "those of your program"
        )
    numbas = os.environ.get("NUMBA_FULL_TRACEBACKS", "").strip()
    return text == "1" or (not text and numbas not in ("", "0"))


def worker_threads() -> int | None:
    """`HAULAGE_NUM_THREADS`: threads of the CPU device; None, the default, for all usable cores.

    It is asked for when the first kernel runs, and in a process that was forked when its first one
    does.

    Raises:
        ValueError: the variable is set to something that is not a positive whole number.
    """
    text = os.environ.get("HAULAGE_NUM_THREADS", "").strip()
    if not text:
        return None
    if not text.isdigit() or int(text) < 1:
        raise ValueError(
            f"HAULAGE_NUM_THREADS={text!r}: expected a positive whole number of threads; "
            "unset it to use every core"
        )
    return int(text)


def queue_depth() -> int:
    """`HAULAGE_QUEUE_DEPTH`: how many launches, copies, events and callbacks may wait in a stream
    of the CPU device (default 1024). Where so many do, the next one waits until half are done.

    Raises:
        ValueError: the variable is set to something that is not a whole number from 2 on.
    """
    text = os.environ.get("HAULAGE_QUEUE_DEPTH", "").strip()
    if not text:
        return 1024
    if not (text.isascii() and text.isdigit()) or int(text) < 2:
        raise ValueError(
            f"HAULAGE_QUEUE_DEPTH={text!r}: expected a whole number of pieces of work, at least 2; "
            "unset it for 1024"
        )
    return int(text)


def thread_way() -> str:
    """`HAULAGE_CPU_THREADS`: how the CPU device runs the threads of a block.

    `cut` (pieces between barriers, each a loop over the threads), `coroutines` (each thread on its
    own, for any placement of barriers), `scalar` (as `auto`, but one thread after the other in
    each piece: no loop is widened and none turned outside of the loop over the threads) or `auto`,
    the default: cut where that can be done. All give the same results; the choice is for tests and
    for looking into a kernel's speed.

    Raises:
        ValueError: the variable is set to something else.
    """
    way = _thread_way() or "auto"
    if way not in ("auto", "cut", "scalar", "coroutines"):
        raise ValueError(
            f"HAULAGE_CPU_THREADS={way!r}: expected auto, cut, scalar or coroutines; "
            "unset it for auto"
        )
    return way


def processor_level() -> str | None:
    """`HAULAGE_CPU`: the level of x86-64 (`x86-64`, `x86-64-v2`, `-v3`, `-v4`) whose instructions
    kernels on the CPU may use; None, the default, for all that the processor has.

    With it a program has the same results on all machines of that level or a higher one. Whether
    this is such a level, and one that the processor has, is seen when a kernel is compiled.
    """
    return os.environ.get("HAULAGE_CPU", "").strip() or None


def adversary_seed() -> int | None:
    """`HAULAGE_ADVERSARY`: the seed of the adversarial mode; None, the default, for without.

    Raises:
        ValueError: the variable is set to something that is no whole number.
    """
    text = os.environ.get("HAULAGE_ADVERSARY", "").strip()
    if not text:
        return None
    try:
        return int(text)
    except ValueError:
        raise ValueError(
            f"HAULAGE_ADVERSARY={text!r}: expected a whole number, the seed of the adversarial "
            "mode; unset it for the ordinary one"
        ) from None


def cuda_is_disabled() -> bool:
    """`NUMBA_DISABLE_CUDA`: any number but 0 takes all devices away, as it does from numba.cuda.

    Raises:
        ValueError: the variable is set to something that is no whole number.
    """
    text = os.environ.get("NUMBA_DISABLE_CUDA", "").strip() or "0"
    try:
        return int(text) != 0
    except ValueError:
        raise ValueError(
            f"NUMBA_DISABLE_CUDA={text!r}: expected 0, or 1 to take all devices away"
        ) from None


def pools_memory() -> bool:
    """`HAULAGE_MEMORY`: where arrays get memory: `pool`, the default, keeps what is freed for the
    next ones; `driver` asks the device's driver for each.

    Raises:
        ValueError: the variable is set to something else.
    """
    way = _memory_way() or "pool"
    if way not in ("pool", "driver"):
        raise ValueError(f"HAULAGE_MEMORY={way!r}: expected pool or driver; unset it for pool")
    return way == "pool"


def native() -> bool | None:
    """`HAULAGE_NATIVE`: whether small arrays are made by code that is emitted for this process: 1,
    from the first one on; 0, never; None, the default: once a process has asked for many.

    Raises:
        ValueError: the variable is set to something else.
    """
    text = _native()
    if text not in ("", "0", "1"):
        raise ValueError(f"HAULAGE_NATIVE={text!r}: expected 0 or 1; unset it for the default")
    return bool(int(text)) if text else None


def interface_sync() -> bool:
    """`NUMBA_CUDA_ARRAY_INTERFACE_SYNC`: whether work on arrays that come by the CUDA array
    interface is ordered with the stream that it names: 1, the default; or 0, not.

    Raises:
        ValueError: the variable is set to something that is no whole number.
    """
    text = _interface_sync() or "1"
    try:
        return int(text) != 0
    except ValueError:
        raise ValueError(
            f"NUMBA_CUDA_ARRAY_INTERFACE_SYNC={text!r}: expected 1, or 0 for no waiting"
        ) from None


def memory_manager() -> str | None:
    """`NUMBA_CUDA_MEMORY_MANAGER`: the module of a plug-in that gives all memory of devices."""
    named = os.environ.get("NUMBA_CUDA_MEMORY_MANAGER", "").strip()
    return named if named not in ("", "default") else None


def cache_folder() -> Path:
    """`HAULAGE_CACHE_DIR`: where compiled kernels are kept (default `~/.cache/haulage`)."""
    chosen = os.environ.get("HAULAGE_CACHE_DIR", "").strip()
    if chosen:
        return Path(chosen).expanduser()
    base = os.environ.get("XDG_CACHE_HOME", "").strip()
    return (Path(base) if base else Path.home() / ".cache") / "haulage"


def amd_linker() -> str:
    """`HAULAGE_AMD_LINKER`: what links code for AMD's GPUs: `haulage`, the default, its own linker;
    `lld`, the newest `ld.lld` of ROCm's or on PATH; or the path of one.

    Raises:
        ValueError: the variable is set to something else.
    """
    named = os.environ.get("HAULAGE_AMD_LINKER", "").strip() or "haulage"
    if named not in ("haulage", "lld") and not os.path.dirname(named):
        raise ValueError(
            f"HAULAGE_AMD_LINKER={named!r}: expected haulage, lld or the path of an ld.lld; unset "
            "it for haulage"
        )
    return named
