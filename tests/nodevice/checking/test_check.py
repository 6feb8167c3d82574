"""`haulage.check()`: a block of a program that fails if something is found inside."""

import threading
from types import SimpleNamespace

import pytest

import haulage
from haulage.checking.check import check
from haulage.checking.findings import Access, Finding, Place
from haulage.errors import CheckFailed, Unsupported
from haulage.runtime.process import runtime


@pytest.fixture(autouse=True)
def _on_the_cpu():
    with haulage.use("cpu"):
        yield


def find(kind="race", line=1):
    access = Access(Place(__file__, line), "write", "k", (0, 0, 0), (line, 0, 0))
    runtime.current.checker.findings.checked(10)
    runtime.current.checker.findings.add(Finding(kind, f"a {kind}", access))


def block(*found, then=lambda: None):
    """A block in which this is found, before something else is done."""
    with haulage.check():
        for kind in found:
            find(kind, len(kind))
        then()


def fail():
    raise ZeroDivisionError


def kinds(findings):
    return [each.kind for each in findings]


def test_a_block_with_findings_fails_with_the_report(capsys):
    with pytest.raises(CheckFailed, match=r"race: two threads") as failed:
        block("race", "bounds")
    assert kinds(failed.value.findings) == ["bounds", "race"]
    text = str(failed.value)
    assert text.startswith("bounds in kernel k at ")
    assert "test_check.py:6, and 1 more finding\n\nbounds: an index" in text
    assert "haulage check: 2 findings (1 bounds, 1 race); 2 launches and 20 accesses" in text
    assert isinstance(failed.value, AssertionError)
    assert capsys.readouterr() == ("", "")
    assert runtime.current.checker is None


def test_a_block_without_findings_says_nothing_and_gives_the_figures(capsys):
    with haulage.check() as found:
        runtime.current.checker.findings.checked(7)
        assert found.launches == 1
    assert (len(found), list(found), found.suppressed) == (0, [], 0)
    assert (found.launches, found.accesses) == (1, 7)
    assert found.seconds > 0
    assert repr(found).startswith("<haulage.check: nothing found; 1 launch and 7 accesses checked")
    assert capsys.readouterr() == ("", "")


def test_without_raises_the_report_is_printed_and_the_program_goes_on(capsys):
    with haulage.check(raises=False) as found:
        assert len(found) == 0
        find()
        assert kinds(found) == ["race"]
    printed, told = capsys.readouterr()
    assert printed == ""
    assert told == f"{found}\n"
    assert found[0].message == "a race"
    assert kinds(found[:1]) == ["race"]
    assert "<pre>" in found._repr_html_()


def test_in_a_notebook_the_report_is_shown_below_the_cell(monkeypatch, capsys):
    import IPython.display

    shown = []
    monkeypatch.setattr(IPython, "get_ipython", lambda: SimpleNamespace(kernel=object()))
    monkeypatch.setattr(IPython.display, "display", shown.append)
    with haulage.check(raises=False) as found:
        find()
    assert shown == [found]
    assert capsys.readouterr() == ("", "")


def test_a_failure_inside_passes_on_with_the_report_as_a_note():
    with pytest.raises(ZeroDivisionError) as failed:
        block("race", then=fail)
    (note,) = failed.value.__notes__
    assert "haulage check: 1 finding (1 race)" in note
    with pytest.raises(ZeroDivisionError) as failed:
        block(then=fail)
    assert not hasattr(failed.value, "__notes__")
    assert runtime.current.checker is None


def test_a_kernel_that_fails_at_the_end_is_the_error_and_has_the_report(monkeypatch):
    class Device:
        checks_kernels = True

        def finish(self):
            raise haulage.errors.KernelError("thread 3 failed")

    def launch():
        monkeypatch.setitem(runtime.current.found, "cpu", (Device(),))

    with pytest.raises(haulage.errors.KernelError, match="thread 3") as failed:
        block("race", then=launch)
    monkeypatch.undo()
    assert "1 finding" in failed.value.__notes__[0]
    assert runtime.current.checker is None


def test_only_what_is_asked_for_is_found():
    with haulage.check(only="racecheck", raises=False) as found:
        assert runtime.current.checker.checks == {"race"}
        find("bounds")
        find("race")
    assert kinds(found) == ["race"]


def test_a_block_inside_of_another_and_the_outer_one_both_get_what_is_found_meanwhile():
    with haulage.check(raises=False) as outer:
        find(line=1)
        with pytest.raises(CheckFailed), haulage.check() as inner:
            find("bounds", line=2)
    assert kinds(inner) == ["bounds"]
    assert kinds(outer) == ["bounds", "race"]


def test_the_failure_of_an_inner_block_is_not_told_twice():
    with pytest.raises(CheckFailed) as failed, haulage.check(), haulage.check():
        find()
    assert str(failed.value).count("a race") == 1
    assert not hasattr(failed.value, "__notes__")


def test_blocks_of_two_threads_get_what_is_found_while_they_are_open():
    entered, found, left = threading.Event(), threading.Event(), []

    def work():
        with haulage.check(raises=False) as made:
            entered.set()
            found.wait()
        left.append(made)

    thread = threading.Thread(target=work)
    with haulage.check(raises=False) as own:
        thread.start()
        entered.wait()
        find()
    find("bounds")
    found.set()
    thread.join()
    assert kinds(own) == ["race"]
    assert kinds(left[0]) == ["bounds", "race"]
    assert runtime.current.checker is None


def test_the_same_object_checks_one_block_after_another_and_not_one_in_another():
    made = haulage.check(raises=False)
    assert (len(made), made.launches) == (0, 0)
    with made:
        find()
        with pytest.raises(RuntimeError, match="make one for each block"), made:
            pass
    with made:
        pass
    assert len(made) == 0


def test_another_device_is_refused(monkeypatch):
    device = SimpleNamespace(kind="nvidia", checks_kernels=False)
    monkeypatch.setattr(check.__module__ + ".current_device", lambda: device)
    with pytest.raises(Unsupported, match=r"on the CPU device only, .* haulage.use\(\"cpu\"\)"):
        haulage.check().__enter__()
    assert runtime.current.checker is None


def test_wrong_words_are_refused_where_they_are_said(tmp_path):
    with pytest.raises(ValueError, match=r"there is no check 'races'\. Did you mean 'race'"):
        haulage.check(only="races")
    with pytest.raises(ValueError, match=r"none\.toml: No such file"):
        haulage.check(suppressions=str(tmp_path / "none.toml"))


def test_findings_that_a_file_covers_are_counted_only(tmp_path):
    file = tmp_path / "known.toml"
    file.write_text('[[ignore]]\nkind = "race"\nreason = "all write one"\n')
    for _ in range(2):
        made = haulage.check(suppressions=str(file))
        with made:
            find()
            assert made.suppressed == 1
        assert (len(made), made.suppressed) == (0, 1)
        assert "covers nothing" not in str(made)


def test_what_is_not_checked_is_the_error_that_it_is_without():
    from haulage import cuda

    @cuda.jit
    def half(x):
        if cuda.threadIdx.x < 32:
            cuda.syncthreads()
        x[cuda.threadIdx.x] = 1

    with pytest.raises(haulage.errors.BarrierError, match="half"), haulage.check(only="race"):
        half[1, 64](cuda.device_array(64))


def test_the_wait_at_the_end_of_a_block_orders_no_work_of_the_program():
    from haulage import cuda

    @cuda.jit
    def double(x):
        i = cuda.grid(1)
        if i < x.size:
            x[i] *= 2

    with haulage.check(only="stream", raises=False) as found:
        upload, compute = cuda.stream(), cuda.stream()
        host = cuda.pinned_array(1000)
        x = cuda.to_device(host, stream=upload)
        with haulage.check(only="stream") as inner:
            pass
        double[4, 256, compute](x)
        compute.synchronize()
        upload.synchronize()
    assert len(inner) == 0
    assert kinds(found) == ["stream"]
