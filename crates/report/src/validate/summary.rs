//! Hit rates by kind of benchmark: the share of points whose prediction lies near the measured value.
//!
//! Each point counts once. Figures of tables without what was chosen after they had been seen come first; then those of tables to which no number
//! of the catalogue was fitted, the nearest there is to a prediction; then what the choices would gain.

use super::result::{Compared, Report, TableResult};
use crate::grid::{Cell, Column, Grid};
use crate::question::Kind;
use crate::statistics::{Point, Summary};

/// The hits of one kind of benchmark, or of all.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Hits {
    /// Tables with at least one point.
    pub tables: usize,
    /// Points.
    pub points: usize,
    /// Their errors; nothing where there are none.
    pub errors: Option<Summary>,
    /// The share of points within 10, 15 and 25 \[%\].
    pub within: [f64; 3],
}

/// Within how much of the measured value a prediction hits [%].
pub const WITHIN: [f64; 3] = [10.0, 15.0, 25.0];

/// The hits of `kind` (of all kinds, where there is none) among `tables`.
pub fn hits<'a>(tables: impl Iterator<Item = &'a TableResult>, kind: Option<Kind>) -> Hits {
    let of_kind = |point: &&Compared| kind.is_none_or(|kind| point.kind == kind);
    let (mut count, mut points) = (0, Vec::new());
    for table in tables {
        let own: Vec<Point> = table.points.iter().filter(of_kind).map(|point| point.point).collect();
        count += usize::from(!own.is_empty());
        points.extend(own);
    }
    let share = |limit: f64| {
        let near = points.iter().filter(|point| point.error_percent().abs() <= limit).count();
        if points.is_empty() { 0.0 } else { 100.0 * near as f64 / points.len() as f64 }
    };
    Hits { tables: count, points: points.len(), errors: Summary::of(&points), within: WITHIN.map(share) }
}

impl Report {
    /// Hit rates by kind: of all tables, of those that `fitted` says no number rests on, and with what was chosen after tables had been seen.
    #[must_use]
    pub fn hit_rates(&self, fitted: &dyn Fn(&str) -> bool) -> Grid {
        let mut grid = Grid::new([
            Column::words("kind", "kind"),
            Column::words("tables", "of"),
            Column::number("number", "tables"),
            Column::number("points", "points"),
            Column::number("median (%)", "median").unit("%"),
            Column::number("within 10 %", "within_10").unit("%"),
            Column::number("15 %", "within_15").unit("%"),
            Column::number("25 %", "within_25").unit("%"),
        ]);
        let kinds = Kind::ALL.into_iter().map(Some).chain([None]);
        for kind in kinds {
            let all = hits(self.plain(), kind);
            let free = hits(self.plain().filter(|table| !fitted(&table.table)), kind);
            let chosen = hits(self.preferring_choices(), kind);
            let rows = [("all", all), ("not fitted to", free), ("all, with fitted settings", chosen)];
            for (of, hits) in rows.into_iter().filter(|(of, hits)| hits.points > 0 && (*of != "all, with fitted settings" || *hits != all))
            {
                grid.push(cells(kind, of, &hits));
            }
        }
        grid
    }

    /// Each table once: with what was chosen after it had been seen, where anything was.
    fn preferring_choices(&self) -> impl Iterator<Item = &TableResult> {
        let has_choice = |table: &TableResult| self.tables.iter().any(|other| other.table == table.table && other.chosen.is_some());
        self.tables.iter().filter(move |table| table.chosen.is_some() || !has_choice(table))
    }
}

fn cells(kind: Option<Kind>, of: &str, hits: &Hits) -> [Cell; 8] {
    let [ten, fifteen, twenty_five] = hits.within.map(|share| Cell::number(share, 0));
    [
        Cell::word(kind.map_or("all", Kind::name)),
        Cell::word(of),
        Cell::count(hits.tables),
        Cell::count(hits.points),
        hits.errors.map_or_else(Cell::none, |errors| Cell::number(errors.median, 1)),
        ten,
        fifteen,
        twenty_five,
    ]
}
