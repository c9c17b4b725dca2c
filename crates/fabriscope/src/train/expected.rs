//! What the library itself expects of the operations of a step, beside what they take here.

use fabriscope_lab::training::times::ClusterTimes;
use fabriscope_report::{Cell, Column, Grid};
use fabriscope_units::Span;

use crate::error::Error;

/// A row for each collective operation whose time is known by now.
pub(super) fn table(times: &mut ClusterTimes<'_>) -> Result<Grid, Error> {
    let mut grid = Grid::new([
        Column::words("operation", "operation"),
        Column::number("GPUs", "gpus"),
        Column::number("apart", "stride"),
        Column::number("bytes", "bytes"),
        Column::number("us", "us"),
        Column::number("the library expects us", "estimate_us"),
        Column::number("of the time", "ratio"),
    ]);
    for one in times.expected()? {
        let ratio = if one.taken > Span::ZERO { one.estimate.as_s_f64() / one.taken.as_s_f64() } else { 0.0 };
        grid.push([
            Cell::word(one.operation.to_string()),
            Cell::count(one.group.size as usize),
            Cell::count(one.group.stride as usize),
            Cell::bytes(one.bytes),
            Cell::number(one.taken.as_us_f64(), 2),
            Cell::number(one.estimate.as_us_f64(), 2),
            Cell::number(ratio, 2),
        ]);
    }
    Ok(grid)
}
