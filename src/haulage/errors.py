"""Every exception that Haulage raises of its own, in one place.

    HaulageError
    ├── DeviceError (RuntimeError)          a driver refused what was asked of it
    │   ├── DeviceNotFound (ImportError)    the device that was asked for is not there
    │   ├── OutOfMemory (MemoryError)       the device has no room for what was asked
    │   ├── Interrupted                     Ctrl-C in another thread stopped a kernel
    │   ├── CaptureError                    a graph cannot record this, or not now
    │   └── Unsupported (NotImplementedError)   this device has no such feature
    ├── DeviceMismatch (ValueError)         one call was given things of two devices
    ├── ShapeMismatch (ValueError, TypeError)   a copy between arrays whose shapes differ
    ├── LaunchError (ValueError)            a kernel was configured or called wrongly
    │   ├── LaunchTypeError (TypeError)     ... with the wrong types or names of arguments
    │   └── LimitError (DeviceError)        ... beyond what the device takes
    │       └── RocLimitError               ... of a kernel of roc
    ├── CompileError (TypeError)            a kernel could not be compiled
    ├── SignatureError (TypeError)          a signature names no types, or is for no kernel
    ├── LeakError (AssertionError)          memory outlived what it was allocated in
    ├── CheckFailed (AssertionError)         a check of kernels and streams found something
    ├── TransferError (AssertionError)      more was copied than a block of the program may
    ├── CoherenceError (RuntimeError)       an array was changed in two places at once
    └── KernelError (RuntimeError)          a thread of a running kernel failed
        ├── BarrierError                    a barrier that some threads of a block never reach
        └── IllegalAddress (DeviceError)    a thread accessed what is no memory

CacheWarning (UserWarning) is no exception: compiled code is not kept or not used, and why.

Wrong values and types in ordinary calls raise ValueError, TypeError and IndexError as NumPy does.
"""

import sys
import traceback
import warnings
from functools import cache
from types import FrameType, FunctionType
from typing import Any, TypeVar

_Error = TypeVar("_Error", bound=BaseException)

# Modules of these packages are between a program and a warning about it.
_NOT_THE_PROGRAM = {"contextlib", "functools", "haulage", "importlib", "llvmlite", "numba", "numpy"}


def warn(message: str, category: type[Warning] = RuntimeWarning) -> None:
    """`warnings.warn` at the line of the program that called Haulage."""
    frame = sys._getframe()
    while _is_not_the_program(frame) and frame.f_back is not None:
        frame = frame.f_back
    names = frame.f_globals
    warnings.warn_explicit(
        message,
        category,
        frame.f_code.co_filename,
        frame.f_lineno,
        names.get("__name__") or "<unknown>",
        names.setdefault("__warningregistry__", {}),
    )


def _is_not_the_program(frame: FrameType) -> bool:
    return str(frame.f_globals.get("__name__")).partition(".")[0] in _NOT_THE_PROGRAM


def noted(error: _Error, note: str) -> _Error:
    """`error` with a note, which tracebacks show below its message.

    For messages that programs written for NumPy or Numba compare word by word.
    """
    error.add_note(note)
    return error


# Where an error keeps its traceback and cause after they were taken from what is printed.
_FULL = "_full_traceback"


class HaulageError(Exception):
    """Base of all exceptions that are Haulage's own.

    Their printed tracebacks show lines of the user's program; `full_traceback` has the rest.
    """

    @property
    def full_traceback(self) -> str:
        """The traceback with every frame, and that of the error which this one came from."""
        frames, cause = vars(self).get(_FULL, (self.__traceback__, self.__cause__))
        texts = traceback.format_exception(type(self), self, frames, chain=False)
        if cause is not None:
            texts = [*traceback.format_exception(cause), "\nwhich led to\n\n", *texts]
        return "".join(texts)

    def keep_full_traceback(self) -> None:
        """Note the traceback and the cause that it has now, for `full_traceback`."""
        vars(self).setdefault(_FULL, (self.__traceback__, self.__cause__))

    def __reduce__(self) -> Any:
        reduced: Any = super().__reduce__()
        made, args, state = (*reduced, None)[:3]
        # Frames cannot be pickled.
        state = {name: value for name, value in (state or {}).items() if name != _FULL}
        return (made, args, state) if state else (made, args)


class CacheWarning(UserWarning):
    """Compiled code is not kept for other processes, or cannot be used as it is kept; the message
    says why and what to do."""


class DeviceError(HaulageError, RuntimeError):
    """A driver refused what was asked of it; the message has its name for the failure.

    `code` is the number of CUDA's driver for such a failure, 999 where it has none of its own.
    Programs that make such an error themselves, as numba.cuda's CudaAPIError, give the number and
    the message.
    """

    code = 999

    def __init__(self, *args: object) -> None:
        super().__init__(*args)
        if len(args) == 2 and isinstance(args[0], int):
            self.code, self.msg = args[0], str(args[1])
        else:
            self.msg = super().__str__()

    def __str__(self) -> str:
        return f"[{self.code}] {self.msg}" if "code" in vars(self) else super().__str__()


class DeviceNotFound(DeviceError, ImportError):
    """The device that was asked for explicitly is not there; the message says what was tried.

    An ImportError because numba.cuda's is one, and programs go on without a GPU on it.
    """

    code = 100


class OutOfMemory(DeviceError, MemoryError):
    """The device has no room; the message says how much was asked and how much is free."""

    code = 2


class CaptureError(DeviceError):
    """Something was asked of a stream that a graph is recorded from which a graph cannot hold, or
    which would wait for work that is only recorded; or a recording was begun or ended wrongly."""

    code = 900


class Interrupted(DeviceError):
    """Kernels were stopped, or did not run, as a thread that waited for them was interrupted: by
    Ctrl-C, or by another exception of a signal's handler. That thread gets the exception itself."""


class Unsupported(DeviceError, NotImplementedError):
    """The back end has no such feature; the message names the back end and the feature."""

    code = 801


class DeviceMismatch(HaulageError, ValueError):
    """Arrays, streams or kernels of two devices met in one call; the message names both."""


class ShapeMismatch(HaulageError, ValueError, TypeError):
    """The shapes of a copy's source and target differ.

    A ValueError as in numba.cuda, and a TypeError as in numba.roc.
    """


class LaunchError(HaulageError, ValueError):
    """A kernel was configured or called wrongly; nothing ran."""


class LaunchTypeError(LaunchError, TypeError):
    """A kernel was configured with sizes that are no ints, or called with arguments that do not
    fit its parameters in number or name, which is a TypeError in Python and in numba.cuda."""


class LimitError(LaunchError, DeviceError):
    """A launch is beyond what the device takes, as in threads of a block; nothing ran.

    A DeviceError because it is CUDA's driver that refuses such a launch, in cuLaunchKernel, and
    programs that look for the largest block catch numba.cuda's CudaAPIError. `about` says what is
    too large: 'block' for its threads, '' for anything else.
    """

    code = 1

    def __init__(self, *args: object, about: str = "") -> None:
        super().__init__(*args)
        self.about = about
        self.msg = f"cuLaunchKernel refuses it: {self}"

    def __str__(self) -> str:
        return f"{super().__str__()} (CUDA_ERROR_INVALID_VALUE)"


class RocLimitError(LimitError):
    """The same of a kernel of roc, in numba.roc's words."""

    def __init__(self, *args: object, about: str = "") -> None:
        super().__init__(*args, about=about)
        self.msg = str(self)

    def __str__(self) -> str:
        return LaunchError.__str__(self)


class CompileError(HaulageError, TypeError):
    """A kernel could not be compiled; the message names the kernel and the line."""


class SignatureError(HaulageError, TypeError):
    """A signature cannot be read, names no types, or is not one of a kernel."""


class LeakError(HaulageError, AssertionError):
    """Memory that was allocated inside of `haulage.memory.leaks()` is still held at its end.

    An AssertionError, so that test runners count it as a failed test.
    """


class CheckFailed(HaulageError, AssertionError):
    """Something was found wrong inside of `haulage.check()`; the message is the report.

    An AssertionError, so that test runners count it as a failed test. `findings` are all of them.
    """

    findings: Any = ()


class TransferError(HaulageError, AssertionError):
    """More was copied inside of `haulage.max_transfers()` than it allows; the message lists what.

    An AssertionError, so that test runners count it as a failed test. `transfers` are all of them.
    """

    transfers: Any = ()


class CoherenceError(HaulageError, RuntimeError):
    """An array was changed in two places at once; the message names both."""


class KernelError(HaulageError, RuntimeError):
    """A thread of a running kernel failed; raised by the next synchronise."""


def thread_error(exception: type[BaseException], message: str) -> KernelError:
    """The KernelError for a thread that raised `exception`, which is one of that class too.

    So `except ZeroDivisionError` around a launch finds what a kernel raised. It is a plain
    KernelError for classes that are no errors (SystemExit), or that are made in ways of their own.
    """
    kind: Any = exception
    made = _thread_error_class(kind)(message)
    assert isinstance(made, KernelError)
    return made


@cache
def _thread_error_class(exception: type[BaseException]) -> type[BaseException]:
    if (
        not issubclass(exception, Exception)
        or issubclass(exception, (KernelError, ExceptionGroup))
        or isinstance(exception.__new__, FunctionType)
    ):
        return KernelError

    def __reduce__(self: BaseException) -> Any:
        return thread_error, (exception, *self.args)

    members = {
        "__init__": lambda self, message: Exception.__init__(self, message),
        "__str__": Exception.__str__,
        "__reduce__": __reduce__,
        "__module__": KernelError.__module__,
        "__doc__": f"A thread of a running kernel raised {exception.__name__}.",
    }
    return type("KernelError", (KernelError, exception), members)


class BarrierError(KernelError):
    """Some threads of a block wait at a barrier that its other threads went round."""


class IllegalAddress(KernelError, DeviceError):
    """A thread of a kernel, or a copy, accessed what is no memory of the process.

    A DeviceError too, with the number that CUDA's driver has for it.
    """

    code = 700
