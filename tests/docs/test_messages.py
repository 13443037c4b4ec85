"""Advice in messages names what exists."""

import ast
import inspect
import re
from pathlib import Path

import pytest

import evenhand as eh

OPTION = r"(?<![\w-])--[a-z][a-z-]*"
SOURCE = Path(eh.__file__).parent
OTHERS = {
    "asynchronous",  # of distributed.Client
    "drop",  # of pandas' reset_index
    "enable_categorical",  # of xgboost
    "pattern",  # of sklearn.compose.make_column_selector
    "race",  # a sensitive feature
    "remainder",  # of sklearn.compose.ColumnTransformer
    "tree_method",  # of xgboost
}
"""Parameters of other packages, and names that examples have."""


def parameters():
    """Names of the parameters of all public callables, and of the methods of public classes."""
    import evenhand.paper

    found = set()
    public = [getattr(eh, name) for name in eh.__all__]
    public += [getattr(place, name) for place in (evenhand.paper, eh.datasets) for name in place.__all__]
    for one in public:
        own = [getattr(one, name) for name in dir(one) if name[0] != "_"] if inspect.isclass(one) else []
        for called in (one, *own):
            if callable(called):
                try:
                    found |= set(inspect.signature(called).parameters)
                except ValueError:
                    continue
    return found


def messages():
    """Where something is raised or warned of, with the text that is known without running it."""
    for path in sorted(SOURCE.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            raised = isinstance(node, ast.Raise)
            warned = isinstance(node, ast.Call) and getattr(node.func, "id", "") == "warn_user"
            if raised or warned:
                parts = [part.value for part in ast.walk(node) if isinstance(part, ast.Constant)]
                text = " ".join(part for part in parts if isinstance(part, str))
                yield f"{path.relative_to(SOURCE)}:{node.lineno}", text


def test_parameters_that_messages_name_exist():
    known = parameters() | OTHERS
    assert {"aware", "sensitive_features", "missing"} <= known
    unknown = {
        (where, name)
        for where, text in messages()
        for name in re.findall(r"(?<![-\w.])([a-z_]+)=", text)
        if name not in known
    }
    assert unknown == set()


def test_options_that_messages_name_exist(capsys):
    pytest.importorskip("cyclopts")
    from evenhand.cli.commands import app

    commands = ("audit", "frontier", "fit", "predict", "verify", "monitor", "demo")
    for command in commands:
        app([command, "--help"], result_action="return_value")
    known = set(re.findall(OPTION, capsys.readouterr().out))
    assert {"--target", "--no-randomize"} <= known
    named = {(where, option) for where, text in messages() for option in re.findall(OPTION, text)}
    assert len(named) > 30
    assert {(where, option) for where, option in named if option not in known} == set()
