"""Notebooks say what is so: they run to their end, with their assertions, and are stored without outputs."""

from __future__ import annotations

import os
from pathlib import Path

import fabriscope as fs
import nbformat
import pytest
from conftest import ROOT
from nbclient import NotebookClient

BOOKS = sorted((ROOT / "notebooks").glob("*.ipynb"))


def code(book: nbformat.NotebookNode) -> list[nbformat.NotebookNode]:
    return [cell for cell in book.cells if cell.cell_type == "code"]


def test_the_notebooks_are_there():
    names = ["congestion-control-in-one-hour", "hands-on", "size-a-cluster", "why-is-my-busbw-low"]
    assert [path.stem for path in BOOKS] == names
    text = (ROOT / "docs/notebooks.md").read_text()
    assert all(f"../notebooks/{name}.ipynb" in text for name in names)


@pytest.mark.parametrize("path", BOOKS, ids=lambda path: path.stem)
def test_a_notebook_is_stored_without_outputs(path: Path):
    book = nbformat.read(path, as_version=nbformat.NO_CONVERT)
    nbformat.validate(book)
    assert (book.nbformat, book.nbformat_minor) == (4, 5)
    assert all(not cell.outputs and cell.execution_count is None for cell in code(book))
    assert book.cells[0].source.startswith("# ") and book.cells[-1].source.startswith("## Exercises")
    assert sum("assert " in cell.source for cell in code(book)) >= 5


@pytest.mark.parametrize("path", BOOKS, ids=lambda path: path.stem)
def test_a_notebook_runs_and_its_claims_hold(path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    # The kernel is a process of its own, elsewhere: it takes the package from where this one has it.
    package = str(Path(fs.__file__).resolve().parents[1])
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(filter(None, [package, os.environ.get("PYTHONPATH")])))
    for name in ("TMPDIR", "IPYTHONDIR", "JUPYTER_RUNTIME_DIR"):
        folder = tmp_path / name.lower()
        folder.mkdir()
        monkeypatch.setenv(name, str(folder))
    book = nbformat.read(path, as_version=4)
    NotebookClient(book, timeout=300, kernel_name="python3", resources={"metadata": {"path": str(tmp_path)}}).execute()
    assert all(cell.execution_count for cell in code(book) if cell.source.strip())
