"""Dask arrays with blocks on devices, with Dask's own threads in this process."""

import pickle

import numpy as np
import pytest

import haulage
from haulage import SmartArray, cuda
from haulage.cuda.cudadrv.devicearray import DeviceNDArray
from support.neighbours import neighbour

da = neighbour("dask.array")
neighbour("distributed")

import haulage.dask as hd  # noqa: E402


@cuda.jit
def scale(x, factor, out):
    i = cuda.grid(1)
    if i < out.size:
        out[i] = x[i] * factor


@cuda.jit
def add(x, y, out):
    i, j = cuda.grid(2)
    if i < out.shape[0] and j < out.shape[1]:
        out[i, j] = x[i, j] + y[i, j]


@cuda.jit
def in_a_row(x, out):
    i = cuda.grid(1)
    if i < out.size:
        j, k = i // out.shape[1], i % out.shape[1]
        out[j, k] = x[j, k] + cuda.blockDim.x


@cuda.jit
def around(padded, weight, out):
    i, j = cuda.grid(2)
    if i < out.shape[0] and j < out.shape[1]:
        left, right = padded[i + 2, j], padded[i + 2, j + 2]
        up, down = padded[i, j + 1], padded[i + 4, j + 1]
        out[i, j] = left + 2 * right + 4 * up + 8 * down + weight * padded[i + 2, j + 1]


def around_in_numpy(a, weight, **padding):
    p = np.pad(a, ((2, 2), (1, 1)), **padding)
    middle = weight * p[2:-2, 1:-1]
    return p[2:-2, :-2] + 2 * p[2:-2, 2:] + 4 * p[:-4, 1:-1] + 8 * p[4:, 1:-1] + middle


@pytest.fixture
def picture():
    return np.random.default_rng(1).random((53, 37))


def blocks_of(array):
    return [block for row in array.to_delayed().ravel() for block in [row.compute()]]


def test_from_array_gives_blocks_on_the_device(picture):
    x = hd.from_array(picture, chunks=(20, 10))
    assert x.chunks == ((20, 20, 13), (10, 10, 10, 7))
    assert all(isinstance(block, DeviceNDArray) for block in blocks_of(x))
    whole = x.compute()
    assert isinstance(whole, DeviceNDArray)
    assert np.array_equal(whole.copy_to_host(), picture)
    back = hd.to_host(x).compute()
    assert type(back) is np.ndarray
    assert np.array_equal(back, picture)


def test_from_array_takes_device_arrays_and_smart_arrays(picture):
    on_device = cuda.to_device(picture)
    with haulage.transfers() as t:
        x = hd.from_array(on_device, chunks=(20, 37), device=str(on_device.device)).compute()
    # Where the host cannot read the memory, its token takes a copy; the blocks take none.
    assert {one.why for one in t} <= {"Dask (its token)"}
    assert t.count("host to device") == 0
    assert np.array_equal(x.copy_to_host(), picture)
    y = hd.from_array(SmartArray(picture), chunks=30)
    assert np.array_equal(hd.to_host(y).compute(), picture)
    with pytest.raises(TypeError, match="no option lock"):
        hd.from_array(on_device, chunks=30, lock=True)


def test_each_block_is_copied_once_and_stays(picture):
    x = hd.to_device(da.from_array(picture, chunks=(30, 37)))
    with haulage.transfers() as t:
        (y,) = (hd.to_device(hd.to_device(x)).persist(scheduler="sync"),)
    assert (t.count("host to device"), len(t)) == (2, 2)
    assert t.nbytes == picture.nbytes
    assert {one.why for one in t} == {"haulage.dask.to_device"}
    with haulage.transfers() as t:
        hd.to_host(y).compute(scheduler="sync")
    assert (t.count("device to host"), len(t)) == (2, 2)
    assert {one.why for one in t} == {"haulage.dask.to_host"}


def test_a_device_that_is_not_there_is_named():
    x = hd.from_array(np.arange(4.0), chunks=2, device="nvidia:7")
    with pytest.raises(haulage.errors.DeviceNotFound, match="nvidia"):
        x.compute(scheduler="sync")


@pytest.mark.parametrize("chunks", [7, 100, 1000])
def test_a_kernel_for_each_block(chunks):
    a = np.arange(100.0)
    y = hd.map_blocks(scale, hd.from_array(a, chunks=chunks), 2.5)
    assert y.dtype == np.float64
    assert np.array_equal(hd.to_host(y).compute(), a * 2.5)


def test_a_kernel_of_two_arrays_of_which_one_is_of_numpy(picture):
    x = hd.from_array(picture, chunks=(20, 10))
    y = da.from_array(picture.astype(np.float32), chunks=(20, 10))
    z = hd.map_blocks(add, x, y, dtype=np.float32)
    assert z.dtype == np.float32
    assert np.allclose(hd.to_host(z).compute(), 2 * picture, rtol=1e-6)


def test_threads_as_a_number_a_tuple_and_a_configuration(picture):
    x = hd.from_array(picture, chunks=(20, 10))
    y = hd.map_blocks(in_a_row, x, threads=64)
    assert np.array_equal(hd.to_host(y).compute(), picture + 64)
    y = hd.map_blocks(add, x, x, threads=(16, 4))
    assert np.array_equal(hd.to_host(y).compute(), 2 * picture)
    y = hd.map_blocks(in_a_row[32, 128], x)
    assert np.array_equal(hd.to_host(y).compute(), picture + 128)


def test_a_result_of_other_chunks_and_axes(picture):
    @cuda.jit
    def sums(x, out):
        i = cuda.grid(1)
        if i < x.shape[0]:
            for j in range(x.shape[1]):
                out[i] += x[i, j]

    x = hd.from_array(picture, chunks=(20, 37))
    y = hd.map_blocks(sums, x, chunks=((20, 20, 13),), drop_axis=1)
    assert np.allclose(hd.to_host(y).compute(), picture.sum(axis=1))

    @cuda.jit
    def first(x, out):
        out[0] = x[0]

    z = hd.map_blocks(first, hd.from_array(np.arange(10), chunks=4), chunks=((1, 1, 1),))
    assert hd.to_host(z).compute().tolist() == [0, 4, 8]


def test_what_a_kernel_does_not_write_is_zero():
    @cuda.jit
    def every_third(x, out):
        i = cuda.grid(1)
        if i < x.size and i % 3 == 0:
            out[i] = x[i]

    a = np.arange(1.0, 31.0)
    y = hd.map_blocks(every_third, hd.from_array(a, chunks=15))
    assert np.array_equal(hd.to_host(y).compute(), np.where(np.arange(30) % 3 == 0, a, 0))


def test_structured_blocks():
    kind = np.dtype([("x", "f8"), ("n", "i4")])

    @cuda.jit
    def both(r, out):
        i = cuda.grid(1)
        if i < out.size:
            out[i].x = r[i].x * 2
            out[i].n = r[i].n + 1

    a = np.array([(i / 3, i) for i in range(50)], kind)
    y = hd.map_blocks(both, hd.from_array(a, chunks=16))
    assert y.dtype == kind
    found = hd.to_host(y.rechunk(9)[3:47]).compute()
    assert np.array_equal(found["x"], a["x"][3:47] * 2)
    assert np.array_equal(found["n"], a["n"][3:47] + 1)


@pytest.mark.parametrize(
    ("boundary", "padding"),
    [
        ("reflect", {"mode": "symmetric"}),
        ("nearest", {"mode": "edge"}),
        ("periodic", {"mode": "wrap"}),
        (7.5, {"mode": "constant", "constant_values": 7.5}),
    ],
)
@pytest.mark.parametrize("chunks", [(20, 10), (53, 37), (5, 3), (2, 40)])
def test_overlap_of_a_kernel(picture, boundary, padding, chunks):
    x = hd.from_array(picture, chunks=chunks)
    y = hd.map_overlap(around, x, 0.5, depth=(2, 1), boundary=boundary)
    assert y.shape == picture.shape
    found = hd.to_host(y).compute()
    assert np.allclose(found, around_in_numpy(picture, 0.5, **padding))


def test_overlap_makes_no_copies_between_host_and_device(picture):
    x = hd.from_array(picture, chunks=(20, 10)).persist()
    for boundary in ("reflect", "nearest", "periodic", 1.0):
        y = hd.map_overlap(around, x, 0.5, depth=(2, 1), boundary=boundary)
        with haulage.assert_no_transfers():
            y.compute()


def test_boundaries_differ_by_axis(picture):
    x = hd.from_array(picture, chunks=(20, 10))
    edges = {0: "periodic", 1: 3.0}
    y = hd.map_overlap(around, x, 0.5, depth={0: 2, 1: 1}, boundary=edges)
    wrapped = np.pad(picture, ((2, 2), (0, 0)), mode="wrap")
    p = np.pad(wrapped, ((0, 0), (1, 1)), constant_values=3)
    want = p[2:-2, :-2] + 2 * p[2:-2, 2:] + 4 * p[:-4, 1:-1] + 8 * p[4:, 1:-1]
    assert np.allclose(hd.to_host(y).compute(), want + 0.5 * p[2:-2, 1:-1])


@pytest.mark.parametrize("boundary", ["none", "reflect", "periodic", 2.0])
def test_overlap_of_a_function_is_that_of_dask(picture, boundary):
    def mean(block):
        host = np.asarray(block)
        return (host + np.roll(host, 1, 0) + np.roll(host, -1, 1)) / 3

    def on_device(block):
        assert isinstance(block, DeviceNDArray)
        return cuda.to_device(mean(block))

    x = hd.from_array(picture, chunks=(20, 10))
    found = hd.map_overlap(on_device, x, depth=2, boundary=boundary).compute()
    assert isinstance(found, DeviceNDArray)
    want = da.from_array(picture, chunks=(20, 10)).map_overlap(
        mean, depth=2, boundary=boundary, dtype=float
    )
    assert np.allclose(found.copy_to_host(), want.compute())


def test_functions_of_device_arrays_and_smart_arrays(picture):
    def half(block):
        assert isinstance(block, DeviceNDArray)
        return block[::2]

    x = hd.from_array(picture, chunks=(20, 37))
    y = hd.map_blocks(half, x, dtype=x.dtype, chunks=((10, 10, 7), (37,)))
    assert np.array_equal(hd.to_host(y).compute(), picture[[*range(0, 53, 2)]])

    z = hd.map_blocks(SmartArray, x, dtype=x.dtype)
    assert all(isinstance(block, SmartArray) for block in blocks_of(z))
    assert np.allclose((z + 1).sum(axis=0).compute(), (picture + 1).sum(axis=0))
    doubled = hd.map_blocks(add, z, z)
    assert np.array_equal(hd.to_host(doubled).compute(), 2 * picture)


@pytest.mark.parametrize(
    "take",
    [
        lambda x: x[3:40, ::2],
        lambda x: x[:, ::-1],
        lambda x: x[5],
        lambda x: x[:, None, 3:],
        lambda x: x.rechunk((17, 5)),
        lambda x: x.T,
        lambda x: x.reshape(-1),
    ],
)
def test_what_dask_does_with_blocks(picture, take):
    x = hd.from_array(picture, chunks=(20, 10))
    found = take(x).compute()
    assert isinstance(found, DeviceNDArray)
    assert np.array_equal(found.copy_to_host(), take(da.from_array(picture, chunks=10)).compute())


def test_numpys_functions_take_blocks_by_way_of_the_host(picture):
    x = hd.from_array(picture, chunks=(20, 10))
    assert np.isclose(x.sum().compute(), picture.sum())
    assert np.allclose(x.mean(axis=0).compute(), picture.mean(axis=0))
    assert np.array_equal(np.asarray(x), picture)


def test_an_empty_array():
    x = hd.map_blocks(scale, hd.from_array(np.zeros(0), chunks=3), 2.0)
    assert x.compute().shape == (0,)


def test_an_error_in_a_kernel_is_that_of_its_task():
    @cuda.jit(debug=True)
    def fails(x, out):
        i = cuda.grid(1)
        if i < out.size:
            if x[i] >= 8:
                raise ValueError("too large")
            out[i] = x[i]

    x = hd.from_array(np.arange(10.0), chunks=5)
    with pytest.raises(haulage.errors.KernelError, match="too large"):
        hd.map_blocks(fails, x).compute()
    # and the stream works still
    assert hd.map_blocks(scale, x, 2.0).compute().copy_to_host()[-1] == 18


def test_a_kernel_may_not_write_to_the_blocks_that_others_use():
    @cuda.jit
    def writes(x, out):
        i = cuda.grid(1)
        if i < x.size:
            x[i] = 0

    with pytest.raises(haulage.errors.HaulageError):
        hd.map_blocks(writes, hd.from_array(np.arange(10.0), chunks=5)).compute()


def test_a_kernel_with_a_signature():
    @cuda.jit("void(float64[::1], float64, float64[::1])")
    def declared(x, a, out):
        i = cuda.grid(1)
        if i < out.size:
            out[i] = x[i] + a

    y = hd.map_blocks(declared, hd.from_array(np.arange(10.0), chunks=5), 1.5)
    assert np.array_equal(hd.to_host(y).compute(), np.arange(10.0) + 1.5)


def test_kernels_of_one_function_with_two_signatures_are_two():
    def half(x, out):
        i = cuda.grid(1)
        if i < out.size:
            out[i] = x[i] / 2

    a = np.arange(10)
    for kind in (np.float32, np.float64):
        declared = cuda.jit(f"void({np.dtype(kind)}[::1], {np.dtype(kind)}[::1])")(half)
        y = hd.map_blocks(declared, hd.from_array(a.astype(kind), chunks=5))
        sent = pickle.loads(pickle.dumps(y))  # as to a worker
        assert np.array_equal(hd.to_host(sent).compute(scheduler="sync"), a.astype(kind) / 2)


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda x: hd.map_blocks(scale, x), TypeError, "takes 3 arguments; it is given 1"),
        (lambda x: hd.map_blocks(scale, 1.0, 2.0), TypeError, "expected a Dask array"),
        (lambda x: hd.map_blocks(scale, x, 2.0, colour=1), TypeError, "no option colour"),
        (lambda x: hd.map_blocks(scale, x, 2.0, threads=(8, 8)), ValueError, "has 1 axes"),
        (lambda x: hd.map_blocks(scale, x, 2.0, threads="many"), TypeError, "expected a whole"),
        (lambda x: hd.map_blocks(scale, x, 2.0, threads=0), TypeError, "expected a whole"),
        (lambda x: hd.map_blocks(scale[1, 2], x, 2.0, threads=8), TypeError, "leave threads out"),
        (lambda x: hd.map_blocks(np.sin, x, threads=8), TypeError, "threads are for kernels"),
        (lambda x: hd.map_overlap(np.sin, x, depth=1, threads=8), TypeError, "are for kernels"),
        (lambda x: hd.map_overlap(scale, x, depth=1), TypeError, "takes 3 arguments"),
        (lambda x: hd.map_overlap(scale, x, 1, depth=1, boundary="none"), ValueError, "'none'"),
        (lambda x: hd.map_overlap(scale, x, 1, depth=1, boundary="odd"), ValueError, "'odd'"),
        (lambda x: hd.map_overlap(scale, x, 1, depth=-1), ValueError, "depth -1"),
        (lambda x: hd.map_overlap(scale, x, 1, depth={0: (1, 0)}), ValueError, "both ends"),
    ],
)
def test_what_cannot_be_is_refused_before_anything_runs(call, error, message):
    with pytest.raises(error, match=message):
        call(hd.from_array(np.arange(10.0), chunks=5))
