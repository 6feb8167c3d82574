"""The machine's own limits, measured with all threads: arithmetic and memory."""

import ctypes
import threading
from time import perf_counter

import llvmlite.binding as llvm
import numba
import numpy as np
from numba import njit, prange

# As wide as registers are; enough chains that none waits for another, in registers all of them.
LANES = 16 if llvm.get_host_cpu_features().get("avx512f") else 8
CHAINS, STEPS = 12, 10_000_000

_PHIS = "\n".join(
    f"%a{k} = phi <{LANES} x float> [zeroinitializer, %entry], [%b{k}, %loop]"
    for k in range(CHAINS)
)
_STEPS = "\n".join(
    f"%b{k} = call <{LANES} x float> @llvm.fma.v{LANES}f32(<{LANES} x float> %a{k}, "
    f"<{LANES} x float> %m, <{LANES} x float> %m)"
    for k in range(CHAINS)
)
_SUMS = "\n".join(
    f"%s{k + 1} = fadd <{LANES} x float> %s{k}, %b{k}".replace("%s0,", "zeroinitializer,")
    for k in range(CHAINS)
)
_IR = f"""
declare <{LANES} x float> @llvm.fma.v{LANES}f32(
  <{LANES} x float>, <{LANES} x float>, <{LANES} x float>)
define void @chains(ptr %given, i64 %steps) {{
entry:
  %m = load <{LANES} x float>, ptr %given, align 4
  br label %loop
loop:
  %i = phi i64 [0, %entry], [%next, %loop]
  {_PHIS}
  {_STEPS}
  %next = add i64 %i, 1
  %more = icmp ult i64 %next, %steps
  br i1 %more, label %loop, label %done
done:
  {_SUMS}
  store <{LANES} x float> %s{CHAINS}, ptr %given, align 4
  ret void
}}
"""


def about():
    """What is measured."""
    return "multiply-adds, triad and copy on all threads"


def limits():
    """{"gigaflops", "triad", "copy", "threads"}: float32 multiply-adds, GB/s, GB/s."""
    return {
        "threads": numba.get_num_threads(),
        "gigaflops": _best(_multiply_adds, 5),
        "triad": _best(_triad(), 7),
        "copy": _best(_copy(), 7),
    }


def _best(measure, times):
    return float(f"{max(measure() for _ in range(times)):.4g}")


def _multiply_adds():
    chains = _compiled()
    given = [np.full(LANES, 0.5, np.float32) for _ in range(numba.get_num_threads())]
    threads = [
        threading.Thread(target=chains, args=(one.ctypes.data_as(ctypes.c_void_p), STEPS))
        for one in given
    ]
    began = perf_counter()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    work = 2 * LANES * CHAINS * STEPS * len(threads)
    return work / (perf_counter() - began) / 1e9


_engines = []


def _compiled():
    if not _engines:
        llvm.initialize_native_target()
        llvm.initialize_native_asmprinter()
        machine = llvm.Target.from_default_triple().create_target_machine(
            cpu=llvm.get_host_cpu_name(), features="-prefer-256-bit", opt=3
        )
        module = llvm.parse_assembly(_IR)
        _engines.append(llvm.create_mcjit_compiler(module, machine))
        _engines[0].finalize_object()
    address = _engines[0].get_function_address("chains")
    return ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int64)(address)


@njit(parallel=True)
def _add(a, b, c, factor):
    for i in prange(a.size):
        a[i] = b[i] + factor * c[i]


def _triad(n=1 << 24):
    a, b, c = np.zeros(n, np.float32), np.ones(n, np.float32), np.ones(n, np.float32)
    factor = np.float32(3)
    _add(a, b, c, factor)

    def measure():
        began = perf_counter()
        _add(a, b, c, factor)
        return 12 * n / (perf_counter() - began) / 1e9

    return measure


def _copy(nbytes=256_000_000):
    source, target = np.ones(nbytes, np.uint8), np.zeros(nbytes, np.uint8)

    def measure():
        began = perf_counter()
        np.copyto(target, source)
        return 2 * nbytes / (perf_counter() - began) / 1e9

    return measure
