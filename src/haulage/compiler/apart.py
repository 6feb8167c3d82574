"""LLVM's code generators in processes of their own, for targets whose code generator keeps what it
knows of one module for the next, or ends the process at what it cannot do.

One process for each code generator has loaded LLVM and waits for modules (`code_server.py`). It
makes a copy of itself for each, where the system can do that; else each module has a new process.
"""

import atexit
import contextlib
import os
import subprocess
import sys
from pathlib import Path
from typing import IO

from haulage import forks
from haulage.compiler import code_server
from haulage.errors import CompileError
from haulage.targets.base import Target

_lock = forks.lock()
_servers: dict[tuple[str, ...], "_Server"] = {}


def emitted(what: str, text: str, target: Target) -> bytes:
    """The "object" or the "assembly" that LLVM makes of a module's text.

    Raises:
        CompileError: the code generator has failed; the message has its own.
    """
    given = (target.triple, target.cpu, target.features, *target.llvm_options)
    with _lock:
        server = _servers.get(given)
        if server is None or not server.is_ours:
            server = _servers[given] = _Server(given)
        is_made, answer = server.asked(what, text)
    if not is_made:
        said = " ".join(answer.decode(errors="replace").split()) or "it says nothing"
        raise CompileError(
            f"LLVM's code generator for {target.architecture} has failed: {said[:500]}"
        )
    return answer


class _Server:
    def __init__(self, given: tuple[str, ...]) -> None:
        self._given = given
        self._process: subprocess.Popen[bytes] | None = None
        self._owner = os.getpid()

    @property
    def is_ours(self) -> bool:
        """Whether this process has started it, and not one that it was forked from."""
        return self._owner == os.getpid()

    def asked(self, what: str, text: str) -> tuple[bool, bytes]:
        """Whether the code generator has done its work, and what it made or said."""
        for _ in range(2):
            process = self._running()
            assert process.stdin is not None
            assert process.stdout is not None
            try:
                code_server.send(process.stdin, what, text.encode())
                kind, answer = code_server.receive(process.stdout)
            except (EOFError, BrokenPipeError):
                # It was ended from outside, as by a signal to all processes of a terminal.
                self.stop()
                continue
            if not code_server.CAN_FORK:
                self.stop()
            return kind == code_server.DONE, answer
        raise CompileError(
            f"the process with LLVM's code generator for {self._given[0]} has ended, twice; try "
            "again"
        )

    def _running(self) -> "subprocess.Popen[bytes]":
        if self._process is not None and self._process.poll() is not None:
            self.stop()
        if self._process is None:
            self._process = subprocess.Popen(
                [sys.executable, str(Path(code_server.__file__)), *self._given],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
                # What ends a program from its terminal ends this by the end of its input.
                start_new_session=True,
            )
        return self._process

    def stop(self) -> None:
        """End it, if it is there."""
        process, self._process = self._process, None
        if process is None:
            return
        streams: tuple[IO[bytes] | None, ...] = (process.stdin, process.stdout)
        for stream in streams:
            if stream is not None:
                # Of an unfinished request, if it has ended meanwhile.
                with contextlib.suppress(BrokenPipeError):
                    stream.close()
        process.wait()


@atexit.register
def _stop_all() -> None:
    for server in _servers.values():
        if server.is_ours:
            server.stop()
