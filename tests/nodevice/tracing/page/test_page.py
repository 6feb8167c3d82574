"""The page of `haulage trace` in a browser: it draws, says whose line is under the mouse, and is
told nothing by the console."""

import subprocess
import sys
from pathlib import Path

import pytest

from support.browser import Browser, path

pytestmark = pytest.mark.skipif(path() is None, reason="no Chromium or Chrome is on PATH")

PROGRAM = """
import time
import numpy as np
from numba import cuda

@cuda.jit
def </script>(x):
    i = cuda.grid(1)
    if i < x.size:
        x[i] *= 2

def </script>_holder():
    return cuda.device_array(4_000_000, np.uint8)

stream = cuda.stream()
held = </script>_holder()
data = cuda.to_device(np.arange(100_000.0))
for _ in range(20):
    name[400, 256](data)
    name[400, 256, stream](data)
    time.sleep(0.005)
pinned = cuda.pinned_array(1000)
data.copy_to_host()
"""


@pytest.fixture(scope="module")
def page(tmp_path_factory):
    """A page of a program whose names are nasty."""
    folder = tmp_path_factory.mktemp("page")
    # Names that no program text can have: as decorators and code generators make them.
    text = PROGRAM.replace("def </script>(x)", "def name(x)").replace("</script>_holder", "holder")
    text = text.replace(
        "stream = cuda",
        "bad = '</script><b>holder'\n"
        "holder.__code__ = holder.__code__.replace(co_name=bad, co_qualname=bad)\nstream = cuda",
    )
    program = folder / "a <script>&.py"
    program.write_text(text)
    done = subprocess.run(
        [sys.executable, "-m", "haulage", "trace", "--device", "cpu", "-o", folder / "p", program],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return folder / "p.html", program


@pytest.fixture(scope="module")
def started(tmp_path_factory):
    opened = Browser(tmp_path_factory.mktemp("profile"))
    try:
        yield opened
    finally:
        opened.close()


@pytest.fixture
def browser(started):
    """A browser whose console said nothing yet."""
    started.console.clear()
    started.requests.clear()
    started.prefer("light")
    return started


def box(browser, selector):
    """(left, top, width, height) of an element, brought into the window."""
    return browser.run(
        f"(() => {{ const e = document.querySelector({selector!r}); e.scrollIntoView({{block: "
        "'center'}); const b = e.getBoundingClientRect(); "
        "return [b.left, b.top, b.width, b.height]; })()"
    )


def colours(browser, selector):
    """How many pixels a canvas has of each colour."""
    return browser.run(
        f"(() => {{ const c = document.querySelector({selector!r});"
        "const copy = document.createElement('canvas'); copy.width = c.width;"
        "copy.height = c.height; const pen = copy.getContext('2d', {willReadFrequently: true});"
        "pen.drawImage(c, 0, 0); const d = pen.getImageData(0, 0, c.width, c.height).data;"
        "const found = {};"
        "for (let i = 0; i < d.length; i += 4) { const k = [d[i], d[i+1], d[i+2]].join();"
        "found[k] = (found[k] || 0) + 1; } return found; })()"
    )


def tip(browser):
    return browser.run(
        "document.getElementById('tip').hidden ? '' : document.getElementById('tip').textContent"
    )


def test_the_page_draws_in_light_and_dark_without_an_error(browser, page):
    browser.open(page[0])
    for scheme, paper in (("light", "255,255,255"), ("dark", "15,19,24")):
        browser.prefer(scheme)
        for canvas in ("canvas.memory", "canvas.lanes"):
            _, _, width, height = box(browser, canvas)
            assert width > 800
            assert height > 60
            found = colours(browser, canvas)
            assert max(found, key=found.get) in (paper, "0,114,178"), (scheme, canvas)
            assert len(found) > 5
            assert paper in found
        # The largest owner's colour, and that of kernels.
        assert colours(browser, "canvas.memory")["0,114,178"] > 10_000
        assert colours(browser, "canvas.lanes")["0,99,160"] > 20
    assert browser.console == []
    assert [url for url in browser.requests if url.startswith("http")] == []


def test_hovering_memory_names_the_owners_line(browser, page):
    browser.open(page[0])
    left, top, width, height = box(browser, "canvas.memory")
    browser.point(left + width - 20, top + height - 40)
    told = tip(browser)
    line = (
        page[1].read_text().splitlines().index("    return cuda.device_array(4_000_000, np.uint8)")
    )
    assert f"{page[1]}:{line + 1} in </script><b>holder" in told
    assert "3.81 MiB of " in told
    browser.point(left + width / 2, top - 60)
    assert tip(browser) == ""


def test_hovering_a_lane_names_the_kernel_and_its_caller(browser, page):
    browser.open(page[0])
    browser.run("document.getElementById('whole').click()")
    left, top, width, _ = box(browser, "canvas.lanes")
    begin, length, total = browser.run(
        "(() => { const d = JSON.parse(document.getElementById('data').textContent); const o = "
        "d.operations; const n = o.kind.findLastIndex((k) => d.kinds[k].name === 'kernel');"
        "return [o.begin[n], o.length[n], d.length]; })()"
    )
    lane = browser.run(
        "(() => { const d = JSON.parse(document.getElementById('data').textContent); const o = "
        "d.operations; return o.lane[o.kind.findLastIndex((k) => d.kinds[k].name === 'kernel')];"
        "})()"
    )
    browser.point(left + width * (begin + length / 2) / total, top + 30 * lane + 20)
    told = tip(browser)
    line = page[1].read_text().splitlines().index("    name[400, 256, stream](data)")
    assert told.startswith("kernel name\n")
    assert f"{page[1]}:{line + 1} in <module>" in told
    assert "cpu:0 stream 1" in told


def test_time_is_zoomed_and_panned_by_buttons_wheel_and_keys(browser, page):
    browser.open(page[0])
    shown = "document.getElementById('shown').textContent"
    browser.run("document.getElementById('whole').click()")
    browser.wait_for(f"/^0[.]?0* ms to/.test({shown})")
    whole = browser.run(shown)
    browser.run("document.getElementById('zoom-in').click()")
    browser.wait_for(f"{shown} !== {whole!r}")
    browser.run("document.querySelector('canvas.lanes').focus()")
    browser.press("0")
    browser.wait_for(f"{shown} === {whole!r}")
    browser.press("n")
    assert "upload" in tip(browser)
    browser.press("n")
    assert tip(browser).startswith(("kernel name", "wait"))
    left, top, width, height = box(browser, "canvas.lanes")
    browser.call(
        "Input.dispatchMouseEvent",
        **{"type": "mouseWheel", "x": left + width / 2, "y": top + height / 2},
        **{"deltaX": 0, "deltaY": -100, "modifiers": 2},
    )
    browser.wait_for(f"{shown} !== {whole!r}")
    assert browser.console == []


def test_a_program_that_did_nothing_has_a_page_without_an_error(browser, tmp_path):
    words = [sys.executable, "-m", "haulage", "trace", "--no-json", "-o", tmp_path / "x"]
    subprocess.run([*words, "-c", "pass"], check=True, capture_output=True, timeout=60)
    browser.open(tmp_path / "x.html")
    assert "no memory of a device" in browser.run("document.body.textContent")
    browser.run("document.getElementById('zoom-in').click()")
    assert browser.console == []


def test_the_page_in_the_docs_is_one_of_this_code(browser):
    root = Path(__file__).parents[4]
    shown = root / "docs" / "trace-demo.html"
    text = shown.read_text(encoding="utf-8")
    for part in ("page.css", "time.js", "memory.js", "lanes.js", "main.js"):
        code = (root / "src" / "haulage" / "tracing" / "page" / part).read_text(encoding="utf-8")
        assert code.rstrip() in text, "run python scripts/make_trace_page.py"
    browser.open(shown)
    box(browser, "canvas.lanes")
    assert colours(browser, "canvas.lanes")["0,99,160"] > 20
    assert browser.console == []


def test_text_of_the_program_does_not_become_markup(browser, page):
    browser.open(page[0])
    assert browser.run("document.querySelectorAll('script').length") == 2
    assert browser.run("document.querySelectorAll('b').length") == 0
    cells = browser.run("[...document.querySelectorAll('td')].map((each) => each.textContent)")
    assert "</script><b>holder" in cells
    assert browser.run("document.title") == f"Haulage trace of {page[1]}"


@pytest.mark.parametrize("width", [390, 1280])
def test_long_paths_have_room_on_narrow_and_wide_screens(tmp_path, width):
    folder = tmp_path / "a_folder_with_a_long_name" / "project-in-the-home" / "src_of_the_package"
    folder.mkdir(parents=True)
    program = folder / "a_program_with_a_rather_long_name.py"
    program.write_text(
        "import numpy as np\nfrom numba import cuda\n"
        "for _ in range(3):\n    cuda.to_device(np.ones(9)).copy_to_host()\n"
    )
    command = [sys.executable, "-m", "haulage", "trace", "--device", "cpu", "-o", tmp_path / "p"]
    subprocess.run([*command, program], check=True, capture_output=True, timeout=120)
    shown = Browser(tmp_path / "profile", width=width)
    try:
        metrics = {"width": width, "height": 1400, "deviceScaleFactor": 1, "mobile": width < 600}
        shown.call("Emulation.setDeviceMetricsOverride", **metrics)
        shown.open(tmp_path / "p.html")
        over = "[document.documentElement, ...document.querySelectorAll('.scroll')]"
        assert shown.run(f"{over}.every((part) => part.scrollWidth <= part.clientWidth)")
        # As many lines as the path has letters, and no more than two of them half full.
        heights = shown.run(
            "[...document.querySelectorAll('td.line')].map((cell) => [cell.clientWidth,"
            " cell.clientHeight / parseFloat(getComputedStyle(cell).lineHeight)])"
        )
        assert heights
        for room, lines in heights:
            assert room > 300
            assert lines < len(str(program)) / 20 + 2
        lines_of_names = shown.run(
            "[...document.querySelectorAll('td.name')].map((cell) => {"
            " const text = document.createRange(); text.selectNodeContents(cell);"
            " return [cell.textContent, text.getClientRects().length]; })"
        )
        assert ["upload", 1] in lines_of_names
        assert ["upload", 2] not in lines_of_names
    finally:
        shown.close()
