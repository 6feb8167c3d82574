"""Variables of the environment."""

from haulage._core.environment import Variable

NAME = "HAULAGE_TEST_VARIABLE"


def test_a_variable_is_what_the_environment_says_now(monkeypatch):
    read = Variable(NAME)
    assert read() == ""
    for value in ("one", " two ", "", "one", "\u00fc"):
        monkeypatch.setenv(NAME, value)
        assert read() == value.strip()
        assert read() == value.strip()
    monkeypatch.delenv(NAME)
    assert read() == ""
    monkeypatch.setenv(NAME, "one")
    assert read() == "one"


def test_two_variables_do_not_mix(monkeypatch):
    monkeypatch.setenv(NAME, "a")
    monkeypatch.setenv(f"{NAME}2", "b")
    assert [Variable(NAME)(), Variable(f"{NAME}2")()] == ["a", "b"]
