import sys

from evenhand.display.progress import track, waiting


def use_terminal(monkeypatch):
    """Pretend that stderr is a terminal."""
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True, raising=False)


def test_nothing_is_shown_when_output_is_piped(capsys):
    assert list(track(range(3), what="folds", total=3, verbose=True)) == [0, 1, 2]
    assert capsys.readouterr().err == ""


def test_nothing_is_shown_unless_verbose(capsys, monkeypatch):
    use_terminal(monkeypatch)
    assert list(track(range(3), what="folds", total=3, verbose=False)) == [0, 1, 2]
    assert capsys.readouterr().err == ""


def test_a_bar_is_shown_in_a_terminal(capsys, monkeypatch):
    use_terminal(monkeypatch)
    assert list(track(range(3), what="folds", total=3, verbose=True)) == [0, 1, 2]
    assert "folds" in capsys.readouterr().err


def test_without_rich_a_line_is_printed_per_step(capsys, monkeypatch):
    use_terminal(monkeypatch)
    monkeypatch.setitem(sys.modules, "rich.progress", None)
    assert list(track("ab", what="folds", total=2, verbose=True)) == ["a", "b"]
    assert capsys.readouterr().err.splitlines() == ["folds: 1 of 2", "folds: 2 of 2"]


def test_waiting_is_shown_in_a_terminal_only(capsys, monkeypatch):
    with waiting("drawing"):
        pass
    assert capsys.readouterr().err == ""
    use_terminal(monkeypatch)
    with waiting("drawing"):
        pass
    assert "drawing" in capsys.readouterr().err
    monkeypatch.setitem(sys.modules, "rich.console", None)
    with waiting("drawing"):
        pass
    assert capsys.readouterr().err == ""
