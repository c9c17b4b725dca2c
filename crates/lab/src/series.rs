//! Queues and rates over time as rows of a table: a file of their own has them.

use fabriscope_engine::{Cluster, CounterPlace, Series};
use fabriscope_report::{Cell, Column, Grid};
use fabriscope_units::{Bytes, Span};

use crate::counting::site;

/// The columns, behind those that name a run.
pub fn columns(key: &[Column]) -> Vec<Column> {
    let mut columns = key.to_vec();
    columns.extend([
        Column::number("time (us)", "time_ps").unit("ps"),
        Column::words("quantity", "quantity"),
        Column::words("place", "place"),
        Column::number("from", "from"),
        Column::number("to", "to"),
        Column::number("bytes", "bytes").unit("B"),
    ]);
    columns
}

/// A row for each queue that was not empty at a step, and one for what each host sent to another in the step before.
pub fn rows(cluster: &Cluster, series: &Series, key: &[Cell], grid: &mut Grid) {
    let mut row = |time: Span, quantity: &str, place: Cell, ends: [Cell; 2], bytes: Bytes| {
        let [from, to] = ends;
        grid.push(key.iter().cloned().chain([Cell::us(time), Cell::word(quantity), place, from, to, Cell::bytes(bytes)]));
    };
    for depth in &series.queues {
        let name = site(cluster, CounterPlace::Port(depth.link)).to_string();
        row(depth.time - fabriscope_units::Time::ZERO, "queue", Cell::word(name), [Cell::none(), Cell::none()], depth.bytes);
    }
    for sent in &series.sent {
        let end = series.step * (u64::from(sent.step) + 1);
        row(end, "sent", Cell::none(), [Cell::count(sent.from), Cell::count(sent.to)], sent.bytes);
    }
}
