"""
The compiled half of the package `fabriscope`.
"""

from _typeshed import Incomplete, SupportsGetItem
from os import PathLike
from types import CapsuleType
from typing import Any, SupportsIndex, final

@final
class Catalog:
    """
    Parts and clusters: those of the package, with a folder over them.
    """
    def __new__(cls, /, folder: str | PathLike[str] | None = None) -> Catalog: ...
    @staticmethod
    def kinds() -> list[str]:
        """
        The kinds of parts.
        """
    def names(self, /, kind: str) -> list[str]:
        """
        The names of the parts of a kind, sorted.
        """
    def part(self, /, kind: str, name: str) -> str:
        """
        A part as JSON.
        """
    def text(self, /, kind: str, name: str) -> str | None:
        """
        The TOML text that a part came from.
        """

@final
class Cluster:
    """
    A cluster with all its parts.
    """
    def __new__(cls, /, target: str, *, text: str | None = None, nodes: SupportsIndex | None = None, catalog: Catalog | None = None) -> Cluster:
        """
        A cluster by what stands behind `--on`, or from the text of a TOML file.
        """
    def __repr__(self, /) -> str: ...
    def json(self, /) -> str:
        """
        All its parts as JSON.
        """
    @property
    def name(self, /) -> str:
        """
        Its name.
        """
    @property
    def nodes(self, /) -> int:
        """
        How many nodes it has.
        """
    @property
    def title(self, /) -> str:
        """
        What it is, in a line.
        """

@final
class Outcome:
    """
    What a command found.
    """
    def csv(self, /) -> str:
        """
        The tables as CSV.
        """
    @property
    def draft(self, /) -> str | None:
        """
        The TOML file to go on from, where there is one.
        """
    @property
    def good(self, /) -> bool:
        """
        Whether what was checked holds.
        """
    def json(self, /) -> str:
        """
        All that programs read, as JSON text.
        """
    def svg(self, /) -> str | None:
        """
        The picture, where there is something to draw.
        """
    def table(self, /, name: str) -> Table:
        """
        The table of that name.
        """
    def tables(self, /) -> list[Table]:
        """
        The tables, in order; those of flows and of series come last.
        """
    def text(self, /) -> str:
        """
        What the program prints.
        """

@final
class Study:
    """
    A study whose points the caller runs.
    """
    def __len__(self, /) -> int: ...
    def __new__(cls, /, places: Incomplete, catalog: Catalog | None = None) -> Study: ...
    def describe(self, /, point: SupportsIndex) -> str:
        """
        What people call a point.
        """
    def known(self, /) -> int:
        """
        How many points are known.
        """
    def missing(self, /) -> list[int]:
        """
        The points that are not known yet, in order.
        """
    def outcome(self, /) -> Outcome:
        """
        What the study came to.
        """
    def take(self, /, point: SupportsIndex, text: str) -> None:
        """
        Takes the result that `work` made of a point.
        """

@final
class Table:
    """
    A table: columns with names and units.
    """
    def __arrow_c_stream__(self, /, requested_schema: Any | None = None) -> CapsuleType:
        """
        The Arrow stream of its rows.
        """
    def __len__(self, /) -> int: ...
    @property
    def columns(self, /) -> list[str]:
        """
        The names of its columns.
        """
    def json(self, /) -> str:
        """
        Its rows as JSON text: a list of objects.
        """
    @property
    def name(self, /) -> str:
        """
        Its name; empty where it has none.
        """
    def text(self, /) -> str:
        """
        What people read.
        """
    @property
    def units(self, /) -> list[str | None]:
        """
        The units of its columns, where the names do not say them.
        """

def bench(tool: str, cluster: Cluster, options: SupportsGetItem[int, str], job: Incomplete, devices: Incomplete, progress: Any | None = None) -> Outcome:
    """
    What a benchmark prints on a cluster.
    """

def command(words: SupportsGetItem[int, str]) -> Outcome:
    """
    What a command line of the program finds, without printing it.
    """

def explain(tool: str, cluster: Cluster, options: SupportsGetItem[int, str], job: Incomplete, devices: Incomplete, changes: bool, progress: Any | None = None) -> Outcome:
    """
    Where the time of one message goes.
    """

def main(program: SupportsGetItem[int, str], words: SupportsGetItem[int, str]) -> int:
    """
    Runs the command line of the program, which these words start again; gives its exit status.
    """

def rounds(cluster: Cluster, asked: Incomplete, rounds: Any) -> Outcome:
    """
    Proves and runs a program. `rounds` gives what all ranks do in a call of so many ranks and bytes.
    """

def run(lab: str | PathLike[str], settings: Incomplete, catalog: Catalog | None = None) -> Outcome:
    """
    What happens in an experiment file.
    """

def sweep(places: Incomplete, jobs: SupportsIndex, catalog: Catalog | None = None, progress: Any | None = None) -> Outcome:
    """
    Runs a study on the cores of this machine; an interrupt finishes the points that run.
    """

def validate(tables: SupportsGetItem[int, str], given: Incomplete, catalog: Catalog | None = None, progress: Any | None = None) -> Outcome:
    """
    How far predictions are from measurements.
    """

def work(study: str | PathLike[str], folder: str | PathLike[str] | None, point: SupportsIndex) -> str:
    """
    Runs a point of a study, in whatever process; gives the text that [`Study::take`] takes.
    """

def __getattr__(name: str) -> Incomplete: ...
