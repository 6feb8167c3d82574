"""numba-cuda's PTX of the same kernels, made in a process of its own: see `compare_sass.py`.

The kernels' files are run as they are, with `numba.cuda` under the name `haulage.cuda`.
"""

import importlib.util
import json
import sys
import time
import types
from pathlib import Path
from typing import Any


def _module(name: str, **names: Any) -> types.ModuleType:
    made = types.ModuleType(name)
    vars(made).update(names)
    sys.modules[name] = made
    return made


def _loaded(name: str, path: Path) -> Any:
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None
    assert spec.loader is not None
    made = importlib.util.module_from_spec(spec)
    sys.modules[name] = made
    spec.loader.exec_module(made)
    return made


def main() -> None:
    """Write {kernel: [PTX, seconds]} as JSON; arguments: compute capability, kernels' folders."""
    from numba import cuda, float32, int32

    cc = (int(sys.argv[1][:-1]), int(sys.argv[1][-1]))
    here, bench = Path(__file__).parent, Path(sys.argv[2])
    for name in ("float32", "int32"):
        if not hasattr(cuda, name):
            setattr(cuda, name, {"float32": float32, "int32": int32}[name])
    _module("haulage", cuda=cuda, __version__="")
    sys.modules["haulage.cuda"] = cuda
    for name in ("haulage.cli", "haulage.cli.bench", "haulage.cli.bench.kernels"):
        _module(name)
    _module("haulage.cli.bench.kernels.made", jit=lambda function: function)
    _loaded("haulage.cli.bench.formulas", bench / "formulas.py")
    own = _loaded("sass_kernels", here / "kernels.py")
    cuda.compile_ptx(own.saxpy_first, own.FIRST, cc=cc)
    made = {}
    for file, kernels in own.SIGNATURES.items():
        module = (
            own
            if file == "kernels"
            else _loaded(f"haulage.cli.bench.kernels.{file}", bench / "kernels" / f"{file}.py")
        )
        for name, signature in kernels.items():
            start = time.process_time()
            try:
                ptx, _ = cuda.compile_ptx(getattr(module, name), signature, cc=cc)
            except Exception as error:  # what a rival cannot do is no failure of the comparison
                print(f"numba-cuda: {name}: {error}", file=sys.stderr)
                continue
            made[name] = [ptx, time.process_time() - start]
    json.dump(made, sys.stdout)


if __name__ == "__main__":
    main()
