"""What failed in streams, until somebody waits for it."""

from haulage.backends.cpu_driver.tasks import Stream


class Failures:
    """The first failure of each stream since its last wait, and how many came after it.

    `first` has the one of each stream that has any; it is always the same dictionary.
    """

    def __init__(self) -> None:
        self.first: dict[Stream, BaseException] = {}
        self._later: dict[Stream, int] = {}

    def __bool__(self) -> bool:
        return bool(self.first)

    def add(self, stream: Stream, error: BaseException) -> None:
        """Note that work of a stream failed."""
        if stream in self.first:
            self._later[stream] = self._later.get(stream, 0) + 1
        else:
            self.first[stream] = error

    def take(self, stream: Stream | None = None) -> list[BaseException]:
        """The first failure of one stream, or of all that have any; they are forgotten."""
        taken = []
        for each in list(self.first) if stream is None else [stream]:
            error = self.first.pop(each, None)
            if error is not None:
                _note(error, self._later.pop(each, 0))
                taken.append(error)
        return taken

    def raise_first(self, stream: Stream | None) -> None:
        """Raise the first failure of one stream, or of all, if there is any; all are forgotten."""
        streams = [*self.first] if stream is None else [stream]
        later = sum(self._later.pop(each, 0) for each in streams)
        taken = self.take(stream)
        if taken:
            _note(taken[0], later + len(taken) - 1)
            raise taken[0]

    def clear(self) -> None:
        """Forget all."""
        self.first.clear()
        self._later.clear()


def _note(error: BaseException, later: int) -> None:
    if later:
        error.add_note(f"{later} later tasks failed as well; this is the first")
