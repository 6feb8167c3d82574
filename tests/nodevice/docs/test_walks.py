"""The walks through the code in the design: the files that they name are there, and are few."""

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
WALK = "### A launch, from the call to the driver"


def test_the_files_of_a_launch_are_there():
    text = (ROOT / "docs" / "design.md").read_text(encoding="utf-8").split(WALK, 1)[1]
    steps = re.findall(r"^\d+\. `([\w/]+\.py)`", text.split("\n## ", 1)[0], re.MULTILINE)
    assert 1 < len(steps) <= 8
    assert [step for step in steps if not (ROOT / "src" / "haulage" / step).is_file()] == []
