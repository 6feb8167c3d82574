"""Pickles of arrays in all kinds of memory: what is copied, when, and what keeps the memory."""

import gc
import pickle
import subprocess
import sys
import threading

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

import haulage
from haulage import SmartArray, cuda

pytestmark = pytest.mark.usefixtures("device")
ALSO_FAR = True

quick = settings(
    max_examples=100, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
DTYPES = ["i1", "?", "f2", "f4", "f8", "c16", "S3", "U2", "M8[s]", "m8[D]", ">i4", "V3", "i4,f8"]
DTYPES += ["i4,M8[s]", {"names": ["a", "b"], "formats": ["u1", "m8[s]"], "offsets": [3, 8]}]


@st.composite
def views(draw):
    """A host array that may be transposed, stepped and flipped."""
    shape = draw(hnp.array_shapes(min_dims=0, max_dims=4, min_side=0, max_side=4))
    dtype = np.dtype(draw(st.sampled_from(DTYPES)))
    count = int(np.prod(shape)) * dtype.itemsize
    array = (np.arange(count, dtype=np.uint8) % 2).view(dtype).reshape(shape)
    array = array.transpose(draw(st.permutations(range(array.ndim))))
    steps = tuple(slice(None, None, draw(st.sampled_from([1, 1, 1, 2, -1]))) for _ in array.shape)
    return array[(*steps, ...)]


MAKE = {
    "device": cuda.to_device,
    "mapped": lambda host: _filled(cuda.mapped_array, host),
    "managed": lambda host: _filled(cuda.managed_array, host),
    "SmartArray": SmartArray,
}


def _filled(make, host):
    array = make(host.shape, host.dtype)
    np.asarray(array)[...] = host
    return array


def out_of_band(array):
    """(the pickle, the buffers beside it) of an array."""
    buffers = []
    return pickle.dumps(array, 5, buffer_callback=buffers.append), buffers


def is_in_reach(device):
    """Whether the host reads the device's memory where it is."""
    return device.properties.host_memory_is_device_memory


@cuda.jit
def double(x):
    i = cuda.grid(1)
    if i < x.size:
        x[i] *= 2


@pytest.mark.parametrize("make", MAKE.values(), ids=MAKE)
@quick
@given(host=views(), protocol=st.sampled_from([*range(6), "buffers"]))
def test_any_array_comes_back_by_every_protocol(make, host, protocol):
    there = make(host)
    if protocol == "buffers":
        told, buffers = out_of_band(there)
        back = pickle.loads(told, buffers=buffers)
    else:
        back = pickle.loads(pickle.dumps(there, protocol))
    assert type(back) is type(there)
    assert (back.shape, back.dtype) == (host.shape, host.dtype)
    np.testing.assert_array_equal(np.array(back), host)
    there.fill(host.flat[0] if host.size else np.zeros(1, host.dtype)[0])
    np.testing.assert_array_equal(np.array(back), host)


@pytest.mark.parametrize("make", MAKE.values(), ids=MAKE)
@pytest.mark.parametrize("protocol", [2, 5])
def test_the_order_of_bytes_is_kept(make, protocol):
    back = pickle.loads(pickle.dumps(make(np.arange(5, dtype=">i4")), protocol))
    assert back.dtype == np.dtype(">i4")
    assert np.array(back).tolist() == [0, 1, 2, 3, 4]


@quick
@given(host=views())
def test_elements_of_a_device_array_are_not_in_the_pickle_itself(host):
    there = cuda.to_device(host)
    _, buffers = out_of_band(there)
    assert sum(buffer.raw().nbytes for buffer in buffers) == host.nbytes


@pytest.mark.parametrize(
    "view", [lambda a: a, lambda a: a.T, lambda a: a.reshape(4, 10, 5).transpose(1, 2, 0)]
)
def test_an_array_without_gaps_is_copied_at_most_once_on_each_side(device, view):
    there = view(cuda.to_device(np.arange(200.0).reshape(10, 20)))
    with haulage.transfers() as sent:
        told, buffers = out_of_band(there)
    assert [(one.direction, one.why) for one in sent] == (
        [] if is_in_reach(device) else [("device to host", "pickling")]
    )
    (buffer,) = buffers
    if is_in_reach(device):
        at = np.frombuffer(buffer, np.uint8).__array_interface__["data"][0]
        assert at == there.block.host_ptr
    with haulage.transfers() as received:
        back = pickle.loads(told, buffers=buffers)
    assert [(one.direction, one.why) for one in received] == [("host to device", "unpickling")]
    assert back.block is not there.block


def test_one_with_gaps_is_copied_once(device):
    there = cuda.to_device(np.arange(200.0))[::2]
    with haulage.transfers() as sent:
        _, buffers = out_of_band(there)
    assert [(one.direction, one.nbytes, one.why) for one in sent] == [
        ("device to host", 800, "pickling")
    ]
    assert [buffer.raw().nbytes for buffer in buffers] == [800]


def test_what_goes_out_of_band_cannot_be_written(device):
    _, (buffer,) = out_of_band(cuda.to_device(np.arange(200.0)))
    if is_in_reach(device):
        assert buffer.raw().readonly


@pytest.mark.parametrize("kind", MAKE)
def test_work_in_streams_is_waited_for(kind, device, hold_up):
    there, stream = MAKE[kind](np.ones(100)), cuda.stream()
    double[1, 128, stream](there)
    stream.synchronize()
    done = []
    sending = threading.Thread(target=lambda: done.append(out_of_band(there)))
    with hold_up(stream):
        double[1, 128, stream](there)
        sending.start()
        sending.join(0.1)
        assert not done
    sending.join()
    told, buffers = done[0]
    assert np.array(pickle.loads(told, buffers=buffers)).tolist() == [4] * 100


def test_the_buffers_keep_the_memory(device):
    there = cuda.to_device(np.arange(1000.0))
    told, buffers = out_of_band(there)
    there.close()
    del there
    gc.collect()
    others = [cuda.to_device(np.zeros(1000)) for _ in range(10)]
    back = pickle.loads(told, buffers=buffers)
    assert back.copy_to_host().tolist() == list(range(1000))
    del others


def test_the_array_of_a_smart_array_is_not_given_to_be_written(device):
    a = SmartArray(np.arange(100.0), where="gpu")
    told, buffers = out_of_band(a.get("gpu"))
    double[1, 128](a)
    a.get("host", "r")
    with haulage.assert_no_transfers():
        a.get("host", "r")
    assert pickle.loads(told, buffers=buffers).size == 100


def test_a_smart_array_that_is_on_the_device_is_brought_to_the_host_once(device):
    a = SmartArray(np.arange(100.0).reshape(10, 10))
    double[1, 128](a.reshape(100))
    with haulage.transfers() as sent:
        told, buffers = out_of_band(a)
        out_of_band(a)
    assert sent.count() == sent.count("device to host") == 1
    assert [buffer.raw().nbytes for buffer in buffers] == [800]
    with haulage.assert_no_transfers():
        back = pickle.loads(told, buffers=buffers)
    assert back[1, 1] == 22
    assert [buffer.raw().nbytes for buffer in out_of_band(a[::2, ::3])[1]] == [5 * 4 * 8]


def test_a_record_goes_out_of_band(device):
    host = np.zeros(3, "i4,f8")
    host[1] = (1, 2.5)
    with haulage.transfers() as sent:
        told, buffers = out_of_band(cuda.to_device(host)[1])
    assert sent.count("device to host") == (0 if is_in_reach(device) else 1)
    assert [buffer.raw().nbytes for buffer in buffers] == [12]
    back = pickle.loads(told, buffers=buffers)
    assert type(back) is cuda.devicearray.DeviceRecord
    assert back.copy_to_host() == host[1]


@pytest.mark.parametrize("kind", MAKE)
def test_a_process_that_has_imported_nothing_loads_them(kind):
    told = pickle.dumps(MAKE[kind](np.arange(4.0)))
    script = f"import pickle, numpy; print(numpy.array(pickle.loads({told!r})))"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert done.stdout == "[0. 1. 2. 3.]\n", done.stderr


def test_such_a_process_loads_a_record():
    told = pickle.dumps(cuda.to_device(np.ones(2, "i4,f8"))[1])
    script = f"import pickle; print(pickle.loads({told!r}).f1)"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert done.stdout == "1.0\n", done.stderr


def test_a_mapped_array_that_is_closed_is_pickled_still(device):
    array = cuda.mapped_array(10)
    array[...] = 3
    array.close()
    assert pickle.loads(pickle.dumps(array)).tolist() == [3] * 10
