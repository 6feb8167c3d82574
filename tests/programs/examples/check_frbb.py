"""frbb: the example of its documentation prints what the documentation says, and more of it."""

import re
import textwrap

import frbb
import numpy as np
import pytest
from sklearn.datasets import load_breast_cancer


def _blocks(language: str) -> list[str]:
    found = re.findall(rf"code-block:: {language}\n\n((?:    .*\n|\s*\n)+)", frbb.__doc__)
    return [textwrap.dedent(block).strip() for block in found]


def test_the_example_of_its_documentation_prints_what_it_says(capsys):
    (program,) = _blocks("python")
    exec(compile(program, "frbb's documentation", "exec"), {"__name__": "__main__"})
    printed = capsys.readouterr().out.splitlines()
    expected = _blocks("console")[-1].splitlines()
    assert [line.strip() for line in printed] == [line.strip() for line in expected]


@pytest.mark.parametrize("dtype", ["float32", "float64", "int16", "uint8"])
def test_training_and_answers_are_those_of_its_functions_for_the_cpu(dtype):
    X, y = load_breast_cancer(return_X_y=True)
    X = (X / X.max(axis=0) * 200).astype(dtype)
    ours = frbb.FastRealBoostBins(T=32).fit(X, y)
    # Its decision function for NumPy calls a method that it has not: the one for numba.jit, then.
    theirs = frbb.FastRealBoostBins(T=32, fit_mode="numpy", decision_function_mode="numba_jit")
    theirs.fit(X, y)
    assert ours.fit_mode == ours.decision_function_mode == "numba_cuda"
    assert np.array_equal(ours.features_selected_, theirs.features_selected_)
    assert np.allclose(ours.logits_, theirs.logits_, atol=1e-4)
    assert np.allclose(ours.decision_function(X), theirs.decision_function(X), atol=1e-3)


def test_a_dumped_classifier_answers_as_before(tmp_path):
    X, y = load_breast_cancer(return_X_y=True)
    trained = frbb.FastRealBoostBins(T=16).fit(X, y)
    trained.json_dump(str(tmp_path / "trained.json"))
    loaded = frbb.FastRealBoostBins.json_load(str(tmp_path / "trained.json"), verbose=False)
    assert np.array_equal(loaded.predict(X), trained.predict(X))
