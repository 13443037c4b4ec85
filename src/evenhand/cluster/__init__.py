"""Rows on a Dask cluster, which stay on its workers."""

from evenhand.exceptions import MissingExtraError

try:
    import dask.dataframe  # noqa: F401
    import distributed  # noqa: F401
except ImportError as error:
    raise MissingExtraError(error.name or "dask[dataframe]", "dask") from None
