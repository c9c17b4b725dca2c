"""Clusters, and the catalogue of parts that they are made of."""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from fabriscope import _fabriscope
from fabriscope._errors import FabriscopeError
from fabriscope._prototypes import Chooses, CongestionControl, added


class Catalog:
    """Parts and clusters: those of the package, with a folder of your own over them.

    Parameters
    ----------
    folder
        A folder with ``nics/``, ``switches/``, ``clusters/`` … as in the catalogue; what is there replaces
        parts of the same name.
    congestion
        Congestion controls of your own by name (:class:`CongestionControl`); clusters and labs name them like those of the catalogue.

    Raises
    ------
    CatalogError
        A fault in a file of the folder.

    Examples
    --------
    >>> "ri2" in Catalog().names("clusters")
    True
    """

    def __init__(
        self,
        folder: str | os.PathLike[str] | None = None,
        *,
        congestion: Mapping[str, type[CongestionControl]] | None = None,
    ) -> None:
        self._inner = added(_fabriscope.Catalog(None if folder is None else Path(folder)), congestion)
        self.folder = None if folder is None else Path(folder)

    @staticmethod
    def kinds() -> list[str]:
        """The kinds of parts: ``links``, ``nics``, ``clusters`` …"""
        return _fabriscope.Catalog.kinds()

    def names(self, kind: str) -> list[str]:
        """The names of all parts of a kind, sorted."""
        return self._inner.names(kind)

    def part(self, kind: str, name: str) -> dict[str, Any]:
        """A part: every number with its value, its basis and its source.

        Raises
        ------
        CatalogError
            There is no such part; the message has the nearest names.

        Examples
        --------
        >>> Catalog().part("nics", "connectx-5")["title"]
        'Mellanox ConnectX-5 (EDR, 100GbE)'
        """
        return json.loads(self._inner.part(kind, name))

    def text(self, kind: str, name: str) -> str | None:
        """The TOML text of a part, where it has one."""
        return self._inner.text(kind, name)


class Cluster:
    """A cluster with all its parts.

    Parameters
    ----------
    source
        A name of the catalogue (``"ri2"``, ``"lumi:lumi-c"``, ``"lab-1024:64"``), a path of a TOML file, the text of
        one, or a mapping with the keys of one. Files of fabrics and nodes go through :meth:`imported`.
    nodes
        How many nodes, where it is not as the source says.
    catalog
        Where parts come from; those of the package by default.

    Raises
    ------
    CatalogError
        There is no such cluster or part, or the file has a fault; the message has the line and what to write.

    Examples
    --------
    >>> Cluster("ri2").nodes
    2
    >>> Cluster({"base": "ri2", "name": "ri2-slow", "link": "fdr"}).name
    'ri2-slow'
    """

    def __init__(
        self,
        source: str | os.PathLike[str] | Mapping[str, Any],
        *,
        nodes: int | None = None,
        catalog: Catalog | None = None,
    ) -> None:
        inner = None if catalog is None else catalog._inner
        if isinstance(source, Mapping):
            text = toml_of(source)
            self._inner = _fabriscope.Cluster("cluster", text=text, nodes=nodes, catalog=inner)
        elif isinstance(source, str) and "\n" in source:
            self._inner = _fabriscope.Cluster("cluster", text=source, nodes=nodes, catalog=inner)
        else:
            target = os.fspath(source)
            target = target if nodes is None else f"{target}:{nodes}"
            self._inner = _fabriscope.Cluster(target, catalog=inner)

    @classmethod
    def imported(
        cls,
        file: str | os.PathLike[str],
        *,
        node: str | None = None,
        hosts: str | None = None,
        catalog: Catalog | None = None,
    ) -> Cluster:
        """A cluster from a fabric that another tool described.

        Parameters
        ----------
        file
            The output of ibnetdiscover, a file of ibsim, ``opensm-subnet.lst``, ``topology.conf`` or ``topology.yaml``
            of Slurm, a cabling plan in dot, a topology of htsim, HPCC or SimAI; gzip or not. Of nodes: what
            ``lstopo --of xml`` or ``nvidia-smi topo -m`` prints, or a file of ``NCCL_TOPO_DUMP_FILE``; two such nodes
            are then wired as a cluster of the catalogue whose nodes have that adapter.
        node
            The node of the catalogue that the hosts are; found by their adapters where nothing is said.
        hosts
            The hosts that are its nodes: ``gpu[01-16],gpu20``; all with as many adapters as most by default.

        Raises
        ------
        FabriscopeError
            The file cannot be read, or no node of the catalogue fits.
        """
        path = Path(file).resolve()
        options = [*(["--node", node] if node else []), *(["--hosts", hosts] if hosts else [])]
        is_node = "host" in json.loads(command("import", str(path), catalog=catalog).json())
        with tempfile.TemporaryDirectory() as folder:
            if not is_node:
                draft = Path(folder) / f"{path.name.split('.')[0]}.toml"
                command("import", str(path), *options, "-o", str(draft), catalog=catalog)
                return cls(draft, catalog=catalog)
            name = f"{path.name.split('.')[0]}-imported"
            part = Path(folder) / "nodes" / f"{name}.toml"
            part.parent.mkdir()
            command("import", str(path), *options, "-o", str(part), catalog=catalog)
            # Two of them, wired as a cluster of the catalogue whose nodes have that adapter.
            own = Catalog(folder)
            return cls({"base": _with_adapter(own, name), "name": name, "nodes": 2, "node": {"part": name}}, catalog=own)

    def routed(self, choose: Chooses) -> Cluster:
        """The same with packets that go where a function of yours says.

        Parameters
        ----------
        choose
            Called with a :class:`Choice` for each packet at each switch, gives a place in its ``options``: the hops that the cluster's
            own routing could answer with, which is why what that one proves (no deadlock, the longest path) holds. With ``ecmp`` under it
            packets of a flow are expected in order; with ``spray`` or ``adaptive`` in any.

        Examples
        --------
        >>> def shortest_queue(choice):
        ...     return choice.queues.index(min(choice.queues))
        >>> Cluster("lab-roce-128").routed(shortest_queue).name
        'lab-roce-128'
        """
        cluster = Cluster.__new__(Cluster)
        cluster._inner = self._inner.routed(choose)
        return cluster

    @property
    def name(self) -> str:
        """Its name."""
        return self._inner.name

    @property
    def title(self) -> str:
        """What it is, in a line."""
        return self._inner.title

    @property
    def nodes(self) -> int:
        """How many nodes it has."""
        return self._inner.nodes

    @property
    def parts(self) -> dict[str, Any]:
        """All its parts, each number with value, basis and source."""
        return json.loads(self._inner.json())

    def __repr__(self) -> str:
        return repr(self._inner)


def _with_adapter(catalog: Catalog, node: str) -> str:
    """The first cluster by name of two nodes or more that have the adapter of a node."""
    adapter = (catalog.part("nodes", node).get("nics") or {}).get("part")
    for name in catalog.names("clusters"):
        groups = Cluster(name, catalog=catalog).parts["groups"]
        if len(groups) == 1 and groups[0]["node"]["nic"]["name"] == adapter and groups[0]["node"]["gpus"]:
            return name
    raise FabriscopeError(
        f"no cluster of the catalogue has nodes with the adapter of `{node}`",
        "write a cluster as a mapping, with link, switch and software, and node = {'part': ...}",
    )


def command(*words: str, catalog: Catalog | None = None, on: Sequence[Cluster] = ()) -> _fabriscope.Outcome:
    """What a command line finds on a catalogue and clusters at hand, as the binding has it."""
    return _fabriscope.command(["fabriscope", *words], with_clusters(catalog, on))


def with_clusters(catalog: Catalog | None, on: Sequence[Cluster]) -> _fabriscope.Catalog | None:
    """The catalogue of a question, as the binding has it, with clusters at hand; None is that of the package."""
    inner = None if catalog is None else catalog._inner
    for cluster in on:
        inner = (inner or cluster._inner.catalog).with_cluster(cluster._inner)
    return inner


def named(on: Cluster | str | os.PathLike[str] | Mapping[str, Any] | None, catalog: Catalog | None) -> tuple[str | None, list[Cluster]]:
    """What a command line calls the cluster that an argument means, and the cluster, where it is none of a name or a file."""
    if isinstance(on, Mapping):
        on = Cluster(on, catalog=catalog)
    if isinstance(on, Cluster):
        return on.name, [on]
    return None if on is None else os.fspath(on), []


def resolved(on: Cluster | str | os.PathLike[str] | Mapping[str, Any], catalog: Catalog | None) -> Cluster:
    """The cluster that an argument ``on`` means."""
    return on if isinstance(on, Cluster) else Cluster(on, catalog=catalog)


def toml_of(table: Mapping[str, Any]) -> str:
    """A mapping as TOML text, in one table: nested ones are written inline."""
    return "".join(f"{json.dumps(key)} = {_value(value, [str(key)])}\n" for key, value in table.items())


def _value(value: Any, path: Sequence[str]) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, (int, float)):
        return repr(value)
    if isinstance(value, str):
        return json.dumps(value)
    if isinstance(value, Mapping):
        return "{ " + ", ".join(f"{json.dumps(k)} = {_value(v, [*path, str(k)])}" for k, v in value.items()) + " }"
    if isinstance(value, Sequence):
        return "[" + ", ".join(_value(item, path) for item in value) + "]"
    where = ".".join(path)
    raise TypeError(f"{where}: {type(value).__name__} has no place in a cluster; use text, numbers, lists and mappings")
