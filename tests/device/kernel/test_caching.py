"""Kernels with `cache=True`: right whatever the disk holds, and compiled once."""

import os
import pickle
import subprocess
import sys

import numpy as np
import pytest

from haulage import cuda, roc
from haulage.disk_cache import folder
from haulage.errors import BarrierError, CacheWarning, CompileError, KernelError, LaunchTypeError

pytestmark = pytest.mark.usefixtures("device", "kernels")

SCALE = 2.0
Blank = type("Blank", (), {})


@pytest.fixture
def kernels(tmp_path, monkeypatch):
    """The cache's folder, empty."""
    monkeypatch.setenv("HAULAGE_CACHE_DIR", str(tmp_path / "kernels"))
    monkeypatch.setattr(folder, "_warned", set())
    return tmp_path / "kernels"


@cuda.jit(device=True, cache=True)
def scaled(v):
    return v * SCALE


def saxpy(a, x, y):
    i = cuda.grid(1)
    if i < x.size:
        y[i] += scaled(a * x[i])


def reversed_blocks(x):
    room = cuda.shared.array(64, np.float32)
    t, i = cuda.threadIdx.x, cuda.grid(1)
    room[t] = x[i]
    cuda.syncthreads()
    x[i] = room[cuda.blockDim.x - 1 - t]


def launched(function, *args, block=64, **options):
    """A new kernel of a function, after a launch of one or more blocks."""
    kernel = cuda.jit(function, cache=True, **options)
    kernel[-(-args[-1].size // block), block](*args)
    return kernel


def counts(kernel):
    stats = kernel.stats
    return sum(stats.cache_hits.values()), sum(stats.cache_misses.values())


def files(kernels):
    """Those of kernels; the driver keeps its own, of other names."""
    return sorted(kernels.glob("*-*.code")) if kernels.exists() else []


@pytest.mark.parametrize("block", [1, 32, 64])
def test_what_is_found_gives_the_same_results(kernels, way, block):
    host = np.arange(64, dtype=np.float32)
    for hits in (0, 1):
        x, y = cuda.to_device(host), cuda.to_device(host)
        kernel = launched(saxpy, 3.0, x, y, block=block)
        np.testing.assert_array_equal(y.copy_to_host(), 7 * host)
        assert counts(kernel) == (hits, 1 - hits)
        z = cuda.to_device(host)
        launched(reversed_blocks, z, block=block)
        wanted = host.reshape(-1, block)[:, ::-1].reshape(-1)
        np.testing.assert_array_equal(z.copy_to_host(), wanted)
    assert len(files(kernels)) == 2


def summed_over_the_grid(x, total):
    group = cuda.cg.this_grid()
    cuda.atomic.add(total, 0, x[cuda.grid(1)])
    group.sync()
    x[cuda.grid(1)] = total[0]


def test_a_kernel_that_waits_for_its_whole_grid_is_kept(kernels):
    for hits in (0, 1):
        total, x = np.zeros(1), np.ones(64)
        kernel = cuda.jit(summed_over_the_grid, cache=True)
        kernel[2, 32](x, total)
        assert (x == 64).all()
        assert counts(kernel) == (hits, 1 - hits)
    assert len(files(kernels)) == 1


def test_a_kernel_with_very_many_arrays_is_kept(kernels):
    lines = [f"    a{n} = cuda.local.array((1, 1), np.float64)" for n in range(60)]
    lines += [f"    a{n}[0, 0] = {n}" for n in range(60)]
    added = " + ".join(f"a{n}[0, 0]" for n in range(60))
    source = "\n".join(["def many(out):", *lines, f"    out[0] = {added}"])
    names = {"cuda": cuda, "np": np, "__name__": __name__}
    exec(source, names)
    for hits in (0, 1):
        out = np.zeros(1)
        assert counts(launched(names["many"], out)) == (hits, 1 - hits)
        assert out[0] == sum(range(60))


def test_a_function_of_the_same_content_in_another_module_finds_the_code(kernels):
    source = "def doubled(out):\n    out[0] *= 2\n"
    for hits, module in ((0, "one"), (1, "another")):
        names = {"__name__": module}
        exec(source, names)
        assert counts(launched(names["doubled"], np.ones(1))) == (hits, 1 - hits)
    assert len(files(kernels)) == 1


def test_statistics_name_the_folder_and_the_signatures(kernels):
    y = cuda.to_device(np.ones(4, np.float32))
    kernel = launched(saxpy, 3.0, y, y)
    path, hits, misses = kernel.stats
    assert path == str(kernels)
    assert hits == {}
    assert misses == {kernel.signatures[0]: 1}
    kernel[1, 4](3, y, y)
    assert counts(kernel) == (0, 2)
    plain = cuda.jit(saxpy)
    plain[1, 4](3.0, y, y)
    assert plain.stats == (None, {}, {})


def test_each_size_of_block_way_signature_and_option_has_code_of_its_own(
    kernels, monkeypatch, device
):
    # On GPUs one code is for blocks of all sizes.
    per_block = device.properties.code_per_block
    y = np.ones(64, np.float32)
    expected = 0
    for options in ({}, {"fastmath": True}, {"fastmath": {"nnan"}}, {"debug": True}):
        for block in (32, 64):
            launched(saxpy, 1.0, y, y, block=block, **options)
            expected += per_block or block == 32
            assert len(files(kernels)) == expected
    launched(saxpy, 1, y, y)
    monkeypatch.setenv("HAULAGE_CPU_THREADS", "coroutines")
    launched(saxpy, 1.0, y, y)
    assert len(files(kernels)) == expected + (2 if per_block else 1)


def test_cuda_and_roc_kernels_are_kept_apart(kernels):
    def numbers(x):
        x[cuda.threadIdx.x] = cuda.warpsize

    for _ in range(2):
        for jit, lanes in ((cuda.jit, 32), (roc.jit, 64)):
            x = np.zeros(4)
            kernel = jit(numbers, cache=True)
            kernel[1, 4](x)
            assert x[3] == lanes
    assert len(files(kernels)) == 2


def test_a_changed_global_of_a_helper_is_noticed(monkeypatch):
    for scale in (2.0, 5.0, 2.0):
        monkeypatch.setitem(globals(), "SCALE", scale)
        x, y = np.ones(4), np.zeros(4)
        # The device function is made anew, as in another process.
        again = cuda.jit(device=True)(scaled.py_func)
        with monkeypatch.context() as patch:
            patch.setitem(globals(), "scaled", again)
            launched(saxpy, 3.0, x, y)
        np.testing.assert_array_equal(y, 3 * scale)


def test_a_global_changed_between_two_sizes_of_block_is_not_kept_under_the_old_value(
    kernels, monkeypatch, device
):
    def fill(x):
        x[cuda.grid(1)] = SCALE

    x = np.zeros(8)
    launched(fill, x, block=8)
    kernel = launched(fill, x, block=8)
    monkeypatch.setitem(globals(), "SCALE", 9.0)
    kernel[2, 4](x)
    monkeypatch.setitem(globals(), "SCALE", 2.0)
    again = launched(fill, x, block=4)
    assert (x == 2).all()
    assert counts(again) == ((0, 1) if device.properties.code_per_block else (1, 0))


def test_what_another_kernel_compiled_with_an_old_global_is_not_kept(kernels, monkeypatch):
    def fill(x):
        x[cuda.grid(1)] = scaled(1)

    x = np.zeros(1)
    monkeypatch.setitem(globals(), "SCALE", 7.0)
    monkeypatch.setitem(globals(), "scaled", cuda.jit(device=True)(scaled.py_func))
    cuda.jit(fill)[1, 1](x)
    for scale in (8.0, 9.0):
        monkeypatch.setitem(globals(), "SCALE", scale)
        for hits in (0, 1):
            assert counts(launched(fill, x, block=1)) == (hits, 1 - hits)
            assert x[0] == scale


@pytest.mark.parametrize("cache", [False, True])
def test_a_kernel_is_compiled_anew_on_request(monkeypatch, cache):
    def fill(x):
        x[cuda.grid(1)] = SCALE

    x = np.zeros(1)
    kernel = cuda.jit(fill, cache=cache)
    for scale, now in ((2.0, 2.0), (5.0, 2.0)):
        monkeypatch.setitem(globals(), "SCALE", scale)
        kernel[1, 1](x)
        assert x[0] == now
    kernel.recompile()
    kernel[1, 1](x)
    assert x[0] == 5
    monkeypatch.delitem(globals(), "SCALE")
    with pytest.raises(CompileError, match="SCALE"):
        kernel.recompile()
    kernel[1, 1](x)
    assert x[0] == 5


def filled(x):
    x[0] = 1


filled = cuda.jit(filled)


def test_a_kernel_is_pickled_by_its_name():
    assert pickle.loads(pickle.dumps(filled)) is filled


def test_closures_and_captured_arrays_are_told_apart():
    def filling(value, table):
        def fill(x):
            i = cuda.grid(1)
            x[i] = table[i] + value

        return fill

    for value, table in ((1, [1, 2]), (2, [1, 2]), (1, [1, 3]), (1, [1.0, 2.5])):
        x = np.zeros(2)
        for hits in (0, 1):
            kernel = launched(filling(value, np.array(table)), x, block=2)
            np.testing.assert_array_equal(x, np.array(table) + value)
            assert counts(kernel) == (hits, 1 - hits)


def test_a_kernel_with_signatures_is_checked_once(kernels):
    for hits in (0, 1):
        kernel = cuda.jit(["void(float32[:])", "void(float64[:])"], cache=True)(reversed_blocks)
        assert counts(kernel) == (2 * hits, 2 - 2 * hits)
        x = np.arange(4, dtype=np.float32)
        kernel[1, 4](x)
        np.testing.assert_array_equal(x, [3, 2, 1, 0])
        assert len(files(kernels)) == 3
        with pytest.raises(LaunchTypeError):
            kernel[1, 4](np.zeros((2, 2), np.float32))


def test_a_kernel_that_cannot_be_compiled_says_so_at_its_signature_each_time(kernels):
    def wrong(x):
        x[0] = x.no_such_thing

    for _ in range(2):
        with pytest.raises(CompileError, match="no_such_thing"):
            cuda.jit("void(float32[:])", cache=True)(wrong)
        with pytest.raises(CompileError, match="no_such_thing"):
            launched(wrong, np.zeros(3))
    assert files(kernels) == []


def test_a_specialised_kernel_is_kept(kernels):
    x = np.arange(4, dtype=np.float32)
    for hits in (0, 1):
        kernel = cuda.jit(reversed_blocks, cache=True).specialize(x)
        assert counts(kernel) == (hits, 1 - hits)
        kernel[1, 4](x)
    np.testing.assert_array_equal(x, np.arange(4))


def test_faults_of_found_code_are_reported_as_ever(device):
    class TooSmall(ValueError):
        pass

    def raising(x):
        if x[cuda.grid(1)] < 0:
            raise TooSmall("negative", 3)

    def waiting(x):
        if cuda.threadIdx.x:
            cuda.syncthreads()

    for _ in range(2):
        with pytest.raises(TooSmall, match=rf"raising.*TooSmall: negative, 3 in {__file__}:\d+$"):
            launched(raising, np.array([1.0, -1.0]), block=2)
        with pytest.raises(KernelError, match=r"tid=\[1, 0, 0\] ctaid=\[0, 0, 0\]"):
            launched(raising, np.array([1.0, -1.0]), block=2, debug=True)
        # GPUs do not notice.
        if device.properties.code_per_block:
            with pytest.raises(BarrierError, match=rf"waiting.*{__file__}:\d+"):
                launched(waiting, np.zeros(4), block=4)


def test_prints_of_found_code_are_printed(capsys):
    def saying(x):
        print("element", cuda.threadIdx.x, x[cuda.threadIdx.x])

    for _ in range(2):
        launched(saying, np.array([0.5]), block=1)
        cuda.synchronize()
        assert capsys.readouterr().out == "element 0 0.5\n"


def test_found_code_can_be_looked_at(capsys, device):
    x = np.arange(4, dtype=np.float32)
    made, found = (launched(reversed_blocks, x, block=4) for _ in range(2))
    assert counts(found) == (1, 0)
    (signature,) = found.signatures
    for question in ("get_shared_mem_per_block", "get_local_mem_per_thread"):
        assert getattr(found, question)(signature) == getattr(made, question)(signature)
    assert "define" in found.inspect_llvm(signature)
    assert found.inspect_asm(signature) == made.inspect_asm(signature)
    found.inspect_types()
    assert "room" in capsys.readouterr().out
    (overload,) = found.overloads.values()
    own = {"clean", "blocks"} if device.properties.code_per_block else {"linked", "asm"}
    assert {"lowered", "llvm", *own} <= set(overload.code.stages)
    assert overload.code.target.warp_size == 32
    assert "reversed_blocks" in repr(overload) + repr(overload.code)


def test_a_kernel_that_reaches_what_cannot_be_compared_is_compiled_and_not_kept(kernels):
    helper = {"a": 1}

    def reading(x):
        if cuda.grid(1) == -1:
            x[0] = helper
        x[0] = 1.0

    with (
        pytest.warns(
            CacheWarning, match=r"reading is not kept.*helper is a value of builtins.dict"
        ),
        pytest.raises(CompileError),
    ):
        launched(reading, np.zeros(1))
    assert files(kernels) == []


@pytest.mark.parametrize("keep", [0, 10, 60, 500, -1])
def test_a_torn_file_is_made_anew(kernels, keep):
    x = np.arange(4, dtype=np.float32)
    launched(reversed_blocks, x, block=4)
    (file,) = files(kernels)
    whole = file.read_bytes()
    file.write_bytes(whole[:keep])
    kernel = launched(reversed_blocks, x, block=4)
    np.testing.assert_array_equal(x, np.arange(4))
    assert counts(kernel) == (0, 1)
    assert len(file.read_bytes()) == len(whole)


def test_a_folder_that_cannot_be_used_stops_no_kernel(monkeypatch, tmp_path):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("HAULAGE_CACHE_DIR", str(tmp_path / "file"))
    x = np.arange(4, dtype=np.float32)
    with pytest.warns(CacheWarning, match="set HAULAGE_CACHE_DIR"):
        launched(reversed_blocks, x, block=4)
    np.testing.assert_array_equal(x, [3, 2, 1, 0])


PROGRAM = """
import sys, warnings
import numpy as np
warnings.simplefilter("error")
# Of the stand-in for a GPU, which runs PTX only.
warnings.filterwarnings("ignore", ".*does not take the machine code")
from haulage import cuda, roc
import helpers

@cuda.jit(cache=True)
def kernel(x):
    i = cuda.grid(1)
    if i < x.size:
        x[i] = helpers.step(x[i])
        if i == 0:
            print("first", x[i])
        if x[i] < 0:
            raise ValueError("below zero")

@roc.jit("void(float64[::1])", cache=True)
def sums(x):
    room = roc.shared.array(64, np.float64)
    t = roc.get_local_id(0)
    room[t] = x[roc.get_global_id(0)]
    roc.barrier(roc.CLK_GLOBAL_MEM_FENCE)
    x[roc.get_global_id(0)] = room[0] + np.sin(room[t])

x = cuda.to_device(np.ones(10_000))
kernel[-(-x.size // 64), 64](x)
sums[64, 64](x[:64])
try:
    kernel[1, 1](cuda.to_device(-np.full(1, 100.0)))
    cuda.synchronize()
except ValueError as error:
    print(str(error).split("/")[-1])
found = [sum(k.stats.cache_hits.values()) for k in (kernel, sums)] if "stats" in sys.argv else []
print(x.copy_to_host()[:2].tolist(), sorted({"numba", "llvmlite"} & set(sys.modules)), *found)
"""


def in_another_process(tmp_path, helper="return v + OFFSET", *arguments, wait=True, folder="a"):
    """What the program prints, with its helper in another file."""
    (tmp_path / folder).mkdir(exist_ok=True)
    (tmp_path / folder / "helpers.py").write_text(
        "from haulage import cuda\nOFFSET = 1\n\n"
        f"@cuda.jit(device=True)\ndef step(v):\n    {helper}\n"
    )
    (tmp_path / folder / "program.py").write_text(PROGRAM)
    running = subprocess.Popen(
        [sys.executable, "-B", str(tmp_path / folder / "program.py"), *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "HAULAGE_NUM_THREADS": "2"},
    )
    return output(running) if wait else running


def output(running):
    out, errors = running.communicate(timeout=120)
    assert running.returncode == 0, errors
    return out.splitlines()


def values(offset):
    first = 1.0 + offset
    return [float(first + np.sin(first))] * 2


# What is imported of Numba and llvmlite where code is compiled, and where all of it is found.
WITH, WITHOUT = "['llvmlite', 'numba']", "[]"


def test_a_later_process_needs_no_compiler_and_does_the_same(tmp_path, kernels):
    first = in_another_process(tmp_path)
    assert first[0] == "first 2.0"
    assert first[1] == "first -99.0"
    line = PROGRAM[: PROGRAM.index("raise ValueError")].count("\n") + 1
    assert first[2] == f"program.py:{line}"
    assert first[-1] == f"{values(1)} {WITH}"
    made = files(kernels)
    second = in_another_process(tmp_path)
    assert second[:-1] == first[:-1]
    assert second[-1] == f"{values(1)} {WITHOUT}"
    # Files may be moved; what a fault tells is where they are now.
    third = in_another_process(tmp_path, folder="b")
    assert third == second
    assert files(kernels) == made


def test_a_changed_helper_in_another_file_is_noticed(tmp_path, kernels):
    in_another_process(tmp_path)
    changed = in_another_process(tmp_path, "return v + OFFSET + 2", "stats")
    assert changed[-1] == f"{values(3)} {WITH} 0 1"
    back = in_another_process(tmp_path, "return v + OFFSET", "stats")
    assert back[-1] == f"{values(1)} {WITH} 1 1"  # `stats` speaks of Numba types


def test_two_processes_at_once_do_not_disturb_each_other(tmp_path, kernels):
    together = [in_another_process(tmp_path, wait=False) for _ in range(2)]
    for running in together:
        assert output(running)[-1].startswith(str(values(1)))
    assert in_another_process(tmp_path)[-1] == f"{values(1)} {WITHOUT}"
    assert not list(kernels.glob("*.part"))


def test_garbled_files_are_found_out_in_a_later_process(tmp_path, kernels):
    in_another_process(tmp_path)
    for number, file in enumerate(files(kernels)):
        data = bytearray(file.read_bytes())
        data[(number * 997) % len(data)] ^= 16
        file.write_bytes(data)
    assert in_another_process(tmp_path)[-1] == f"{values(1)} {WITH}"
    assert in_another_process(tmp_path)[-1] == f"{values(1)} {WITHOUT}"
