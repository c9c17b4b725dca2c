"""Collectives of one's own are proved, then run; what is wrong is found before."""

from __future__ import annotations

import fabriscope as fs
import pytest
from fabriscope import Piece, Round, copy, reduce


def ring(rank, ranks, size):
    """An all-reduce in a ring, by blocks."""
    block = size // ranks
    at = lambda number: Piece("recv", (number % ranks) * block, block)  # noqa: E731
    left, right = (rank - 1) % ranks, (rank + 1) % ranks
    yield Round(before=[copy(Piece("send", 0, size), Piece("recv", 0, size))])
    for step in range(ranks - 1):
        came = Piece("scratch0", 0, block)
        yield Round(send=[(right, at(rank - step))], receive=[(left, came)], after=[reduce(came, at(rank - step - 1))])
    for step in range(ranks - 1):
        yield Round(send=[(right, at(rank + 1 - step))], receive=[(left, at(rank - step))])


def test_a_ring_is_proved_and_takes_the_time_of_its_links():
    outcome = fs.collective("allreduce", ring, on="lab-16", ranks=16, size=16 << 20)
    row = outcome.tables["collective"].rows()[0]
    # 30 steps of 1 MiB at 400 Gb/s: 21 us each without headers, so at most 50 GB/s of bus bandwidth, and some 2 us of latency each.
    assert 42 < row["busbw"] < 50
    assert len(outcome.tables["ranks"]) == 16 and "proved: allreduce" in outcome.text
    same = fs.collective("allreduce", ring, on="lab-16", ranks=16, size=16 << 20, engine="flow").tables["collective"].rows()[0]
    assert same["time_ps"] == pytest.approx(row["time_ps"], rel=0.1)


def test_what_is_wrong_is_found_before_it_runs():
    def twice(rank, ranks, size):
        for number, step in enumerate(ring(rank, ranks, size)):
            yield step
            if number == 1:
                yield Round(before=[reduce(Piece("scratch0", 0, size // ranks), Piece("recv", (rank - 1) % ranks * (size // ranks), size // ranks))])

    def early(rank, ranks, size):
        yield from list(ring(rank, ranks, size))[:-1]

    def waits(rank, ranks, size):
        yield Round(receive=[((rank + 1) % ranks, Piece("recv", 0, size))])

    for program, told in [(twice, "reduces byte"), (early, "ends with"), (waits, "nobody can go on")]:
        with pytest.raises(fs.FlawError, match=told):
            fs.collective("allreduce", program, on="lab-16", ranks=8, size=1 << 20)
    with pytest.raises(TypeError, match="yields Round"):
        fs.collective("allreduce", lambda *_: [1], on="lab-16", ranks=8, size=64)
    with pytest.raises(ValueError, match="no buffer `stack`"):
        fs.traffic(lambda *_: [Round(send=[(1, Piece("stack", 0, 1))])], on="lab-16", ranks=2)
    with pytest.raises(fs.RunError, match="ranks"):
        fs.collective("allreduce", ring, on="lab-16", ranks=32, size=1 << 20)


def test_traffic_is_run_as_it_is():
    def shift(rank, ranks, size):
        yield Round(send=[((rank + 1) % ranks, Piece("send", 0, size))], receive=[((rank - 1) % ranks, Piece("recv", 0, size))])

    outcome = fs.traffic(shift, on="lab-16", ranks=16, size=1 << 20)
    # 1 MiB at 400 Gb/s take 21 us without headers.
    assert 21 < outcome.tables["collective"]["time_ps"][0] / 1e6 < 25
