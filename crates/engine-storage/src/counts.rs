//! What Lustre counts: RPCs of a client for each target by their pages and by how many are in flight, bytes at targets, requests at MDTs.
//!
//! Source: Lustre Operations Manual, "Monitoring the client RPC stream", "OST block I/O stream", `lprocfs` of release 2.15.
//! Modelled: `rpc_stats` of the first client, `stats` of each OST and of the mount of the first client, `md_stats` of each MDT.
//! Not modelled: times of requests, offsets within RPCs, retries.

use fabriscope_units::{Bytes, Span};

use crate::PAGE;

/// RPCs for one target.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RpcStats {
    /// By pages: place *n* has those with more than 2ⁿ⁻¹ and at most 2ⁿ pages.
    pub pages: Vec<u64>,
    /// By the RPCs in flight as each was sent, with it.
    pub in_flight: Vec<u64>,
}

/// Things with a size.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sizes {
    /// How many.
    pub samples: u64,
    /// The smallest.
    pub least: u64,
    /// The largest.
    pub most: u64,
    /// All together.
    pub sum: u64,
}

/// What was counted of a run of data.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DataCounts {
    /// RPCs of the first client, by OST.
    pub client: Vec<RpcStats>,
    /// Bytes of all clients' RPCs, by OST.
    pub osts: Vec<Sizes>,
    /// Calls of the first client's processes.
    pub calls: Sizes,
    /// How long was simulated.
    pub time: Span,
}

/// Requests at an MDT.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MdsRequests {
    /// Opens, with creation or without.
    pub open: u64,
    /// Closes.
    pub close: u64,
    /// Attributes.
    pub getattr: u64,
    /// Names removed.
    pub unlink: u64,
}

impl RpcStats {
    fn note(&mut self, bytes: Bytes, in_flight: u32) {
        let pages = bytes.0.div_ceil(PAGE).max(1);
        one_more(&mut self.pages, pages.next_power_of_two().trailing_zeros() as usize);
        one_more(&mut self.in_flight, in_flight as usize);
    }
}

fn one_more(histogram: &mut Vec<u64>, place: usize) {
    if histogram.len() <= place {
        histogram.resize(place + 1, 0);
    }
    histogram[place] += 1;
}

impl Sizes {
    fn note(&mut self, bytes: u64) {
        self.least = if self.samples == 0 { bytes } else { self.least.min(bytes) };
        self.most = self.most.max(bytes);
        self.samples += 1;
        self.sum += bytes;
    }
}

impl DataCounts {
    /// Nothing yet, of so many OSTs.
    pub(crate) fn of(osts: u32) -> DataCounts {
        let osts = osts as usize;
        DataCounts { client: vec![RpcStats::default(); osts], osts: vec![Sizes::default(); osts], ..DataCounts::default() }
    }
    /// A client sends an RPC, which is one of so many in flight.
    pub(crate) fn sent(&mut self, (client, ost): (u32, u32), bytes: Bytes, in_flight: u32) {
        if let Some(stats) = self.client.get_mut(ost as usize).filter(|_| client == FIRST) {
            stats.note(bytes, in_flight);
        }
    }
    /// A target served one.
    pub(crate) fn served(&mut self, ost: u32, bytes: u64) {
        if let Some(sizes) = self.osts.get_mut(ost as usize) {
            sizes.note(bytes);
        }
    }
    /// A process of a client got on by so much.
    pub(crate) fn called(&mut self, client: u32, bytes: u64) {
        if client == FIRST {
            self.calls.note(bytes);
        }
    }
}

/// The client whose own counters are shown.
const FIRST: u32 = 0;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_are_counted_by_powers_of_two() {
        let mut stats = RpcStats::default();
        for pages in [1, 2, 3, 4, 256, 257] {
            stats.note(Bytes(pages * PAGE), 1);
        }
        // 1; 2; 3 and 4; 256 = 2⁸; 257 needs 2⁹.
        assert_eq!(stats.pages, [1, 1, 2, 0, 0, 0, 0, 0, 1, 1]);
        assert_eq!(stats.in_flight, [0, 6]);
    }
}
