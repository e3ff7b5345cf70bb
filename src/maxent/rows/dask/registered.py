"""All that dask can hold of tables and sequences: to import this is to register it."""

from maxent.rows.dask import answers, bags, collections

__all__ = ["answers", "bags", "collections"]
