//! What makes things twice as fast, and which of the things that may bind are there: the changes of [`crate::collective`] and
//! [`crate::operation`].

use fabriscope_catalog::{ResolvedCluster, ResolvedSlot, Sourced};
use fabriscope_lab::LabError;
use fabriscope_units::{Rate, Span};

/// A change: what may bind and how it is made twice as fast, given what takes part; whether it is there.
pub(crate) type Change<T> = (&'static str, fn(&mut ResolvedCluster, T) -> bool);

/// The cluster once with each change whose thing is there.
pub(crate) fn changed<T: Copy>(parts: &ResolvedCluster, changes: &[Change<T>], taking: T) -> Vec<(&'static str, ResolvedCluster)> {
    let change = |(what, change): &Change<T>| {
        let mut parts = parts.clone();
        change(&mut parts, taking).then_some((*what, parts))
    };
    changes.iter().filter_map(change).collect()
}

/// Explains one size after the other, and tells how many are done.
pub(crate) fn each_size<S: Copy, T>(
    sizes: &[S],
    progress: &dyn Fn(usize, usize),
    explain: impl Fn(S) -> Result<T, LabError>,
) -> Result<Vec<T>, LabError> {
    let one = |(done, size): (usize, &S)| {
        progress(done, sizes.len());
        explain(*size)
    };
    sizes.iter().enumerate().map(one).collect()
}

pub(crate) fn halve<'a>(spans: impl IntoIterator<Item = &'a mut Sourced<Span>>) {
    for span in spans {
        span.value = span.value / 2;
    }
}

/// Rates twice as high.
pub fn double<'a>(rates: impl IntoIterator<Item = &'a mut Sourced<Rate>>) {
    for rate in rates {
        rate.value = Rate::from_bps(rate.value.as_bps().saturating_mul(2));
    }
}

/// The lanes of PCI Express.
pub fn double_lanes<'a>(slots: impl IntoIterator<Item = &'a mut ResolvedSlot>) {
    double(slots.into_iter().map(|slot| &mut slot.part.lane_rate));
}

/// The links of the fabric.
pub fn double_links(parts: &mut ResolvedCluster) {
    double(parts.link_speeds_mut().flat_map(|link| [&mut link.lane_rate, &mut link.data_rate]));
}
