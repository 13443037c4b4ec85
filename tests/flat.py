"""Classifiers from flat settings, as tests list and combine them."""

from typing import Any

import evenhand as eh

CROSS_FIT = {
    "cv": "cv",
    "group_estimator": "group_estimator",
    "posterior": "form",
    "average": "average",
    "calibration": "calibration",
    "max_samples": "max_samples",
}
POLICY = {"missing": "missing", "unseen": "unseen", "min_group_size": "min_size"}
GUARANTEE = {"confidence": "confidence", "reserve": "reserve"}


def build(kind: Any, *positional: Any, **flat: Any) -> Any:
    """A classifier whose settings are given one by one, whatever objects the constructor groups them in."""
    for name, group, names in (
        ("posteriors", eh.CrossFit, CROSS_FIT),
        ("groups", eh.GroupPolicy, POLICY),
        ("guarantee", eh.Guarantee, GUARANTEE),
    ):
        given = {names[key]: flat.pop(key) for key in list(flat) if key in names}
        if name == "guarantee" and given.get("confidence") is None:
            continue
        if given.get("calibration") == "dirichlet":
            given["calibration"] = "auto"
        if given:
            if name == "posteriors" and kind is eh.FairInprocessor:
                given.setdefault("cv", 2)
            flat[name] = group(**given)
    if "max_refits" in flat:
        flat["max_fits"] = 2 * flat.pop("max_refits") + 4
    return kind(*positional, **flat)
