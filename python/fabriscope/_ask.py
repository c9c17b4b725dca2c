"""The questions: what a benchmark prints, where time goes, how far predictions are from measurements."""

from __future__ import annotations

import os
import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from fabriscope import _fabriscope
from fabriscope._cluster import Catalog, Cluster, command, named, resolved, with_clusters
from fabriscope._prototypes import Chooses
from fabriscope._progress import Progress, heard
from fabriscope._results import Outcome

#: What stands for a cluster: one at hand, a name of the catalogue, a TOML file, or a mapping.
On = Cluster | str | os.PathLike[str] | Mapping[str, Any]


def bench(
    tool: str,
    *options: str | int,
    on: On,
    nodes: int | None = None,
    ranks_per_node: int | None = None,
    placement: str | None = None,
    hosts: str | None = None,
    transport: str | None = None,
    bind: str | None = None,
    intra_node: str | None = None,
    gpu_aware: bool | None = None,
    gpudirect: bool | None = None,
    noise: str | None = None,
    engine: str | None = None,
    threads: int | None = None,
    seed: int | None = None,
    catalog: Catalog | None = None,
    progress: Progress = None,
) -> Outcome:
    """Run a benchmark on a cluster.

    Parameters
    ----------
    tool
        Its name: ``osu_latency``, ``ib_write_bw``, ``all_reduce_perf`` … (:func:`tools` lists them).
    options
        The tool's own options, as ``"-m", "8:64"`` or ``"-m 8:64"``.
    on
        The cluster.
    nodes, ranks_per_node
        The job of a collective benchmark; two nodes, and a rank for each core or GPU by default.
    placement
        Which nodes: ``same_leaf``, ``across`` or ``scattered``; as the cluster says by default.
    hosts
        The hosts themselves, of an imported fabric: ``gpu[01-04],gpu20``.
    transport
        What the OSU benchmarks run over: ``verbs`` or ``tcp``.
    bind, intra_node, gpu_aware, gpudirect
        Where ranks are within a node, and how the library moves bytes there.
    noise
        Interruptions of every core: ``1ms:10us`` is one every 1 ms that lasts 10 us.
    engine
        What carries collective benchmarks of MPI: ``packet``, ``flow`` or ``auto``.
    threads
        Cores for one run; the result does not depend on it.
    seed
        Of everything random; 1 by default.
    progress
        A function of what is done and all there is; True or False; a line on a terminal by default.

    Returns
    -------
    Outcome
        Its text is what the tool prints; its table ``points`` has size, metric, unit and value.

    Raises
    ------
    RunError
        There is no such tool, or it has no such option; the message says what there is.
    CatalogError
        There is no such cluster.

    Examples
    --------
    >>> bench("osu_latency", "-m", "8:8", on="ri2")["points"][0]["metric"]
    'latency'
    """
    cluster = resolved(on, catalog)
    job = {
        "nodes": nodes,
        "ranks_per_node": ranks_per_node,
        "placement": placement,
        "hosts": hosts,
        "transport": transport,
        "noise": noise,
        "engine": engine,
        "threads": threads,
        "seed": seed,
    }
    devices = _devices(bind, intra_node, gpu_aware, gpudirect)
    with heard(progress, tool) as hears:
        return Outcome(_fabriscope.bench(tool, cluster._inner, words_of(options), job, devices, hears))


def run(
    lab: str | os.PathLike[str],
    *,
    seed: int | None = None,
    threads: int | None = None,
    step: str | None = None,
    routing: Chooses | None = None,
    catalog: Catalog | None = None,
) -> Outcome:
    """Run an experiment file.

    Parameters
    ----------
    lab
        A TOML file; ``fabriscope schema lab`` describes it.
    seed
        Of everything random; as the file says by default.
    threads
        Cores for one run; the result does not depend on it.
    step
        Looks at queues and rates at every step of this length, such as ``"1us"``: the table ``series``.
    routing
        Chooses among the ways of the routing of the lab's cluster (:meth:`Cluster.routed`); schemes with a routing of their own keep it.
    catalog
        Where clusters and parts come from, congestion controls of your own among them.

    Returns
    -------
    Outcome
        The table ``flows`` of a lab of flows has a row for each flow.

    Raises
    ------
    CatalogError
        A fault in the file, with its line.
    RunError
        What the engine does not do.
    """
    settings = {"seed": seed, "threads": threads, "step": step, "routing": routing}
    inner = None if catalog is None else catalog._inner
    return Outcome(_fabriscope.run(Path(lab), settings, inner))


def explain(
    tool: str,
    *options: str | int,
    on: On,
    size: int | None = None,
    nodes: int | None = None,
    ranks_per_node: int | None = None,
    bind: str | None = None,
    intra_node: str | None = None,
    gpu_aware: bool | None = None,
    gpudirect: bool | None = None,
    changes: bool = True,
    seed: int | None = None,
    catalog: Catalog | None = None,
    progress: Progress = None,
) -> Outcome:
    """Show where the time of one message or of a whole operation goes, the bottleneck, and what one change would save.

    Parameters
    ----------
    size
        Of the message, in bytes; 8 by default.
    changes
        Whether each thing is changed in a run of its own.

    Returns
    -------
    Outcome
        Its table ``stages`` has the time of each stage in ps; they add up to the latency exactly.
    """
    cluster = resolved(on, catalog)
    job = {"size": size, "nodes": nodes, "ranks_per_node": ranks_per_node, "seed": seed}
    devices = _devices(bind, intra_node, gpu_aware, gpudirect)
    with heard(progress, "changing one thing at a time") as hears:
        return Outcome(_fabriscope.explain(tool, cluster._inner, words_of(options), job, devices, changes, hears))


def validate(
    *tables: str,
    measured: str | os.PathLike[str] | None = None,
    settings: str | os.PathLike[str] | None = None,
    on: On | None = None,
    long: bool = False,
    points: bool = True,
    seed: int | None = None,
    catalog: Catalog | None = None,
    progress: Progress = None,
) -> Outcome:
    """Compare predictions with published measurements, or with your own.

    Parameters
    ----------
    tables
        The published tables; all by default.
    measured
        A file of your own: CSV, or what a tool printed.
    settings
        A TOML file with what rows leave open, table by table.
    on
        The cluster for every row, instead of the one that it names.
    long
        Also rows that take minutes.

    Raises
    ------
    TableError
        There is no such table, or a file cannot be read.
    """
    name, own = named(on, catalog)
    given = {
        "measured": None if measured is None else Path(measured),
        "settings": None if settings is None else Path(settings),
        "on": name,
        "long": long,
        "points": points,
        "seed": seed,
    }
    with heard(progress, "validating") as hears:
        return Outcome(_fabriscope.validate(list(tables), given, with_clusters(catalog, own), hears))


def diagnose(
    measured: str | os.PathLike[str],
    *,
    on: On | None = None,
    before: str | os.PathLike[str] | None = None,
    settings: str | os.PathLike[str] | None = None,
    seed: int | None = None,
    catalog: Catalog | None = None,
) -> Outcome:
    """Say whether measurements are normal for a cluster, and what is most probably wrong if they are not.

    Parameters
    ----------
    measured
        A CSV file, or what a tool printed.
    on
        The cluster; the one that the rows name by default.
    before
        An earlier run of the same: what changed since then.
    settings
        A TOML file with what rows leave open.

    Returns
    -------
    Outcome
        Its ``good`` is whether all is normal.
    """
    pair = ["--before", os.fspath(before), "--after", os.fspath(measured)] if before else [os.fspath(measured)]
    name, own = named(on, catalog)
    return Outcome(command("diagnose", *pair, *_options(on=name, settings=settings, seed=seed), catalog=catalog, on=own))


def calibrate(
    *measured: str | os.PathLike[str],
    on: str | os.PathLike[str],
    settings: str | os.PathLike[str] | None = None,
    seed: int | None = None,
    catalog: Catalog | None = None,
) -> Outcome:
    """Fit at most 14 numbers of a cluster to its measurements.

    Returns
    -------
    Outcome
        Its tables have the numbers with intervals, and errors before, after and held out; its ``draft`` is the cluster as a TOML file,
        which :class:`Cluster` takes.
    """
    files = [os.fspath(file) for file in measured]
    return Outcome(command("calibrate", *files, *_options(on=on, settings=settings, seed=seed), catalog=catalog))


def expect(
    cluster: On,
    *,
    tools: Sequence[str] = (),
    nodes: int | None = None,
    ranks_per_node: int | None = None,
    seed: int | None = None,
    catalog: Catalog | None = None,
) -> Outcome:
    """The acceptance table of a cluster: what the usual tools should show, bounds, intervals, and what passes.

    Parameters
    ----------
    cluster
        The cluster; a name or a file with ``:nodes`` if another number is wanted.
    tools
        Only these; all of the table by default.
    nodes, ranks_per_node
        The job of collective operations; by default 4 nodes with 4 ranks each, or a rank for each GPU.

    Examples
    --------
    >>> expect("ri2", tools=["ib_write_lat"]).table["tool"]
    ['ib_write_lat']
    """
    words = [word for tool in tools for word in ("--tool", tool)]
    job = _options(nodes=nodes, ppn=ranks_per_node, seed=seed)
    name, own = named(cluster, catalog)
    return Outcome(command("expect", str(name), *words, *job, catalog=catalog, on=own))


def report(
    *subjects: On,
    output: str | os.PathLike[str],
    prices: str | os.PathLike[str] | None = None,
    catalog: Catalog | None = None,
) -> Path:
    """Write one page about a cluster, several side by side, an experiment file or a study; gives its path."""
    pairs = [named(subject, catalog) for subject in subjects]
    own = [cluster for _, clusters in pairs for cluster in clusters]
    command("report", *(str(name) for name, _ in pairs), *_options(prices=prices, output=output), catalog=catalog, on=own)
    return Path(output)


def tools() -> Outcome:
    """The benchmarks that can be run."""
    return Outcome(command("bench"))


def clusters(*, catalog: Catalog | None = None) -> Outcome:
    """The clusters of the catalogue."""
    return Outcome(command("clusters", catalog=catalog))


def parts(*names: str, catalog: Catalog | None = None) -> Outcome:
    """The parts of the catalogue; of named ones each number with its value, basis and source."""
    return Outcome(command("parts", *names, catalog=catalog))


def topo(cluster: On, *options: str, catalog: Catalog | None = None) -> Outcome:
    """What a topology is worth: diameter, bisection, path diversity, worst load of a pattern, deadlock.

    Parameters
    ----------
    cluster
        A name of the catalogue or a TOML file, with ``:nodes`` if another number is wanted.
    options
        As of ``fabriscope topo``: ``"--pattern", "adversarial"``, ``"--routing", "minimal"``.
    """
    name, own = named(cluster, catalog)
    return Outcome(command("topo", str(name), *words_of(options), catalog=catalog, on=own))


def words_of(options: tuple[str | int, ...]) -> list[str]:
    """Options as words: ``"-m 8:64"`` is two."""
    return [word for option in options for word in (shlex.split(option) if isinstance(option, str) else [str(option)])]


def _devices(bind: str | None, intra_node: str | None, gpu_aware: bool | None, gpudirect: bool | None) -> dict[str, str | None]:
    def word(on: bool | None) -> str | None:
        return None if on is None else "on" if on else "off"

    return {"bind": bind, "intra_node": intra_node, "gpu_aware": word(gpu_aware), "gpudirect": word(gpudirect)}


def _options(**given: str | os.PathLike[str] | int | None) -> list[str]:
    return [word for name, value in given.items() if value is not None for word in (f"--{name}", str(value))]
