"""Installs the packages that Haulage is tested beside: `python tests/neighbours ENVIRONMENT LIST`.

The environment is made if it is not there, with Haulage as it stands in the checkout, then LIST, a
file of requirements, is installed. A package for which that fails is told, and noted with pip's
reason in `neighbours.json` in the environment: its tests are skipped with it. Only where Haulage
itself cannot be installed is the exit code another than 0.
"""

import json
import subprocess
import sys
import venv
from pathlib import Path

ROOT = Path(__file__).parents[2]


def requirements(file: Path) -> list[str]:
    """The requirements in `file`, and in the files that it names by -r."""
    found = []
    for line in file.read_text(encoding="utf-8").splitlines():
        words = line.split("#")[0].split()
        if words[:1] == ["-r"]:
            found += requirements(file.parent / words[1])
        elif words:
            found.append(" ".join(words))
    return found


def install(python: Path, wanted: list[str]) -> dict[str, str]:
    """Install `wanted`; those that cannot be, each with the reason."""
    if _pip(python, wanted) is None:
        return {}
    # One of them stops all: find out which.
    reasons = {each: _pip(python, [each]) for each in wanted}
    return {each: reason for each, reason in reasons.items() if reason is not None}


def _pip(python: Path, wanted: list[str]) -> str | None:
    """None where pip has installed `wanted`, else what it said last."""
    command = [str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    done = subprocess.run([*command, *wanted], cwd=ROOT, capture_output=True, text=True)
    if done.returncode == 0:
        return None
    errors = [line for line in done.stderr.splitlines() if line.startswith("ERROR:")]
    return (errors or done.stderr.splitlines() or [f"pip ended with {done.returncode}"])[-1]


def main(folder: str, listed: str) -> int:
    """Make the environment in `folder`, with what the file `listed` names."""
    environment = Path(folder)
    python = environment / "bin" / "python"
    if not python.exists():
        venv.create(environment, with_pip=True)
    reason = _pip(python, ["-e", ".[demo,dev]"])
    if reason is not None:
        print(f"Haulage cannot be installed in {environment}: {reason}", file=sys.stderr)
        return 1
    wanted = requirements(Path(listed))
    failed = install(python, wanted)
    for each, reason in failed.items():
        print(f"{each} cannot be installed, and its tests are skipped: {reason}")
    if failed:
        print(f"To try again: rm -r {environment}")
    notes = environment / "neighbours.json"
    before = json.loads(notes.read_text()) if notes.exists() else {}
    kept = {each: reason for each, reason in before.items() if each not in wanted}
    notes.write_text(json.dumps(kept | failed, indent=0) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
