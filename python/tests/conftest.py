"""What the tests of the package share."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
LONG = bool(os.environ.get("FABRISCOPE_LONG"))


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Tests that take minutes are run where FABRISCOPE_LONG is set."""
    for item in items:
        if "long" in item.keywords and not LONG:
            item.add_marker(pytest.mark.skip(reason="set FABRISCOPE_LONG=1"))


@pytest.fixture
def program():
    """Runs the console script in a process of its own."""

    def run(*words: str, check: bool = True) -> subprocess.CompletedProcess[str]:
        line = [sys.executable, "-m", "fabriscope", *words]
        return subprocess.run(line, cwd=ROOT, capture_output=True, text=True, check=check)

    return run
