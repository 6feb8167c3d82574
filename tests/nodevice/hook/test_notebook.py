"""`%load_ext haulage` of IPython."""

import importlib.util
import os
import subprocess
import sys

import pytest


@pytest.mark.skipif(not importlib.util.find_spec("IPython"), reason="IPython is not installed")
def test_load_ext_and_unload_ext_in_ipython(tmp_path):
    notebook = tmp_path / "notebook.ipy"
    notebook.write_text(
        "%load_ext haulage\n"
        "from numba import cuda\n"
        "print(cuda.__name__)\n"
        "%reload_ext haulage\n"
        "%unload_ext haulage\n"
        "from numba import cuda\n"
        "print(cuda.__name__)\n"
    )
    out = subprocess.check_output(
        [sys.executable, "-m", "IPython", "--colors=nocolor", str(notebook)],
        text=True,
        env={**os.environ, "IPYTHONDIR": str(tmp_path)},
        timeout=120,
    )
    assert out.split() == ["haulage.cuda", "numba.cuda"]


def test_the_functions_that_ipython_calls():
    program = (
        "import os, sys, haulage\n"
        "before = dict(os.environ)\n"
        "haulage.load_ipython_extension(None)\n"
        "import numba.cuda\n"
        "assert numba.cuda is haulage.cuda and 'for_children' in os.environ['PYTHONPATH']\n"
        "haulage.unload_ipython_extension(None)\n"
        "import numba.cuda\n"
        "assert numba.cuda is not haulage.cuda and os.environ == before\n"
    )
    subprocess.run([sys.executable, "-c", program], check=True, timeout=120)
