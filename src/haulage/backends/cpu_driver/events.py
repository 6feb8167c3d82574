"""Events: marks in streams that can be waited for."""

from haulage.backends.cpu_driver.streams import Streams
from haulage.backends.cpu_driver.tasks import Event
from haulage.errors import DeviceError


class Events:
    """All events of the device. Safe to use from any thread."""

    def __init__(self, streams: Streams) -> None:
        self._streams = streams
        self._events: dict[int, Event] = {}

    def create(self, timing: bool) -> int:
        """A new event's handle, which no stream has either."""
        handle = next(self._streams.handles)
        self._events[handle] = Event(timing)
        return handle

    def destroy(self, handle: int) -> None:
        """Forget an event; tasks that wait for its record still do."""
        self.find(handle)
        del self._events[handle]

    def record(self, handle: int, stream: int) -> None:
        """Mark the stream's present end."""
        event = self.find(handle)
        event.record = self._streams.submit(stream, None)

    def wait_in(self, handle: int, stream: int) -> None:
        """Let later work of the stream wait for the event's present record."""
        record = self.find(handle).record
        if record is not None and not record.done:
            self._streams.submit(stream, None, after=record)

    def synchronize(self, handle: int) -> None:
        """Wait for the last record, then raise what failed in the stream it was made in."""
        record = self.find(handle).record
        if record is not None:
            self._streams.wait_for(record)

    def query(self, handle: int) -> bool:
        """Whether the last record is reached."""
        record = self.find(handle).record
        return record is None or record.done

    def poll(self, handle: int) -> bool:
        """`query`; an adversary lets one of the tasks that it takes go."""
        return self._streams.poll(self.find(handle).record)

    def elapsed(self, start: int, end: int) -> float:
        """Milliseconds between two reached records.

        Raises:
            DeviceError: one was made without timing, was never recorded or is not reached.
        """
        stamps = []
        for which, handle in (("start", start), ("end", end)):
            event = self.find(handle)
            if not event.timing:
                raise DeviceError(f"elapsed time: the {which} event was made without timing")
            if event.record is None:
                raise DeviceError(f"elapsed time: the {which} event was never recorded")
            if not event.record.done:
                raise DeviceError(
                    f"elapsed time: the {which} event is not reached yet; synchronise it first"
                )
            stamps.append(event.record.stamp)
        return (stamps[1] - stamps[0]) / 1e6

    def find(self, handle: int) -> Event:
        """The event of a handle.

        Raises:
            DeviceError: there is none.
        """
        event = self._events.get(handle)
        if event is None:
            raise DeviceError(f"the cpu device has no event {handle:#x}; it may be destroyed")
        return event

    def renew(self) -> None:
        """After a fork, in the child: what was not reached never is."""
        for event in self._events.values():
            if event.record is not None and not event.record.done:
                event.record = None
