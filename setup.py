"""The extension modules of `haulage._core`; all else about the package stands in pyproject.toml."""

import runpy
import sysconfig
from pathlib import Path
from typing import Any
from zlib import crc32

from Cython import __version__ as cython_version
from setuptools import Extension, setup
from setuptools.command.build_ext import build_ext
from setuptools.command.sdist import sdist

CORE = Path("src/haulage/_core")

# Each module of haulage._core, and what it is made of: one .pyx or none, and plain C.
MODULES = {
    "arithmetic": ["arithmetic.c"],
    "arrays": ["arrays.pyx"],
    "built": ["built.c"],
    "check": ["check.pyx", "check_cells.c", "check_counts.c", "check_order.c"],
    "coherence": ["coherence.pyx"],
    "copies": ["copies.pyx"],
    "cpu_streams": ["cpu_streams.pyx"],
    "driver": ["driver.pyx"],
    "environment": ["environment.pyx"],
    "exchange": ["exchange.pyx"],
    "extents": ["extents.pyx"],
    "geometry": ["geometry.pyx"],
    "launches": ["launches.pyx"],
    "lint": ["lint.pyx", "check_lint.c"],
    "memory": ["memory.pyx"],
    "packing": ["packing.pyx"],
    "pool": [
        "pool.pyx",
        "pool_jobs.c",
        "pool_copies.c",
        "pool_guard.c",
        "pool_stop.c",
        "pool_messages.c",
    ],
    "starts": ["starts.pyx"],
    "views": ["views.pyx"],
    "waits": ["waits.pyx"],
}
# What every module may include or cimport.
SHARED = sorted(str(path) for ending in ("*.pxd", "*.h") for path in CORE.glob(ending))
FLAGS = ["-O2", "-g0", "-fvisibility=hidden", "-pthread"]
DIRECTIVES = {"language_level": 3, "binding": False, "embedsignature": False}

freshness = runpy.run_path(str(CORE / "freshness.py"))
compiler = runpy.run_path("scripts/building/haulage_compiler.py")


class BuildCore(build_ext):
    """Builds each module whose sources differ in content from those that it was built from."""

    def finalize_options(self) -> None:
        super().finalize_options()
        self.cython_c_in_temp = True
        self.cython_directives = DIRECTIVES
        if self.editable_mode or self.inplace:
            # Kept from one installation to the next.
            kept = Path("build") / f"in-place.{sysconfig.get_config_var('SOABI')}"
            self.build_lib, self.build_temp = str(kept / "lib"), str(kept / "temp")

    def run(self) -> None:
        # Not before, as setup.py is run to ask for what the build needs, too.
        self.lacking = compiler["choose"]()
        super().run()

    def build_extension(self, ext: Extension) -> None:
        made = Path(self.get_ext_fullpath(ext.name))
        record = Path(self.build_temp) / f"{ext.name}.inputs"
        inputs = self._inputs(ext)
        if made.exists() and record.exists() and record.read_text() == inputs:
            return
        if self.lacking:
            raise SystemExit(self.lacking)
        record.parent.mkdir(parents=True, exist_ok=True)
        record.unlink(missing_ok=True)
        self.force = True
        super().build_extension(ext)
        record.write_text(inputs)

    def _inputs(self, ext: Extension) -> str:
        """A line for each thing that `ext` depends on."""
        files = [*ext.sources, *SHARED]
        return "\n".join(
            [
                f"Cython {cython_version}, {DIRECTIVES}",
                f"{self.compiler.compiler_so} {FLAGS} {ext.define_macros}",
                *(f"{path} {crc32(Path(path).read_bytes()):08x}" for path in files),
            ]
        )


class SourceArchive(sdist):
    """Without the list of files that setuptools makes on the way to it, in `EGG_INFO`."""

    def make_release_tree(self, base_dir: str, files: list[str]) -> None:
        made = {str(path) for path in EGG_INFO.rglob("*")}
        super().make_release_tree(base_dir, [path for path in files if path not in made])


def extensions() -> list[Extension]:
    """One for each of `MODULES`.

    Raises:
        SystemExit: on a free-threaded Python; for a source that is in no module, or cannot be.
    """
    refused = freshness["refusal_of_this_python"]()
    if refused:
        raise SystemExit(refused)
    sources = {path.name for ending in ("*.pyx", "*.c") for path in CORE.glob(ending)}
    for name in sorted(sources.difference(*MODULES.values())):
        raise SystemExit(f"{CORE / name} is in no module: name it in MODULES of setup.py.")
    for name in sorted(name for name in sources if name.endswith(".c")):
        if name.replace(".c", ".pyx") in sources:
            raise SystemExit(f"{CORE / name} has the name of what Cython makes: give it another.")
    macros: dict[str, list[Any]] = {
        "built": [("HAULAGE_SOURCES", f'"{freshness["digest"](str(CORE))}"')],
    }
    return [
        Extension(
            f"haulage._core.{module}",
            [str(CORE / name) for name in names],
            include_dirs=[str(CORE)],
            define_macros=macros.get(module, []),
            depends=SHARED,
            extra_compile_args=FLAGS,
            extra_link_args=["-pthread"],
        )
        for module, names in MODULES.items()
    ]


# In `src`, which an editable installation has on its path, it would pass for a second installation.
EGG_INFO = Path("build/egg-info")
EGG_INFO.mkdir(parents=True, exist_ok=True)

setup(
    ext_modules=extensions(),
    cmdclass={"build_ext": BuildCore, "sdist": SourceArchive},
    options={"egg_info": {"egg_base": str(EGG_INFO)}},
)
