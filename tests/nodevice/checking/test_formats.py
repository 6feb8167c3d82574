"""What programs read: JSON as its schema says, and SARIF as code scanning takes it."""

import json
import linecache
import re
from importlib import resources

import pytest

from haulage.checking import sarif
from haulage.checking.coverage import Coverage, FunctionCoverage, of_data
from haulage.checking.coverage import as_data as covered_data
from haulage.checking.findings import KINDS, Access, Finding, Findings, Place
from haulage.checking.records import Record, gathered
from haulage.checking.result import Result, as_data, finding_as_data, finding_of_data
from haulage.checking.session import Session

SCHEMA = json.loads((resources.files("haulage.checking") / "schema.json").read_text())
_KNOWN = {"$schema", "$defs", "$ref", "title", "description", "type", "required", "properties"}
_KNOWN |= {"additionalProperties", "items", "enum", "minimum"}
_TYPES = {
    **{"object": dict, "array": list, "string": str, "boolean": bool, "null": type(None)},
    **{"integer": int, "number": (int, float)},
}


def is_of(value, name):
    return isinstance(value, _TYPES[name]) and (name == "boolean" or not isinstance(value, bool))


def problems(value, schema, where="it", root=SCHEMA):
    """What of a value a schema does not allow; of JSON Schema the words that ours has."""
    assert set(schema) <= _KNOWN
    if "$ref" in schema:
        target = root
        for part in schema["$ref"].removeprefix("#/").split("/"):
            target = target[part]
        yield from problems(value, target, where, root)
    types = schema.get("type", [])
    types = [types] if isinstance(types, str) else types
    if types and not any(is_of(value, each) for each in types):
        yield f"{where} is no {types}"
        return
    if "enum" in schema and value not in schema["enum"]:
        yield f"{where} is none of {schema['enum']}"
    if "minimum" in schema and value is not None and value < schema["minimum"]:
        yield f"{where} is too small"
    if isinstance(value, dict):
        known = schema.get("properties", {})
        yield from (
            f"{where} lacks {key}" for key in schema.get("required", []) if key not in value
        )
        for key, inside in value.items():
            if key in known:
                yield from problems(inside, known[key], f"{where}.{key}", root)
            elif schema.get("additionalProperties") is False:
                yield f"{where} has {key}"
    if isinstance(value, list) and "items" in schema:
        for number, inside in enumerate(value):
            yield from problems(inside, schema["items"], f"{where}[{number}]", root)


def finding(file="/src/a.py", line=2, kind="race", **more):
    access = Access(Place(file, line), "write", "blur", (1, 0, 0), (2, 0, 0))
    return Finding(kind, f"a {kind}", access, **more)


def pair(file="/src/a.py"):
    other = Access(Place(file, 1), "read", "blur", (0, 0, 0), (3, 0, 0))
    where = Place(file, 3)
    return finding(
        file, other=other, array="a", index=(4, 5), allocated=where, same_value=True, count=9
    )


EVERY = [
    finding(),
    pair(),
    Finding("leak", "8 bytes", Access(None, "allocation")),
    Finding("stream", "no order", Access(Place("<stdin>", 1), "copy"), index=()),
    finding(kind="float64", measured={"operations": 3}, hint="a literal"),
]


def test_json_is_as_the_schema_says():
    data = json.loads(json.dumps(as_data(Result(EVERY, 2, [], 3, 4, 0.5))))
    assert list(problems(data, SCHEMA)) == []
    first = data["findings"][1]
    assert first == {
        **{"kind": "race", "file": "/src/a.py", "line": 2, "access": "write", "kernel": "blur"},
        **{"block": [1, 0, 0], "thread": [2, 0, 0], "array": "a", "index": [4, 5]},
        **{"allocated": {"file": "/src/a.py", "line": 3}, "same_value": True, "count": 9},
        **{"measured": None, "hint": ""},
        "other": {
            **{"file": "/src/a.py", "line": 1, "access": "read", "kernel": "blur"},
            **{"block": [0, 0, 0], "thread": [3, 0, 0]},
        },
        "message": "a race",
        "element": "",
    }
    assert {key: data[key] for key in data if key != "findings"} == {
        **{"suppressed": 2, "launches": 3, "accesses": 4, "seconds": 0.5}
    }


def test_coverage_is_as_the_schema_says():
    arcs = {(-4, 5): 8, (5, 6): 6, (5, 7): 2, (6, 7): 6, (5, 9): 0, (9, 7): 0, (7, -4): 8}
    compiled = frozenset(arc for arc in arcs if 9 not in arc)
    covered = Coverage([FunctionCoverage("/src/a.py", "blur", 4, True, arcs, compiled)])
    data = json.loads(json.dumps(as_data(Result(coverage=covered))))
    assert list(problems(data, SCHEMA)) == []
    (function,) = data["coverage"]["files"][0]["functions"]
    assert function.pop("arcs") == [[*arc, count] for arc, count in sorted(arcs.items())]
    assert function == {
        **{"name": "blur", "line": 4, "kernel": True, "threads": 8},
        **{"lines": [[5, 8], [6, 6], [7, 8]], "missing": [], "left_out": [9]},
        "branches": [[5, 6, 6], [5, 7, 2]],
    }
    assert list(of_data(json.loads(json.dumps(covered_data(covered))))) == list(covered)


def test_the_schema_knows_the_kinds_and_refuses_what_is_none():
    assert SCHEMA["$defs"]["finding"]["properties"]["kind"]["enum"] == list(KINDS)
    good = as_data(Result([pair()]))
    wrong = [
        ({"kind": "rcae"}, "findings[0].kind is none of"),
        ({"line": 0}, "findings[0].line is too small"),
        ({"line": "3"}, "findings[0].line is no"),
        ({"line": True}, "findings[0].line is no"),
        ({"index": [1.5]}, "findings[0].index[0] is no"),
        ({"more": 1}, "findings[0] has more"),
        ({"other": {"file": None}}, "findings[0].other lacks line"),
    ]
    for change, said in wrong:
        (first, *_) = problems({**good, "findings": [{**good["findings"][0], **change}]}, SCHEMA)
        assert said in first


@pytest.mark.parametrize("each", EVERY)
def test_a_finding_comes_back_from_json_as_it_was(each):
    assert finding_of_data(json.loads(json.dumps(finding_as_data(each)))) == each


def test_a_process_keeps_its_file_up_to_date(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    session = Session()
    session.changed = Record(str(tmp_path), session).note
    session.findings.checked(5)
    session.findings.add(finding("here.py"))
    session.findings.add(finding("<string>"))
    monkeypatch.chdir("/")
    session.findings.add(finding("here.py", line=7))
    found, _, sources = gathered(str(tmp_path))
    files = [each.access.place.file for each in found]
    assert files == [str(tmp_path / "here.py"), "<string>", str(tmp_path / "here.py")]
    assert (found.launches, found.accesses, sources) == (1, 5, {})


def test_a_process_that_outlives_the_program_goes_on(tmp_path):
    session = Session()
    folder = tmp_path / "gone"
    session.changed = Record(str(folder), session).note
    session.findings.add(finding())
    assert not folder.exists()
    assert len(session.findings) == 1


def test_what_was_found_before_is_not_written_each_time(tmp_path, monkeypatch):
    session = Session()
    record = Record(str(tmp_path), session)
    written = []
    monkeypatch.setattr(record, "_data", lambda findings, _: written.append(len(findings)) or {})
    monkeypatch.setattr("time.monotonic", lambda: 1000.0)
    session.changed = record.note
    for _ in range(3):
        session.findings.add(finding(line=1))
        session.findings.checked(1)
    for line in range(2, 200):
        session.findings.add(finding(line=line))
    assert written == list(range(1, 100))
    record.write()
    assert written[-1] == 199


def test_a_process_that_checked_nothing_writes_nothing(tmp_path):
    session = Session()
    Record(str(tmp_path), session).write()
    assert list(tmp_path.iterdir()) == []
    assert len(gathered(str(tmp_path))[0]) == 0


# ---- SARIF --------------------------------------------------------------------------------------


@pytest.fixture
def repository(tmp_path):
    """The folder of a repository, with a program."""
    (tmp_path / ".git").mkdir()
    (tmp_path / "src files").mkdir()
    file = tmp_path / "src files" / "a.py"
    file.write_text("x = a[4, 5]\n    a[4, 5] = 1\na = cuda.device_array(8)\n")
    return tmp_path


def run_of(found, folder):
    data = sarif.as_data(Result(found, launches=3), str(folder))
    assert json.loads(json.dumps(data)) == data
    assert data["version"] == "2.1.0"
    assert data["$schema"].endswith("sarif-2.1.0.json")
    (run,) = data["runs"]
    return run


def test_sarif_has_a_rule_for_each_kind(repository):
    rules = run_of([], repository)["tool"]["driver"]["rules"]
    assert [rule["id"] for rule in rules] == list(KINDS)
    for rule in rules:
        assert rule["defaultConfiguration"]["level"] in ("error", "warning")
        for key in ("shortDescription", "fullDescription", "help"):
            assert KINDS[rule["id"]][1:] in rule[key]["text"]


def test_a_result_has_its_lines_below_the_repository(repository):
    file = repository / "src files" / "a.py"
    run = run_of([pair(str(file))], repository / "src files")
    (result,) = run["results"]
    assert run["tool"]["driver"]["rules"][result["ruleIndex"]]["id"] == result["ruleId"] == "race"
    assert run["originalUriBaseIds"] == {"SRCROOT": {"uri": repository.as_uri() + "/"}}
    (location,) = result["locations"]
    assert location["physicalLocation"] == {
        "artifactLocation": {"uri": "src%20files/a.py", "uriBaseId": "SRCROOT"},
        "region": {
            **{"startLine": 2, "startColumn": 5, "endColumn": 12},
            "snippet": {"text": "    a[4, 5] = 1"},
        },
    }
    assert location["logicalLocations"] == [{"name": "blur", "kind": "function"}]
    other, allocated = result["relatedLocations"]
    assert (other["id"], allocated["id"]) == (1, 2)
    assert other["physicalLocation"]["region"]["startLine"] == 1
    assert other["message"]["text"] == "read of a[4, 5] by thread (3,0,0) in block (0,0,0)"
    assert allocated["physicalLocation"]["region"]["startLine"] == 3
    assert result["message"]["text"] == (
        "a race (write of a[4, 5] by thread (2,0,0) in block (1,0,0); "
        "read of a[4, 5] by thread (3,0,0) in block (0,0,0) [there](1))"
    )
    assert result["level"] == "error"
    assert result["occurrenceCount"] == 9


def test_each_result_has_what_github_demands(repository, tmp_path_factory):
    outside = tmp_path_factory.mktemp("elsewhere") / "b.py"
    run = run_of([*EVERY, finding(str(outside))], repository)
    for result in run["results"]:
        assert result["message"]["text"]
        assert re.fullmatch(r"[0-9a-f]{16}:\d+", *result["partialFingerprints"].values())
        for location in result["locations"]:
            place = location["physicalLocation"]
            assert place["region"]["startLine"] >= 1
            assert "\\" not in place["artifactLocation"]["uri"]
    uris = [
        location["physicalLocation"]["artifactLocation"]["uri"]
        for result in run["results"]
        for location in result["locations"]
    ]
    assert uris[-1] == outside.as_uri()


def test_a_result_without_a_line_of_its_own_is_shown_where_something_else_is_known(repository):
    nowhere = Finding("leak", "8 bytes", Access(None, "allocation"))
    file = repository / "src files" / "a.py"
    there = Finding("leak", "8 bytes", Access(None, "use"), allocated=Place(str(file), 3))
    first, second = run_of([nowhere, there], repository)["results"]
    assert first["locations"] == []
    assert second["locations"][0]["physicalLocation"]["region"]["startLine"] == 3


def test_fingerprints_stay_when_lines_move_and_differ_from_one_another(repository):
    def prints(found):
        results = run_of(found, repository)["results"]
        return [each["partialFingerprints"]["primaryLocationLineHash"] for each in results]

    file = repository / "src files" / "a.py"
    before = prints([finding(str(file)), finding(str(file), kind="bounds"), finding(str(file), 3)])
    assert len(set(before)) == 3
    file.write_text("\n\n" + file.read_text())
    linecache.clearcache()
    assert prints([finding(str(file), 4)]) == before[:1]
    same = prints([finding(str(file), 4), finding(str(file), 4)])
    assert [each.split(":")[1] for each in same] == ["1", "2"]


def test_what_is_only_slow_is_a_warning(repository):
    measured = {"requests": 4, "looked_at": 4, "sectors": 128, "least_sectors": 16}
    measured |= {"line_sectors": 128, "line_least_sectors": 16, "warps": 4, "all_warps": 4}
    (result,) = run_of([finding(kind="uncoalesced", measured=measured)], repository)["results"]
    assert result["level"] == "warning"
    assert result["properties"]["measured"] == measured


def test_findings_are_counted_together_across_processes(tmp_path):
    findings = Findings()
    findings.add(finding())
    for name in ("1", "2"):
        data = {"findings": [finding_as_data(each) for each in findings], "sources": {}}
        data["coverage"] = None
        (tmp_path / f"{name}.json").write_text(json.dumps({**data, "launches": 1, "accesses": 2}))
    found, _, _ = gathered(str(tmp_path))
    assert [each.count for each in found] == [2]
    assert (found.launches, found.accesses) == (2, 4)
