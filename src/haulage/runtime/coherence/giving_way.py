"""What a storage does where a device has no room: its copies there give way, and lose no byte."""

from typing import Literal

from haulage.runtime.coherence import moving
from haulage.runtime.coherence.copies import Copy, Site, host_room
from haulage.runtime.coherence.lending import Lending
from haulage.runtime.device import Device
from haulage.runtime.memory import Block
from haulage.runtime.ranges import Ranges
from haulage.runtime.transfers.entry import HOST


class GivingWay(Lending):
    """The part of `Coherence` that `eviction` asks for room."""

    nbytes: int
    _gone: set[Device]

    def _sites(self) -> dict[Device | Literal["host"], Site]:
        raise NotImplementedError

    def _forget_closed(self) -> None:
        raise NotImplementedError

    # ---- for `eviction.Storage` -------------------------------------------------------------

    def blocks(self) -> list[Block]:
        """The memory of the copies on devices."""
        return [copy.block for copy in tuple(self._copies.values())]

    def used(self, device: Device) -> int | None:
        """When the copy on a device was used last; see `eviction.Storage`."""
        copy = self._copies.get(device)
        if copy is None:
            return None
        return copy.used if copy.valid else 0

    def give_way(self, device: Device, copying: bool, why: str) -> int:
        """Give the memory of the copy on a device back if nobody uses it; how many bytes.

        See `eviction.Storage`.

        Raises:
            KernelError: a kernel that was waited for had failed.
        """
        # Who is inside may itself wait for the thread that looks for room.
        if not self._guard.entered_within(0):
            return 0
        try:
            self._forget_closed()
            copy = self._copies.get(device)
            if not self.nbytes or copy is None or copy.is_in_use():
                return 0
            if self._exports.common(device):
                return 0
            if self._exports.of(device):
                # Nobody has it any more, but it may have been written to before.
                device.finish()
                for export in self._exports.end(device):
                    self._written(device, export.part & copy.valid, (), export.mark)
            if not self._is_safe_without(device, copy, copying, why):
                return 0
            if copy.seen and copy.valid:
                self._gone.add(device)
            del self._copies[device]
            return self.nbytes
        finally:
            self._guard.__exit__()

    def _is_safe_without(self, device: Device, copy: Copy, copying: bool, why: str) -> bool:
        """Whether no byte is lost with a copy, or, `copying`, none is any more."""
        own = copy.valid & self._defined
        shown = own & self._given.common(device)
        if shown and not (copying and self._is_as_given(device, copy, shown)):
            return False
        if self._leases.records:
            # What views may have written is the host's, as for who needs it.
            own -= self._leases.fresh() & self._on_host.valid
        if not own:
            self._note_dropped(device, why)
            return True
        if copy.seen:
            # Work that writes may be in any stream.
            copy.writers = copy.users()
        elsewhere = Ranges()
        for place, site in self._sites().items():
            if place is not device:
                elsewhere |= site.valid
        if elsewhere.covers(own):
            if not copy.seen:
                self._note_dropped(device, why)
                return True
            return copying and self._is_as_on_host(device, copy, own, why)
        if not copying or self._not_being_written(own) != own:
            return False
        if self._host is None:
            self._host = host_room(device, self.nbytes)
        if self._host is None:
            return False
        self._bring_to_host("r", why, own)
        return True

    def _is_as_given(self, device: Device, copy: Copy, part: Ranges) -> bool:
        """Whether the program has not written to a copy since it was given an array of it."""
        assert self._given.were is not None
        return moving.is_as_on_host(self._given.were, part, device, copy)

    def _is_as_on_host(self, device: Device, copy: Copy, own: Ranges, why: str) -> bool:
        """Whether a copy has the host's bytes, or somebody has written and not said so yet."""
        if self._host is None or not self._on_host.valid.covers(own):
            return False
        if not moving.is_as_on_host(self._host, own, device, copy):
            return False
        self.account.moved(str(device), HOST, own, device.default_stream.handle, why)
        return True

    def _note_dropped(self, device: Device, why: str) -> None:
        self.account.moved(str(device), HOST, Ranges(), device.default_stream.handle, why)
