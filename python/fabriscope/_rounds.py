"""Collectives and traffic of your own: functions that yield the rounds of a rank, proved before they run."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

from fabriscope import _fabriscope
from fabriscope._ask import On
from fabriscope._cluster import Catalog, resolved
from fabriscope._results import Outcome


@dataclass(frozen=True)
class Piece:
    """Bytes of a buffer: ``send`` (what the program gave), ``recv`` (where it finds the result), ``scratch0`` …

    A broadcast has the buffer ``recv`` alone, filled at the root.
    """

    buffer: str
    offset: int
    bytes: int


@dataclass(frozen=True)
class Move:
    """One pass over two pieces of one length: ``copy``, ``reduce_before`` (``to`` becomes ``from ∘ to``), ``reduce_after``."""

    action: str
    source: Piece
    target: Piece


def copy(source: Piece, target: Piece) -> Move:
    """``target`` becomes what ``source`` is."""
    return Move("copy", source, target)


def reduce(source: Piece, target: Piece, *, lower: bool = False) -> Move:
    """``target`` takes ``source`` in; ``lower`` says that the source comes from lower ranks, for operators that do not commute."""
    return Move("reduce_before" if lower else "reduce_after", source, target)


@dataclass(frozen=True)
class Round:
    """What a rank does between two waits: it moves, posts all receives and all sends, waits for all of them, and moves again."""

    send: Iterable[tuple[int, Piece]] = ()
    receive: Iterable[tuple[int, Piece]] = ()
    before: Iterable[Move] = field(default_factory=tuple)
    after: Iterable[Move] = field(default_factory=tuple)


#: Rounds of a rank among so many, of a call of so many bytes.
Program = Callable[[int, int, int], Iterable[Round]]


def collective(
    operation: str,
    program: Program,
    *,
    on: On,
    ranks: int,
    size: int,
    ranks_per_node: int = 1,
    width: int = 4,
    root: int = 0,
    engine: str = "packet",
    seed: int = 1,
    catalog: Catalog | None = None,
) -> Outcome:
    """Prove a collective operation of your own, and run it.

    Before anything runs, the rounds are carried out on symbols: each byte is the set of ranks that contributed to it. An algorithm that
    stops, reduces something twice, reads what nobody wrote or leaves a wrong result is refused, with the rank and the byte. Python makes
    the rounds, so that this is for prototypes: docs/research.md is the way from there to a file of the library, which is some hundred
    times faster.

    Parameters
    ----------
    operation
        ``allreduce``, ``allgather``, ``alltoall``, ``bcast``, ``reduce``, ``reduce_scatter``, ``gather``, ``scatter``, ``scan`` …
    program
        Called as ``program(rank, ranks, size)``, gives or yields the :class:`Round` s of a rank. It is called for a smaller call as well:
        proofs take up to 64 ranks and 16 KiB.
    ranks, ranks_per_node
        They fill the nodes one after the other.
    size
        Bytes of the buffer; of allgather, alltoall, gather and scatter those of the block of a rank.
    width
        Bytes of an element, which reductions do not split.
    engine
        ``packet`` or ``flow``.

    Returns
    -------
    Outcome
        Its table ``collective`` has the time and both bandwidths, ``ranks`` when each rank was done.

    Raises
    ------
    FlawError
        The algorithm is wrong.

    Examples
    --------
    >>> def exchange(rank, ranks, size):
    ...     whole, other = Piece("recv", 0, size), Piece("scratch0", 0, size)
    ...     yield Round(before=[copy(Piece("send", 0, size), whole)])
    ...     distance = 1
    ...     while distance < ranks:
    ...         peer = rank ^ distance
    ...         take = reduce(other, whole, lower=peer < rank)
    ...         yield Round(send=[(peer, whole)], receive=[(peer, other)], after=[take])
    ...         distance *= 2
    >>> collective("allreduce", exchange, on="lab-16", ranks=16, size=1024)["collective"][0]["ranks"]
    16
    """
    asked = {"operation": operation, "ranks_per_node": ranks_per_node, "width": width, "root": root, "engine": engine, "seed": seed}
    return _run(program, on, catalog, {**asked, "ranks": ranks, "size": size})


def traffic(
    program: Program,
    *,
    on: On,
    ranks: int,
    size: int = 0,
    ranks_per_node: int = 1,
    engine: str = "packet",
    seed: int = 1,
    catalog: Catalog | None = None,
) -> Outcome:
    """Run messages of your own; nothing is promised of what arrives.

    Parameters
    ----------
    program
        As of :func:`collective`; pieces are lengths here, their buffers do not matter.
    """
    asked = {"operation": None, "ranks_per_node": ranks_per_node, "width": 1, "root": 0, "engine": engine, "seed": seed}
    return _run(program, on, catalog, {**asked, "ranks": ranks, "size": size})


def _run(program: Program, on: On, catalog: Catalog | None, asked: dict[str, Any]) -> Outcome:
    def all_ranks(ranks: int, size: int) -> list[list[tuple[Any, ...]]]:
        return [[_said(step) for step in program(rank, ranks, size)] for rank in range(ranks)]

    asked["name"] = getattr(program, "__name__", type(program).__name__)
    return Outcome(_fabriscope.rounds(resolved(on, catalog)._inner, asked, all_ranks))


def _said(step: Round) -> tuple[Any, ...]:
    if not isinstance(step, Round):
        raise TypeError(f"a program yields Round, not {type(step).__name__}")
    receives = [(peer, _place(piece)) for peer, piece in step.receive]
    sends = [(peer, _place(piece)) for peer, piece in step.send]
    return _moves(step.before), receives, sends, _moves(step.after)


def _moves(moves: Iterable[Move]) -> list[tuple[Any, ...]]:
    return [(move.action, _place(move.source), _place(move.target)) for move in moves]


def _place(piece: Piece) -> tuple[str, int, int]:
    return piece.buffer, piece.offset, piece.bytes
