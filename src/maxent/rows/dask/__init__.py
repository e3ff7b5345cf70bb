"""maxent on dask: the same models on arrays and tables that live on the workers of a cluster.

``cluster`` connects to a scheduler, ``tasks`` runs independent work on it; ``collections`` and
``rasters`` take what dask and xarray hold as tables in ``blocks``.
"""

from __future__ import annotations

try:
    import dask as _dask  # noqa: F401
except ImportError as error:
    raise ImportError("maxent.rows.dask needs dask: pip install maxent[dask]") from error
