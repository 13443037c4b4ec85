"""The types that a model file may hold besides our own.

skops describes an object by a loader, a module and a class. Types are listed one by one, because a loader
calls whatever the file names: a whole package on the list would include functions that do harm.
"""

from __future__ import annotations

import warnings
from functools import cache

# The compiled code of the first six, and of all of `sklearn.neighbors`, trusts the sizes in a file.
# Searches set any parameter of other classifiers when they are fitted again.
_EXCLUDED = {
    *("IsolationForest", "SVC", "NuSVC", "SVR", "NuSVR", "OneClassSVM"),
    *("GridSearchCV", "RandomizedSearchCV", "HalvingGridSearchCV", "HalvingRandomSearchCV"),
}


def _of(module: str, names: str) -> set[str]:
    return {f"{module}.{name}" for name in names.split()}


_OBJECTS = {
    "evenhand.TabularClassifier",  # by its public name: files hold none of our module paths
    *_of("lightgbm", "basic.Booster sklearn.LGBMClassifier"),
    *_of("xgboost", "core.Booster sklearn.XGBClassifier sklearn.XGBRFClassifier"),
    *_of("sklearn._loss.link", "HalfLogitLink IdentityLink Interval LogLink LogitLink MultinomialLogit"),
    *_of("sklearn._loss.loss", "ExponentialLoss HalfBinomialLoss HalfMultinomialLoss HalfSquaredError"),
    *_of("sklearn.calibration", "_CalibratedClassifier _SigmoidCalibration _TemperatureScaling"),
    *_of(
        "sklearn.compose._column_transformer", "_RemainderColsList make_column_selector"
    ),  # the list: before 1.9
    *_of("sklearn.ensemble._hist_gradient_boosting", "binning._BinMapper predictor.TreePredictor"),
    *_of("sklearn.model_selection._split", "GroupKFold KFold RepeatedKFold RepeatedStratifiedKFold"),
    *_of("sklearn.model_selection._split", "ShuffleSplit StratifiedGroupKFold StratifiedKFold"),
    *_of("sklearn.model_selection._split", "StratifiedShuffleSplit TimeSeriesSplit"),
    *_of("sklearn.neural_network._stochastic_optimizers", "AdamOptimizer SGDOptimizer"),
}
_NUMBERS = _of(
    "numpy",
    "bool bool_ float16 float32 float64 longdouble str_ bytes_ "
    "int8 int16 int32 int64 uint8 uint16 uint32 uint64",
)
_LOADERS = {
    "BytearrayNode": {"builtins.bytearray"},
    "BytesNode": {"builtins.bytes"},
    "DTypeNode": {"numpy.dtype"},
    "DefaultDictNode": {"collections.defaultdict"},
    "DictNode": {"builtins.dict", "collections.OrderedDict", "sklearn.utils._bunch.Bunch"},
    "FunctionNode": {
        *_of("numpy", "abs absolute cbrt exp exp2 expm1 floor ceil"),
        *_of("numpy", "log log10 log1p log2 rint sign sqrt square tanh"),
        *_of("scipy.special._ufuncs", "expit logit"),
        "sklearn.utils.validation.check_array",  # used by boosted trees with categorical features
    },
    "JsonNode": {"builtins.str"},
    "ListNode": {"builtins.list"},
    "LossNode": _of(
        "sklearn._loss._loss",
        "CyExponentialLoss CyHalfBinomialLoss CyHalfMultinomialLoss CyHalfSquaredError",
    ),
    "NdArrayNode": {"numpy.ndarray", *_NUMBERS},
    "PartialNode": {"functools.partial"},
    "RandomGeneratorNode": {"numpy.random._generator.Generator"},
    "RandomStateNode": {"numpy.random.mtrand.RandomState"},
    "SetNode": {"builtins.set"},
    "SliceNode": {"builtins.slice"},
    "TreeNode": {"sklearn.tree._tree.Tree"},
    "TupleNode": {"builtins.tuple"},
    "TypeNode": {
        *_of("builtins", "bool bytes dict float int list object set str tuple"),
        "collections.OrderedDict",
        *_of("numpy", "floating integer number object_"),
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
            if kind.__module__.startswith("sklearn.")
            and not kind.__module__.startswith("sklearn.neighbors.")
            and name not in _EXCLUDED
        }
    return {**_LOADERS, "ObjectNode": _OBJECTS | estimators}
