"""Congestion control and choice of paths of your own, as Python classes: for trying an idea out.

Each packet calls Python once or twice, so that a run is some ten to a hundred times slower than one of the library's own algorithms;
docs/research.md is the way from here to one file of the library.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, ClassVar

from fabriscope._fabriscope import Choice, Feedback, Line

#: Chooses a path: called with a :class:`Choice`, gives a place in its ``options``.
Chooses = Callable[[Choice], int]


class CongestionControl:
    """One sender under a congestion control of your own. Derive from it, and say how much it may send.

    After every call of a method the attributes ``window``, ``rate`` and ``wakes`` are read. Times are picoseconds of the simulated clock,
    sizes bytes with their headers, rates bit/s. A class is taken by :class:`Catalog` under a name, which is then one like ``dctcp`` in
    clusters and labs.

    Attributes
    ----------
    base
        The congestion control of the catalogue whose marking by switches this one is used with.
    echo
        How receivers tell of marks: ``"acknowledge"`` (in acknowledgements), ``"notify"`` (by packets of their own, CNP), ``"silent"``,
        ``"acknowledge_or_notify"``.
    echo_interval
        The shortest time between two notifications.
    ack_interval
        Packets from one acknowledgement to the next; None leaves that to the transport.
    telemetry
        Whether links write their state into packets (:attr:`Feedback.links`).
    timeout
        How long a sender waits for an answer before it sends again, such as ``"500us"``; None leaves that to the transport.
    window
        Bytes that may be on their way; one packet always may. None is no bound.
    rate
        How fast packets may follow each other, in bit/s. None is as fast as the link.
    wakes
        When :meth:`wake` is to be called, in ps; None is never. It is forgotten before each call of it.

    Examples
    --------
    >>> class Half(CongestionControl):
    ...     "Half the rate of the link, whatever happens."
    ...     def __init__(self, line):
    ...         self.rate = line.rate / 2
    >>> catalog = Catalog(congestion={"half": Half})
    >>> slow = Cluster({"base": "lab-roce-128", "name": "slow", "congestion": "half"}, catalog=catalog)
    >>> bench("ib_write_bw", "-s 1048576 -n 100", on=slow)["points"][0]["value"] < 24000
    True
    """

    base: ClassVar[str] = "dctcp"
    echo: ClassVar[str] = "acknowledge"
    echo_interval: ClassVar[str] = "50us"
    ack_interval: ClassVar[int | None] = 1
    telemetry: ClassVar[bool] = False
    timeout: ClassVar[str | None] = None

    window: float | None = None
    rate: float | None = None
    wakes: int | None = None

    def __init__(self, line: Line) -> None:
        """A sender behind a line."""

    # Declared for readers and type checkers; a class without a method is not called, which costs nothing.
    sent: ClassVar[Any]
    """``sent(now, bytes)``: a packet left."""
    acknowledged: ClassVar[Any]
    """``acknowledged(feedback)``: an acknowledgement came."""
    notified: ClassVar[Any]
    """``notified(now)``: the receiver saw a mark and said so by a packet of its own."""
    lost: ClassVar[Any]
    """``lost(now, how)``: a packet was lost: ``"trimmed"``, ``"gap"`` (a later one arrived before it), ``"timeout"``."""
    wake: ClassVar[Any]
    """``wake(now)``: the time it asked for has come."""


def needs(control: type[CongestionControl]) -> dict[str, Any]:
    """What a class says that it needs of receivers and links."""
    names = ("echo", "echo_interval", "ack_interval", "timeout", "telemetry")
    return {name: getattr(control, name, getattr(CongestionControl, name)) for name in names}


def added(inner: Any, congestion: Mapping[str, type[CongestionControl]] | None) -> Any:
    """A catalogue of the binding with congestion controls under their names."""
    for name, control in (congestion or {}).items():
        inner = inner.with_congestion(name, getattr(control, "base", CongestionControl.base), control, needs(control))
    return inner


__all__ = ["Choice", "Chooses", "CongestionControl", "Feedback", "Line"]
