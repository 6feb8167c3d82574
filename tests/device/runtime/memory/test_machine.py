"""Random programs of allocations against a model: who has which bytes, what is in them, and how
much it is."""

import gc
import itertools
import os
import threading

import hypothesis
import numpy as np
import pytest
from hypothesis import strategies as st
from hypothesis.stateful import (
    Bundle,
    RuleBasedStateMachine,
    consumes,
    invariant,
    multiple,
    rule,
    run_state_machine_as_test,
)

import haulage
from haulage import cuda, memory
from haulage.backends.base import NON_BLOCKING
from haulage.runtime.devices.stream import Stream
from haulage.runtime.process import runtime

pytestmark = pytest.mark.usefixtures("device")
ALSO_FAR = True

# Around the borders of classes, of small and large blocks, of pages and of segments.
SIZES = st.one_of(
    st.integers(0, 5000),
    st.sampled_from([256, 257, 4096, 65535, 65536, 65537, 1 << 20, (2 << 20) + 1]),
    st.integers(60_000, 400_000),
    st.integers(1 << 20, 24 << 20),
)
KINDS = st.sampled_from(["device"] * 5 + ["pinned", "managed", "mapped", "mapped portable"])
# Some more take minutes, and find more.
EXAMPLES = 8
# Of a large array so many bytes are looked at, at each end.
MANY = 4096


class Held:
    """An array of the model: the program's object, and the byte that all its elements have."""

    def __init__(self, array, block, value, stream):
        self.array = array
        self.block = block
        self.value = value
        self.last = stream  # the stream that wrote it
        self.closed = False


class Freed:
    """Memory that was given back while work may still have used it: `events` tell when not."""

    def __init__(self, block, streams, events):
        self.start = int(block.device_ptr)
        self.stop = self.start + block.nbytes
        self.nbytes = block.nbytes
        self.home = block.home
        self.streams = streams
        self.events = events


class Machine(RuleBasedStateMachine):
    device: haulage.runtime.devices.device.Device

    arrays = Bundle("arrays")

    def __init__(self):
        super().__init__()
        gc.collect()
        self.backend = self.device.backend
        self.device.synchronize()
        self.base = memory.stats(self.device).in_use
        self.live = {}  # Held by its number
        self.numbers = itertools.count(1)
        self.freed = []
        self.gates = {}  # of streams that are held up, by handle
        self.used = {}  # streams that used a block, by its generation
        self.seen = 0  # the most that was in use
        self.cycles = False  # some may not be collected yet
        memory.reset_peak(self.device)
        self.streams = [self.device.default_stream, cuda.stream(), cuda.stream()]
        self.streams.append(Stream.create(self.device, NON_BLOCKING))
        foreign = self.backend.stream_create(0)
        self.foreign = foreign
        self.streams.append(cuda.external_stream(foreign))

    def stream(self, number):
        return self.streams[number % len(self.streams)]

    def write(self, held, value, stream):
        """Fill the array in a stream, after what was written before."""
        if held.last is not stream:
            event = self.backend.event_create(False)
            self.backend.event_record(event, held.last.handle)
            self.backend.stream_wait_event(stream.handle, event)
            self.backend.event_destroy(event)
        held.block.use(stream)
        self.used.setdefault(held.block.generation, {})[stream.handle] = stream
        if held.block.nbytes:
            low = int(held.block.device_ptr)
            self.backend.fill(low, bytes([value]), held.block.nbytes, stream.handle)
        held.value, held.last = value, stream

    # ---- allocating ---------------------------------------------------------------------------

    @rule(target=arrays, nbytes=SIZES, kind=KINDS, home=st.integers(0, 9), user=st.integers(0, 9))
    def allocate(self, nbytes, kind, home, user):
        return self.new(nbytes, kind, self.stream(home), self.stream(user))

    def new(self, nbytes, kind, home, user):
        if kind == "device":
            array = cuda.device_array(nbytes, np.uint8, stream=home)
            block = array.block
        else:
            kind, _, flag = kind.partition(" ")
            make = getattr(cuda, f"{kind}_array")
            array = make(nbytes, np.uint8, **({flag: True} if flag else {}))
            block = haulage.runtime.buffers.pinned_memory.block_of(array)
        assert array.nbytes == nbytes
        assert int(block.device_ptr) % 256 == 0
        self.check_against_freed(block)
        held = Held(array, block, 0, user)
        self.write(held, next(self.numbers) % 251 + 1, user)
        number = next(self.numbers)
        self.live[number] = held
        return number

    def check_against_freed(self, block):
        """Nobody may have memory that work of others still uses; its own stream may."""
        if not block.nbytes:
            return
        start, stop = int(block.device_ptr), int(block.device_ptr) + block.nbytes
        for freed in self.freed:
            if start < freed.stop and freed.start < stop and not self.is_done(freed):
                assert block.home is not None
                assert block.home == freed.home
                assert set(freed.streams) <= {block.home.handle, 0}

    def is_done(self, freed):
        return all(map(self.backend.event_query, freed.events))

    @rule(target=arrays, array=arrays, first=st.integers(0, 100), step=st.sampled_from([1, 3]))
    def view(self, array, first, step):
        held = self.live.get(array)
        if held is None or held.closed:
            return multiple()
        number = next(self.numbers)
        part = Held(held.array[first::step], held.block, held.value, held.last)
        part.of = getattr(held, "of", held)
        self.live[number] = part
        return number

    @rule(array=arrays, user=st.integers(0, 9))
    def use(self, array, user):
        held = self.live.get(array)
        if held is None or hasattr(held, "of"):
            return
        if held.closed:
            with pytest.raises(ValueError, match=r"close.. at .*test_machine"):
                held.block.use(self.stream(user))
        else:
            self.write(held, next(self.numbers) % 251 + 1, self.stream(user))

    # ---- freeing ------------------------------------------------------------------------------

    def about_to_free(self, block):
        """Note what of its memory is in use, if nobody else has the block."""
        used = self.used.pop(block.generation, {})
        events = []
        for handle in used:
            event = self.backend.event_create(False)
            self.backend.event_record(event, handle)
            events.append(event)
        if block.nbytes:
            self.freed.append(Freed(block, used, events))

    @rule(array=consumes(arrays))
    def drop(self, array):
        held = self.live.pop(array, None)
        if held is not None:
            self.forget(held)

    def forget(self, held):
        block = held.block
        others = [one for one in self.live.values() if one.block is block]
        if not others and not block.returned:
            self.about_to_free(block)
        held.array = held.block = None

    @rule(array=arrays)
    def close(self, array):
        held = self.live.get(array)
        if held is None or not hasattr(held.array, "close"):
            return
        mine = [one for one in self.live.values() if one.block is held.block]
        if not held.closed and not held.block.exposed:
            self.about_to_free(held.block)
        held.array.close()
        held.array.close()
        for one in mine:
            one.closed = True

    @rule(array=consumes(arrays), collect=st.booleans())
    def drop_in_a_cycle(self, array, collect):
        held = self.live.pop(array, None)
        if held is None:
            return
        ring = [held.array, held.block]
        ring.append(ring)
        self.forget(held)
        del ring
        self.cycles = True
        if collect:
            gc.collect()

    @rule(some=st.lists(consumes(arrays), min_size=1, max_size=3), nbytes=SIZES)
    def defer_cleanup(self, some, nbytes):
        with cuda.defer_cleanup():
            before = memory.stats(self.device).in_use
            held = [one for one in map(self.live.pop, some, [None] * len(some)) if one]
            for one in held:
                self.forget(one)
            del held
            kept = memory.stats(self.device).in_use
            assert kept == before
            self.drop(self.new(nbytes, "device", self.stream(0), self.stream(1)))

    # ---- streams ------------------------------------------------------------------------------

    @rule(number=st.integers(0, 9))
    def hold_up(self, number):
        stream = self.stream(number)
        if stream.handle not in self.gates:
            gate = self.gates[stream.handle] = threading.Event()
            self.backend.stream_callback(stream.handle, lambda: gate.wait(60))

    @rule()
    def let_go(self):
        for gate in self.gates.values():
            gate.set()
        self.gates.clear()

    @rule(number=st.integers(1, 2))
    def renew_stream(self, number):
        """The stream goes, whatever is in it, and another comes."""
        self.streams[number] = cuda.stream()

    # ---- the whole ----------------------------------------------------------------------------

    @rule()
    def trim(self):
        memory.trim(self.device)

    @rule()
    def collect(self):
        gc.collect()

    @rule()
    def reset_peak(self):
        memory.reset_peak(self.device)
        self.seen = 0

    @rule(nbytes=st.integers(1, 200_000))
    def limit(self, nbytes):
        if self.gates:
            return
        self.device.synchronize()
        stats = memory.stats(self.device)
        kinds = [kind for kind in ("device", "managed") if kind in stats.by_kind]
        used = sum(stats.by_kind[kind].in_use for kind in kinds)
        memory.limit(used + nbytes, self.device)
        try:
            with pytest.raises(MemoryError, match="limit"):
                cuda.device_array(nbytes + 1, np.uint8)
            cuda.device_array(nbytes, np.uint8)
        finally:
            memory.limit(None, self.device)
        self.seen = max(self.seen, stats.in_use + nbytes)

    @rule(nbytes=SIZES)
    def leaks(self, nbytes):
        with memory.leaks(self.device):
            self.drop(self.new(nbytes, "device", self.stream(0), self.stream(0)))

    @rule()
    def fork(self):
        # A GPU's driver does not live on in a forked child.
        if self.gates or not hasattr(os, "fork") or self.device.kind in ("nvidia", "amd", "opencl"):
            return
        self.device.synchronize()
        memory.stats(self.device)
        child = os.fork()
        if child:
            _, status = os.waitpid(child, 0)
            assert os.waitstatus_to_exitcode(status) == 0
            return
        code = 1
        try:
            self.check_contents()
            in_use = memory.stats(self.device).in_use
            assert in_use == self.base + self.in_use()
            some = [cuda.to_device(np.full(n, 7, np.uint8)) for n in (1, 3000, 70_000, 1 << 20)]
            self.check_contents()
            for array in some:
                assert (array.copy_to_host() == 7).all()
            del array, some
            assert memory.stats(self.device).in_use == in_use
            memory.trim(self.device)
            self.check_contents()
            code = 0
        finally:
            os._exit(code)

    # ---- what always holds --------------------------------------------------------------------

    def in_use(self):
        """Bytes that arrays have; what the host addresses stays until they are gone."""
        held = [one for one in self.live.values() if not one.closed or one.block.exposed]
        return sum({one.block.generation: one.block.nbytes for one in held}.values())

    def check_contents(self):
        for held in self.live.values():
            if held.closed:
                continue
            value = held.of.value if hasattr(held, "of") else held.value
            for part in (held.array[:MANY], held.array[-MANY:]):
                host = part.copy_to_host() if hasattr(part, "copy_to_host") else np.asarray(part)
                assert (host == value).all()

    @invariant()
    def contents_are_whole(self):
        if not self.gates:
            self.device.synchronize()
            self.check_contents()

    @invariant()
    def figures_are_right(self):
        if self.cycles:
            gc.collect()
            self.cycles = False
        stats = memory.stats(self.device)
        in_use = stats.in_use - self.base
        live = self.in_use()
        self.freed = [freed for freed in self.freed if self.gates or not self.end(freed)]
        waiting = sum(freed.nbytes for freed in self.freed)
        assert live <= in_use <= live + waiting
        self.seen = max(self.seen, stats.in_use)
        assert stats.peak >= self.seen
        assert stats.reserved >= stats.in_use
        assert sum(part.in_use for part in stats.by_stream.values()) == stats.in_use
        assert sum(part.in_use for part in stats.by_kind.values()) == stats.in_use
        assert sum(part.reserved for part in stats.by_kind.values()) == stats.reserved

    def end(self, freed):
        assert self.is_done(freed)
        for event in freed.events:
            self.backend.event_destroy(event)
        return True

    @invariant()
    def no_byte_is_there_twice(self):
        shown = memory.snapshot()
        parts = [b for b in shown["blocks"] if b["device"] == str(self.device) and b["nbytes"]]
        parts = [b for b in parts if b["state"] != "adopted"]
        parts.sort(key=lambda part: part["address"])
        for one, other in itertools.pairwise(parts):
            assert one["address"] + one["nbytes"] <= other["address"], (one, other)
        addresses = {part["address"] for part in parts if part["state"] == "live"}
        for held in self.live.values():
            assert held.closed or not held.block.nbytes or int(held.block.device_ptr) in addresses

    def teardown(self):
        self.let_go()
        self.device.synchronize()
        for number in tuple(self.live):
            self.drop(number)
        self.streams = self.streams[:1]
        gc.collect()
        self.device.synchronize()
        assert memory.stats(self.device).in_use == self.base
        self.backend.stream_destroy(self.foreign)
        for freed in self.freed:
            self.end(freed)


@pytest.mark.skipif(
    runtime.current.adversary_seed is not None,
    reason="the adversarial mode takes all memory from the driver",
)
def test_random_programs_have_what_their_model_has(device):
    class OnDevice(Machine):
        pass

    OnDevice.device = device
    settings = hypothesis.settings(
        max_examples=EXAMPLES,
        stateful_step_count=30,
        deadline=None,
        suppress_health_check=list(hypothesis.HealthCheck),
    )
    gc.freeze()  # what other tests have left makes each collection slow
    try:
        run_state_machine_as_test(OnDevice, settings=settings)
    finally:
        gc.unfreeze()
