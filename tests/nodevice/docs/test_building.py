"""The page about the extension has each of its modules."""

import ast
import re
from pathlib import Path

ROOT = Path(__file__).parents[3]


def test_each_module_of_the_extension_is_described():
    setup = ast.parse((ROOT / "setup.py").read_text(encoding="utf-8"))
    (modules,) = (
        node.value
        for node in setup.body
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "MODULES"
    )
    page = (ROOT / "docs" / "building.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| `(\w+)` \| .+ \|$", page.split("## Installing")[0], re.MULTILINE)
    assert rows == list(ast.literal_eval(modules))
