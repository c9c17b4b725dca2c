"""What comes back: an outcome with its tables, which data frames read without a copy."""

from __future__ import annotations

import html
import json
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from fabriscope import _fabriscope

if TYPE_CHECKING:
    import pandas
    import polars


class Table:
    """A table: columns with names and units, rows with values.

    It speaks the Arrow PyCapsule protocol: ``pyarrow.table(t)``, ``polars.DataFrame(t)``, ``duckdb.sql("from t")`` and
    ``pandas.DataFrame.from_arrow(t)`` read it. Whole numbers are int64, other numbers float64.
    """

    def __init__(self, inner: _fabriscope.Table) -> None:
        self._inner = inner

    @property
    def name(self) -> str:
        """Its name."""
        return self._inner.name

    @property
    def columns(self) -> list[str]:
        """The names of its columns; a unit stands in the name or in :attr:`units`."""
        return self._inner.columns

    @property
    def units(self) -> dict[str, str]:
        """The units of columns whose names do not say them."""
        return {name: unit for name, unit in zip(self._inner.columns, self._inner.units, strict=True) if unit}

    def rows(self) -> list[dict[str, Any]]:
        """Each row as a mapping from column to value; None where there is none."""
        return json.loads(self._inner.json())

    def __len__(self) -> int:
        return len(self._inner)

    def __iter__(self) -> Iterator[dict[str, Any]]:
        return iter(self.rows())

    def __getitem__(self, column: str) -> list[Any]:
        """The values of a column, in the order of the rows."""
        if column not in self.columns:
            raise KeyError(f"there is no column `{column}`; the columns are {', '.join(self.columns)}")
        return [row[column] for row in self.rows()]

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        return self._inner.__arrow_c_stream__(requested_schema)

    def to_pandas(self) -> pandas.DataFrame:
        """The same as a pandas frame."""
        import pandas

        columns = {name: self[name] for name in self.columns if not any(isinstance(v, (list, dict)) for v in self[name])}
        return pandas.DataFrame(columns).convert_dtypes(dtype_backend="numpy_nullable") if columns else pandas.DataFrame()

    def to_polars(self) -> polars.DataFrame:
        """The same as a polars frame."""
        import polars

        return polars.DataFrame(self)

    def _repr_html_(self) -> str:
        return html_table(self)

    def __repr__(self) -> str:
        return f"Table({self.name!r}, {len(self)} rows: {', '.join(self.columns)})"


class Outcome:
    """What a question was answered with.

    ``print(outcome)`` shows what the program prints, byte for byte; :attr:`data` is what ``--json`` gives;
    :attr:`tables` go to data frames. The outcome itself stands for its first table where one is wanted.
    """

    def __init__(self, inner: _fabriscope.Outcome) -> None:
        self._inner = inner

    @property
    def text(self) -> str:
        """What the program prints."""
        return self._inner.text()

    @property
    def data(self) -> Any:
        """All that ``--json`` gives: settings and results by name, tables as lists of rows."""
        return json.loads(self._inner.json())

    def json(self) -> str:
        """The same as text, byte for byte that of the program."""
        return self._inner.json()

    def csv(self) -> str:
        """The tables as CSV."""
        return self._inner.csv()

    @property
    def good(self) -> bool:
        """Whether what was checked holds; true where nothing was."""
        return self._inner.good

    @property
    def tables(self) -> dict[str, Table]:
        """The tables by name, in order."""
        return {table.name: Table(table) for table in self._inner.tables()}

    @property
    def table(self) -> Table:
        """The first table.

        Raises
        ------
        LookupError
            There is none.
        """
        tables = self._inner.tables()
        if not tables:
            raise LookupError("there is no table here; `text` and `data` have what there is")
        return Table(tables[0])

    def __getitem__(self, key: str) -> Any:
        """An entry of :attr:`data`."""
        return self.data[key]

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        return self.table.__arrow_c_stream__(requested_schema)

    def to_pandas(self, table: str | None = None) -> pandas.DataFrame:
        """The first table, or that of a name, as a pandas frame."""
        return (self.table if table is None else self.tables[table]).to_pandas()

    def to_polars(self, table: str | None = None) -> polars.DataFrame:
        """The first table, or that of a name, as a polars frame."""
        return (self.table if table is None else self.tables[table]).to_polars()

    @property
    def draft(self) -> str | None:
        """A TOML file to go on from, where there is one."""
        return self._inner.draft

    def svg(self) -> str | None:
        """The picture, where there is something to draw."""
        return self._inner.svg()

    def _repr_html_(self) -> str:
        tables = list(self.tables.values())
        body = "".join(html_table(table) for table in tables[:3]) or f"<pre>{html.escape(self.text)}</pre>"
        return f"<div>{self.svg() or ''}{body}</div>"

    def __str__(self) -> str:
        return self.text

    def __repr__(self) -> str:
        return f"Outcome(tables={list(self.tables)})"


#: Rows that a notebook shows; frames have all.
SHOWN = 12


def html_table(table: Table) -> str:
    """A small table for a notebook."""
    rows = table.rows()
    names = [name for name in table.columns if not any(isinstance(row[name], (list, dict)) for row in rows)]
    units = table.units
    heads = "".join(f"<th scope='col'>{html.escape(n)}{f' ({html.escape(units[n])})' if n in units else ''}</th>" for n in names)
    lines = "".join("<tr>" + "".join(_cell(row[name]) for name in names) + "</tr>" for row in rows[:SHOWN])
    more = f"<p>… {len(rows) - SHOWN} more rows</p>" if len(rows) > SHOWN else ""
    caption = f"<caption>{html.escape(table.name)}</caption>" if table.name else ""
    return f"<table>{caption}<thead><tr>{heads}</tr></thead><tbody>{lines}</tbody></table>{more}"


def _cell(value: Any) -> str:
    if value is None:
        return "<td></td>"
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        text = f"{value:.6g}" if isinstance(value, float) else str(value)
        return f"<td style='text-align:right'>{text}</td>"
    return f"<td>{html.escape(str(value))}</td>"
