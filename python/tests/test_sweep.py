"""Studies are done once, whatever ends the process, and give the same bytes everywhere."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

import fabriscope as fs
import pytest

STUDY = """
title = "a study of the tests"
[[bench]]
tools = ["osu_latency", "osu_bw"]
clusters = ["ri2", "betzy-hdr", "csd3-opa"]
sizes = ["8 B", "64 B", "1 KiB", "4 KiB", "16 KiB", "64 KiB"]
[[bench]]
tools = ["ib_write_lat"]
clusters = ["ri2"]
sizes = ["64 B"]
[[bench.change]]
part = "nics/connectx-5"
number = "tx_latency"
values = ["210 ns", "420 ns"]
[[bench]]
tools = ["osu_latency"]
clusters = ["no-such-cluster"]
sizes = ["8 B"]
[[lab]]
files = ["incast.toml"]
seeds = [1, 2]
[[lab.set]]
key = "workload.incast.size"
name = "incast_size"
values = ["64 KiB", "256 KiB"]
"""
LAB = 'cluster = "lab-16"\n[workload.incast]\nsenders = 4\nsize = "1 MiB"\n'


@pytest.fixture
def study(tmp_path: Path) -> Path:
    (tmp_path / "incast.toml").write_text(LAB)
    (tmp_path / "study.toml").write_text(STUDY)
    return tmp_path / "study.toml"


def bytes_of(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in sorted(folder.glob("*.parquet"))}


def test_a_data_set_has_every_point_once(study, tmp_path):
    import pandas

    outcome = fs.sweep(study, folder=tmp_path / "out")
    assert (outcome["points"], outcome["done"], outcome["refused"], outcome["before"]) == (43, 43, 1, 0)
    frame = pandas.read_parquet(tmp_path / "out")
    assert set(frame["point"]) == set(range(43)) and not frame.duplicated(["point", "row", "metric"]).any()
    assert "no-such-cluster" in frame[frame["error"].notna()]["error"].iloc[0]
    latency = frame[(frame["tool"] == "osu_latency") & (frame["cluster"] == "ri2") & (frame["size"] == "8 B")]
    assert latency["value"].iloc[0] == fs.bench("osu_latency", "-m 8:8", on="ri2")["points"][0]["value"]
    slower = frame[(frame["tool"] == "ib_write_lat") & (frame["metric"] == "latency")].set_index("tx_latency")["value"]
    assert slower["420 ns"] - slower["210 ns"] == pytest.approx(0.21)
    assert set(frame[frame["lab"].notna()]["incast_size"]) == {"64 KiB", "256 KiB"}


def test_what_is_known_is_not_run_again(study, tmp_path):
    fs.sweep(study, folder=tmp_path / "one", cache=tmp_path / "kept")
    again = fs.sweep(study, folder=tmp_path / "two", cache=tmp_path / "kept")
    assert again["before"] == again["points"] == 43
    assert bytes_of(tmp_path / "one") == bytes_of(tmp_path / "two")
    # One more value is one more run for each pair of tool and cluster.
    study.write_text(STUDY.replace('"64 KiB"]\n[[bench]]', '"64 KiB", "128 KiB"]\n[[bench]]', 1))
    more = fs.sweep(study, folder=tmp_path / "one", cache=tmp_path / "kept")
    assert (more["points"], more["before"]) == (49, 43)


def test_other_processes_give_the_same_bytes(study, tmp_path):
    fs.sweep(study, folder=tmp_path / "here")
    with ProcessPoolExecutor(2) as executor:
        fs.sweep(study, folder=tmp_path / "there", executor=executor)
    assert bytes_of(tmp_path / "here") == bytes_of(tmp_path / "there")


def killed(study: Path, folder: Path, times: int, seconds: tuple[float, float], draw: random.Random) -> int:
    """Runs a study that is killed so many times; gives how often it was found running."""
    caught = 0
    for _ in range(times):
        run = subprocess.Popen([sys.executable, "-m", "fabriscope", "sweep", str(study), "--data", str(folder)], stdout=subprocess.DEVNULL)
        time.sleep(draw.uniform(*seconds))
        caught += run.poll() is None
        run.kill()
        run.wait()
    subprocess.run([sys.executable, "-m", "fabriscope", "sweep", str(study), "--data", str(folder)], stdout=subprocess.DEVNULL, check=True)
    return caught


def test_a_killed_study_goes_on_with_the_same_bytes(study, tmp_path):
    fs.sweep(study, folder=tmp_path / "whole")
    killed(study, tmp_path / "pieces", 3, (0.1, 0.4), random.Random(7))
    assert bytes_of(tmp_path / "whole") == bytes_of(tmp_path / "pieces")


@pytest.mark.long
def test_a_thousand_points_killed_three_times(tmp_path):
    study = Path("labs/studies/eight-clusters.toml").resolve()
    whole = fs.sweep(study, folder=tmp_path / "whole")
    assert (whole["points"], whole["done"], whole["refused"]) == (1000, 1000, 0)
    caught = killed(study, tmp_path / "pieces", 3, (1.0, 3.0), random.Random(7))
    assert caught == 3
    assert bytes_of(tmp_path / "whole") == bytes_of(tmp_path / "pieces")


@pytest.mark.long
def test_dask_workers_may_die(tmp_path):
    distributed = pytest.importorskip("distributed")
    study = Path("labs/studies/eight-clusters.toml").resolve()
    fs.sweep(study, folder=tmp_path / "here")
    died = []

    def kill_one(done: int, all: int) -> None:
        if not died and done > all // 3:
            died.append(sorted(info["pid"] for info in client.run(lambda: {"pid": os.getpid()}).values())[0])
            os.kill(died[0], signal.SIGKILL)

    with distributed.LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None) as cluster, distributed.Client(cluster) as client:
        outcome = fs.sweep(study, folder=tmp_path / "there", executor=client, progress=kill_one)
    assert died and outcome["done"] == 1000
    assert bytes_of(tmp_path / "here") == bytes_of(tmp_path / "there")


def test_a_study_that_is_wrong_says_so(tmp_path):
    for text, told in [
        ("", "nothing to run"),
        ('[[bench]]\ntools = ["osu_latenci"]\nclusters = ["ri2"]\n', "nearest is"),
        ('[[bench]]\ntool = ["osu_latency"]\nclusters = ["ri2"]\n', "did you mean"),
        ('[[bench]]\ntools = ["osu_latency"]\nclusters = ["ri2"]\nsizes = ["64 KB"]\n', "KB"),
        ('[[lab]]\nfiles = ["none.toml"]\n', "no such lab"),
        ("[[bench]\n", "TOML"),
    ]:
        study = tmp_path / "wrong.toml"
        study.write_text(text)
        with pytest.raises(fs.FabriscopeError, match=told):
            fs.sweep(study, folder=tmp_path / "out")
    with pytest.raises(fs.FabriscopeError, match="cannot be read"):
        fs.sweep(tmp_path / "nowhere.toml")
