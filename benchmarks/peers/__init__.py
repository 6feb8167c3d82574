"""Who is compared with Haulage, and what the comparison means.

A comparison is a *bar* where the peer runs the same algorithm with the same synchronisation: that
is what Haulage is measured by. Otherwise it is a *limit*: a plain loop, or a library's call, that
solves the problem another way and shows how far one could get.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Peer:
    """One runtime.

    `module` has the functions `setups()` and `about()`; it runs in the environment `environment`
    (None: the Python that runs the benchmarks), with `variables` set. `limits` tells of the cases
    that are no bar why not; `*` stands for all of them. `small`: tiny sizes only.
    `compiles_anew`: it can forget a kernel that it has compiled, and compile it again.
    """

    name: str
    title: str
    module: str
    environment: str | None = None
    variables: Mapping[str, str] = field(default_factory=dict)
    limits: Mapping[str, str] = field(default_factory=dict)
    small: bool = False
    compiles_anew: bool = True

    def limit(self, case: str) -> str | None:
        """Why a comparison with this peer is no bar; None if it is one."""
        return self.limits.get(case, self.limits.get("*"))


_TILED = ("matmul-512", "matmul-1024", "nbody", "transpose")
_SHARED = (*_TILED, "reduce-tree", "reduce-warp", "scan", "histogram-shared")
_NO_SHARED = dict.fromkeys(_SHARED, "plain loops, no shared memory and no barriers")
_PHASES = "the loops over a block's threads written by hand"
_ALONE = ("saxpy", "stencil", "matmul-naive", "histogram-global", "black-scholes", "mandelbrot")
_LAUNCHES = ("launch-0", "launch-1", "launch-3", "launch-8")
_LIBRARY = (*_SHARED, *_ALONE, "reduce-float32", "reduce-float64", "random-draw")

HAULAGE = Peer("haulage", "Haulage", "haulage.cli.bench.kernels")
MACHINE = Peer("machine", "the machine's limits", "benchmarks.limits")
PEERS: dict[str, Peer] = {
    peer.name: peer
    for peer in (
        Peer(
            "njit",
            "njit(parallel), by hand",
            "benchmarks.peers.njit",
            limits={
                "matmul-512": _PHASES,
                "matmul-1024": _PHASES,
                "reduce-tree": _PHASES,
                "reduce-warp": _PHASES,
                "scan": _PHASES,
                **dict.fromkeys(_LAUNCHES, "a plain call: nothing is launched, nor waited for"),
                "histogram-global": "counts for each thread: njit has no atomic words",
            },
        ),
        Peer(
            "loop",
            "njit, the shortest way",
            "benchmarks.peers.loops",
            limits={"*": "another way to the same result"},
        ),
        Peer(
            "c",
            "C, by hand",
            "benchmarks.peers.with_c",
            # Its threads keep awake for a while else, on the cores that the next one needs.
            variables={"OMP_WAIT_POLICY": "passive"},
            limits={"*": "the loops over a block's threads written by hand, by a compiler for C"},
            compiles_anew=False,
        ),
        Peer(
            "numpy",
            "NumPy",
            "benchmarks.peers.with_numpy",
            # Else its library's threads keep awake on the cores that the next one needs.
            variables={"OPENBLAS_THREAD_TIMEOUT": "16"},
            limits=dict.fromkeys(_LIBRARY, "a library's call, or several over whole arrays"),
        ),
        Peer("intel", "Intel OpenCL", "benchmarks.peers.opencl", "intel"),
        Peer(
            "opencl",
            "Haulage on Intel's OpenCL",
            "haulage.cli.bench.kernels",
            "intel",
            {"HAULAGE_DEVICE": "opencl"},
            limits={"*": "Haulage itself, on another device of the same processor"},
        ),
        Peer("pocl", "PoCL", "benchmarks.peers.opencl", "pocl"),
        Peer("taichi", "Taichi", "benchmarks.peers.with_taichi", "taichi", limits=_NO_SHARED),
        Peer(
            "warp",
            "Warp",
            "benchmarks.peers.with_warp",
            "warp",
            limits=_NO_SHARED,
            compiles_anew=False,
        ),
        Peer(
            "simulator",
            "Numba's simulator",
            "benchmarks.peers.simulator",
            variables={"NUMBA_ENABLE_CUDASIM": "1"},
            small=True,
            compiles_anew=False,
        ),
    )
}
