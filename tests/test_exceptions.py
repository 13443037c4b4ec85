import inspect

import evenhand as eh
from evenhand.exceptions import EvenhandError, InputError, MissingExtraError


def test_every_error_is_an_evenhand_error():
    errors = [kind for _, kind in inspect.getmembers(eh.exceptions, inspect.isclass)]
    assert errors
    assert all(issubclass(kind, EvenhandError | Warning) for kind in errors)
    assert issubclass(InputError, ValueError)


def test_a_missing_package_names_its_extra():
    assert str(MissingExtraError("polars", "datasets")).endswith("pip install 'evenhand[datasets]'")
