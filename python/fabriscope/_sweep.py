"""Studies: many points on one machine, on any executor, or on a Dask cluster."""

from __future__ import annotations

import os
from concurrent.futures import Executor, as_completed
from pathlib import Path
from typing import Any

from fabriscope import _fabriscope
from fabriscope._cluster import Catalog
from fabriscope._progress import Progress, heard
from fabriscope._results import Outcome


def sweep(
    study: str | os.PathLike[str],
    *,
    folder: str | os.PathLike[str] | None = None,
    cache: str | os.PathLike[str] | None = None,
    executor: Executor | Any | None = None,
    jobs: int = 0,
    catalog: Catalog | None = None,
    progress: Progress = None,
) -> Outcome:
    """Run every point of a study, and write a Parquet data set as it goes.

    Each result is kept under a hash of all that it depends on: a study that was ended at any moment goes on where it was, and one
    that was changed runs what is new. A point that cannot be run is a row with the reason in its column ``error``.

    Parameters
    ----------
    study
        A TOML file; ``fabriscope schema study`` describes it.
    folder
        Where the data set goes; the name of the study with ``.parquet`` by default.
    cache
        Where results are kept, which studies may share; inside of the data set by default.
    executor
        Who runs the points: any ``concurrent.futures.Executor`` of processes, or a ``dask.distributed.Client``. Without one, all
        cores of this machine, which share fabrics between points. Workers see the same files under the same paths.
    jobs
        Cores to use without an executor; 0 for all.

    Returns
    -------
    Outcome
        Its table ``groups`` counts points by tool and cluster.

    Raises
    ------
    FabriscopeError
        The study cannot be read, files cannot be written, or a worker has another version or other files.

    Examples
    --------
    Two workers of Dask::

        from dask.distributed import Client, LocalCluster
        with LocalCluster(n_workers=2, threads_per_worker=1) as cluster, Client(cluster) as client:
            fabriscope.sweep("study.toml", executor=client)
    """
    places = {
        "study": Path(study),
        "folder": None if folder is None else Path(folder),
        "cache": None if cache is None else Path(cache),
    }
    inner = None if catalog is None else catalog._inner
    with heard(progress, "points") as hears:
        if executor is None:
            return Outcome(_fabriscope.sweep(places, jobs, inner, hears))
        return _over(_fabriscope.Study(places, inner), Path(study).resolve(), catalog, _as_executor(executor), hears)


def _as_executor(given: Any) -> Executor:
    """A Dask client has an executor of its own; its workers do a task again where one of them dies."""
    return given.get_executor(pure=False) if hasattr(given, "get_executor") else given


def _over(study: Any, path: Path, catalog: Catalog | None, executor: Executor, hears: Any) -> Outcome:
    folder = None if catalog is None or catalog.folder is None else catalog.folder.resolve()
    if hears:
        hears(study.known(), len(study))
    futures = {executor.submit(work, path, folder, point): point for point in study.missing()}
    try:
        for future in as_completed(futures):
            study.take(futures[future], future.result())
            if hears:
                hears(study.known(), len(study))
    except BaseException:
        # What is done is kept; what has not begun need not.
        for future in futures:
            future.cancel()
        raise
    return Outcome(study.outcome())


def work(study: Path, folder: Path | None, point: int) -> str:
    """Run a point of a study in this process; gives the text that the caller keeps."""
    return _fabriscope.work(study, folder, point)
