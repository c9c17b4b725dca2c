//! A perftest command line, resolved: every default applied and every rule of the tool checked.
//!
//! Source: perftest 6.29 manual and behaviour (format: docs/formats.md).
//! Modelled: defaults by test, moderation of completions by size and post list, depth no larger than the iterations.
//! Not modelled: the options that `options.rs` refuses, with the reason.

use fabriscope_platform::{LinkType, Target};
use fabriscope_tool::{UsageError, arguments};
use fabriscope_units::Span;
use fabriscope_verbs::{Pages, Service, WindowKind};

use crate::repeats;

use super::command_line::Draft;
use super::gpu::Accelerator;
use super::options::OPTIONS;
use super::test::{Test, Verb};

/// The transport services of the command line, by their names there.
pub const CONNECTIONS: [(&str, Service); 6] =
    [("RC", Service::Rc), ("XRC", Service::Xrc), ("UC", Service::Uc), ("UD", Service::Ud), ("DC", Service::Dc), ("SRD", Service::Srd)];

/// Which atomic operation is measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AtomicType {
    /// `FETCH_AND_ADD`.
    FetchAndAdd,
    /// `CMP_AND_SWAP`.
    CompareAndSwap,
}

/// How much of the report is printed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verbosity {
    /// Header and table.
    Full,
    /// The average bandwidth alone.
    Bandwidth,
    /// The message rate alone.
    MessageRate,
    /// The average latency alone.
    Latency,
}

/// How long a measurement lasts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Length {
    /// This many exchanges per queue pair.
    Iterations(u64),
    /// This long in simulated time, of which `margin` is left out at both ends.
    Duration {
        /// From the first message on.
        whole: Span,
        /// Left out at either end.
        margin: Span,
    },
}

/// A resolved command line.
#[derive(Debug, Clone, PartialEq)]
#[expect(clippy::struct_excessive_bools, reason = "each is an option of the command line")]
pub struct Settings {
    /// The program.
    pub test: Test,
    /// Message sizes in bytes, in the order in which they run.
    pub sizes: Vec<u32>,
    /// Whether `-a` was given.
    pub all_sizes: bool,
    /// How long each size runs.
    pub length: Length,
    /// Transport service.
    pub connection: Service,
    /// Which atomic.
    pub atomic: AtomicType,
    /// Requests outstanding per queue pair.
    pub tx_depth: u32,
    /// Receive queue depth.
    pub rx_depth: u32,
    /// Requests per completion.
    pub cq_mod: u32,
    /// Requests per doorbell.
    pub post_list: u32,
    /// Largest message sent inline, in bytes.
    pub inline_size: u32,
    /// Outstanding reads and atomics.
    pub outs: u8,
    /// Queue pairs.
    pub qps: u32,
    /// Path MTU in bytes.
    pub mtu: u32,
    /// GID index, where the link or the user needs one.
    pub gid_index: Option<u32>,
    /// Device name.
    pub device: String,
    /// The NIC of each node that the device is.
    pub nic: usize,
    /// Link type to print.
    pub link: LinkType,
    /// Connections are made by rdma_cm: those of iWARP, and others where that is asked for.
    pub rdma_cm: bool,
    /// The adapters are those of iWARP.
    pub iwarp: bool,
    /// One receive queue for all queue pairs.
    pub use_srq: bool,
    /// Sleep on completion events.
    pub events: bool,
    /// Datagrams go to a multicast group.
    pub multicast: bool,
    /// By what pages the buffers are translated, where the adapter is to look.
    pub pages: Option<Pages>,
    /// Bytes that messages go through before the first ones are used again.
    pub cycle: u64,
    /// The peer reaches the buffer by a memory window.
    pub window: Option<WindowKind>,
    /// Requests have a wrong key.
    pub wrong_rkey: bool,
    /// Hardware addresses of frames, as typed: that of the destination and that of the source.
    pub macs: [String; 2],
    /// Service level.
    pub sl: u8,
    /// Rate that each queue pair keeps to, in Gb/s.
    pub rate_limit: Option<u64>,
    /// Retransmission timer exponent.
    pub timeout: u8,
    /// Both directions at once.
    pub bidirectional: bool,
    /// Whether the peak is looked for.
    pub peak: bool,
    /// 10⁹ bit/s instead of 2²⁰ byte/s.
    pub gigabits: bool,
    /// Print all samples by time.
    pub unsorted: bool,
    /// Print all samples by length.
    pub histogram: bool,
    /// Send one queue of messages before the measurement.
    pub warm_up: bool,
    /// Show the old posting interface in the header.
    pub old_post_send: bool,
    /// Name of the JSON file, if one is wanted.
    pub json: Option<String>,
    /// How much is printed.
    pub verbosity: Verbosity,
    /// The GPU whose memory the buffers are in; none for host memory.
    pub gpu: Option<Accelerator>,
    /// Core time of one turn of the test's loop, beside the verbs.
    pub loop_overhead: Span,
    /// Iterations that repeat are simulated as well: somebody looks at all of them.
    pub every_iteration: bool,
}

impl Settings {
    /// Reads the options of `test` on a machine like `target`.
    ///
    /// # Errors
    /// An unknown, refused or contradictory option; a number out of its range.
    pub fn parse(test: Test, args: &[String], target: &Target) -> Result<Settings, UsageError> {
        let tool = test.name();
        let parsed = arguments::parse(tool, OPTIONS, args)?;
        parsed.no_operands(tool)?;
        let mut draft = Draft::new(test, target);
        for given in &parsed.options {
            draft.apply(given)?;
        }
        draft.finish(target)
    }
    /// The largest message of the run in bytes.
    pub fn largest(&self) -> u32 {
        self.sizes.iter().copied().max().unwrap_or(0)
    }
    /// Bytes of either half of a buffer: one to send from, one to receive into, with room for a global routing header in front.
    pub(crate) fn half(&self) -> u64 {
        (u64::from(self.largest()) + GRH).max(self.cycle).next_multiple_of(PAGE)
    }
    /// Where in the buffer message number `at` of `size` bytes lies.
    pub(crate) fn place(&self, at: u64, size: u32) -> u64 {
        let stride = u64::from(size).next_multiple_of(LINE);
        if self.cycle < 2 * stride { 0 } else { (at % (self.cycle / stride)) * stride }
    }
    /// Whether receives are shared.
    pub(crate) fn shares_receives(&self) -> bool {
        self.use_srq || matches!(self.connection, Service::Xrc | Service::Dc)
    }
    /// The iterations per queue pair, or `None` with `-D`.
    pub fn iterations(&self) -> Option<u64> {
        match self.length {
            Length::Iterations(iterations) => Some(iterations),
            Length::Duration { .. } => None,
        }
    }
    /// Whether iterations of this size may end when they repeat. Receives cost a core time until all are posted, and not behind that, and
    /// two directions would have to end together.
    pub(crate) fn may_end(&self, size: u32) -> bool {
        let one_way = !self.bidirectional && !self.receives();
        one_way && !self.every_iteration && self.iterations().is_some() && repeats::are_looked_at(size)
    }
    /// Whether the programs receive with posted buffers.
    pub fn receives(&self) -> bool {
        matches!(self.test.verb, Verb::Send | Verb::Raw)
    }
}

/// Messages that go through a buffer begin at lines, in bytes (basis: the tool).
const LINE: u64 = 64;
/// Buffers are whole pages, in bytes (basis: the tool).
const PAGE: u64 = 4096;
/// Global routing header in front of a datagram, in bytes (basis: standard).
pub(crate) const GRH: u64 = 40;
