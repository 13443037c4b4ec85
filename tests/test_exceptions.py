import inspect

import evenhand as eh
from evenhand.exceptions import EvenhandError, EvenhandWarning, InputError, MissingExtraError


def test_all_errors_and_warnings_share_a_base_class():
    kinds = dict(inspect.getmembers(eh.exceptions, inspect.isclass))
    assert sorted(kinds) == sorted(eh.exceptions.__all__)
    assert all(issubclass(kind, EvenhandError | EvenhandWarning) for kind in kinds.values())
    assert issubclass(InputError, ValueError)


def test_a_missing_package_names_its_extra():
    assert str(MissingExtraError("polars", "datasets")).endswith("pip install 'evenhand[datasets]'")
