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
    def with_cluster(self, /, cluster: Cluster) -> Catalog:
        """
        The same with a cluster that comes before all others of its name.
        """
    def with_congestion(self, /, name: str, base: str, make: Any, needs: Incomplete) -> Catalog:
        """
        The same with a congestion control of that name, whose senders are what `make` gives; switches mark as `base` says.
        """

@final
class Choice:
    """
    Where a packet may go at a switch.
    """
    @property
    def destination(self, /) -> int:
        """
        The endpoint that the packet goes to.
        """
    @property
    def entropy(self, /) -> int:
        """
        What sets flows apart, or packets where they are spread one by one.
        """
    @property
    def input(self, /) -> int:
        """
        The link that it came in by.
        """
    @property
    def now(self, /) -> int:
        """
        When it came, in ps.
        """
    @property
    def options(self, /) -> list[tuple[int, int]]:
        """
        Where it may go: link and virtual lane.
        """
    @property
    def queues(self, /) -> list[int]:
        """
        Bytes that wait for the link of each of them.
        """
    @property
    def switch(self, /) -> int:
        """
        The number of the switch.
        """
    @property
    def usual(self, /) -> int:
        """
        The place of what the routing underneath would take.
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
    @property
    def catalog(self, /) -> Catalog:
        """
        The catalogue that it was made from.
        """
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
    def routed(self, /, choose: Any) -> Cluster:
        """
        The same with packets that go where `choose` says, among the ways of its routing.
        """
    @property
    def title(self, /) -> str:
        """
        What it is, in a line.
        """

@final
class Feedback:
    """
    What an acknowledgement tells.
    """
    @property
    def bytes(self, /) -> int:
        """
        Bytes that it acknowledges for the first time, headers included.
        """
    @property
    def in_flight(self, /) -> int:
        """
        Bytes still on their way.
        """
    @property
    def links(self, /) -> list[tuple[int, int, int, int]]:
        """
        What the links of the path wrote into the packet, the first one first: time (ps), bytes sent, bytes waiting, rate (bit/s).
        """
    @property
    def marked(self, /) -> bool:
        """
        Whether a switch marked the packet.
        """
    @property
    def now(self, /) -> int:
        """
        When it came, in ps.
        """
    @property
    def rtt(self, /) -> int:
        """
        From when the packet left to now, in ps.
        """

@final
class Line:
    """
    What a congestion control knows of its path.
    """
    @property
    def base_rtt(self, /) -> int:
        """
        Round trip of a full packet in an idle network, in ps.
        """
    @property
    def mtu(self, /) -> int:
        """
        Payload of a full packet, in bytes.
        """
    @property
    def product(self, /) -> int:
        """
        Bytes on their way at full rate in an idle network.
        """
    @property
    def rate(self, /) -> int:
        """
        Rate of the adapter's link, in bit/s.
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

def command(words: SupportsGetItem[int, str], catalog: Catalog | None = None) -> Outcome:
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
