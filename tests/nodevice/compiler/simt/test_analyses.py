"""What is known of a function is worked out once, until the function changes."""

from haulage.compiler.simt.analysis.manager import Analyses, Kept
from haulage.compiler.simt.ir.builder import Builder
from nodevice.compiler.simt.llvm_models import SUMS, model_of


def test_an_analysis_runs_once_for_each_of_its_arguments():
    asked = []

    def analysis(analyses, number=0):
        asked.append(number)
        return [analyses.function.entry, number]

    analyses = Analyses(
        model_of(SUMS.replace("ROW", "4").replace("TURN", "1").replace("LAST", "9"))
    )
    assert analyses.get(analysis) is analyses.get(analysis)
    assert analyses.get(analysis, 1) == ["%entry", 1]
    assert asked == [0, 1]
    analyses.invalidate(Kept.ALL)
    assert analyses.get(analysis) == ["%entry", 0]
    assert asked == [0, 1]
    del analyses.function.blocks["%entry"].body[:1]
    analyses.invalidate(Kept.NONE)
    assert analyses.get(analysis) == ["%entry", 0]
    assert asked == [0, 1, 0]


def test_loops_are_found_again_when_the_graph_has_changed():
    function = model_of(SUMS.replace("ROW", "4").replace("TURN", "1").replace("LAST", "9"))
    analyses = Analyses(function)
    loops = analyses.loops
    assert [loop.header for loop in loops] == ["%loop"]
    assert analyses.dominates("%loop", "%end")
    assert not analyses.dominates("%end", "%loop")
    assert analyses.innermost_loop("%entry") is None
    assert "%more" not in analyses.items
    function.blocks["%end"].body.append(Builder.binary("add", "i64", "%t", "1", name="%more"))
    analyses.invalidate(Kept.GRAPH)
    assert "%more" in analyses.items
    assert analyses.loops is loops
    function.blocks["%loop"].terminator = Builder.jump("%end")
    analyses.invalidate(Kept.NONE)
    assert analyses.loops == []
