"""The archive of a ping-pong becomes the lines that the Rust tests read."""

import io
from pathlib import Path

import pytest

from fabriscope import otf2_trace

SAMPLES = Path(__file__).parents[2] / "crates/traces/tests/files/hpcgroup__pipit"


def test_an_archive_becomes_lines() -> None:
    pytest.importorskip("otf2")
    out = io.StringIO()
    left = otf2_trace.convert(str(SAMPLES / "ping-pong-otf2/traces.otf2"), out)
    assert left == 8
    assert out.getvalue() == (SAMPLES / "ping-pong.jsonl").read_text()


def test_without_the_library_the_error_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "otf2", None)
    with pytest.raises(ModuleNotFoundError, match=r"pip install fabriscope\[otf2\]"):
        otf2_trace.convert("traces.otf2", io.StringIO())
