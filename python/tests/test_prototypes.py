"""Congestion controls and choices of paths as Python objects: told the same, they do the same as those of the library."""

from __future__ import annotations

import subprocess
import sys

import fabriscope as fs
import pytest
from conftest import ROOT


class Dctcp(fs.CongestionControl):
    """DCTCP (Alizadeh et al., SIGCOMM 2010), as the library has it."""

    def __init__(self, line):
        self.line, self.g = line, 1 / 16
        self.size = float(line.product)
        self.alpha, self.bytes, self.marked, self.left, self.calm = 1.0, 0, 0, self.size, 0
        self.rate = line.rate

    @property
    def window(self):
        return min(max(int(self.size), self.line.mtu), 4 * self.line.product)

    def acknowledged(self, feedback):
        self.bytes += feedback.bytes
        self.marked += feedback.bytes if feedback.marked else 0
        self.left -= feedback.bytes
        if not feedback.marked:
            self.size += self.line.mtu * feedback.bytes / self.size
        if self.left <= 0:
            self.alpha = (1 - self.g) * self.alpha + self.g * (self.marked / max(self.bytes, 1))
            if self.marked:
                self.size *= 1 - self.alpha / 2
            self.size = min(max(self.size, float(self.line.mtu)), 4.0 * self.line.product)
            self.bytes, self.marked, self.left = 0, 0, self.size

    def lost(self, now, how):
        if now >= self.calm:
            self.size = float(self.line.mtu) if how == "timeout" else self.size / 2
            self.calm = now + self.line.base_rtt


LAB = """
title = "An incast"
[cluster]
base = "lab-roce-128"
name = "lab-roce-32"
nodes = 32
topology.leaf_spine = {{ leaves = 4, down = 8, spines = 8 }}
[workload.compare]
patterns = ["incast", "permutation"]
senders = 8
size = "256 kB"
schemes = [{{ congestion = "{control}", flow_control = "lossy" }}]
"""


def lab(folder, control="dctcp"):
    file = folder / f"{control}.toml"
    file.write_text(LAB.format(control=control))
    return file


def test_dctcp_in_python_does_what_dctcp_of_the_library_does(tmp_path):
    catalog = fs.Catalog(congestion={"mine": Dctcp})
    own = fs.run(lab(tmp_path, "mine"), catalog=catalog)["runs"]
    library = fs.run(lab(tmp_path))["runs"]
    assert library[0]["marks"] > 100
    for row in own:
        assert row.pop("congestion") == "mine"
    for row in library:
        assert row.pop("congestion") == "dctcp"
    assert own == library


def test_a_rate_and_a_wake_hold_senders_back():
    class Late(fs.CongestionControl):
        """A tenth of the rate for 100 us, then all of it."""

        def __init__(self, line):
            self.full, self.rate, self.wakes = line.rate, line.rate / 10, 100_000_000

        def wake(self, now):
            assert now >= 100_000_000
            self.rate, self.wakes = self.full, None

    catalog = fs.Catalog(congestion={"late": Late})
    cluster = fs.Cluster({"base": "lab-roce-128", "name": "late", "congestion": "late"}, catalog=catalog)
    went = fs.bench("ib_write_bw", "-s 1048576 -n 5 -t 1", on=cluster)["points"][0]["value"]
    usual = fs.bench("ib_write_bw", "-s 1048576 -n 5 -t 1", on="lab-roce-128")["points"][0]["value"]
    assert went < 0.7 * usual


def test_a_choice_of_paths_is_asked_and_obeyed(tmp_path):
    seen = []

    def usual(choice):
        seen.append((choice.switch, len(choice.options), len(choice.queues)))
        return choice.usual

    plain = fs.run(lab(tmp_path))["runs"]
    assert fs.run(lab(tmp_path), routing=usual)["runs"] == plain
    assert len(seen) > 1000 and max(options for _, options, _ in seen) > 1 and all(n == m for _, n, m in seen)
    # All packets up by the first link: a permutation shares it.
    narrow = fs.run(lab(tmp_path), routing=lambda choice: 0)["runs"]
    assert narrow[1]["last_ps"] > 1.5 * plain[1]["last_ps"]
    # A cluster keeps its choice.
    cluster = fs.Cluster("lab-roce-128").routed(usual)
    seen.clear()
    fs.bench("ib_write_lat", "-s 8 -n 5", on=cluster)
    assert seen


@pytest.mark.parametrize(
    ("make", "message"),
    [
        ({"acknowledged": lambda self, feedback: 1 / 0}, "division by zero"),
        ({"window": float("nan")}, "window = nan"),
        ({"rate": 0}, "rate = 0"),
        ({"rate": "fast"}, "rate = fast"),
        ({"__init__": lambda self: None}, "positional argument"),
    ],
)
def test_the_first_exception_of_a_control_ends_the_run(tmp_path, make, message):
    catalog = fs.Catalog(congestion={"bad": type("Bad", (fs.CongestionControl,), make)})
    with pytest.raises((ZeroDivisionError, ValueError, TypeError), match=message):
        fs.run(lab(tmp_path, "bad"), catalog=catalog)
    # Nothing of it stays behind.
    assert fs.run(lab(tmp_path), catalog=catalog)["runs"]


def test_what_cannot_be_is_said(tmp_path):
    with pytest.raises(ValueError, match='echo = "no"'):
        fs.Catalog(congestion={"bad": type("Bad", (fs.CongestionControl,), {"echo": "no"})})
    with pytest.raises(ValueError, match="echo_interval"):
        fs.Catalog(congestion={"bad": type("Bad", (fs.CongestionControl,), {"echo_interval": "soon"})})
    with pytest.raises(fs.CatalogError, match="dctpc"):
        fs.Catalog(congestion={"bad": type("Bad", (fs.CongestionControl,), {"base": "dctpc"})})
    with pytest.raises(ValueError, match="option 99"):
        fs.run(lab(tmp_path), routing=lambda choice: 99)
    study = tmp_path / "study.toml"
    study.write_text('title = "s"\n[[bench]]\ntool = "ib_write_lat"\ncluster = ["ri2"]\n')
    with pytest.raises(fs.RunError, match="prototype"):
        fs.sweep(study, catalog=fs.Catalog(congestion={"mine": Dctcp}))
    with pytest.raises(fs.RunError, match="prototype of a routing"):
        cluster = fs.Cluster("lab-16").routed(lambda choice: choice.usual)
        fs.bench("osu_allreduce", "-m 8:8", on=cluster, nodes=16, ranks_per_node=1, engine="flow")


INTERRUPTED = """
import signal, threading, time
import fabriscope as fs
signal.setitimer(signal.ITIMER_REAL, 1.0)
signal.signal(signal.SIGALRM, lambda *_: signal.raise_signal(signal.SIGINT))
started = time.monotonic()
try:
    fs.bench("osu_alltoall", "-m 1048576:1048576 -i 10000", on="lab-1024", nodes=64, ranks_per_node=4)
except KeyboardInterrupt:
    print("interrupted", time.monotonic() - started < 20, len([t for t in threading.enumerate() if t.is_alive()]))
"""


def test_an_interrupt_ends_a_run_within_its_engine():
    ran = subprocess.run([sys.executable, "-c", INTERRUPTED], cwd=ROOT, capture_output=True, text=True, timeout=120)
    assert ran.stdout == "interrupted True 1\n", ran.stderr


def test_a_cluster_at_hand_is_taken_everywhere(tmp_path):
    cluster = fs.Cluster({"base": "ri2", "name": "ri2-fdr", "link": "fdr"})
    assert fs.expect(cluster, tools=["ib_write_lat"]).table["tool"] == ["ib_write_lat"]
    assert fs.topo(cluster).text == fs.topo({"base": "ri2", "name": "ri2-fdr", "link": "fdr"}).text
    log = tmp_path / "lat.log"
    log.write_text(fs.bench("osu_latency", on=cluster).text)
    assert fs.diagnose(log, on=cluster).good
    assert fs.validate(measured=log, on=cluster)
    page = fs.report(cluster, output=tmp_path / "report.html")
    assert "ri2-fdr" in page.read_text()
