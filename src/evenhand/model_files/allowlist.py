"""What a model file may hold besides our own objects, and how it is checked before anything is made.

Arrays and classifiers are kept by skops, which describes them in a schema: a tree of nodes, each with a
loader, a module and a class. Every node is checked here, by its loader, against a fixed list. Types are
listed one by one, because a loader calls what it is told to: a whole package on the list would hold functions
that do harm. Then skops checks the same list again and makes the objects, and `bounds` checks what compiled
code would believe.
"""

from __future__ import annotations

import io
import json
import warnings
import zipfile
from collections.abc import Iterator
from functools import cache
from importlib import import_module, metadata
from types import ModuleType
from typing import Any

from evenhand.exceptions import InputError, MissingExtraError, UntrustedFileError, reason
from evenhand.model_files.boosters import check_lightgbm, check_xgboost
from evenhand.model_files.bounds import check_bounds, reached, rebuild_trees, without_trees
from evenhand.model_files.settings import plain_node, refused_node, refused_object
from evenhand.posteriors.tabular import TabularClassifier

__all__ = ["dump_parts", "inspect_parts", "load_parts"]

_OLDEST_PROTOCOL = 2
"""Of skops. Nodes of older files are made by other code."""

_OLDEST_SKOPS = (0, 15)
"""Older ones call whatever a file names as the source of a random generator."""

_MOST_NODES = 50_000_000

# Their compiled code believes the sizes that a file tells, and they are no classifiers.
# Searches by halving are on scikit-learn's list only where somebody has imported them.
_LEFT_OUT = {
    *("IsolationForest", "SVR", "NuSVR", "OneClassSVM"),
    *("HalvingGridSearchCV", "HalvingRandomSearchCV"),
}

_OBJECTS = {
    "evenhand.TabularClassifier",  # by its public name: files hold no module path of ours
    "lightgbm.basic.Booster",
    "lightgbm.sklearn.LGBMClassifier",
    "xgboost.core.Booster",
    "xgboost.sklearn.XGBClassifier",
    "xgboost.sklearn.XGBRFClassifier",
    "sklearn._loss.link.HalfLogitLink",
    "sklearn._loss.link.IdentityLink",
    "sklearn._loss.link.Interval",
    "sklearn._loss.link.LogLink",
    "sklearn._loss.link.LogitLink",
    "sklearn._loss.link.MultinomialLogit",
    "sklearn._loss.loss.ExponentialLoss",
    "sklearn._loss.loss.HalfBinomialLoss",
    "sklearn._loss.loss.HalfMultinomialLoss",
    "sklearn._loss.loss.HalfSquaredError",
    "sklearn.calibration._CalibratedClassifier",
    "sklearn.calibration._SigmoidCalibration",
    "sklearn.calibration._TemperatureScaling",
    "sklearn.compose._column_transformer.make_column_selector",
    "sklearn.ensemble._hist_gradient_boosting.binning._BinMapper",
    "sklearn.ensemble._hist_gradient_boosting.predictor.TreePredictor",
    "sklearn.model_selection._split.GroupKFold",
    "sklearn.model_selection._split.KFold",
    "sklearn.model_selection._split.RepeatedKFold",
    "sklearn.model_selection._split.RepeatedStratifiedKFold",
    "sklearn.model_selection._split.ShuffleSplit",
    "sklearn.model_selection._split.StratifiedGroupKFold",
    "sklearn.model_selection._split.StratifiedKFold",
    "sklearn.model_selection._split.StratifiedShuffleSplit",
    "sklearn.model_selection._split.TimeSeriesSplit",
    "sklearn.neural_network._stochastic_optimizers.AdamOptimizer",
    "sklearn.neural_network._stochastic_optimizers.SGDOptimizer",
}
_NUMBERS = {
    f"numpy.{name}"
    for name in (
        *("bool", "bool_", "float16", "float32", "float64", "longdouble", "str_", "bytes_"),
        *(f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)),
    )
}
_FUNCTIONS = {
    *(f"numpy.{name}" for name in ("abs", "absolute", "cbrt", "exp", "exp2", "expm1", "floor", "ceil")),
    *(
        f"numpy.{name}"
        for name in ("log", "log10", "log1p", "log2", "rint", "sign", "sqrt", "square", "tanh")
    ),
    "scipy.special._ufuncs.expit",
    "scipy.special._ufuncs.logit",
    "sklearn.utils.validation.check_array",  # in boosted trees that have categories
}
_LOADERS = {
    "BytearrayNode": {"builtins.bytearray"},
    "BytesNode": {"builtins.bytes"},
    "DTypeNode": {"numpy.dtype"},
    "DefaultDictNode": {"collections.defaultdict"},
    "DictNode": {"builtins.dict", "collections.OrderedDict", "sklearn.utils._bunch.Bunch"},
    "FunctionNode": _FUNCTIONS,
    "JsonNode": {"builtins.str"},
    "ListNode": {"builtins.list"},
    "LossNode": {
        f"sklearn._loss._loss.Cy{name}"
        for name in ("ExponentialLoss", "HalfBinomialLoss", "HalfMultinomialLoss", "HalfSquaredError")
    },
    "NdArrayNode": {"numpy.ndarray", *_NUMBERS},
    "PartialNode": {"functools.partial"},
    "RandomGeneratorNode": {"numpy.random._generator.Generator"},
    "RandomStateNode": {"numpy.random.mtrand.RandomState"},
    "SetNode": {"builtins.set"},
    "SparseMatrixNode": {
        f"scipy.sparse._{kind}.{kind}_{name}" for kind in ("csr", "csc") for name in ("array", "matrix")
    },
    "SliceNode": {"builtins.slice"},
    "TreeNode": {"sklearn.tree._tree.Tree"},
    "TupleNode": {"builtins.tuple"},
    "TypeNode": {
        *(
            f"builtins.{name}"
            for name in ("bool", "bytes", "dict", "float", "int", "list", "object", "set", "str", "tuple")
        ),
        "collections.OrderedDict",
        *(f"numpy.{name}" for name in ("floating", "integer", "number", "object_")),
        *_NUMBERS,
    },
}
"""What each loader may make. "ObjectNode" is added by `_loaders`; any other is refused."""


_LASTING = {"_loss": "sklearn._loss._loss", TabularClassifier.__module__: "evenhand"}


def dump_parts(parts: list[Any]) -> bytes:
    """Write arrays and classifiers by skops, if a file may hold them.

    Parameters
    ----------
    parts : list

    Returns
    -------
    bytes
    """
    skops = _skops()
    refused = _refused_setting(parts)
    if refused:
        raise InputError(f"this model cannot be saved: {refused} Change it and fit again.")
    try:
        check_bounds(parts)
        data: bytes = _by_lasting_names(skops.dumps(without_trees(parts)))
        inspect_parts(data)
    except UntrustedFileError as error:
        raise InputError(
            f"this model cannot be saved: {error} Choose another classifier, or keep the rule alone: "
            "rule_.to_json()."
        ) from None
    except Exception as error:
        raise InputError(f"this model cannot be saved: {reason(error)}") from error
    return data


def _by_lasting_names(data: bytes) -> bytes:
    """The same, with modules named as they are found in other versions too.

    TabularClassifier goes by its public name. Before scikit-learn 1.9 losses of boosted trees name a module
    ``_loss``, which no package has: whatever file of that name was found would be imported.
    """
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        members = [(member, archive.read(member)) for member in archive.infolist()]
    schema = next(content for member, content in members if member.filename == "schema.json")
    described = json.loads(schema)
    renamed = [node for node in _nodes(described) if node.get("__module__") in _LASTING]
    if not renamed:
        return data
    for node in renamed:
        node["__module__"] = _LASTING[node["__module__"]]
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_STORED) as archive:
        for member, content in members:
            archive.writestr(member, json.dumps(described) if member.filename == "schema.json" else content)
    return buffer.getvalue()


def load_parts(data: bytes) -> list[Any]:
    """Make the arrays and classifiers that a file holds, after all checks.

    Parameters
    ----------
    data : bytes
        As :func:`dump_parts` wrote them.

    Returns
    -------
    list
    """
    skops = _skops()
    inspect_parts(data)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # other versions are told of once
            parts = skops.loads(data, trusted=sorted(set().union(*_loaders().values())))
        if not isinstance(parts, list):
            raise UntrustedFileError("the parts of the model are no list.")
        refused = _refused_setting(parts)
        if refused:
            raise UntrustedFileError(refused)
        rebuild_trees(parts)
        check_bounds(parts)
    except UntrustedFileError:
        raise
    except ModuleNotFoundError as error:
        raise InputError(f"this model needs the package {error.name!r}, which is not installed.") from None
    except Exception as error:
        raise UntrustedFileError(
            f"the parts of the model cannot be read with the packages here: {reason(error)}"
        ) from error
    return parts


def inspect_parts(data: bytes) -> set[str]:
    """Refuse parts that hold anything but what is on the list; nothing is made or imported for it.

    Parameters
    ----------
    data : bytes

    Returns
    -------
    set of str
        The packages that are needed.
    """
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            members = {member.filename: member.file_size for member in archive.infolist()}
            plain = all(member.compress_type == zipfile.ZIP_STORED for member in archive.infolist())
            if not plain or len(members) != len(archive.infolist()) or sum(members.values()) > len(data):
                raise UntrustedFileError(
                    "the parts of the model are packed in another way than evenhand does."
                )
            schema = json.loads(archive.read("schema.json"))
            packed = {name: _unpacked_size(archive, name) for name in members if name.endswith(".npz")}
            for node in _nodes(schema):
                _check_booster(node, archive)
            members |= packed
        protocol = schema["protocol"]
        if type(protocol) is not int or protocol < _OLDEST_PROTOCOL:
            raise UntrustedFileError(
                f"the parts of the model are of protocol {protocol!r} of skops, which is too old."
            )
        packages, size = set(), 0
        described: dict[Any, Any] = {}
        for node in _nodes(schema):
            packages.add(_check_node(node))
            # skops makes nodes of one number once, so that another one could hide behind a harmless one.
            if "__id__" in node and described.setdefault(node["__id__"], told := _told(node)) != told:
                raise UntrustedFileError("it holds two different objects as the same one.")
            file = node.get("file")
            size += 0 if file is None else members[file]
        # An array that is told twice is kept once, and so is read at most as often as there are models of it.
        if size > 100 * len(data):
            raise UntrustedFileError("the parts of the model are far larger than the file.")
    except UntrustedFileError:
        raise
    except Exception as error:
        raise UntrustedFileError(f"the parts of the model are damaged: {reason(error)}") from None
    return packages


def _unpacked_size(archive: zipfile.ZipFile, name: str) -> int:
    """Give the size of a sparse matrix, which is an archive of its own."""
    with zipfile.ZipFile(io.BytesIO(archive.read(name))) as matrix:
        return sum(member.file_size for member in matrix.infolist())


def _nodes(schema: Any) -> Iterator[dict[str, Any]]:
    """Go through everything in a schema that skops could take for a node."""
    waiting, seen = [schema], 0
    while waiting:
        found = waiting.pop()
        seen += 1
        if seen > _MOST_NODES:
            raise UntrustedFileError("the parts of the model are too many.")
        if isinstance(found, dict):
            if "__loader__" in found:
                yield found
            waiting.extend(found.values())
        elif isinstance(found, list):
            waiting.extend(found)


def _check_node(node: dict[str, Any]) -> str:
    loader, module, kind = node["__loader__"], node.get("__module__"), node.get("__class__")
    if not (isinstance(loader, str) and isinstance(module, str) and isinstance(kind, str)):
        raise UntrustedFileError("the parts of the model are damaged: a node has no type.")
    name = f"{module}.{kind}"
    if "." in kind or name not in _loaders().get(loader, ()):
        raise UntrustedFileError(
            f"it holds {name} (as {loader}), which is not on the list of what a file may hold."
        )
    if loader == "DefaultDictNode" and node["content"]["default_factory"].get("__loader__") != "TypeNode":
        raise UntrustedFileError("it holds a dictionary that calls something.")
    if loader == "PartialNode" and node["content"]["func"].get("__loader__") != "FunctionNode":
        raise UntrustedFileError("it holds a function that calls something else.")
    if loader == "DictNode":
        keys = node["key_types"]
        if keys.get("__loader__") != "ListNode" or any(
            key.get("__loader__") != "TypeNode" for key in keys["content"]
        ):
            raise UntrustedFileError("it holds a dictionary whose keys are made by something.")
    refused = refused_node(node) if loader == "ObjectNode" else None
    if refused:
        raise UntrustedFileError(refused)
    return module.partition(".")[0]


def _check_booster(node: dict[str, Any], archive: zipfile.ZipFile) -> None:
    """Look at the trees of lightgbm and xgboost, which their own code reads as soon as they are made."""
    name = f"{node.get('__module__')}.{node.get('__class__')}"
    if name == "lightgbm.basic.Booster":
        check_lightgbm(plain_node(node["content"])["_handle"])
    elif name == "xgboost.core.Booster":
        check_xgboost(archive.read(node["content"]["content"]["handle"]["file"]))


def _told(node: dict[str, Any]) -> tuple[Any, ...]:
    content = node.get("content")
    plain = content if isinstance(content, str) else None
    return (node["__loader__"], node["__module__"], node["__class__"], plain, node.get("file"))


def _refused_setting(parts: list[Any]) -> str | None:
    """Say which parameter a file may not hold, and in which step of a pipeline; None if there is none."""
    objects = list(reached(parts))
    for found in objects:
        refused = refused_object(found)
        if refused:
            steps = [
                pair[0]
                for pair in objects
                if isinstance(pair, tuple) and len(pair) > 1 and pair[1] is found and isinstance(pair[0], str)
            ]
            return f"in step {steps[0]!r}, {refused}" if steps else refused
    return None


@cache
def _loaders() -> dict[str, set[str]]:
    """What each loader may make, scikit-learn's estimators included."""
    from sklearn.utils import all_estimators  # noqa: PLC0415  (imports all of scikit-learn)

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        estimators = {
            f"{kind.__module__}.{kind.__name__}"
            for name, kind in all_estimators()
            if kind.__module__.startswith("sklearn.") and name not in _LEFT_OUT
        }
    return {**_LOADERS, "ObjectNode": _OBJECTS | estimators}


def _skops() -> ModuleType:
    try:
        module = import_module("skops.io")
        version = tuple(int(number) for number in metadata.version("skops").split(".")[:2])
    except ImportError:
        raise MissingExtraError("skops", "files") from None
    if version < _OLDEST_SKOPS:
        raise MissingExtraError("skops>=0.15", "files")
    return module
