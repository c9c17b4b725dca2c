"""Results are those of the program, byte for byte, and data frames read them."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import urllib.request

import fabriscope as fs
import pytest


def test_predictions_are_those_of_the_program(program):
    for tool, options in [("osu_latency", ["-m", "1:64"]), ("ib_write_bw", ["-s", "4096", "-n", "50"]), ("osu_allreduce", ["-m", "8:64"])]:
        job = {"nodes": 2, "ranks_per_node": 2} if tool == "osu_allreduce" else {}
        words = ["--nodes", "2", "--ppn", "2"] if job else []
        outcome = fs.bench(tool, *options, on="ri2", **job)
        assert outcome.text == program("bench", tool, "--on", "ri2", *words, *options).stdout
        assert outcome.json() == program("bench", tool, "--on", "ri2", *words, *options, "--json").stdout
        assert outcome.csv() == program("bench", tool, "--on", "ri2", *words, *options, "--csv").stdout


def test_other_questions_are_those_of_the_program(program):
    assert fs.explain("ib_write_lat", on="ri2", size=64).text == program("explain", "ib_write_lat", "--on", "ri2", "-s", "64").stdout
    assert fs.validate("ri2-ib_read_lat", points=False).text == program("validate", "ri2-ib_read_lat").stdout
    assert fs.run("labs/incast-8.toml").json() == program("run", "labs/incast-8.toml", "--json").stdout
    assert fs.topo("lab-16").text == program("topo", "lab-16").stdout
    assert fs.clusters().text == program("clusters").stdout
    words = ["--tool", "osu_latency", "--tool", "ib_write_lat", "--nodes", "2", "--ppn", "1"]
    expected = fs.expect("ri2", tools=["osu_latency", "ib_write_lat"], nodes=2, ranks_per_node=1)
    assert expected.text == program("expect", "ri2", *words).stdout
    assert set(expected.table["tool"]) == {"osu_latency", "ib_write_lat"}


def test_frames_have_the_same_cells_and_types():
    import duckdb
    import pyarrow

    points = fs.bench("osu_latency", "-m 1:16", on="ri2").tables["points"]
    rows = points.rows()
    arrow = pyarrow.table(points)
    assert arrow.schema.field("bytes").type == pyarrow.int64() and arrow.schema.field("value").type == pyarrow.float64()
    assert arrow.schema.field("bytes").metadata == {b"unit": b"B"}
    assert arrow.to_pylist() == rows
    assert points.to_polars().to_dicts() == rows
    assert points.to_pandas().to_dict("records") == rows
    assert duckdb.sql("select max(bytes), count(*) from points").fetchall() == [(16, 5)]
    assert len(fs.bench("osu_latency", "-m 1:16", on="ri2")._repr_html_()) > 100


def test_stages_add_up():
    outcome = fs.explain("ib_write_lat", on="ri2", size=64, changes=False)
    assert sum(outcome.tables["stages"]["ps"]) == outcome["total_ps"]


def test_errors_say_what_to_do(program):
    with pytest.raises(fs.RunError, match="nearest is `osu_latency`") as caught:
        fs.bench("osu_latenci", on="ri2")
    assert caught.value.help and "lists the tools" in caught.value.help
    with pytest.raises(fs.CatalogError) as caught:
        fs.Cluster({"base": "ri2", "linkk": "edr"})
    assert "did you mean `link`" in str(caught.value)
    with pytest.raises(fs.CatalogError):
        fs.Cluster("no-such-cluster")
    with pytest.raises(fs.TableError):
        fs.validate("no-such-table")
    with pytest.raises(fs.FabriscopeError):
        fs.topo("lab-16", "--pattern", "nonsense")
    with pytest.raises(TypeError):
        fs.Cluster({"base": object()})
    failed = program("bench", "osu_latenci", "--on", "ri2", check=False)
    assert failed.returncode == 2 and "nearest is" in failed.stderr


def test_clusters_from_everywhere(tmp_path):
    assert fs.Cluster("ri2").nodes == 2 and fs.Cluster("lab-1024", nodes=64).nodes == 64
    text = 'base = "ri2"\nname = "mine"\nmtu = "2048 B"\n'
    (tmp_path / "mine.toml").write_text(text)
    own = [fs.Cluster(tmp_path / "mine.toml"), fs.Cluster(text), fs.Cluster({"base": "ri2", "name": "mine", "mtu": "2048 B"})]
    assert {cluster.name for cluster in own} == {"mine"}
    assert len({fs.bench("osu_bw", "-m 65536:65536", on=cluster).text for cluster in own}) == 1
    fabric = fs.Cluster.imported("fabrics/dgx-ndr.ibnetdiscover")
    assert fabric.nodes > 2
    node = fs.Cluster.imported("fabrics/nodes/hgx-h100.nccl.xml")
    assert "busbw" in fs.bench("all_reduce_perf", "-b 1M -e 1M", on=node).text


def test_parts_can_be_looked_into():
    catalog = fs.Catalog()
    assert "nics" in catalog.kinds() and "connectx-5" in catalog.names("nics")
    assert json.dumps(catalog.part("nics", "connectx-5")).count("fitted") > 0
    with pytest.raises(fs.CatalogError, match="connectx"):
        catalog.part("nics", "conectx-5")


def test_progress_is_heard():
    heard = []
    fs.bench("osu_latency", "-m 1:64", on="ri2", progress=lambda done, all: heard.append((done, all)))
    assert heard[-1] == (7, 7) and heard == sorted(heard)
    with pytest.raises(ZeroDivisionError):
        fs.bench("osu_latency", "-m 1:64", on="ri2", progress=lambda done, all: 1 / 0)


def test_an_interrupt_ends_a_long_call():
    code = (
        "import fabriscope as fs, threading, os, signal, time\n"
        "threading.Timer(1, lambda: os.kill(os.getpid(), signal.SIGINT)).start()\n"
        "try:\n    fs.bench('osu_alltoall', '-m 1048576:1048576', on='lab-1024', nodes=256, ranks_per_node=1)\n"
        "except KeyboardInterrupt:\n    print('interrupted', flush=True)\n    os._exit(0)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert done.stdout == "interrupted\n", done.stderr


def test_the_console_script_serves_the_page_with_processes_of_its_own():
    server = subprocess.Popen(
        [sys.executable, "-m", "fabriscope", "serve", "--address", "127.0.0.1:0"], stdout=subprocess.PIPE, text=True
    )
    try:
        address = server.stdout.readline().strip()
        question = f"{address}answer?cluster=ri2&tool=ib_write_lat&options=-s+64+-n+50"
        with urllib.request.urlopen(question, timeout=60) as reply:
            answer = json.load(reply)["answer"]
    finally:
        server.send_signal(signal.SIGINT)
        assert server.wait(timeout=10) == 0
    assert answer["text"] == fs.bench("ib_write_lat", "-s", "64", "-n", "50", on="ri2").text
