"""The processes that take turns: Haulage's and one for each peer."""

import json
import subprocess
import tempfile
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks import environments
from benchmarks.peers import Peer


class Unable(Exception):
    """A peer cannot do what it was asked; the text says why."""


class Contestant:
    """A worker process of one runtime, which holds the data of one case at a time."""

    worker = "benchmarks.worker"

    def __init__(self, peer: Peer) -> None:
        self.peer = peer
        reason = environments.missing(peer)
        if reason is not None:
            raise Unable(reason)
        self._begin()

    def _begin(self) -> None:
        self.log = tempfile.TemporaryFile("w+")  # noqa: SIM115  (it lives as long as the process)
        self.process = subprocess.Popen(
            [environments.python(self.peer), "-m", self.worker, self.peer.module],
            cwd=environments.ROOT,
            env=environments.variables(self.peer),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self.log,
            text=True,
        )

    def ask(self, do: str, **what: Any) -> Any:
        """The worker's answer.

        Raises:
            Unable: it answered with an error, or has died.
        """
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        try:
            print(json.dumps({"do": do, **what}), file=self.process.stdin, flush=True)
            line = self.process.stdout.readline()
        except BrokenPipeError:
            line = ""
        if not line:
            raise Unable(f"its process ended with {self.process.wait()}: {self._last_words()}")
        answer = json.loads(line)
        if "error" in answer:
            raise Unable(" ".join(answer["error"].split())[:300])
        return answer["answer"]

    def revive(self) -> None:
        """Start the process anew if it has died."""
        if self.process.poll() is not None:
            self.close()
            self._begin()

    def result(self) -> np.ndarray:
        """The result of the case that was run last."""
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "result.npy"
            self.ask("save", path=str(path))
            return np.load(path)

    def close(self) -> None:
        """End the process."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        # What a dead process was still to be told cannot be flushed.
        with suppress(BrokenPipeError):
            self.process.stdin.close()
        try:
            self.process.wait(5)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self.process.stdout.close()
        self.log.close()

    def _last_words(self) -> str:
        self.log.seek(0)
        return " ".join(self.log.read().split()[-30:])


def close(contestants: Iterable[Contestant]) -> None:
    """End all their processes."""
    for contestant in contestants:
        contestant.close()
