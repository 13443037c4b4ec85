import inspect

import evenhand as eh
from evenhand.exceptions import EvenhandError, EvenhandWarning, InputError, MissingExtraError, reason


def test_all_errors_and_warnings_share_a_base_class():
    kinds = dict(inspect.getmembers(eh.exceptions, inspect.isclass))
    assert sorted(kinds) == sorted(eh.exceptions.__all__)
    assert all(issubclass(kind, EvenhandError | EvenhandWarning) for kind in kinds.values())
    assert issubclass(InputError, ValueError)


def test_a_missing_package_names_its_extra():
    assert str(MissingExtraError("polars", "datasets")).endswith("pip install 'evenhand[datasets]'")


def test_an_error_of_another_package_is_quoted_in_one_line():
    """scikit-learn names the columns in the lines after the first."""
    error = ValueError("The names should match.\nNames unseen at fit time:\n- c\n")
    assert reason(error) == "ValueError: The names should match. Names unseen at fit time: - c"
    assert reason(KeyError()) == "KeyError"
    assert reason(RuntimeError("x" * 2000)) == f"RuntimeError: {'x' * 500}..."
