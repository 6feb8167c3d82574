"""OpenCL: the same kernels in OpenCL C, through pyopencl, on the first device that there is."""

from functools import cache
from pathlib import Path

import numpy as np
import pyopencl as cl

_HERE = Path(__file__).parent
_SHUFFLES = {"cl_intel_subgroups", "cl_khr_subgroup_shuffle_relative"}


@cache
def _queue():
    for platform in cl.get_platforms():
        for device in platform.get_devices():
            context = cl.Context([device])
            return context, cl.CommandQueue(context)
    raise RuntimeError("OpenCL knows no device")


def about():
    """Device and version of the driver."""
    device = _queue()[1].device
    return f"{device.platform.name}, driver {device.driver_version}, {device.name}"


def _kernel(name, file="kernels.cl"):
    # Only the kernel that is wanted, so that the time to compile is its own.
    whole = (_HERE / file).read_text()
    source = _alone(whole, name)
    program = cl.Program(_queue()[0], source).build(cache_dir=False)
    return cl.Kernel(program, name)


def _alone(source, name):
    """What stands before the first kernel, functions, and the kernel `name`."""
    parts = source.split("\n\n")
    return "\n\n".join(p for p in parts if not p.startswith("kernel") or f"void {name}(" in p)


def _room(array):
    flags = cl.mem_flags.READ_WRITE | cl.mem_flags.COPY_HOST_PTR
    return cl.Buffer(_queue()[0], flags, hostbuf=np.ascontiguousarray(array))


def _runner(name, threads, block, arguments, out, file="kernels.cl"):
    queue = _queue()[1]
    kernel = _kernel(name, file)
    rooms = [_room(x) if isinstance(x, np.ndarray) else x for x in arguments]
    kernel.set_args(*rooms)

    # `keep`: a kernel does not hold its buffers.
    def run(keep=rooms):
        cl.enqueue_nd_range_kernel(queue, kernel, threads, block)
        queue.finish()

    def result():
        indices = [k for k, x in enumerate(arguments) if any(x is one for one in out)]
        got = [np.empty_like(arguments[k]) for k in indices]
        for k, host in zip(indices, got, strict=True):
            cl.enqueue_copy(queue, host, rooms[k])
        return got[0] if len(got) == 1 else np.stack(got)

    return run, result


def _up(n, block):
    return -(-n // block) * block


def _saxpy(given):
    x, y, out = given["x"], given["y"], np.empty_like(given["x"])
    threads = (_up(x.size, 256),)
    return _runner("saxpy", threads, (256,), [np.float32(2.5), x, y, out, np.int32(x.size)], [out])


def _stencil(given):
    u, out = given["u"], np.zeros_like(given["u"])
    height, width = u.shape
    threads = (_up(width, 32), _up(height, 8))
    return _runner("stencil", threads, (32, 8), [u, out, np.int32(height), np.int32(width)], [out])


def _product(name):
    def setup(given):
        out = np.empty_like(given["a"])
        n = len(out)
        return _runner(name, (n, n), (16, 16), [given["a"], given["b"], out, np.int32(n)], [out])

    return setup


def _reduction(name, file="kernels.cl"):
    def setup(given):
        if file == "warps.cl" and not _SHUFFLES & set(_queue()[1].device.extensions.split()):
            raise RuntimeError("the device has no shuffles")
        x, out = given["x"], np.empty(given["x"].size // 256, np.float32)
        return _runner(name, (x.size,), (256,), [x, out, np.int32(x.size)], [out], file)

    return setup


def _scan(given):
    x, out = given["x"], np.empty_like(given["x"])
    return _runner("scan", (x.size // 2,), (256,), [x, out], [out])


def _histogram(name, groups):
    def setup(given):
        data, zeros = given["data"], np.zeros(256, np.int32)
        queue = _queue()[1]
        kernel = _kernel(name)
        counts = _room(zeros)
        threads = (256 * groups if groups else _up(data.size, 256),)
        values = _room(data)
        kernel.set_args(values, counts, np.int32(data.size))

        def run(keep=values):
            cl.enqueue_fill_buffer(queue, counts, np.int32(0), 0, zeros.nbytes)
            cl.enqueue_nd_range_kernel(queue, kernel, threads, (256,))
            queue.finish()

        def result():
            got = np.empty_like(zeros)
            cl.enqueue_copy(queue, got, counts)
            return got

        return run, result

    return setup


def _black_scholes(given):
    arrays = [given[name] for name in ("price", "strike", "years")]
    call, put = np.empty_like(arrays[0]), np.empty_like(arrays[0])
    n = call.size
    arguments = [*arrays, call, put, np.int32(n)]
    return _runner("black_scholes", (_up(n, 256),), (256,), arguments, [call, put])


def _mandelbrot(given):
    real, imaginary = given["real"], given["imaginary"]
    height, width = imaginary.size, real.size
    out = np.empty((height, width), np.int32)
    arguments = [real, imaginary, out, np.int32(height), np.int32(width)]
    return _runner("mandelbrot", (_up(width, 16), _up(height, 16)), (16, 16), arguments, [out])


def _nbody(given):
    bodies = given["bodies"]
    n, out = len(bodies), np.empty((len(bodies), 3), np.float32)
    return _runner("nbody", (n,), (256,), [bodies, out, np.int32(n)], [out])


def _transpose(given):
    a, out = given["a"], np.empty_like(given["a"])
    height, width = a.shape
    arguments = [a, out, np.int32(height), np.int32(width)]
    return _runner("transpose", (width, height // 4), (32, 8), arguments, [out])


def _launch(arrays):
    def setup(given):
        run, _ = _runner(f"nothing_{arrays}", (32,), (32,), list(given.values()), [])
        return run, lambda: np.zeros(0, np.float32)

    return setup


def _copy(inwards):
    def setup(given):
        host, back = given["x"], np.zeros_like(given["x"])
        queue = _queue()[1]
        there = _room(host)

        def run():
            cl.enqueue_copy(queue, *((there, host) if inwards else (back, there)))

        def result():
            cl.enqueue_copy(queue, back, there)
            return back

        return run, result if inwards else lambda: back

    return setup


def setups():
    """A setup for each case."""
    return {
        "saxpy": _saxpy,
        "stencil": _stencil,
        "matmul-512": _product("matmul"),
        "matmul-1024": _product("matmul"),
        "matmul-naive": _product("matmul_naive"),
        "reduce-tree": _reduction("reduce_tree"),
        "reduce-warp": _reduction("reduce_warp", "warps.cl"),
        "histogram-shared": _histogram("histogram_shared", 64),
        "histogram-global": _histogram("histogram_global", None),
        "black-scholes": _black_scholes,
        "mandelbrot": _mandelbrot,
        "nbody": _nbody,
        "scan": _scan,
        "transpose": _transpose,
        **{f"launch-{arrays}": _launch(arrays) for arrays in (0, 1, 3, 8)},
        "copy-in-256": _copy(inwards=True),
        "copy-out-256": _copy(inwards=False),
    }
