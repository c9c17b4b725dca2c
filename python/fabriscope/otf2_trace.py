"""Convert an OTF2 archive to lines of JSON that ``fabriscope`` reads.

The archive is read by ``otf2``, the library of the format's authors: ``pip install fabriscope[otf2]``. A line for each
MPI call of each rank says what it sent, received or waited for; the first line names ranks and communicators.

Usage: ``python3 -m fabriscope.otf2_trace traces.otf2 -o trace.jsonl``
"""

from __future__ import annotations

import argparse
import json
import sys
from typing import Any, TextIO

MISSING = "Python's otf2 is not installed: pip install fabriscope[otf2]"


class _Call:
    """A call of MPI while its events come in."""

    def __init__(self, name: str, start: int) -> None:
        self.name = name
        self.start = start
        self.end = start
        self.send: dict[str, Any] | None = None
        self.recv: dict[str, Any] | None = None
        self.collective: dict[str, Any] | None = None
        self.request: int | None = None
        self.waits: list[int] = []

    def line(self, rank: int) -> dict[str, Any]:
        line: dict[str, Any] = {"rank": rank, "call": self.name, "start": self.start, "end": self.end}
        for key in ("send", "recv", "collective", "request"):
            if getattr(self, key) is not None:
                line[key] = getattr(self, key)
        if self.waits:
            line["waits"] = self.waits
        return line


class _Rank:
    """The calls of one rank so far."""

    def __init__(self) -> None:
        self.calls: list[_Call] = []
        self.open: list[_Call] = []
        self.receives: dict[int, _Call] = {}


def convert(archive: str, out: TextIO) -> int:
    """Write the calls of ``archive`` to ``out``.

    Parameters
    ----------
    archive
        Path of the anchor file ``traces.otf2``.
    out
        Where the lines go.

    Returns
    -------
    int
        Events that were left out: those of threads that are no MPI rank, and outside of MPI.

    Raises
    ------
    ModuleNotFoundError
        If ``otf2`` is not installed.
    """
    try:
        import otf2
        import otf2.events as events
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError(MISSING) from error
    with otf2.reader.open(archive) as trace:
        definitions = trace.definitions
        of_mpi = [
            group
            for group in definitions.groups
            if group.group_type == otf2.GroupType.COMM_LOCATIONS and group.paradigm == otf2.Paradigm.MPI
        ]
        if not of_mpi:
            raise ValueError(f"{archive} has no ranks of MPI")
        numbers = {location: rank for rank, location in enumerate(of_mpi[0].members)}
        comms = _communicators(definitions, numbers)
        ranks = [_Rank() for _ in numbers]
        left, zero, resolution = 0, None, trace.timer_resolution
        for location, event in trace.events:
            zero = event.time if zero is None else min(zero, event.time)
            rank = numbers.get(location)
            time = (event.time - zero) * 1_000_000_000 // resolution
            if rank is None or not _take(events, ranks[rank], event, time, comms):
                left += 1
    head = {"otf2_trace": 1, "ranks": len(ranks), "left_out": left}
    head["comms"] = [{"id": number, "name": name, "ranks": members} for number, name, members in comms.values()]
    print(json.dumps(head), file=out)
    for number, rank in enumerate(ranks):
        for call in rank.calls:
            print(json.dumps(call.line(number)), file=out)
    return left


def _communicators(definitions: Any, numbers: dict[Any, int]) -> dict[Any, tuple[int, str, list[int]]]:
    """Number, name and ranks of each communicator whose ranks are listed."""
    found = {}
    for number, comm in enumerate(definitions.comms):
        members = [numbers[location] for location in comm.group.members if location in numbers]
        if members and comm.name != "MPI_COMM_SELF":
            found[comm] = (number, comm.name, members)
    return found


def _take(events: Any, rank: _Rank, event: Any, time: int, comms: dict[Any, tuple[int, str, list[int]]]) -> bool:
    """Take an event into the calls of its rank; false if it is left out."""

    def message(peer: int) -> dict[str, Any]:
        comm = comms.get(event.communicator)
        number = -1 if comm is None else comm[0]
        return {"peer": peer, "tag": event.msg_tag, "bytes": event.msg_length, "comm": number}

    if isinstance(event, events.Enter):
        if not event.region.name.startswith("MPI_"):
            return False
        rank.open.append(_Call(event.region.name, time))
        return True
    if not rank.open:
        return False
    call = rank.open[-1]
    if isinstance(event, events.Leave):
        if event.region.name != call.name:
            return False
        call.end = time
        rank.calls.append(rank.open.pop())
    elif isinstance(event, events.MpiSend):
        call.send = message(event.receiver)
    elif isinstance(event, events.MpiIsend):
        call.send, call.request = message(event.receiver), event.request_id
    elif isinstance(event, events.MpiRecv):
        call.recv = message(event.sender)
    elif isinstance(event, events.MpiIrecvRequest):
        call.request = event.request_id
        rank.receives[event.request_id] = call
    elif isinstance(event, events.MpiIrecv):
        # What was received is known when it is over.
        if event.request_id in rank.receives:
            rank.receives.pop(event.request_id).recv = message(event.sender)
        call.waits.append(event.request_id)
    elif isinstance(event, events.MpiIsendComplete):
        call.waits.append(event.request_id)
    elif isinstance(event, events.MpiCollectiveEnd):
        comm = comms.get(event.communicator)
        call.collective = {
            "operation": event.collective_op.name,
            "comm": -1 if comm is None else comm[0],
            "root": event.root if isinstance(event.root, int) and event.root < 1 << 31 else None,
            "sent": event.size_sent,
            "received": event.size_received,
        }
    elif not isinstance(event, events.MpiCollectiveBegin):
        return False
    return True


def main(words: list[str] | None = None) -> int:
    """Run the program; the exit status."""
    parser = argparse.ArgumentParser(prog="fabriscope.otf2_trace", description="Convert an OTF2 archive for fabriscope.")
    parser.add_argument("archive", help="the anchor file, traces.otf2")
    parser.add_argument("-o", "--output", default="-", help="where the lines go (default: standard output)")
    args = parser.parse_args(words)
    try:
        if args.output == "-":
            convert(args.archive, sys.stdout)
        else:
            with open(args.output, "w", encoding="utf-8") as out:
                convert(args.archive, out)
    except (ModuleNotFoundError, ValueError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
