"""Mainstem: streaming pipelines for PySpark, assembled from plugins.

What authors of plugins use, and `Pipeline` for programs and notebooks: `__init__.pyi` lists the names.
Each is loaded when it is first used, so that importing `mainstem` costs nothing and never imports
pyspark. More, by topic: `mainstem.columns`, `arrays`, `sinks`, `durable`, `patience`, `attempts`,
`commands`, `lineage` and `testing`.
"""

from lazy_loader import attach_stub

__getattr__, __dir__, __all__ = attach_stub(__name__, __file__)
