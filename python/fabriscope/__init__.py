"""Fabriscope: runs the programs that people judge a network by, on networks they do not have.

>>> import fabriscope
>>> latency = fabriscope.bench("osu_latency", "-m 8:8", on="ri2")
>>> print(latency.text)  # doctest: +ELLIPSIS
<BLANKLINE>
# OSU MPI Latency Test v7.4
...

Every question gives an :class:`Outcome`: what the program prints, the same as data, and tables that pandas, polars, DuckDB and
pyarrow read. Predictions are those of the program ``fabriscope``, byte for byte. Errors are exceptions that say what to do.
"""

from fabriscope._ask import bench, calibrate, clusters, diagnose, expect, explain, parts, report, run, tools, topo, validate
from fabriscope._cluster import Catalog, Cluster
from fabriscope._errors import CatalogError, FabriscopeError, FlawError, RunError, TableError
from fabriscope._fabriscope import __version__
from fabriscope._prototypes import Choice, CongestionControl, Feedback, Line
from fabriscope._results import Outcome, Table
from fabriscope._rounds import Move, Piece, Round, collective, copy, reduce, traffic
from fabriscope._sweep import sweep

__all__ = [
    "Catalog",
    "CatalogError",
    "Choice",
    "Cluster",
    "CongestionControl",
    "FabriscopeError",
    "Feedback",
    "FlawError",
    "Line",
    "Move",
    "Outcome",
    "Piece",
    "Round",
    "RunError",
    "Table",
    "TableError",
    "__version__",
    "bench",
    "calibrate",
    "clusters",
    "collective",
    "copy",
    "diagnose",
    "expect",
    "explain",
    "parts",
    "reduce",
    "report",
    "run",
    "sweep",
    "tools",
    "topo",
    "traffic",
    "validate",
]
