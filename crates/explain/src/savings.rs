//! What single changes save of the time of a whole operation, as bars: a panel for each size.

use fabriscope_report::figure::{Bar, Bars, Figure, Panel, Unit};
use fabriscope_units::Bytes;

/// The changes of each size with what they save, in percent; those that make it more than twice as long are left out.
pub fn figure(title: String, sizes: impl Iterator<Item = (Bytes, Vec<(String, f64)>)>) -> Figure {
    let panel = |(size, mut saved): (Bytes, Vec<(String, f64)>)| {
        saved.retain(|(_, saved)| *saved > -100.0);
        saved.sort_by(|a, b| b.1.total_cmp(&a.1));
        let bar =
            |(place, (name, saved)): (usize, (String, f64))| Bar { name, value: saved, loud: place == 0 && saved >= 1.0, ..Bar::default() };
        let rows = saved.into_iter().enumerate().map(bar).collect();
        let label = format!("what one change saves of the time of {size}");
        Panel::Bars(Bars { label, unit: Unit::Percent, mark: None, limit: None, rows })
    };
    Figure::new(title, sizes.map(panel))
}
