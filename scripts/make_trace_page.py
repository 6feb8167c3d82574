"""Make docs/trace-demo.html and docs/images/trace-demo.png: `python scripts/make_trace_page.py`.

The page is that of `haulage trace -m haulage demo`, the picture what Chromium shows of it, zoomed
to the last passes with the mouse on a kernel. Paths of this machine are taken out of the page.
"""

import base64
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tests"))

from support.browser import Browser, path  # noqa: E402

PAGE = ROOT / "docs" / "trace-demo.html"
PICTURE = ROOT / "docs" / "images" / "trace-demo.png"

# Zoom to what the streams did last, and give the middle of a kernel near its middle: the
# coordinates are those of the window.
ZOOM = """
(async () => {
  const data = JSON.parse(document.getElementById("data").textContent);
  const canvas = document.querySelector("canvas.lanes");
  const { begin, length, lane, kind, name } = data.operations;
  const streams = lane.map((_, n) => n).filter((n) => data.lanes[lane[n]].includes("stream "));
  const kernels = streams.filter((n) => data.kinds[kind[n]].name === "kernel"
    && data.lanes[lane[n]].match(/stream \\d/));
  const last = kernels.slice(-24);
  const middle = (begin[last[0]] + begin[last.at(-1)]) / 2;
  const span = 1.3 * (begin[last.at(-1)] - begin[last[0]]);
  document.getElementById("whole").click();
  const box = canvas.getBoundingClientRect();
  let [from, to] = [0, data.length];
  const frame = () => new Promise(requestAnimationFrame);
  const drawn = async () => { await frame(); await frame(); };
  await drawn();
  while (to - from > span) {
    const share = (middle - from) / (to - from);
    canvas.dispatchEvent(new WheelEvent("wheel", { ctrlKey: true, deltaY: -1, cancelable: true,
      clientX: box.left + 1 + share * canvas.clientWidth, clientY: box.top + 20 }));
    [from, to] = [middle - (middle - from) * 0.8, middle + (to - middle) * 0.8];
  }
  await drawn();
  const longest = last.reduce((a, b) => (length[a] > length[b] ? a : b));
  const x = (begin[longest] + length[longest] / 2 - from) / (to - from);
  return [box.left + 1 + x * canvas.clientWidth, box.top + lane[longest] * 30 + 20];
})()
"""


def main() -> int:
    """Make both; returns 1 if there is no Chromium."""
    if path() is None:
        print("no Chromium or Chrome is on PATH", file=sys.stderr)
        return 1
    with tempfile.TemporaryDirectory() as folder:
        words = ["trace", "--no-json", "-o", "trace", "-m", "haulage", "demo", "--device", "cpu"]
        subprocess.run([sys.executable, "-m", "haulage", *words], cwd=folder, check=True)
        text = Path(folder, "trace.html").read_text(encoding="utf-8")
        text = text.replace(f"{ROOT}/", "").replace(f"{sys.prefix}/", "")
        PAGE.write_text(text, encoding="utf-8")
        browser = Browser(Path(folder, "profile"), 1200, 1000)
        try:
            browser.open(PAGE)
            browser.prefer("light")
            browser.run("document.querySelector('canvas.lanes').scrollIntoView({block: 'center'})")
            browser.point(*browser.run(ZOOM))
            picture = browser.call("Page.captureScreenshot", format="png")["data"]
        finally:
            browser.close()
    PICTURE.write_bytes(base64.b64decode(picture))
    return 0


if __name__ == "__main__":
    sys.exit(main())
