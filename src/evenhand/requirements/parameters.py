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
        """Set parameters in place; ``name__parameter`` sets one of the part called ``name``.

        If a value is invalid, no parameter changes.
        """
        before = [(thing, dict(vars(thing))) for thing in (self, *self._named_parts().values())]
        try:
            self._apply(params)
        except InputError:
            for thing, values in before:
                vars(thing).update(values)
            raise
        return self

    def _apply(self, params: dict[str, Any]) -> None:
        own = self.get_params(deep=False)
        vars(self).update({key: value for key, value in params.items() if key in own})
        self._check()
        nested: dict[str, dict[str, Any]] = {}
        for key, value in params.items():
            part, _, rest = key.partition("__")
            if key in own:
                continue
            if part not in self._named_parts():
                valid = ", ".join(sorted(self.get_params()))
                raise InputError(f"{type(self).__name__} has no parameter {key!r}; it has {valid}.")
            if rest:
                nested.setdefault(part, {})[rest] = value
            elif value is not self._named_parts()[part]:
                self._replace_part(part, value)
                self._check()
        for name, values in nested.items():
            self._named_parts()[name].set_params(**values)

    def _named_parts(self) -> Mapping[str, Parameters]:
        return {}

    def _replace_part(self, name: str, part: Any) -> None:
        raise NotImplementedError
