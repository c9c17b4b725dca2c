//! Counters of a Lustre file system after a run, as `lctl get_param` prints them.
//!
//! Source: `osc.*.rpc_stats`, `osc.*.stats`, `obdfilter.*.stats`, `llite.*.stats` and `mdt.*.md_stats` of Lustre 2.15, in their form; the
//! Lustre Operations Manual, chapter on monitoring.
//! Modelled: what the engine of RPCs counts. Where rates became steady before all data had passed, what was simulated is counted.
//! Not modelled: times of requests, offsets, RPCs that are pending when the counters are read (there are none behind a run).

use std::fmt::Write;

use fabriscope_engine_storage::{DataCounts, Direction, MdsRequests, RpcStats, Sizes};

use crate::mount::Mount;

/// What was counted of a run.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Counted {
    /// Of data: which way, and what.
    pub data: Vec<(Direction, DataCounts)>,
    /// Of names: requests at each MDT.
    pub names: Vec<MdsRequests>,
    /// Seconds.
    pub time: f64,
}

impl Counted {
    /// Adds requests at MDTs.
    pub fn add_names(&mut self, requests: &[MdsRequests]) {
        if self.names.len() < requests.len() {
            self.names.resize(requests.len(), MdsRequests::default());
        }
        for (own, more) in self.names.iter_mut().zip(requests) {
            own.open += more.open;
            own.close += more.close;
            own.getattr += more.getattr;
            own.unlink += more.unlink;
        }
    }

    fn of(&self, direction: Direction) -> Option<&DataCounts> {
        self.data.iter().find(|(other, _)| *other == direction).map(|(_, counts)| counts)
    }

    /// All counters: those of the first client, then those of servers.
    pub fn text(&self, mount: &Mount) -> String {
        let name = &mount.files.part.name;
        let snapshot = format!("{:<25} {:.9} secs.nsecs\n", "snapshot_time", self.time);
        let (read, write) = (self.of(Direction::Read), self.of(Direction::Write));
        let mut text = String::new();
        let sizes = |text: &mut String, what: &str, sizes: Sizes| {
            if sizes.samples > 0 {
                let Sizes { samples, least, most, sum } = sizes;
                let _ = writeln!(text, "{what:<25} {samples} samples [bytes] {least} {most} {sum}");
            }
        };
        if !self.data.is_empty() {
            let _ = write!(text, "llite.{name}-ffff0000.stats=\n{snapshot}");
            sizes(&mut text, "read_bytes", read.map(|counts| counts.calls).unwrap_or_default());
            sizes(&mut text, "write_bytes", write.map(|counts| counts.calls).unwrap_or_default());
        }
        for ost in 0..mount.system.osts() {
            let of = |counts: Option<&DataCounts>| counts.and_then(|counts| counts.client.get(ost as usize).cloned()).unwrap_or_default();
            let (reads, writes) = (of(read), of(write));
            if reads.pages.is_empty() && writes.pages.is_empty() {
                continue;
            }
            let osc = format!("osc.{name}-OST{ost:04x}-osc-ffff0000");
            let _ = write!(text, "{osc}.rpc_stats=\nsnapshot_time:         {:.9} (secs.nsecs)\n", self.time);
            for line in ["read RPCs in flight:  0", "write RPCs in flight: 0", "pending write pages:  0", "pending read pages:   0"] {
                let _ = writeln!(text, "{line}");
            }
            rpc_stats(&mut text, &reads, &writes);
            let sum = |stats: &RpcStats| stats.pages.iter().sum::<u64>();
            let _ = write!(text, "{osc}.stats=\n{snapshot}");
            for (what, count) in [("ost_read", sum(&reads)), ("ost_write", sum(&writes))] {
                if count > 0 {
                    let _ = writeln!(text, "{what:<25} {count} samples [reqs]");
                }
            }
        }
        for ost in 0..mount.system.osts() {
            let of = |counts: Option<&DataCounts>| counts.and_then(|counts| counts.osts.get(ost as usize).copied()).unwrap_or_default();
            let (reads, writes) = (of(read), of(write));
            if reads.samples + writes.samples > 0 {
                let _ = write!(text, "obdfilter.{name}-OST{ost:04x}.stats=\n{snapshot}");
                sizes(&mut text, "read_bytes", reads);
                sizes(&mut text, "write_bytes", writes);
            }
        }
        for (mdt, requests) in self.names.iter().enumerate().filter(|(_, requests)| **requests != MdsRequests::default()) {
            let _ = write!(text, "mdt.{name}-MDT{mdt:04x}.md_stats=\n{snapshot}");
            let MdsRequests { open, close, getattr, unlink } = *requests;
            for (what, count) in [("open", open), ("close", close), ("unlink", unlink), ("getattr", getattr)] {
                if count > 0 {
                    let _ = writeln!(text, "{what:<25} {count} samples [reqs]");
                }
            }
        }
        text
    }
}

/// Histograms of pages and of RPCs in flight, reads beside writes.
fn rpc_stats(text: &mut String, reads: &RpcStats, writes: &RpcStats) {
    let kinds = [("pages per rpc", &reads.pages, &writes.pages), ("rpcs in flight", &reads.in_flight, &writes.in_flight)];
    for (what, reads, writes) in kinds {
        let _ = writeln!(text, "\n\t\t\tread\t\t\twrite\n{what:<22}rpcs   % cum % |       rpcs   % cum %");
        let all = [reads.iter().sum::<u64>(), writes.iter().sum::<u64>()];
        let mut so_far = [0_u64; 2];
        let percent = |part: u64, all: u64| (100 * part).checked_div(all).unwrap_or(0);
        // In flight counts from 1 on: an RPC is one of them itself.
        let first = usize::from(what != "pages per rpc");
        for place in first..reads.len().max(writes.len()) {
            let now = [reads, writes].map(|histogram| histogram.get(place).copied().unwrap_or(0));
            so_far.iter_mut().zip(now).for_each(|(sum, now)| *sum += now);
            let label = if first == 0 { 1_u64 << place } else { place as u64 };
            let of = |kind: usize| (now[kind], percent(now[kind], all[kind]), percent(so_far[kind], all[kind]));
            let ((read, read_share, read_sum), (write, write_share, write_sum)) = (of(0), of(1));
            let _ = writeln!(text, "{label}:\t\t{read:10} {read_share:3} {read_sum:3}   | {write:10} {write_share:3} {write_sum:3}");
        }
    }
    text.push('\n');
}
