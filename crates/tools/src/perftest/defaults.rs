//! Defaults and limits of the tool.
//!
//! Source: perftest 6.29 and its own help (format: docs/formats.md). The `[perftest]` table of a software part replaces
//! the defaults of the same name.

use fabriscope_catalog::Perftest;
use fabriscope_units::Span;
use fabriscope_verbs::Service;

use super::test::{Kind, Test, Verb};

/// The defaults of one run.
#[derive(Debug, Clone, Copy)]
pub(super) struct Defaults {
    pub tx_depth: u32,
    pub rx_depth: u32,
    pub iterations: u64,
    pub cq_mod: u32,
    pub size: u32,
    pub loop_overhead: Span,
}

impl Defaults {
    pub fn of(test: Test, part: Option<&Perftest>) -> Defaults {
        let latency = test.kind == Kind::Latency;
        let write_bw = test == Test { verb: Verb::Write, kind: Kind::Bandwidth };
        Defaults {
            tx_depth: if latency { 1 } else { part.map_or(TX_DEPTH, |part| *part.tx_depth) },
            rx_depth: part.map_or(RX_DEPTH, |part| *part.rx_depth),
            iterations: match (part, write_bw) {
                (Some(part), true) => u64::from(*part.iterations_write_bw),
                (Some(part), false) => u64::from(*part.iterations),
                (None, true) => ITERATIONS_WRITE_BW,
                (None, false) => ITERATIONS,
            },
            cq_mod: part.map_or(CQ_MODERATION, |part| *part.cq_moderation),
            size: match (test.verb, test.kind) {
                (Verb::Atomic, _) => ATOMIC_SIZE,
                (Verb::Raw, Kind::Latency) => SMALLEST_FRAME,
                (_, Kind::Latency) => part.map_or(SIZE_LATENCY, |part| part.size_lat.saturating_u32()),
                (_, Kind::Bandwidth) => part.map_or(SIZE_BANDWIDTH, |part| part.size_bw.saturating_u32()),
            },
            loop_overhead: part.map_or(Span::ZERO, |part| *part.loop_overhead),
        }
    }
}

/// Largest message that is sent inline without `-I`.
pub(super) fn inline_size(test: Test, connection: Service, part: Option<&Perftest>) -> u32 {
    match (test.kind, test.verb, connection) {
        (Kind::Latency, Verb::Write, _) => part.map_or(INLINE_WRITE, |part| part.inline_write.saturating_u32()),
        (Kind::Latency, Verb::Send, Service::Ud) => part.map_or(INLINE_SEND_UD, |part| part.inline_send_ud.saturating_u32()),
        (Kind::Latency, Verb::Send | Verb::Raw, _) => part.map_or(INLINE_SEND, |part| part.inline_send.saturating_u32()),
        _ => 0,
    }
}

const ITERATIONS: u64 = 1000;
const ITERATIONS_WRITE_BW: u64 = 5000;
const SIZE_LATENCY: u32 = 2;
const SIZE_BANDWIDTH: u32 = 65_536;
pub(super) const ATOMIC_SIZE: u32 = 8;
/// Smallest frame of Ethernet, without its check sequence as the tool counts. Basis: the tool.
pub(super) const SMALLEST_FRAME: u32 = 64;
/// From an interrupt of the adapter until the program runs that slept on it. Basis: estimated, `catalog/kernels/linux.toml`: 1.5 us for the interrupt and
/// 3 us to wake up.
pub(super) const WAKE_UP: Span = Span::from_ns(4500);
pub(super) const MAX_SIZE: u64 = (1 << 31) - 1;
const TX_DEPTH: u32 = 128;
const RX_DEPTH: u32 = 512;
pub(super) const RX_DEPTH_UNRELIABLE: u32 = 16_000;
pub(super) const MAX_DEPTH: u64 = 15_000;
const CQ_MODERATION: u32 = 100;
/// Above this many bytes a single size runs without moderation.
pub(super) const MODERATION_LIMIT: u32 = 8192;
pub(super) const OUTSTANDING_READS: u8 = 16;
pub(super) const MAX_OUTSTANDING: u8 = 128;
const INLINE_WRITE: u32 = 220;
const INLINE_SEND: u32 = 236;
const INLINE_SEND_UD: u32 = 188;
pub(super) const MAX_INLINE: u64 = 912;
pub(super) const MARGIN_SECONDS: u64 = 2;
pub(super) const TIMEOUT_EXPONENT: u8 = 14;
pub(super) const GID_INDEX: u32 = 3;
pub(super) const JSON_FILE: &str = "perftest_out.json";
pub(super) const VERSION: &str = "Version: 6.29\n";
