//! The table of a tool as rows.

use fabriscope_report::{Cell, Column, Grid};
use fabriscope_tools::{DataTable, Datum, Point};

/// The cells of a tool's table: size, quantity, unit, value.
#[must_use]
pub fn points(points: &[Point]) -> Grid {
    let columns = [
        Column::number("bytes", "bytes").unit("B"),
        Column::words("metric", "metric"),
        Column::words("unit", "unit"),
        Column::number("value", "value"),
    ];
    let mut grid = Grid::new(columns);
    for point in points {
        grid.push([Cell::bytes(point.size), Cell::word(point.metric), Cell::word(point.unit), Cell::number(point.value, 6)]);
    }
    grid.named("points")
}

/// A table that only programs read.
#[must_use]
pub fn grid(table: &DataTable) -> Grid {
    let mut grid = Grid::new(table.columns.iter().map(|key| Column::data(key)));
    for row in &table.rows {
        grid.push(row.iter().map(|datum| match datum {
            Datum::Word(word) => Cell::word(word.as_str()),
            Datum::Count(count) => Cell::count(*count),
            Datum::Number(number) => Cell::number(*number, 6),
        }));
    }
    grid
}
