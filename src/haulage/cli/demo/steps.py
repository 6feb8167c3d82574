"""The way of the photo: pinned memory, two streams, four kernels, and back."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

import numpy as np

from haulage import cuda
from haulage.cli.demo import kernels
from haulage.cli.demo.kernels import BINS, RADIUS, SIDE, TAPS

STREAMS = 2
PASSES = 3
STRIPS = 4
LOWEST_STRIP = 64
MATRIX_SIDE = 512
SIGMA = RADIUS / 3

# The steps, in the order of the table.
PHOTO_IN = "photo to device"
BLUR = "Gaussian blur"
EDGES = "Sobel edges"
HISTOGRAM = "histogram"
MATRIX_IN = "matrix to device"
PRODUCT = "matrix product"
RESULTS_OUT = "results to host"
STEPS = (PHOTO_IN, BLUR, EDGES, HISTOGRAM, MATRIX_IN, PRODUCT, RESULTS_OUT)
COPIES = (PHOTO_IN, MATRIX_IN, RESULTS_OUT)


@dataclass(frozen=True)
class Operation:
    """One copy or kernel as the device's events saw it: times in ms since the pass began."""

    step: str
    lane: int
    begin: float
    end: float
    nbytes: int


@dataclass
class Results:
    """What came back to the host, and when each operation ran."""

    photo: np.ndarray  # uint8 (rows, columns, 3)
    blurred: np.ndarray  # float32 (rows, columns, 3), 0 to 255
    edges: np.ndarray  # float32 (rows, columns)
    bins: np.ndarray  # int32 (256,)
    matrix: np.ndarray  # float32 (n, n): rows of the photo, centred, of length 1
    product: np.ndarray  # float32 (n, n): matrix @ matrix.T
    operations: list[Operation] = field(default_factory=list)
    first_seconds: float = 0.0
    seconds: float = 0.0


@dataclass(frozen=True)
class Strip:
    """Rows [first, last) of the photo, with the rows around them that their results depend on."""

    lane: int
    first: int
    last: int
    blurred_first: int
    blurred_last: int
    photo_first: int
    photo_last: int


def strips(height: int) -> list[Strip]:
    """Cut `height` rows into at most `STRIPS` strips that go to the streams by turns."""
    count = max(1, min(STRIPS, height // LOWEST_STRIP))
    cuts = [height * i // count for i in range(count + 1)]
    found = []
    for i, (first, last) in enumerate(pairwise(cuts)):
        low, high = max(0, first - 1), min(height, last + 1)
        above, below = max(0, low - RADIUS), min(height, high + RADIUS)
        found.append(Strip(i % STREAMS, first, last, low, high, above, below))
    return found


def gaussian_weights() -> np.ndarray:
    """float32 (TAPS,), of sum 1."""
    x = np.arange(TAPS) - RADIUS
    weights = np.exp(-0.5 * (x / SIGMA) ** 2)
    return (weights / weights.sum()).astype(np.float32)


def row_matrix(photo: np.ndarray, side: int) -> np.ndarray:
    """float32 (side, side): sampled rows of the photo's grey values, centred, of length 1, so
    that the product with its transpose says how alike each two rows are (-1 to 1)."""
    rows = np.arange(side) * photo.shape[0] // side
    columns = np.arange(side) * photo.shape[1] // side
    grey = photo[np.ix_(rows, columns)].mean(axis=2)
    grey -= grey.mean(axis=1, keepdims=True)
    length = np.linalg.norm(grey, axis=1, keepdims=True)
    return np.divide(grey, length, out=np.zeros_like(grey), where=length > 1e-9).astype(np.float32)


class Clock:
    """Two events around each operation; their times are read when all is done."""

    def __init__(self) -> None:
        self._base = cuda.event()
        self._marks: list[tuple[str, int, Any, Any, int]] = []
        self._base.record()
        self._base.synchronize()

    @contextmanager
    def operation(self, step: str, lane: int, stream: Any, nbytes: int) -> Iterator[None]:
        """What is put in `stream` inside of the block is one operation."""
        begin, end = cuda.event(), cuda.event()
        begin.record(stream)
        yield
        end.record(stream)
        self._marks.append((step, lane, begin, end, nbytes))

    def operations(self) -> list[Operation]:
        """All operations so far; the device must be done with them."""
        since = self._base.elapsed_time
        return [Operation(s, lane, since(b), since(e), n) for s, lane, b, e, n in self._marks]


class Journey:
    """All memory that the photo's way needs, and the way itself, on the device in force."""

    def __init__(self, photo: np.ndarray, side: int = MATRIX_SIDE) -> None:
        height, width, _ = photo.shape
        self.streams = [cuda.stream() for _ in range(STREAMS)]
        self.strips = strips(height)
        matrix = row_matrix(photo, side)
        self.results = Results(
            photo=_pinned(photo),
            blurred=cuda.pinned_array((height, width, 3), np.float32),
            edges=cuda.pinned_array((height, width), np.float32),
            bins=cuda.pinned_array(BINS, np.int32),
            matrix=_pinned(matrix),
            product=cuda.pinned_array((side, side), np.float32),
        )
        self._transposed = _pinned(matrix.T)
        self._weights = cuda.to_device(gaussian_weights())
        self._zeros = np.zeros(BINS, np.int32)

        def rows(first: int, last: int, *rest: int, dtype: Any) -> Any:
            return cuda.device_array((last - first, *rest), dtype)

        self._photo = [
            rows(s.photo_first, s.photo_last, width, 3, dtype=np.uint8) for s in self.strips
        ]
        self._blurred = [
            rows(s.blurred_first, s.blurred_last, width, 3, dtype=np.float32) for s in self.strips
        ]
        self._edges = [rows(s.first, s.last, width, dtype=np.float32) for s in self.strips]
        self._bins = cuda.device_array(BINS, np.int32)
        self._matrix = cuda.device_array((side, side), np.float32)
        self._columns = cuda.device_array((side, side), np.float32)
        self._product = cuda.device_array((side, side), np.float32)

    def run(self) -> Results:
        """Go the way once, which compiles the kernels, and `PASSES` times more.

        The operations and seconds are those of the fastest pass, the results of the last one.
        """
        out = self.results
        out.first_seconds = self._pass(Clock())
        out.seconds = float("inf")
        for _ in range(PASSES):
            for array in (out.blurred, out.edges, out.product):
                array.fill(np.nan)  # so that no earlier pass's results can be taken for these
            out.bins.fill(-1)
            clock = Clock()
            seconds = self._pass(clock)
            if seconds < out.seconds:
                out.seconds, out.operations = seconds, clock.operations()
        return out

    def _pass(self, clock: Clock) -> float:
        """Hand everything to the streams, wait for it; returns the seconds from start to end."""
        # What a kernel leaves out must not be found in memory that still holds an earlier result.
        for array in (*self._blurred, *self._edges, self._product):
            array[...] = np.nan
        self._bins.copy_to_device(self._zeros)
        cuda.synchronize()
        began = time.perf_counter()
        for number, strip in enumerate(self.strips):
            self._send_strip(clock, number, strip)
        self._send_matrices(clock)
        self._fetch_histogram(clock)
        cuda.synchronize()
        return time.perf_counter() - began

    def _send_strip(self, clock: Clock, number: int, s: Strip) -> None:
        stream, out = self.streams[s.lane], self.results
        photo, blurred, edges = self._photo[number], self._blurred[number], self._edges[number]
        own_photo = photo[s.first - s.photo_first : s.last - s.photo_first]
        own_blurred = blurred[s.first - s.blurred_first : s.last - s.blurred_first]
        block = (SIDE, SIDE)

        with clock.operation(PHOTO_IN, s.lane, stream, photo.nbytes):
            photo.copy_to_device(out.photo[s.photo_first : s.photo_last], stream=stream)
        with clock.operation(BLUR, s.lane, stream, photo.nbytes + blurred.nbytes):
            kernels.blur[(*_blocks(blurred.shape), 3), block, stream](
                photo, s.blurred_first - s.photo_first, self._weights, blurred
            )
        with clock.operation(EDGES, s.lane, stream, blurred.nbytes + edges.nbytes):
            kernels.edges[_blocks(edges.shape), block, stream](
                blurred, s.first - s.blurred_first, edges
            )
        with clock.operation(HISTOGRAM, s.lane, stream, own_photo.nbytes):
            kernels.histogram[_blocks(own_photo.shape), block, stream](own_photo, self._bins)
        with clock.operation(RESULTS_OUT, s.lane, stream, own_blurred.nbytes + edges.nbytes):
            own_blurred.copy_to_host(out.blurred[s.first : s.last], stream=stream)
            edges.copy_to_host(out.edges[s.first : s.last], stream=stream)

    def _send_matrices(self, clock: Clock) -> None:
        """Each stream makes a half of the product; the right-hand matrix goes up in the first
        one, and an event keeps the other from starting without it."""
        out = self.results
        side = len(out.matrix)
        with clock.operation(MATRIX_IN, 0, self.streams[0], self._columns.nbytes):
            self._columns.copy_to_device(self._transposed, stream=self.streams[0])
        columns_there = cuda.event()
        columns_there.record(self.streams[0])
        for lane, stream in enumerate(self.streams):
            half = slice(side * lane // STREAMS, side * (lane + 1) // STREAMS)
            a, c = self._matrix[half], self._product[half]
            with clock.operation(MATRIX_IN, lane, stream, a.nbytes):
                a.copy_to_device(out.matrix[half], stream=stream)
            columns_there.wait(stream)
            with clock.operation(PRODUCT, lane, stream, a.nbytes + self._columns.nbytes + c.nbytes):
                kernels.product[_blocks(c.shape), (SIDE, SIDE), stream](a, self._columns, c)
            with clock.operation(RESULTS_OUT, lane, stream, c.nbytes):
                c.copy_to_host(out.product[half], stream=stream)

    def _fetch_histogram(self, clock: Clock) -> None:
        """Both streams count into the same bins: the last stream waits for the other."""
        counted = cuda.event()
        counted.record(self.streams[0])
        counted.wait(self.streams[1])
        with clock.operation(RESULTS_OUT, 1, self.streams[1], self._bins.nbytes):
            self._bins.copy_to_host(self.results.bins, stream=self.streams[1])

    def differing(self) -> dict[str, int]:
        """For each step of copies, how many elements differ between host and device now."""
        out = self.results
        photo_in = results_out = 0
        for s, photo, blurred, edges in zip(
            self.strips, self._photo, self._blurred, self._edges, strict=True
        ):
            own = blurred.copy_to_host()[s.first - s.blurred_first : s.last - s.blurred_first]
            photo_in += _differing(photo, out.photo[s.photo_first : s.photo_last])
            results_out += int(np.count_nonzero(own != out.blurred[s.first : s.last]))
            results_out += _differing(edges, out.edges[s.first : s.last])
        results_out += _differing(self._product, out.product) + _differing(self._bins, out.bins)
        matrix_in = _differing(self._matrix, out.matrix)
        matrix_in += _differing(self._columns, self._transposed)
        return {PHOTO_IN: photo_in, MATRIX_IN: matrix_in, RESULTS_OUT: results_out}


def _differing(on_device: Any, on_host: np.ndarray) -> int:
    return int(np.count_nonzero(on_device.copy_to_host() != on_host))


def _pinned(array: np.ndarray) -> np.ndarray:
    pinned = cuda.pinned_array(array.shape, array.dtype)
    pinned[...] = array
    return pinned


def _blocks(shape: tuple[int, ...]) -> tuple[int, int]:
    """Blocks of the grid's x and y that cover the rows and columns of `shape`."""
    return (shape[1] + SIDE - 1) // SIDE, (shape[0] + SIDE - 1) // SIDE
