//! Numbers in order, and how completion times and slowdowns are distributed.

use fabriscope_report::{Cell, Column, Grid};
use fabriscope_units::Span;

/// Numbers in order.
pub(crate) struct Sorted(Vec<f64>);

impl Sorted {
    pub fn of(numbers: impl Iterator<Item = f64>) -> Sorted {
        let mut numbers: Vec<f64> = numbers.collect();
        numbers.sort_by(f64::total_cmp);
        Sorted(numbers)
    }
    pub fn mean(&self) -> f64 {
        self.0.iter().sum::<f64>() / self.0.len().max(1) as f64
    }
    /// The number that `share` percent do not exceed.
    pub fn at(&self, share: usize) -> f64 {
        self.at_mille(share * 10)
    }
    /// The same of a share in thousandths.
    pub fn at_mille(&self, share: usize) -> f64 {
        self.0.get(self.0.len() * share / 1000).or(self.0.last()).copied().unwrap_or(0.0)
    }
}

/// How long a message took, and how long it takes alone.
pub(crate) trait Completion {
    fn took(&self) -> Span;
    fn alone(&self) -> Span;

    fn slowdown(&self) -> f64 {
        self.took().as_ps() as f64 / self.alone().as_ps().max(1) as f64
    }
}

/// When a message began, its completion time, its time alone and its slowdown: the last columns of every table of them.
pub(crate) fn completion_columns() -> [Column; 4] {
    [
        Column::number("arrival (us)", "arrival_ps").unit("ps"),
        Column::number("FCT (us)", "fct_ps").unit("ps"),
        Column::number("alone (us)", "alone_ps").unit("ps"),
        Column::number("slowdown", "slowdown"),
    ]
}

/// The cells of these.
pub(crate) fn completion_cells(began: Span, of: &impl Completion) -> [Cell; 4] {
    [Cell::us(began), Cell::us(of.took()), Cell::us(of.alone()), Cell::number(of.slowdown(), 4)]
}

/// The columns of a distribution, behind those that name a run.
pub(crate) fn cdf_columns(key: &[Column]) -> Vec<Column> {
    let mut columns = key.to_vec();
    columns.extend([
        Column::number("share", "share"),
        Column::number("FCT (us)", "fct_ps").unit("ps"),
        Column::number("slowdown", "slowdown"),
    ]);
    columns
}

/// A row for each of some shares: the completion time and the slowdown that so many do not exceed. Each of the two has its own order.
pub(crate) fn cdf_rows<T: Completion>(all: &[T], key: &[Cell], grid: &mut Grid) {
    if all.is_empty() {
        return;
    }
    let (times, slow) = (Sorted::of(all.iter().map(|one| one.took().as_ps() as f64)), Sorted::of(all.iter().map(Completion::slowdown)));
    for share in SHARES {
        let (time, slow) = (Cell::us(Span::from_ps(times.at_mille(share) as u64)), Cell::number(slow.at_mille(share), 4));
        grid.push(key.iter().cloned().chain([Cell::number(share as f64 / 1000.0, 3), time, slow]));
    }
}

/// In thousandths: the least, every tenth, and the tail by which transports are judged.
const SHARES: [usize; 17] = [0, 10, 50, 100, 200, 300, 400, 500, 600, 700, 800, 900, 950, 990, 995, 999, 1000];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_are_of_the_numbers_in_order() {
        let sorted = Sorted::of((0..1000).rev().map(f64::from));
        assert_eq!([sorted.at(0), sorted.at(50), sorted.at(99), sorted.at_mille(999), sorted.at(100)], [0.0, 500.0, 990.0, 999.0, 999.0]);
        assert!((sorted.mean() - 499.5).abs() < 1e-9);
    }
}
