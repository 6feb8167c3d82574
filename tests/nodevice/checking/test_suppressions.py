"""Findings that nobody wants to hear of: comments in lines, and entries of files."""

from textwrap import dedent

import pytest

from haulage.checking import suppressions
from haulage.checking.findings import KINDS, Access, Finding, Findings, Place
from haulage.checking.result import result_of
from haulage.checking.suppressions import Suppressions, kinds_of, read


def finding(file, line, kind="race", other=None, kernel="count_all"):
    access = Access(Place(str(file), line), "write", kernel)
    there = Access(Place(str(file), other), "write", kernel) if other else None
    return Finding(kind, "m", access, there)


def told(found, rules=None):
    """The result for some findings."""
    findings = Findings()
    for each in found:
        findings.add(each)
    return result_of(findings, 1.0, rules or Suppressions(), {})


@pytest.fixture
def rules(tmp_path):
    """The rules of a file with these entries."""

    def made(text, name="known.toml"):
        (tmp_path / name).write_text(dedent(text))
        return read(str(tmp_path / name))

    return made


@pytest.mark.parametrize(
    ("comment", "covered"),
    [
        ("# haulage: ignore", {"race", "bounds", "leak"}),
        ("# haulage: ignore[race]", {"race"}),
        ("#haulage:ignore[ race , bounds ] both are meant", {"race", "bounds"}),
        ("# haulage: ignore[memory]", {"bounds", "leak"}),
        ("# noqa  # haulage: ignore[racecheck]", {"race"}),
        ("# haulage: ignored", set()),
        ("# ignore", set()),
        ("", set()),
    ],
)
def test_a_comment_covers_its_line(tmp_path, comment, covered):
    file = tmp_path / "a.py"
    file.write_text(f"a[0] = 1  {comment}\nb[0] = 1\n")
    kinds = ["bounds", "race", "leak"]
    result = told([finding(file, 1, kind) for kind in kinds])
    assert {each.kind for each in result} == set(kinds) - covered
    assert result.suppressed == len(covered)
    assert len(told([finding(file, 2)]).findings) == 1


def test_a_comment_at_either_access_is_enough(tmp_path):
    file = tmp_path / "a.py"
    file.write_text("a[0] = 1\nb[0] = 1  # haulage: ignore[race]\n")
    assert told([finding(file, 1, other=2)]).suppressed == 1
    assert told([finding(file, 2, other=1)]).suppressed == 1


def test_a_comment_that_names_no_kind_is_told_and_covers_nothing(tmp_path):
    file = tmp_path / "a.py"
    file.write_text("a[0] = 1  # haulage: ignore[rcae]\n")
    result = told([finding(file, 1)])
    assert len(result.findings) == 1
    (note,) = result.notes
    assert note.endswith(
        "a.py:1: haulage: ignore[rcae]: there is no kind of finding 'rcae'. Did you mean 'race'?"
    )


@pytest.mark.parametrize(
    ("entry", "is_covered"),
    [
        ('kind = "race"', True),
        ('kind = ["bounds", "race"]', True),
        ('kind = "racecheck"', True),
        ('kind = "bounds"', False),
        ('file = "src/*.py"', True),
        ('file = "a.py"', True),
        ('file = "*/a.py"', True),
        ('file = "b.py"', False),
        ('file = "lib/*.py"', False),
        ('file = "src/a.py"\nline = 3', True),
        ('file = "src/a.py"\nline = 5', True),
        ('file = "src/a.py"\nline = 4', False),
        ('kernel = "count_*"', True),
        ('kernel = "count"', False),
        ('kernel = "count_all"\nkind = "bounds"', False),
    ],
)
def test_what_an_entry_covers(rules, tmp_path, entry, is_covered):
    known = rules(f'[[ignore]]\n{entry}\nreason = "known"\n')
    result = told([finding(tmp_path / "src" / "a.py", 3, other=5)], known)
    assert (result.suppressed, len(result.findings)) == ((1, 0) if is_covered else (0, 1))
    assert len(result.notes) == (not is_covered)


def test_entries_that_cover_nothing_are_told(rules, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    known = rules("""
        [[ignore]]
        kind = "race"
        reason = "known"

        [[ignore]]
        kind = ["race", "bounds"]
        file = "old.py"
        line = 7
        kernel = "k"
        reason = "gone?"
    """)
    assert told([finding(tmp_path / "a.py", 1)], known).notes == [
        "known.toml ignore 2 (bounds, race in old.py:7 in kernel k) covers nothing that was found; "
        "remove it"
    ]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[[ignore", "is no TOML"),
        ('[[ignored]]\nreason = "x"', "unknown 'ignored'. Did you mean 'ignore'?"),
        ("ignore = 3", "ignore is no array of tables"),
        ("ignore = [3]", "ignore 1: expected a table, and not 3"),
        ('[[ignore]]\nkind = "race"', "ignore 1: has no reason"),
        ('[[ignore]]\nkind = "race"\nreason = " "', "ignore 1: has no reason"),
        ('[[ignore]]\nreason = "x"', "covers everything; name a kind, a file or a kernel"),
        ('[[ignore]]\nkind = "rcae"\nreason = "x"', "no kind of finding 'rcae'. Did you mean"),
        ('[[ignore]]\nkind = 3\nreason = "x"', "kind = 3: expected a kind of finding"),
        ('[[ignore]]\nfile = 3\nreason = "x"', "file = 3: expected a string"),
        ('[[ignore]]\nline = 3\nkind = "race"\nreason = "x"', "line = 3 of no file"),
        ('[[ignore]]\nline = 0\nfile = "a"\nreason = "x"', "line = 0: expected the number"),
        ('[[ignore]]\nfiles = "a"\nreason = "x"', "unknown 'files'. Did you mean 'file'?"),
        ('only = ["race"]', "unknown 'only'"),
    ],
)
def test_what_is_wrong_in_a_file_is_told_with_its_name(rules, text, said):
    with pytest.raises(ValueError, match=r"known\.toml") as failed:
        rules(text)
    assert said in str(failed.value)
    assert "\n" not in str(failed.value)


def test_a_project_has_its_own_in_its_pyproject_toml(tmp_path, monkeypatch):
    folder = tmp_path / "src" / "inside"
    folder.mkdir(parents=True)
    monkeypatch.chdir(folder)
    assert suppressions.of_project().entries == []
    (tmp_path / "pyproject.toml").write_text(
        dedent("""
        [tool.other]
        x = 1
        [tool.haulage.check]
        only = ["race", "bounds"]
        [[tool.haulage.check.ignore]]
        file = "src/*.py"
        reason = "known"
        """)
    )
    known = suppressions.of_project()
    assert known.only == "race,bounds"
    assert told([finding(folder / "a.py", 1)], known).suppressed == 1
    (tmp_path / "pyproject.toml").write_text("[tool.haulage.check]\nonly = 'race'\n")
    with pytest.raises(ValueError, match=r"only = 'race': expected a list"):
        suppressions.of_project()
    (tmp_path / "pyproject.toml").write_text("[tool.haulage.check]\nonly = ['rcae']\n")
    with pytest.raises(ValueError, match=r"only: there is no check 'rcae'"):
        suppressions.of_project()
    (tmp_path / "pyproject.toml").write_text("[project]\nname = 'x'\n")
    assert suppressions.of_project().entries == []


def test_each_kind_and_each_check_can_be_named():
    assert all(kinds_of(kind) == {kind} for kind in KINDS)
    assert kinds_of("memcheck") == {"bounds", "freed", "address", "leak"}
