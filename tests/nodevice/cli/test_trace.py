"""`haulage trace`: a program runs as it does without, and its files say what it did."""

import json
import os
import re
import signal
import subprocess
import sys
from functools import partial
from html.parser import HTMLParser

import pytest

from support.commands import on_the_cpu, written

PROGRAM = """
import numpy as np
from haulage import cuda

def upload(n):
    return cuda.to_device(np.arange(n, dtype=np.float64))

stream = cuda.stream()
kept = upload(1000)
again = upload(1000)
other = cuda.to_device(np.ones(5000, np.float32), stream=stream)
back = kept.copy_to_host()
kept.copy_to_host(back)
other[:] = 3
for _ in range(3):
    cuda.device_array(100_000, np.uint8)
stream.synchronize()
"""
KERNEL = """
import numpy as np
from numba import cuda

@cuda.jit
def double(x):
    i = cuda.grid(1)
    if i < x.size:
        x[i] *= 2

x = cuda.to_device(np.arange(5.0))
for _ in range(4):
    double[1, 32](x)
double[1, 32, cuda.stream()](x)
print(x.copy_to_host().sum())
"""


trace = partial(on_the_cpu, "trace")


def events(path, phase):
    """The events of one phase of a trace."""
    with open(path, encoding="utf-8") as file:
        return [event for event in json.load(file)["traceEvents"] if event["ph"] == phase]


def line_of(program, text):
    """'file:line' of the first line of a program that has `text`."""
    lines = program.read_text().splitlines()
    return f"{program}:{next(n for n, line in enumerate(lines, 1) if text in line)}"


class Page(HTMLParser):
    """The tables, the data and whatever names an address of a page."""

    def __init__(self, path):
        super().__init__()
        self.rows, self.addresses, self.tags = [], [], []
        self.data = self.text = ""
        self._inside, self._in_cell = None, False
        self.feed(path.read_text(encoding="utf-8"))
        self.data = json.loads(self.data)

    def handle_starttag(self, tag, attributes):
        self.tags.append(tag)
        attributes = dict(attributes)
        self._inside = attributes.get("id", tag)
        self.addresses += [v for k, v in attributes.items() if k in ("src", "href", "action")]
        if tag == "tr":
            self.rows.append([])
        elif tag == "td":
            self.rows[-1].append("")
            self._in_cell = True

    def handle_endtag(self, tag):
        self._in_cell = self._in_cell and tag != "td"

    def handle_data(self, text):
        self.text += text
        if self._inside == "data":
            self.data += text
        elif self._in_cell:
            self.rows[-1][-1] += text


@pytest.fixture(scope="module")
def traced(tmp_path_factory):
    """(folder, program, what its trace printed) of a program that moves memory."""
    folder = tmp_path_factory.mktemp("traced")
    program = written(folder / "moves.py", PROGRAM)
    return folder, program, trace("--frames", "2", program, cwd=folder)


def test_a_trace_says_where_its_files_are_and_what_was_seen(traced):
    folder, _, done = traced
    assert (done.returncode, done.stdout) == (0, "")
    assert f"{folder}/haulage-trace-moves.html" in done.stderr
    assert f"{folder}/haulage-trace-moves.json" in done.stderr
    assert "uploads: 3, " in done.stderr
    assert "3 transfers repeated unchanged data: 23.44 KiB" in done.stderr
    assert not list(folder.glob("*.unfinished"))


def test_each_transfer_is_an_event_of_its_stream_with_its_line(traced):
    folder, program, _ = traced
    trace_file = folder / "haulage-trace-moves.json"
    work = [event for event in events(trace_file, "X") if event["cat"] != "wait"]
    assert [event["name"] for event in work].count("upload") == 3
    assert [event["args"]["bytes"] for event in work] == [8000, 8000, 20000, 8000, 8000, 20000]
    first = work[0]
    assert first["args"]["line"] == line_of(program, "return cuda.to_device")
    assert first["args"]["function"] == "upload"
    assert first["args"]["called from"] == [f"{line_of(program, 'kept = ')} in <module>"]
    assert all(event["dur"] >= 0 and event["ts"] > 0 for event in work)
    names = {
        (event["pid"], event["tid"]): event["args"]["name"]
        for event in events(trace_file, "M")
        if event["name"] == "thread_name"
    }
    lanes = [names[event["pid"], event["tid"]] for event in work]
    assert lanes == ["default stream"] * 2 + ["stream 1"] + ["default stream"] * 2 + ["stream 1"]
    processes = [event for event in events(trace_file, "M") if event["name"] == "process_name"]
    assert "device cpu:0" in {event["args"]["name"] for event in processes}


HOLDS = """
import numpy as np
from haulage import cuda

def small():
    return cuda.device_array(100, np.uint8)

def large(n):
    return cuda.device_array(n, np.uint8)

kept = [small() for _ in range(10)]
for n in (1000, 50_000, 3000):
    held = large(n)
    held.close()
pinned = cuda.pinned_array(300, np.uint8)
with cuda.to_device(np.zeros(7)) as last:
    over = cuda.from_dlpack(np.ones(50))
    empty = cuda.device_array(0)
    del over
del kept[5:]
"""


@pytest.fixture(scope="module")
def held(tmp_path_factory):
    """(folder, program) of a program that holds memory, traced."""
    folder = tmp_path_factory.mktemp("held")
    program = written(folder / "holds.py", HOLDS)
    done = trace(program, cwd=folder)
    assert done.returncode == 0, done.stderr
    assert "cpu:0 device memory: peak 49.80 KiB at " in done.stderr
    assert f"most of it by {line_of(program, 'cuda.device_array(n')} in large" in done.stderr
    return folder, program


def test_memory_is_counted_as_it_is_asked_for_and_given_back(held):
    counters = {}
    for event in events(held[0] / "haulage-trace-holds.json", "C"):
        counters.setdefault(event["name"], []).append(event["args"]["bytes"])
    small = list(range(100, 1100, 100))
    device = [*small, 2000, 1000, 51_000, 1000, 4000, 1000, 1056, 1000]
    assert counters["device memory"] == [*device, *range(900, 400, -100)]
    assert counters["pinned memory"] == [300]
    of_small = counters[f"device memory of {line_of(held[1], 'device_array(100')}"]
    assert of_small == [*small, *range(900, 400, -100)]


def test_the_largest_holders_at_the_peak_stand_in_a_table(held):
    folder, program = held
    page = Page(folder / "haulage-trace-holds.html")
    holders = [row[1:] for row in page.rows if len(row) == 6 and row[2].endswith(" %")]
    large, small = line_of(program, "device_array(n"), line_of(program, "device_array(100")
    assert holders == [
        ["48.83 KiB", "98.0 %", "1", large, "large"],
        ["1000 B", "2.0 %", "10", small, "small"],
        ["300 B", "100.0 %", "1", line_of(program, "pinned ="), "<module>"],
    ]
    assert "peak 49.80 KiB at " in page.text
    assert "14 allocations; 500 B in use at the end" in page.text
    device = next(each for each in page.data["memory"] if each["peak"] == 51_000)
    assert sum(device["bytes"]) == 500
    assert [page.data["places"][place]["lines"][0] for place in device["owners"]] == [
        [large, "large"],
        [small, "small"],
    ]


def test_repeated_data_is_told_with_the_line_that_moved_it_first(traced):
    folder, program, _ = traced
    rows = [
        row
        for row in Page(folder / "haulage-trace-moves.html").rows
        if row[2:3] in (["upload"], ["download"])
    ]
    upload, *downloads = sorted(rows, key=lambda row: row[2], reverse=True)
    here = line_of(program, "return cuda.to_device")
    assert upload[:4] == ["1", "7.81 KiB", "upload", "cpu:0"]
    assert upload[4].startswith(here)
    assert upload[6] == here
    assert [row[:3] for row in downloads] == [["1", "7.81 KiB", "download"]] * 2
    # What was sent comes back into a new array, and again into that.
    again, fetched = line_of(program, "kept.copy_to_host(back)"), line_of(program, "back = ")
    assert {(row[4].split("called")[0], row[6]) for row in downloads} == {
        (fetched, here),
        (again, fetched),
    }


COPIES = """
import numpy as np
from haulage import cuda

@cuda.jit
def add(x, y):
    i = cuda.grid(1)
    if i < x.size:
        y[i] = x[i] + 1

@cuda.jit
def double(x):
    i = cuda.grid(1)
    if i < x.size:
        x[i] *= 2

host, out = np.arange(1000.0), cuda.device_array(1000)
"""
LOOPS = {
    # Sent again and fetched again, unchanged: 4 and 4.
    "for _ in range(5):\n    x = cuda.to_device(host)\n"
    "    add[32, 32](x, out)\n    out.copy_to_host()": 8,
    # Of a new array each time, at an address that is used again: 4 uploads.
    "for _ in range(5):\n    x, y = cuda.to_device(host), cuda.device_array(1000)\n"
    "    add[32, 32](x, y)\n    y.copy_to_host()": 4,
    # What was sent is changed on the device: none.
    "for _ in range(5):\n    x = cuda.to_device(host)\n    double[32, 32](x)": 0,
    # The same contents of another array, by another line: none.
    "x = cuda.to_device(host)\ny = cuda.to_device(host.copy())": 0,
    # Into the same array of the host: 4.
    "for _ in range(5):\n    out.copy_to_host(host)": 4,
    # In a stream, from pinned memory.
    "host = cuda.pinned_array(1000)\nhost[:] = 7\nstream = cuda.stream()\n"
    "for _ in range(5):\n    out.copy_to_device(host, stream=stream)\n    stream.synchronize()": 4,
}


@pytest.mark.parametrize("loop", LOOPS)
def test_trace_and_advise_count_the_same_repeats(tmp_path, loop):
    program = written(tmp_path / "loop.py", COPIES + loop)
    done = trace("--no-html", program, cwd=tmp_path)
    told = re.search(r"(\d+) transfers repeated unchanged data", done.stderr)
    command = [sys.executable, "-m", "haulage", "advise", "--device", "cpu", "--json", str(program)]
    advised = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True)
    counted = json.loads(advised.stdout.splitlines()[-1])["repeated"]["count"]
    assert (int(told[1]) if told else 0) == counted == LOOPS[loop], done.stderr + advised.stderr
    # What was looked at for that is no event of the program's.
    copies = [e for e in events(tmp_path / "haulage-trace-loop.json", "X") if "bytes" in e["args"]]
    assert len(copies) == json.loads(advised.stdout.splitlines()[-1])["transfers"]["count"]


def test_a_page_stands_alone(traced):
    page = Page(traced[0] / "haulage-trace-moves.html")
    assert page.addresses == []
    assert not {"link", "img", "iframe", "object", "base"} & set(page.tags)
    text = (traced[0] / "haulage-trace-moves.html").read_text()
    assert not re.search(r"https?:|//\w+\.|@import|url\(", text.replace("ui.perfetto.dev", ""))
    assert "default-src 'none'" in text


def test_compilation_is_labelled_with_its_kernel_and_line(tmp_path):
    program = written(tmp_path / "compiles.py", KERNEL)
    done = trace("-o", "named", program, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    found = events(tmp_path / "named.json", "X")
    compiled = [event for event in found if event["cat"] == "compile"]
    assert {event["name"] for event in compiled} == {"compile double"}
    assert {event["args"]["line"] for event in compiled} == {line_of(program, "double[1, 32](x)")}
    # All that comes before the first launch, but for what is no compilation.
    first = next(event for event in found if event["cat"] == "kernel")
    upload = next(event for event in found if event["cat"] == "upload")
    gap = first["ts"] - upload["ts"]
    assert sum(event["dur"] for event in compiled) > gap / 2
    assert re.search(r"\n  compilations: \d, [\d.]+ m?s", done.stderr)
    page = Page(tmp_path / "named.html")
    assert "Compilations: " in page.text
    (row,) = [row for row in page.rows if row[:1] == ["compile double"]]
    assert row[3] == line_of(program, "double[1, 32](x)")
    kinds = [page.data["kinds"][kind]["name"] for kind in page.data["operations"]["kind"]]
    assert kinds.count("compilation") == len(compiled)


def test_a_kernel_from_the_disk_cache_is_labelled_too(tmp_path):
    text = KERNEL.replace("@cuda.jit", "@cuda.jit(cache=True)")
    program = written(tmp_path / "kept.py", text)
    for name in ("first", "second"):
        assert trace("-o", name, program, cwd=tmp_path).returncode == 0
    times = [
        sum(e["dur"] for e in events(tmp_path / f"{name}.json", "X") if e["cat"] == "compile")
        for name in ("first", "second")
    ]
    assert 0 < times[1] < times[0]


def test_kernels_are_named_also_when_launched_again(tmp_path):
    program = written(tmp_path / "doubles.py", KERNEL)
    done = trace("-o", tmp_path / "out.html", "--no-html", program)
    assert done.stdout == "320.0\n", done.stderr
    assert not (tmp_path / "out.html").exists()
    kernels = [e for e in events(tmp_path / "out.json", "X") if e["cat"] == "kernel"]
    assert [event["name"] for event in kernels] == ["double"] * 5
    lines = [event["args"]["line"] for event in kernels]
    assert lines == [line_of(program, "    double[1, 32](x)")] * 4 + [
        line_of(program, "cuda.stream()](x)")
    ]
    assert len({event["tid"] for event in kernels}) == 2
    ends = [event["ts"] + event["dur"] for event in kernels]
    assert all(e <= k["ts"] for e, k in zip(ends[:3], kernels[1:4], strict=True))


@pytest.mark.parametrize(
    ("last", "status", "told"),
    [
        ("1 / 0", 1, "by an uncaught ZeroDivisionError"),
        ("import sys; sys.exit(7)", 7, ""),
        ("import os; os._exit(5)", 5, ""),
        ("import os, signal; os.kill(os.getpid(), signal.SIGINT)", None, "KeyboardInterrupt"),
    ],
)
def test_files_are_written_however_a_program_ends(tmp_path, last, status, told):
    text = f"import numpy as np\nfrom haulage import cuda\na = cuda.to_device(np.ones(9))\n{last}\n"
    program = written(tmp_path / "ends.py", text)
    done = trace(program, cwd=tmp_path)
    plain = subprocess.run([sys.executable, program], capture_output=True, text=True, check=False)
    assert done.returncode == plain.returncode
    assert status in (None, done.returncode)
    assert done.stderr.startswith(plain.stderr)
    assert len(events(tmp_path / "haulage-trace-ends.json", "X")) >= 1
    assert told in Page(tmp_path / "haulage-trace-ends.html").text


def test_work_that_is_not_over_at_the_end_is_told(tmp_path):
    code = (
        "import threading, time, numpy as np; from haulage import cuda; s = cuda.stream()\n"
        "held = cuda.pinned_array(9); begun = threading.Event()\n"
        "s.add_callback(lambda *_: (begun.set(), time.sleep(1))); begun.wait()\n"
        "a = cuda.to_device(held, stream=s); b = cuda.to_device(held)\n"
    )
    # The copy in the default stream waits for those before it: both are over. Not so the last one.
    code += "s.add_callback(lambda *_: time.sleep(1)); a.copy_to_host(held, stream=s)"
    done = trace("-o", tmp_path / "x", "-c", code)
    assert done.returncode == 0, done.stderr
    assert "1 operations were not over when the program ended" in done.stderr
    work = [e["name"] for e in events(tmp_path / "x.json", "X") if e["cat"] != "wait"]
    assert work == ["upload", "upload"]


def test_a_kernel_that_fails_fails_as_without_and_what_follows_is_recorded(tmp_path):
    program = written(
        tmp_path / "fails.py",
        """
        import numpy as np
        from numba import cuda

        @cuda.jit
        def bad(x):
            raise ValueError("no")

        x = cuda.to_device(np.zeros(4))
        bad[1, 1, cuda.stream()](x)
        try:
            cuda.synchronize()
        except Exception as error:
            print(error)
        x.copy_to_host()
        """,
    )
    done = trace("--no-html", program, cwd=tmp_path)
    assert "kernel bad: a thread raised ValueError: no" in done.stdout, done.stderr
    found = events(tmp_path / "haulage-trace-fails.json", "X")
    work = [event["name"] for event in found if event["cat"] not in ("wait", "compile")]
    assert work == ["upload", "bad", "download"]


def test_a_program_sees_what_it_sees_without(tmp_path):
    program = written(
        tmp_path / "program.py",
        """
        import sys
        print(__file__, __spec__, sys.argv, sys.path, sys.flags, sorted(globals()))
        print("numpy" in sys.modules, sys.stdin.read())
        """,
    )
    plain = subprocess.check_output([sys.executable, program, "-o", "a"], text=True, input="in")
    done = trace(program, "-o", "a", cwd=tmp_path, input="in")
    assert done.stdout == plain
    assert "the program did nothing with a device" in done.stderr
    assert len(Page(tmp_path / "haulage-trace-program.html").data["operations"]["lane"]) == 0


def test_each_form_of_a_program_and_its_name(tmp_path):
    written(tmp_path / "module.py", "print(__name__)")
    for words, options, name in (
        (["-m", "module"], {}, "module"),
        (["-c", "print(__name__)"], {}, "code"),
        (["-"], {"input": "print(__name__)"}, "input"),
        (["--", "module.py"], {}, "module"),
    ):
        done = trace("--no-json", *words, cwd=tmp_path, **options)
        assert done.stdout == "__main__\n", done.stderr
        assert (tmp_path / f"haulage-trace-{name}.html").is_file()
        assert not list(tmp_path.glob("*.json"))


def test_child_processes_write_files_of_their_own_if_they_use_a_device(tmp_path):
    program = written(
        tmp_path / "parent.py",
        """
        import os, subprocess, sys
        import numpy as np
        from haulage import cuda
        use = "import numpy as np; from haulage import cuda; cuda.to_device(np.ones(4))"
        if len(sys.argv) > 1:
            exec(use)
        else:
            subprocess.run([sys.executable, "-c", "pass"], check=True)
            child = subprocess.Popen([sys.executable, __file__, "child"])
            child.wait()
            forked = os.fork()
            if not forked:
                exec(use)
                os._exit(0)
            os.waitpid(forked, 0)
            cuda.to_device(np.ones(5))
            print(child.pid, forked)
        """,
    )
    done = trace("--no-html", program, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    child, forked = done.stdout.split()
    found = {path.name: path for path in tmp_path.glob("*.json")}
    own = "haulage-trace-parent"
    assert set(found) == {f"{own}.json", f"{own}-{child}.json", f"{own}-{forked}.json"}
    for name, nbytes in ((own, 40), (f"{own}-{child}", 32), (f"{own}-{forked}", 32)):
        uploads = [e for e in events(found[f"{name}.json"], "X") if e["cat"] == "upload"]
        assert [event["args"]["bytes"] for event in uploads] == [nbytes], name


@pytest.mark.skipif(os.name == "nt", reason="there the program is another process")
def test_signals_reach_the_program(tmp_path):
    code = "import time\ntry:\n    print('up', flush=True)\n    time.sleep(60)\n"
    code += "except KeyboardInterrupt:\n    print('no')"
    words = [sys.executable, "-m", "haulage", "trace", "-c", code]
    with subprocess.Popen(
        words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=tmp_path
    ) as process:
        assert process.stdout.readline() == "up\n"
        process.send_signal(signal.SIGINT)
        out, _ = process.communicate(timeout=60)
    assert (process.returncode, out) == (0, "no\n")
    assert (tmp_path / "haulage-trace-code.html").is_file()


def test_long_runs_are_kept_short_and_the_page_says_so(tmp_path):
    text = """
        import numpy as np
        from haulage import cuda
        a = cuda.device_array(4)
        small, large = np.ones(4), np.ones(1_000_000)
        for n in range(5000):
            a.copy_to_device(small)
            if n % 1000 == 0:
                cuda.to_device(large)
    """
    program = written(tmp_path / "long.py", text)
    done = trace("--max-events", "1000", program, cwd=tmp_path)
    # As many copies, and those waits of the host that were long enough.
    told = re.search(r"(\d+) operations and waits are more than are kept", done.stderr)
    assert int(told[1]) >= 5005
    page = Page(tmp_path / "haulage-trace-long.html")
    assert "drawn as one" in page.text
    operations = page.data["operations"]
    assert len(operations["lane"]) <= 1000
    uploads = [kind for kind, each in enumerate(page.data["kinds"]) if each["name"] == "upload"]
    counts = [
        c for c, k in zip(operations["count"], operations["kind"], strict=True) if k in uploads
    ]
    assert sum(counts) == 5005
    assert sum(operations["bytes"]) == 5000 * 32 + 5 * 8_000_000
    assert "uploads: 5005, " in done.stderr


def test_more_streams_than_can_be_drawn_are_in_the_trace(tmp_path):
    code = (
        "import numpy as np; from haulage import cuda\n"
        "for n in range(70): cuda.to_device(np.ones(9), stream=cuda.stream())"
    )
    done = trace("-o", tmp_path / "x", "-c", code)
    assert done.returncode == 0, done.stderr
    page = Page(tmp_path / "x.html")
    lanes = page.data["operations"]["lane"]
    assert len(page.data["lanes"]) == 60 == max(lanes) + 1
    assert re.search(r"1\d more streams and threads, with less work, are in the trace", page.text)
    uploads = [e for e in events(tmp_path / "x.json", "X") if e["cat"] == "upload"]
    assert len({event["tid"] for event in uploads}) == 70


@pytest.mark.parametrize(
    ("words", "told"),
    [
        ([], "no program is named"),
        (["--frames", "x", "p.py"], "--frames x: expected a whole number of at least 1"),
        (["--frames", "0", "p.py"], "at least 1"),
        (["--max-events", "9", "p.py"], "at least 1000"),
        (["--max-events"], "expected a whole number"),
        (["--no-html", "--no-json", "p.py"], "nothing to write"),
        (["-o", "none/x", "p.py"], "make it first"),
        (["--what", "p.py"], "unknown option --what"),
        (["--device", "none", "p.py"], "none"),
    ],
)
def test_wrong_words_are_one_line(tmp_path, words, told):
    done = subprocess.run(
        [sys.executable, "-m", "haulage", "trace", *words],
        capture_output=True,
        text=True,
        cwd=tmp_path,
        timeout=60,
        check=False,
    )
    assert (done.returncode, done.stdout) == (2, "")
    assert told in done.stderr
    assert done.stderr.count("\n") == 1


@pytest.mark.parametrize("words", [["--help"], ["--no-html", "-o", "x", "-h"]])
def test_help_says_what_is_written_and_where(words):
    done = trace(*words, env={**os.environ, "COLUMNS": "300"})
    assert done.returncode == 0
    assert "haulage-trace-PROGRAM" in done.stdout
    assert "ui.perfetto.dev" in done.stdout
    assert "-m MODULE" in done.stdout


NASTY = '''
import sys
import numpy as np
from haulage import cuda

text = """
def f():
    return cuda.to_device(np.ones(1000))
f.__code__ = f.__code__.replace(co_name=name, co_qualname=name)
kept.append(f())
"""
kept = []
for name in (
    "</script><script>alert(1)</script>", "<!--<script>", "\\"'&amp;", "a\\x00\\x1b[31m",
    "\\udcff\\ud800", "{{data}}", "\\u2028\\u202e",
):
    exec(compile(text, name.replace("\\x00", ""), "exec"))
'''


def test_text_of_the_program_is_only_text(tmp_path):
    program = written(tmp_path / "&<b>.py", NASTY)
    done = trace("-o", tmp_path / "nasty", program)
    assert done.returncode == 0, done.stderr
    page = Page(tmp_path / "nasty.html")
    assert page.tags.count("script") == 2
    assert "b" not in page.tags
    lines = {line for place in page.data["places"] for line, _ in place["lines"]}
    functions = {name for place in page.data["places"] for _, name in place["lines"]}
    assert "</script><script>alert(1)</script>:3" in lines
    assert {"</script><script>alert(1)</script>", "{{data}}", "a\\x00\\x1b[31m"} <= functions
    assert {"\\udcff\\ud800", "\\u2028\\u202e"} <= functions
    cells = {cell for row in page.rows for cell in row}
    assert {"\"'&amp;", "<!--<script>", "\\udcff\\ud800"} <= cells
    names = {event["args"]["function"] for event in events(tmp_path / "nasty.json", "X")}
    assert "\\udcff\\ud800" in names
    assert "\x1b" not in done.stderr


def test_a_file_that_cannot_be_written_is_told_and_the_status_stays(tmp_path):
    folder = tmp_path / "gone"
    folder.mkdir()
    code = f"import os; os.rmdir({str(folder)!r}); raise SystemExit(3)"
    done = trace("-o", f"{folder}/x", "-c", code)
    assert done.returncode == 3
    assert f"{folder}/x.html could not be written: " in done.stderr
    assert "perfetto" not in done.stderr
    assert "Traceback" not in done.stderr
