"""PyTorch on the CPU: tensors and device arrays over one memory, and kernels with gradients.

`torch.cuda.Stream` cannot be made without an NVIDIA GPU, so PyTorch's streams are tried nowhere yet
but in their refusal.
"""

import gc
import pickle
import subprocess
import sys

import numpy as np
import pytest

import haulage
from haulage import cuda
from haulage.errors import LaunchError
from support.neighbours import neighbour

torch = neighbour("torch")

pytestmark = pytest.mark.heavy


@pytest.fixture(autouse=True)
def on_the_processor():
    with haulage.use("cpu"):
        yield


@cuda.jit
def add_one(x):
    i = cuda.grid(1)
    if i < x.size:
        x[i] += 1


@cuda.jit
def number(x):
    i, j = cuda.grid(2)
    if i < x.shape[0] and j < x.shape[1]:
        x[i, j] = 10 * i + j


# Those that both sides have.
DTYPES = [
    *("bool", "uint8", "uint16", "uint32", "uint64", "int8", "int16", "int32", "int64"),
    *("float16", "float32", "float64", "complex64", "complex128"),
]


@pytest.mark.parametrize("take", [cuda.from_dlpack, cuda.as_cuda_array])
@pytest.mark.parametrize("dtype", DTYPES)
def test_a_device_array_over_a_tensor_shares_its_memory(take, dtype):
    tensor = torch.zeros(5, dtype=getattr(torch, dtype))
    array = take(tensor)
    assert (array.device_pointer, array.dtype, array.shape) == (tensor.data_ptr(), dtype, (5,))
    tensor[1] = 1
    assert array[1] == 1
    array[2] = 1
    assert tensor.tolist() == [0, 1, 1, 0, 0]
    assert not array.readonly


@pytest.mark.parametrize("give", [torch.from_dlpack, torch.as_tensor, torch.asarray])
@pytest.mark.parametrize("dtype", DTYPES)
def test_a_tensor_over_a_device_array_shares_its_memory(give, dtype):
    array = cuda.to_device(np.zeros(5, dtype))
    tensor = give(array)
    assert tensor.data_ptr() == array.device_pointer
    assert tensor.dtype == getattr(torch, dtype)
    array[1] = 1
    tensor[2] = 1
    assert tensor.tolist() == [0, 1, 1, 0, 0] == array.copy_to_host().tolist()


@pytest.mark.parametrize("name", ["bfloat16", "float8_e4m3fn", "complex32"])
@pytest.mark.filterwarnings("ignore:ComplexHalf")
def test_a_type_that_numpy_lacks_is_named(name):
    tensor = torch.zeros(3, dtype=getattr(torch, name))
    for use in (cuda.from_dlpack, add_one[1, 3]):
        with pytest.raises(BufferError, match=r"bfloat16|type code") as told:
            use(tensor)
        assert "convert it where it comes from" in str(told.value)


@pytest.mark.parametrize("dtype", ["longdouble", "M8[s]", "U3"])
def test_a_type_that_dlpack_lacks_is_named(dtype):
    with pytest.raises(BufferError, match="DLPack has no dtype"):
        torch.from_dlpack(cuda.device_array(3, dtype))


def test_strides_go_both_ways():
    tensor = torch.arange(24.0).reshape(4, 6).t()[::2, 1:]
    array = cuda.from_dlpack(tensor)
    assert array.strides == tuple(4 * step for step in tensor.stride())
    assert np.array_equal(array.copy_to_host(), tensor.numpy())
    back = torch.from_dlpack(array[::2])
    assert back.data_ptr() == tensor.data_ptr()
    assert torch.equal(back, tensor[::2])


def test_without_elements_and_without_axes():
    assert cuda.from_dlpack(torch.zeros(0, 3)).shape == (0, 3)
    assert torch.from_dlpack(cuda.device_array((2, 0))).shape == (2, 0)
    number = torch.tensor(3.0)
    array = cuda.from_dlpack(number)
    assert (array.shape, array.device_pointer) == ((), number.data_ptr())
    assert torch.from_dlpack(array).item() == 3


def test_negative_strides_go_as_a_copy_only():
    array = cuda.to_device(np.arange(4.0))[::-1]
    tensor = torch.from_dlpack(array, copy=True)
    assert tensor.tolist() == [3, 2, 1, 0]
    tensor[0] = 9
    assert array[0] == 3


def test_pytorch_itself_ends_at_negative_strides():
    """So it does for NumPy's arrays: docs/exchange.md warns of it. Once this fails it can go."""
    program = "import numpy as np, torch; torch.from_dlpack(np.arange(4.0)[::-1])"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.returncode < 0
    assert "Storage size calculation overflowed" in done.stderr


def test_their_memory_lives_as_long_as_we_hold_it():
    tensor = torch.arange(1000.0)
    array = cuda.from_dlpack(tensor)[10:]
    del tensor
    gc.collect()
    others = [torch.full((1000,), -1.0) for _ in range(5)]
    assert array.copy_to_host().tolist() == list(range(10, 1000))
    assert all(each[0] == -1 for each in others)


def test_our_memory_lives_as_long_as_pytorch_holds_it():
    before = haulage.memory.stats().in_use
    array = cuda.to_device(np.arange(1000.0))
    tensor = torch.from_dlpack(array)[10:]
    del array
    gc.collect()
    assert haulage.memory.stats().in_use > before
    assert tensor[0] == 10
    del tensor
    gc.collect()
    assert haulage.memory.stats().in_use == before


def test_the_capsule_is_of_dlpack_1_where_it_is_asked_for():
    tensor = torch.ones(3)
    assert "dltensor_versioned" in repr(tensor.__dlpack__(max_version=(1, 0)))
    array = cuda.to_device(np.ones(3))
    assert torch.from_dlpack(array.__dlpack__(max_version=(1, 0))).tolist() == [1, 1, 1]
    assert torch.from_dlpack(array.__dlpack__()).tolist() == [1, 1, 1]


def test_a_kernel_takes_tensors_where_they_are():
    tensor = torch.zeros(100)
    for _ in range(3):
        add_one[4, 32](tensor)
    assert (tensor == 3).all()
    table = torch.zeros(4, 3, dtype=torch.int32)
    number[(1, 1), (8, 8)](table.t())
    assert table.t().tolist() == [[10 * i + j for j in range(4)] for i in range(3)]
    cuda.synchronize()


@pytest.mark.parametrize("use", [add_one[1, 3], cuda.from_dlpack, cuda.as_cuda_array])
@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: torch.ones(3, requires_grad=True), r"requires a gradient.*\.detach\(\)"),
        (lambda: torch.nn.Parameter(torch.ones(3)), r"requires a gradient.*\.detach\(\)"),
        (lambda: torch.ones(3, requires_grad=True) * 2, r"requires a gradient.*\.detach\(\)"),
        (lambda: torch.ones(3, dtype=torch.complex64).conj(), r"conjugate view.*resolve_conj"),
        (lambda: torch.ones(3, dtype=torch.complex64).conj().imag, r"negative view.*resolve_neg"),
    ],
    ids=["leaf", "parameter", "result", "conjugate", "negative"],
)
def test_a_tensor_whose_memory_is_not_all_of_it_is_refused(use, make, message):
    tensor = make()
    with pytest.raises(BufferError, match=message):
        use(tensor)
    assert torch.equal(tensor.detach(), make().detach())


def test_what_is_advised_for_such_tensors_works():
    leaf = torch.ones(3, requires_grad=True)
    add_one[1, 3](leaf.detach())
    assert leaf.tolist() == [2, 2, 2]
    negative = torch.tensor([1 + 2j]).conj().imag
    assert cuda.from_dlpack(negative.resolve_neg()).copy_to_host().tolist() == [-2]


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: torch.eye(3).to_sparse(), "doesn't have storage"),
        (lambda: torch.ones(3, device="meta"), "meta"),
    ],
    ids=["sparse", "meta"],
)
def test_a_tensor_without_memory_is_refused_in_one_line(make, message):
    with pytest.raises(BufferError, match=message) as told:
        add_one[1, 3](make())
    assert "\n" not in str(told.value)


def test_elements_that_share_memory_are_as_documented():
    tensor = torch.ones(1).expand(5)
    assert len({cuda.to_device(tensor)[i] for i in range(5)}) == 1
    assert cuda.to_device(tensor).strides == (4,)
    assert cuda.from_dlpack(tensor).strides == (0,)


def test_copies_take_tensors():
    array = cuda.device_array(4, np.float32)
    array.copy_to_device(torch.arange(4.0))
    assert array.copy_to_host().tolist() == [0, 1, 2, 3]
    array[1:] = torch.full((3,), 7.0)
    assert array.copy_to_host().tolist() == [0, 7, 7, 7]
    tensor = torch.arange(4.0)
    copied = cuda.to_device(tensor)
    assert copied.device_pointer != tensor.data_ptr()
    with pytest.raises(TypeError, match="expected a NumPy array"):
        array.copy_to_host(tensor)


def test_arithmetic_with_tensors_is_refused_by_both():
    array = cuda.to_device(np.ones(3))
    for apply in (lambda: torch.ones(3) + array, lambda: array * torch.ones(3)):
        with pytest.raises(TypeError, match="unsupported operand"):
            apply()


def test_smart_arrays_and_tensors():
    tensor = torch.arange(4.0)
    smart = haulage.SmartArray(tensor)
    add_one[1, 4](smart)
    assert smart.tolist() == [1, 2, 3, 4]
    assert tensor.tolist() == [0, 1, 2, 3]
    assert torch.from_dlpack(smart).tolist() == [1, 2, 3, 4]
    assert (torch.ones(4) + torch.as_tensor(smart)).tolist() == [2, 3, 4, 5]
    again = pickle.loads(pickle.dumps(smart))
    assert torch.from_dlpack(again).tolist() == [1, 2, 3, 4]


def test_a_data_loader_gives_batches_that_kernels_take():
    rows = torch.utils.data.TensorDataset(torch.arange(12.0).reshape(6, 2))
    total = 0.0
    for (batch,) in torch.utils.data.DataLoader(rows, batch_size=2):
        flat = batch.reshape(-1)
        add_one[1, 32](flat)
        total += float(batch.sum())
    assert total == 66 + 12


def test_streams_of_the_processor_are_no_streams_of_a_device():
    with pytest.raises(RuntimeError, match="requires CUDA"):
        torch.cuda.Stream()
    with pytest.raises(LaunchError, match=r"expected a stream made by stream\(\)"):
        add_one[1, 3, torch.cpu.Stream()](torch.ones(3))
    tensor, stream = torch.zeros(1000), cuda.stream()
    add_one[32, 32, stream](tensor)
    stream.synchronize()
    assert (tensor == 1).all()


# ---- gradients ----------------------------------------------------------------------------------


@cuda.jit
def cubes(x, y):
    i = cuda.grid(1)
    if i < x.size:
        y[i] = x[i] * x[i] * x[i]


@cuda.jit
def cubes_backward(x, grad, out):
    i = cuda.grid(1)
    if i < x.size:
        out[i] = 3 * x[i] * x[i] * grad[i]


class Cubes(torch.autograd.Function):
    """Cubes of a tensor with one axis, by kernels both ways."""

    @staticmethod
    def forward(ctx, x):
        x = x.detach()
        ctx.save_for_backward(x)
        y = torch.empty_like(x)
        cubes[(x.numel() + 31) // 32, 32](x, y)
        return y

    @staticmethod
    def backward(ctx, grad):
        (x,) = ctx.saved_tensors
        out = torch.empty_like(x)
        cubes_backward[(x.numel() + 31) // 32, 32](x, grad.contiguous(), out)
        return out


def test_a_function_with_kernels_passes_gradcheck():
    torch.manual_seed(0)
    x = torch.randn(50, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(Cubes.apply, (x,))


def test_it_stands_in_a_computation():
    x = torch.tensor([1.0, 2.0, 3.0], requires_grad=True)
    (2 * Cubes.apply(x)).sum().backward()
    assert x.grad.tolist() == [6, 24, 54]


def test_a_wrong_backward_does_not_pass():
    class Wrong(Cubes):
        @staticmethod
        def backward(ctx, grad):
            return 2 * Cubes.backward(ctx, grad)

    x = torch.ones(4, dtype=torch.float64, requires_grad=True)
    assert not torch.autograd.gradcheck(Wrong.apply, (x,), raise_exception=False)
