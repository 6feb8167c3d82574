"""The report of `haulage check` as people read it: pages by kind, marked lines, figures."""

import html
import io
import re
from textwrap import dedent

import pytest

from haulage.checking import report
from haulage.checking.excerpts import Mark, spans, underline
from haulage.checking.findings import KINDS, Access, Finding, Place
from haulage.checking.result import Result

PROGRAM = """\
@cuda.jit
def blur(x, out):
    tile = cuda.shared.array(64, float32)
    i = cuda.threadIdx.x
    tile[i] = x[i]

    if 0 < i < 63:
        out[i] = tile[i - 1]

x = cuda.to_device(ones)
"""


@pytest.fixture
def program(tmp_path, monkeypatch):
    """A program's file in the current folder."""
    monkeypatch.chdir(tmp_path)
    file = tmp_path / "blur.py"
    file.write_text(PROGRAM)
    return str(file)


def race(file, **more):
    given = {
        "other": Access(Place(file, 5), "write", "blur", (0, 0, 0), (6, 0, 0)),
        "array": "tile",
        "index": (6,),
        "allocated": Place(file, 3),
        "count": 1062,
    }
    access = Access(Place(file, 8), "read", "blur", (0, 0, 0), (5, 0, 0))
    return Finding("race", "nothing orders a read and a write of tile[6]", access, **given | more)


def bounds(file, line=8, **more):
    access = Access(Place(file, line), "write", "blur", (1, 0, 0), (0, 0, 0))
    return Finding("bounds", "index 64 of out, which has 64 elements", access, array="out", **more)


def test_both_lines_are_shown_with_the_accesses_marked(program):
    result = Result([race(program)], launches=1, accesses=2048, seconds=0.5)
    assert report.as_text(result) == dedent("""\
        race: two threads, one location, and nothing that orders them
        =============================================================
        What orders them: a barrier within a block, atomic operations, or two launches.

        nothing orders a read and a write of tile[6]
          --> blur.py:8 and blur.py:5 in kernel blur
            3 |     tile = cuda.shared.array(64, float32)
            4 |     i = cuda.threadIdx.x
            5 |     tile[i] = x[i]
              |     ^^^^^^^ write of tile[6] by thread (6,0,0) in block (0,0,0)
            6 |
            7 |     if 0 < i < 63:
            8 |         out[i] = tile[i - 1]
              |                  ^^^^^^^^^^^ read of tile[6] by thread (5,0,0) in block (0,0,0)
          tile was allocated at blur.py:3
          found 1,062 times at these lines

        haulage check: 1 finding (1 race); 1 launch and 2,048 accesses checked in 500.00 ms""")


def test_lines_far_from_each_other_are_two_parts(program):
    other = Access(Place(program, 1), "write", "blur")
    text = report.as_text(Result([race(program, other=other)]))
    assert re.findall(r"^ +(\d+|\.\.\.)", text, re.MULTILINE) == ["1", "2", "3", "...", *"78"]


def test_the_element_is_named_where_it_is_known(program):
    def said(**more):
        text = report.as_text(Result([bounds(program, **more)]))
        return next(line for line in text.splitlines() if "^" in line).partition("^ ")[2]

    assert said() == "write by thread (0,0,0) in block (1,0,0)"
    assert said(index=(64, 2)) == "write of out[64, 2] by thread (0,0,0) in block (1,0,0)"
    assert said(index=(64,), element="out[64].x").startswith("write of out[64].x by thread")
    copy = Finding(
        "stream", "no order", Access(Place(program, 5), "write by a copy"), element="x[0]"
    )
    assert "^ write of x[0] by a copy\n" in report.as_text(Result([copy]))


def test_long_messages_are_wrapped_and_names_of_files_stay_whole():
    path = "/a-long/path-with-hyphens/" * 6
    text = f"some threads wait at {path}, which others never reach; let every thread reach them"
    lines = report.as_text(Result([Finding("barrier", text, Access(None, "barrier"))])).splitlines()
    begin = lines.index("some threads wait at")
    assert lines[begin + 1] == f"{path},"
    assert lines[begin + 2] == "which others never reach; let every thread reach them"


def test_each_kind_of_mistake_has_a_word_of_help():
    assert set(report.HELP) == set(KINDS) - {"slow"}


def test_each_kind_has_a_page_and_each_finding_its_lines(program):
    text = report.as_text(Result([bounds(program), bounds(program, 5), race(program)]))
    heads = re.findall(r"^(\w+): .*\n=+$", text, re.MULTILINE)
    assert heads == ["bounds", "race"]
    assert text.count("index 64 of out") == 2
    assert text.splitlines()[-1].startswith("haulage check: 3 findings (2 bounds, 1 race); ")


def test_where_nothing_was_found_there_is_one_line():
    text = report.as_text(Result(launches=12, accesses=1_048_576, seconds=1.25))
    assert text == (
        "haulage check: nothing found; 12 launches and 1,048,576 accesses checked in 1.25 s"
    )


def test_where_nothing_was_looked_at_the_line_says_so():
    assert report.as_text(Result(seconds=0.5)) == (
        "haulage check: nothing found, as no kernel was launched on the CPU device; 0 launches and "
        "0 accesses checked in 500.00 ms"
    )


def test_what_is_suppressed_is_counted():
    text = report.as_text(Result(launches=1, suppressed=2, notes=["a.toml ignore 1 is old"]))
    assert text.splitlines()[0] == "haulage check: a.toml ignore 1 is old"
    assert "nothing found, 2 suppressed; 1 launch and" in text


def test_the_same_value_is_told(program):
    assert "both wrote the same value" in report.as_text(Result([race(program, same_value=True)]))
    assert "the same value" not in report.as_text(Result([race(program)]))


def test_without_source_or_line_the_accesses_are_told_all_the_same(tmp_path):
    gone = race(str(tmp_path / "gone.py"))
    nowhere = Finding("leak", "8 bytes are never freed", Access(None, "allocation"))
    text = report.as_text(Result([gone, nowhere]))
    assert "gone.py:8 and " in text
    assert "    read of tile[6] by thread (5,0,0) in block (0,0,0)\n" in text
    assert "  --> (no line known)\n    allocation\n" in text


def test_lines_that_only_the_programs_process_could_read_are_shown():
    result = Result([bounds("<string>", 1)], sources={"<string>": {1: "out[i] = 1"}})
    assert "1 | out[i] = 1\n      | ^^^^^^ write by" in report.as_text(result)


@pytest.mark.parametrize(
    ("line", "what", "array", "marked"),
    [
        ("    a[i] = b[i] + a[i - 1]", "write", "a", ["a[i]"]),
        ("    a[i] = b[i] + a[i - 1]", "read", "a", ["a[i - 1]"]),
        ("    a[i, j] += 1", "read", "a", ["a[i, j]"]),
        ("    a[i] = a[j]", "access", "a", ["a[i]", "a[j]"]),
        ("    a[i, j] += 1", "write", "a", ["a[i, j]"]),
        (
            "    cuda.atomic.add(a, b[i], 1)",
            "atomic operation",
            "a",
            ["cuda.atomic.add(a, b[i], 1)"],
        ),
        ("    if a[i] > 0:", "read", "a", ["a[i]"]),
        ("    elif a[i] > 0:", "read", "a", ["a[i]"]),
        ("    while a[b[i]]:", "read", "b", ["b[i]"]),
        ("    for k in range(a[0]):", "read", "a", ["a[0]"]),
        ("    return a[i]", "read", "a", ["a[i]"]),
        ("        a[i],", "read", "a", ["a[i]"]),
        ("        a[i] + (", "read", "a", ["a[i]"]),
        ("    cuda.syncthreads()", "barrier syncthreads", "", ["cuda.syncthreads()"]),
        ("    x = f(y)  # why", "write", "", ["x = f(y)"]),
        ("    größe[i] = a[i]", "read", "a", ["a[i]"]),
        ("    p.a[i] = a[i]", "write", "p.a", ["p.a[i]"]),
        ("    data[i] = ba[i]", "read", "a", ["data[i] = ba[i]"]),
    ],
)
def test_what_is_marked_in_a_line(line, what, array, marked):
    assert [line[begin:end] for begin, end in spans(line, what, array)] == marked


def test_carets_stand_below_what_is_marked():
    line = "    größe[i] = a[i]"
    assert underline(line, Mark(1, "read", "a", "")) == " " * line.index("a[") + "^^^^"


class Terminal(io.StringIO):
    def isatty(self):
        return True


def test_colours_are_for_terminals_without_no_color(monkeypatch):
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("TERM", "xterm")
    assert report.paint_for(io.StringIO()) is report.plain
    assert report.paint_for(Terminal()) is report.coloured
    monkeypatch.setenv("NO_COLOR", "1")
    assert report.paint_for(Terminal()) is report.plain
    monkeypatch.delenv("NO_COLOR")
    monkeypatch.setenv("TERM", "dumb")
    assert report.paint_for(Terminal()) is report.plain


def test_the_coloured_report_and_that_of_notebooks_say_the_same(program):
    result = Result([race(program), bounds(program)], suppressed=1)
    text = report.as_text(result)
    coloured = report.as_text(result, report.coloured)
    assert "\033[" in coloured
    assert re.sub(r"\033\[[\d;]*m", "", coloured) == text
    page = report.as_html(result)
    assert html.unescape(re.sub(r"<[^>]*>", "", page)) == text
    assert "<span style=" in page
    assert "--&gt;" in page
