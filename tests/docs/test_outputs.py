"""That outputs in pages are compared, and how closely."""

import pytest
from sybil import Sybil
from sybil.example import SybilFailure
from tests.docs.outputs import Pages, differences

PAGE = """```python
print("accuracy", 0.8512, "of", 15507)
```

{comment}```text
{shown}
```
{after}"""
SHOWN = "accuracy 0.851 of 15507"


@pytest.mark.parametrize(
    ("shown", "printed"),
    [
        ("accuracy 0.851", "accuracy 0.853"),
        ("a   b\n─────\n+1.00 [-0.2, 3.5]", "a b\n────────\n+1.01 [-0.1, 3.5]"),
        ("risk 0.1994514763, gap <1e-12", "risk 0.1994514799, gap <1e-12"),
        ("7,754 people, A1=0", "7,754 people,\nA1=0"),
        ("1.5e-07", "1.6e-07"),
    ],
)
def test_the_last_digits_and_the_spaces_may_differ(shown, printed):
    assert differences(shown, printed) == ""


@pytest.mark.parametrize(
    ("shown", "printed"),
    [
        ("accuracy 0.847", "accuracy 0.851"),
        ("risk 0.07706", "risk 0.07540"),
        ("7,754 people", "7,755 people"),
        ("satisfied 0.1", "violated 0.1"),
        ("gap <1e-12", "gap 1e-12"),
        ("0.1 0.2", "0.1"),
        ("", "0.1"),
    ],
)
def test_words_integers_and_leading_digits_may_not(shown, printed):
    assert differences(shown, printed)


def test_a_tolerance_for_numbers_can_be_stated():
    assert differences("0.10, 5", "0.14, 6", within=1.0) == ""
    assert differences("0.10", "0.14", within=0.03)


def evaluate(path, *, update=False):
    pages = Pages()
    pages.update = update
    document = Sybil(pages.parsers, patterns=["*.md"]).parse(path)
    pages.setup(document.namespace)
    for example in document:
        example.evaluate()
    pages.teardown(document.namespace)


@pytest.fixture
def page(tmp_path):
    def write(shown, comment="", after=""):
        path = tmp_path / "page.md"
        path.write_text(PAGE.format(shown=shown, comment=comment, after=after), "utf-8")
        return path

    return write


@pytest.mark.parametrize(
    ("shown", "comment"),
    [
        (SHOWN, ""),
        ("accuracy 0.847 of 15507", "<!-- numbers: within 0.01 -->\n\n"),
        ("anything", "<!-- not run: the reason -->\n"),
    ],
)
def test_a_page_may_show_what_was_printed_or_say_why_not(page, shown, comment):
    evaluate(page(shown, comment))


@pytest.mark.parametrize(
    ("shown", "comment", "message"),
    [
        ("accuracy 0.847 of 15507", "", "0.847, but 0.8512"),
        ("accuracy 0.8 of 15507", "<!-- numbers: within 0.01 -->\n", "0.8, but 0.8512"),
        (SHOWN, "Some words.\n", "directly below"),
    ],
)
def test_a_page_may_not_show_anything_else(page, shown, comment, message):
    with pytest.raises(SybilFailure, match=message):
        evaluate(page(shown, comment))


def test_pages_are_brought_up_to_date(page):
    later = '\n```python\nprint("a  b")\nprint(2)\n```\n\n```text\na b\n1\n```\nThe end.\n'
    path = page("accuracy 0.847", after=later)
    evaluate(path, update=True)
    expected = PAGE.format(
        shown="accuracy 0.8512 of 15507", comment="", after=later.replace("a b\n1", "a  b\n2")
    )
    assert path.read_text("utf-8") == expected
    evaluate(path)


@pytest.mark.slow
def test_commands_run_where_the_page_writes_its_files(page):
    after = '\n```python\nopen("here.csv", "w").close()\n```\n\n```console\n$ {}\n```\n'
    evaluate(page(SHOWN, after=after.format("pip install evenhand")))
    with pytest.raises(SybilFailure, match=r"exit code 2:\nevenhand: there is no file gone\.csv"):
        evaluate(page(SHOWN, after=after.format("evenhand audit gone.csv --prediction a --sensitive b")))
    with pytest.raises(SybilFailure, match=r"exit code 2:\nevenhand: .*here\.csv"):
        evaluate(page(SHOWN, after=after.format("evenhand audit here.csv --prediction a --sensitive b")))
