"""Make Intel's OpenCL runtime ready that is installed here: `PYTHON opencl_runtime.py OTHER`.

OCL_ICD_VENDORS names a file with the path of a driver's library; it is written as `intel.icd` in
this environment's folder. The packages of OTHER, the Python of another environment, are those of
this one as well.
"""

import subprocess
import sys
import sysconfig
from pathlib import Path


def main(other: str) -> None:
    """Write both files."""
    home = Path(sys.prefix)
    library = home / "lib" / "libintelocl.so"
    if not library.exists():
        raise SystemExit(f"{library} is not there: pip install intel-opencl-rt")
    (home / "intel.icd").write_text(f"{library}\n", encoding="utf-8")
    asked = "import sysconfig; print(sysconfig.get_path('purelib'))"
    done = subprocess.run([other, "-c", asked], check=True, capture_output=True, text=True)
    # With what its own files of this kind say, as of packages that are installed to be edited.
    line = f"import site; site.addsitedir({done.stdout.strip()!r})\n"
    (Path(sysconfig.get_path("purelib")) / "beside.pth").write_text(line, encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1])
