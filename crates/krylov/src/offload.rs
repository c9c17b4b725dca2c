//! How cores on the adapters help: which rows they have, and what moves between their memory and the host's.
//!
//! Source: the modes that a tutorial at Hot Interconnects 2025 names for the vector operations of PETSc and HYPRE (hybrid offload; onloading);
//! what each of them moves is worked out here from what its operations read and write.
//! Modelled: rows that lie in the middle of a rank's part, so that elements of other ranks are the host's business; a share by which
//! both end together, less what it takes to hand an operation over, which the program measures; results that come back, or do not.
//! Not modelled: shares that differ between operations (the rows would have to move), engines of the adapter other than its cores.

use std::fmt;

use fabriscope_units::{Bytes, Rate, Span};

use super::solver::{ELEMENT, Operation};

/// What the cores on an adapter do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Offload {
    /// Nothing.
    None,
    /// Whole operations: vectors go there and results come back.
    Naive,
    /// Their rows of every operation, which lie there; the host hands each over and gets back what is written.
    Hybrid,
    /// The same rows, but what is written stays: only sums and the elements at the borders come back to the host.
    Onload,
}

impl Offload {
    /// The names on the command line.
    pub const NAMES: &'static str = "none, naive, hybrid, hybrid-onload";
    /// The mode of this name.
    #[must_use]
    pub fn named(name: &str) -> Option<Offload> {
        [Offload::None, Offload::Naive, Offload::Hybrid, Offload::Onload].into_iter().find(|mode| mode.to_string() == name)
    }
}

impl fmt::Display for Offload {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Offload::None => "none",
            Offload::Naive => "naive",
            Offload::Hybrid => "hybrid",
            Offload::Onload => "hybrid-onload",
        })
    }
}

/// What decides how rows are shared.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Costs {
    /// What the host's cores go through.
    pub host: Rate,
    /// What those on the adapter go through.
    pub dpu: Rate,
    /// What goes from the adapter's memory to the host's.
    pub link: Rate,
    /// From handing something empty over until the host knows that it is done.
    pub hand_over: Span,
}

/// Operations after which host and adapter wait for each other, on all rows, in ps.
#[derive(Debug, Clone, Copy, Default)]
struct Segment {
    /// By the host alone.
    alone: u128,
    /// By the cores on the adapter alone.
    there: u128,
    /// What the host's memory takes for results that come back.
    back: u128,
    /// To hand over and hear of it.
    asked: u128,
}

impl Segment {
    /// Both parts, where the adapter has `theirs` of `rows`.
    fn time(&self, theirs: u128, rows: u128) -> u128 {
        let host = (self.alone * (rows - theirs) + self.back * theirs) / rows;
        host.max(self.there * theirs / rows + self.asked)
    }
    /// The rows with which both take as long.
    fn balance(&self, rows: u128) -> u128 {
        let whole = (self.alone + self.there).saturating_sub(self.back);
        (rows * self.alone.saturating_sub(self.asked)).checked_div(whole).unwrap_or(0).min(rows)
    }
}

/// Rows of `rows` that the cores on the adapter take, so that all operations together take least.
///
/// For an operation that moves b bytes and writes w of them, on all rows: the host alone takes T = b / host, the adapter's cores
/// c = b / dpu, and at least w / link where results come back, which also take k = w / host of the host's memory. Host and adapter wait for
/// each other after every operation in hybrid mode, after sums otherwise, and to hand over takes h. With the share s of the rows
///
/// ```text
/// time = Σ max((1 - s) T + s k, s c + h),   both end together at s = (T - h) / (T - k + c)
/// ```
///
/// The sum is convex and made of straight lines, so one of these s is best; or none, where that takes less.
#[must_use]
pub fn balanced(mode: Offload, operations: &[Operation], (rows, nonzeros): (u64, u64), costs: Costs) -> u64 {
    let ps = |span: Span| u128::from(span.as_ps());
    let mut segments: Vec<Segment> = Vec::new();
    let mut open = false;
    for operation in operations {
        let bytes = operation.bytes(rows, nonzeros);
        let mut part = Segment { alone: ps(costs.host.time(bytes)), there: ps(costs.dpu.time(bytes)), ..Segment::default() };
        match mode {
            Offload::None => return 0,
            Offload::Naive => return rows,
            Offload::Hybrid => {
                let written = Bytes(u64::from(operation.written()) * ELEMENT * rows);
                part.there = part.there.max(ps(costs.link.time(written)));
                (part.back, part.asked) = (ps(costs.host.time(written)), ps(costs.hand_over));
                segments.push(part);
            }
            Offload::Onload => {
                if !open {
                    segments.push(Segment::default());
                }
                let ends = matches!(operation, Operation::Dot { .. });
                if let Some(last) = segments.last_mut() {
                    (last.alone, last.there) = (last.alone + part.alone, last.there + part.there);
                    last.asked += if ends { ps(costs.hand_over) } else { 0 };
                }
                open = !ends;
            }
        }
    }
    let all = u128::from(rows.max(1));
    let time = |theirs: u128| match theirs {
        0 => segments.iter().map(|segment| segment.alone).sum::<u128>(),
        _ => segments.iter().map(|segment| segment.time(theirs, all)).sum(),
    };
    let mut shares: Vec<u128> = segments.iter().map(|segment| segment.balance(all)).chain([0]).collect();
    shares.sort_unstable();
    shares.dedup();
    shares.into_iter().min_by_key(|theirs| time(*theirs)).unwrap_or(0).min(u128::from(rows)) as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALL: [Operation; 3] = [Operation::MatVec, Operation::Vma { read: 2, written: 1 }, Operation::Dot { read: 2, sums: 1 }];

    fn costs(hand_over: Span) -> Costs {
        let gb = |rate: u64| Rate::from_gbps(8 * rate);
        Costs { host: gb(90), dpu: gb(60), link: gb(10), hand_over }
    }

    /// Nothing to hand over: as the rates, 60 / (90 + 60).
    #[test]
    fn shares_are_as_the_rates() {
        assert_eq!(balanced(Offload::Onload, &ALL, (1_000_000, 7_000_000), costs(Span::ZERO)), 400_000);
    }

    /// 144 B a row: 1.6 ms alone, 2.4 ms there. A sum that takes 0.1 ms to hand over: (1.6 - 0.1) / 4.
    #[test]
    fn what_it_takes_to_hand_over_is_left_to_the_host() {
        assert_eq!(balanced(Offload::Onload, &ALL, (1_000_000, 7_000_000), costs(Span::from_us(100))), 375_000);
        // More than all of it: nothing is handed over.
        assert_eq!(balanced(Offload::Onload, &ALL, (1_000_000, 7_000_000), costs(Span::from_us(1600))), 0);
    }

    /// What is written comes back at 10 B/ns. A multiply-add of 24 B a row, 8 of them written: alone 24/90 ns, there 24/60 = 0.4 ns, back 0.8 ns.
    /// s = (24/90) / (24/90 - 8/90 + 8/10) = 24 / (16 + 72) = 3/11.
    #[test]
    fn results_that_come_back_bound_the_share() {
        let vma = [Operation::Vma { read: 2, written: 1 }];
        assert_eq!(balanced(Offload::Hybrid, &vma, (1_100_000, 0), costs(Span::ZERO)), 300_000);
        assert_eq!(balanced(Offload::Onload, &vma, (1_100_000, 0), costs(Span::ZERO)), 440_000);
        assert_eq!(balanced(Offload::Naive, &vma, (1_100_000, 0), costs(Span::ZERO)), 1_100_000);
    }

    /// Sums come back for nothing: 16/90 ns a row alone and 16/60 there are even at 0.4. With multiply-adds, even at 3/11: at 0.4 these take
    /// 0.32 ns, at 3/11 0.218; sums 0.107 and 0.129. Together 0.427 and 0.347.
    #[test]
    fn one_share_for_all_operations_is_the_best_of_theirs() {
        let both = [Operation::Vma { read: 2, written: 1 }, Operation::Dot { read: 2, sums: 1 }];
        assert_eq!(balanced(Offload::Hybrid, &both, (1_100_000, 0), costs(Span::ZERO)), 300_000);
        assert_eq!(balanced(Offload::Hybrid, &both[1..], (1_100_000, 0), costs(Span::ZERO)), 440_000);
    }

    #[test]
    fn modes_have_names() {
        for name in Offload::NAMES.split(", ") {
            assert_eq!(Offload::named(name).map(|mode| mode.to_string()).as_deref(), Some(name));
        }
        assert_eq!(Offload::named("onload"), None);
    }
}
