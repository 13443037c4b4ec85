"""Post-processing and the exact solver on a Dask cluster: rows stay on the workers."""

from evenhand.exceptions import MissingExtraError

try:
    import dask.dataframe  # noqa: F401
    import distributed  # noqa: F401
except ImportError as error:
    raise MissingExtraError(error.name or "dask[dataframe]", "dask") from None

from evenhand.dask.classifier import DaskFairPostprocessor
from evenhand.dask.optimum import solve
from evenhand.dask.partitions import DaskPartitions

__all__ = ["DaskFairPostprocessor", "DaskPartitions", "solve"]
