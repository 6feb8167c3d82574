"""Haulage's commands, run on the CPU device in a process of their own, and programs for them."""

import subprocess
import sys
import textwrap


def on_the_cpu(command, *words, **options):
    """`haulage COMMAND --device cpu WORDS`."""
    return subprocess.run(
        [sys.executable, "-m", "haulage", command, "--device", "cpu", *map(str, words)],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
        **options,
    )


def written(path, text):
    """A program's file."""
    path.write_text(textwrap.dedent(text), encoding="utf-8")
    return path
