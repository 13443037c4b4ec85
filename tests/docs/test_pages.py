"""What pages must say, and what they may not: names, options and parameters are read from the program."""

import inspect
import re
from functools import cache

import pytest
from tests.conftest import ROOT

import evenhand as eh
import evenhand.paper
from evenhand.auditing.result import Audit
from evenhand.cli.commands import app

DOCS = ROOT / "docs"
MADE = ("_build", "gallery", "generated")  # by script/docs
PAGES = [
    *(ROOT / name for name in ("README.md", "CONTRIBUTING.md", "CHANGELOG.md", "SECURITY.md")),
    *sorted(
        path
        for suffix in ("*.md", "*.rst")
        for path in DOCS.rglob(suffix)
        if not set(MADE) & set(path.relative_to(DOCS).parts)
    ),
]
REFERENCE = sorted((DOCS / "reference").glob("*.rst"))
COMMANDS = [name for name in app if not name.startswith("-")]
HOMES = {"evenhand": eh, "evenhand.paper": evenhand.paper, "evenhand.datasets": eh.datasets}
PUBLIC = {
    module: {name: value for name in home.__all__ if not inspect.ismodule(value := getattr(home, name))}
    for module, home in HOMES.items()
}


@cache
def options(command):
    """All names of the arguments of a command, such as ``--table`` and ``MODEL``."""
    return [
        name for part in app[command].assemble_argument_collection() for name in part.names if name != "*"
    ]


# What must be there


@pytest.mark.parametrize("name", eh.exceptions.__all__)
def test_every_error_and_warning_has_an_entry_that_says_what_to_do(name):
    page = (DOCS / "reference" / "exceptions.rst").read_text("utf-8")
    assert re.search(rf"^\.\. autoexception:: {name}\n\n   \S", page, re.MULTILINE)


@pytest.mark.parametrize("module", PUBLIC)
def test_every_public_name_has_a_page_in_the_reference(module):
    listed = {
        f"{current}.{name}"
        for page in REFERENCE
        for current, block in re.findall(
            r"^\.\. currentmodule:: (\S+)\n(.*?)(?=^\.\. currentmodule|\Z)",
            page.read_text("utf-8"),
            re.MULTILINE | re.DOTALL,
        )
        for name in re.findall(r"^   ([A-Za-z_.]+)$", block, re.MULTILINE)
    }
    assert {f"{module}.{name}" for name in PUBLIC[module]} <= listed


@pytest.mark.parametrize(
    ("module", "name"), [(module, name) for module, names in PUBLIC.items() for name in names]
)
def test_every_public_name_has_an_example(module, name):
    assert "Examples\n" in inspect.getdoc(PUBLIC[module][name])


@pytest.mark.parametrize("command", COMMANDS)
def test_every_option_of_every_command_is_described(command):
    page = (DOCS / "reference" / "command_line.rst").read_text("utf-8")
    [directive] = re.findall(r"^\.\. cyclopts:: (\S+)\n((?:   :\S+:.*\n)*)", page, re.MULTILINE)
    assert directive[0] == "evenhand.cli.commands:app"  # so that the page is made from the program
    assert "commands: " not in directive[1]  # and from all of it

    made = app[command].generate_docs("rst")
    described = set(re.findall(r"^``([^`]+)``\n    \S", made, re.MULTILINE))
    names = {name for entry in described for part in entry.split(", ") for name in part.split(" ")[:1]}
    assert set(options(command)) <= names


@pytest.mark.parametrize("page", sorted((DOCS / "theory").glob("*.md")), ids=lambda page: page.stem)
def test_what_a_page_of_the_theory_names_is_in_the_file_that_it_names(page):
    places = r"((?:`[\w.]+`(?:,|\sand)?\s+)+)in\s+`(src/evenhand/[\w/]+\.py)`"
    for names, path in re.findall(places, page.read_text("utf-8")):
        code = (ROOT / path).read_text("utf-8")
        for name in re.findall(r"`([\w.]+)`", names):
            own = name.rpartition(".")[2]
            assert re.search(rf"\b(def|class) {own}\b|^{own} = ", code, re.MULTILINE), name


def test_the_index_of_decisions_is_complete_and_in_order():
    page = (DOCS / "decisions.md").read_text("utf-8")
    records = re.findall(r"^## (\d+)\. (.+)$", page, re.MULTILINE)
    assert [int(number) for number, _ in records] == list(range(1, len(records) + 1))
    assert re.findall(r"^\| \[(\d+) (.+?)\]\(#", page, re.MULTILINE) == records


# What may not be there


def keywords(text, start):
    """Names of keyword arguments of the call whose parenthesis opens at `start`, complete or not."""
    depth, at_top, quote = 0, [], ""
    for letter in text[start:]:
        if quote:
            quote = "" if letter == quote else quote
            continue
        if letter in "\"'":
            quote = letter
        elif letter in "([{":
            depth += 1
        elif letter in ")]}":
            depth -= 1
            if depth == 0:
                break
        elif letter == "`":  # the end of inline code
            break
        at_top.append(letter if depth == 1 else " ")
    return re.findall(r"(?<![\w.])(\w+)\s*=(?!=)", "".join(at_top))


@cache
def accepted(name, *, methods):
    """Parameters of public functions, classes and methods of this name; None if there are none, or any go."""
    public = [Audit, *(value for values in PUBLIC.values() for value in values.values())]
    among = [getattr(kind, name, None) for kind in public if methods and inspect.isclass(kind)]
    found = [value for value in public if value.__name__ == name] + [part for part in among if callable(part)]
    parameters = [part for one in found for part in inspect.signature(one).parameters.values()]
    if not found or any(part.kind is part.VAR_KEYWORD for part in parameters):
        return None
    return {part.name for part in parameters}


def unknown_parameters(page, *, methods=True):
    """Calls of what evenhand has, with parameters that it does not have; blocks of code are run elsewhere."""
    text = re.sub(r"^```.*?^```", "", page, flags=re.MULTILINE | re.DOTALL)
    return [
        f"{call[1]}({name}=)"
        for call in re.finditer(r"\b([A-Za-z_]+)\(", text)
        if (known := accepted(call[1], methods=methods)) is not None
        for name in keywords(text, call.start() + len(call[1]))
        if name not in known
    ]


def test_an_unknown_parameter_is_found_in_complete_and_incomplete_calls():
    assert unknown_parameters("`eh.DemographicParity(differences=0.1)`") == [
        "DemographicParity(differences=)"
    ]
    assert unknown_parameters('`audit(..., given="a=b", before=x)` or `audit(y, befor=`') == [
        "audit(given=)",
        "audit(befor=)",
    ]
    assert unknown_parameters("clf.fit(X, y, sensitive_feature=s)") == ["fit(sensitive_feature=)"]
    assert unknown_parameters("`eh.solve(p, DemographicParity(ratio=0.8), cost=0.3)`, x == 1") == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_no_page_names_a_parameter_that_does_not_exist(page):
    ours = "migrating" not in page.parts  # the other libraries there have methods of the same names
    assert unknown_parameters(page.read_text("utf-8"), methods=ours) == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_no_page_shows_a_command_with_an_option_that_does_not_exist(page):
    shown = page.read_text("utf-8").replace("\\\n", " ")
    wrong = [
        f"{command} {option}"
        for command, rest in re.findall(rf"\bevenhand ({'|'.join(COMMANDS)})\b([^`\n]*)", shown)
        for option in re.findall(r"(?<!\S)(--[a-z][a-z-]*)", rest)
        if option not in options(command) and option != "--help"
    ]
    assert wrong == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_no_page_loads_anything_from_elsewhere(page):
    assert not re.search(
        r"""<(?:script|img|link|iframe)[^>]+(?:src|href)=["']?(?:https?:)?//""", page.read_text("utf-8")
    )
    assert not re.search(r"!\[[^]]*\]\((?:https?:)?//", page.read_text("utf-8"))
