"""The parameter interface of scikit-learn's estimators, without importing scikit-learn."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from typing import Any, Self

from evenhand.exceptions import InputError


class Parameters:
    """Adds ``get_params`` and ``set_params``, for grid search and ``clone``.

    The constructor stores its arguments unchanged under their names; ``_check`` validates them.
    """

    def __post_init__(self) -> None:
        self._check()

    def _check(self) -> None:
        """Raise an InputError if the parameters are invalid."""
        raise NotImplementedError

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """The constructor's parameters; `deep` adds those of the parts."""
        params = {name: getattr(self, name) for name in inspect.signature(type(self)).parameters}
        if deep:
            for name, part in self._named_parts().items():
                params[name] = part
                params |= {f"{name}__{key}": value for key, value in part.get_params().items()}
        return params

    def set_params(self, **params: Any) -> Self:
        """Set parameters in place; ``name__parameter`` sets one of the part called ``name``."""
        own, parts = self.get_params(deep=False), self._named_parts()
        nested: dict[str, dict[str, Any]] = {}
        for key, value in params.items():
            part, _, rest = key.partition("__")
            if key in own:
                setattr(self, key, value)
            elif part in parts and rest:
                nested.setdefault(part, {})[rest] = value
            elif key not in parts or parts[key] is not value:
                valid = ", ".join(sorted(self.get_params().keys() - parts))
                raise InputError(f"{type(self).__name__} cannot set {key!r}; it has {valid}.")
        self._check()
        for name, values in nested.items():
            parts[name].set_params(**values)
        return self

    def _named_parts(self) -> Mapping[str, Parameters]:
        return {}
