"""What a kernel's options ask of LLVM's code generator for AMD's GPUs: attributes of its entry."""

from haulage.compiler.options import Options
from haulage.targets.amd import AMDTarget
from haulage.targets.amd_architectures import halves_registers, version

# As many threads of a block as any of these GPUs runs.
MOST_THREADS = 1024
# LLVM's register allocator gives up, and ends the process, with very few.
_FEWEST_REGISTERS = 8
# Hidden arguments for which a runtime has to prepare something: LLVM lists all that it does not see
# to be of no use, and in code that is not optimised it looks at none.
_OF_NO_USE = (
    *("hostcall-ptr", "multigrid-sync-arg", "heap-ptr", "default-queue", "completion-action"),
    "queue-ptr",
)


def attributes(options: Options, target: AMDTarget) -> str:
    """The attributes, in LLVM's text."""
    threads, blocks = (*options.launch_bounds, 0, 0)[:2]
    threads = min(int(threads) or MOST_THREADS, MOST_THREADS)
    asked = {
        "amdgpu-flat-work-group-size": f"1,{threads}",
        # Every block of a launch has the same size.
        "uniform-work-group-size": "true",
    }
    never = "".join(f' "amdgpu-no-{name}"' for name in _OF_NO_USE)
    units, most = _units(target)
    if blocks:
        waves = -(-threads // target.wave_size) * int(blocks)
        asked["amdgpu-waves-per-eu"] = str(min(-(-waves // units), most))
    if options.max_registers:
        # LLVM counts those that are not for accumulation.
        halves = 2 if halves_registers(target.architecture) else 1
        wanted = int(options.max_registers) // halves
        asked["amdgpu-num-vgpr"] = str(max(wanted, _FEWEST_REGISTERS))
    return never + "".join(f' "{name}"="{value}"' for name, value in asked.items())


def _units(target: AMDTarget) -> tuple[int, int]:
    """(the SIMD units that share the wavefronts of a block, the wavefronts of one of them)."""
    number = version(target.architecture)
    if number < (10, 0, 0):
        return 4, 8 if halves_registers(target.architecture) else 10
    return 2, 20 if number < (10, 3, 0) else 16
