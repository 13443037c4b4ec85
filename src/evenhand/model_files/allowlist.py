"""The types that a model file may hold besides our own.

skops describes an object by a loader, a module and a class. Types are listed one by one, because a loader
calls whatever the file names: a whole package on the list would include functions that do harm.
"""

from __future__ import annotations

import warnings
from functools import cache

__all__ = ["allowed_types"]

# The first four are not classifiers, and their compiled code trusts the sizes in a file.
# scikit-learn lists the halving searches only if their experimental module was imported.
_EXCLUDED = {
    *("IsolationForest", "SVR", "NuSVR", "OneClassSVM"),
    *("HalvingGridSearchCV", "HalvingRandomSearchCV"),
}

_OBJECTS = {
    "evenhand.TabularClassifier",  # by its public name: files hold none of our module paths
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
    "sklearn.utils.validation.check_array",  # used by boosted trees with categorical features
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
"""The types that each loader may make. `allowed_types` adds "ObjectNode"; any other loader is refused."""


@cache
def allowed_types() -> dict[str, set[str]]:
    """The types that each loader may make, including scikit-learn's estimators."""
    from sklearn.utils import all_estimators  # noqa: PLC0415  (imports all of scikit-learn)

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        estimators = {
            f"{kind.__module__}.{kind.__name__}"
            for name, kind in all_estimators()
            if kind.__module__.startswith("sklearn.") and name not in _EXCLUDED
        }
    return {**_LOADERS, "ObjectNode": _OBJECTS | estimators}
