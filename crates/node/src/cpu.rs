//! What a core pays to drive a NIC: building work requests, ringing doorbells, polling, copying.
//!
//! Source: the split follows the mlx5 user-space driver (build the WQE, then either an 8-byte doorbell or a
//! BlueFlame copy of the whole WQE into write-combining space, closed by a store fence) and the LogP habit
//! of separating overhead (the core is busy) from latency (the store is in flight).
//! Modelled: WQE build, doorbell and BlueFlame stores, posted-write latency, CQE handling, detection of a
//! DMA write by a spinning core, copies from cache or from memory.
//! Not modelled: interrupts, frequency changes, contention between cores for memory.

use fabriscope_units::{Bytes, Rate, Span};

/// The parameters of a core, each declared here and nowhere else: handed to [`fabriscope_units::bare`] for the model, and to the
/// catalogue for its part, whose keys they are.
#[macro_export]
macro_rules! cpu_parameters {
    ($($with:ident)::+ { $($given:tt)* }) => {
        $($with)::+! {
            { $($given)* }
            values {
                /// Core time to build a work request, up to the doorbell store.
                wqe_build: Span,
                /// Core time of one doorbell or BlueFlame write, with its fence.
                mmio_busy: Span,
                /// Core time per further 64 B of a BlueFlame write.
                blueflame_block: Span,
                /// From the core's write to its arrival at the adapter.
                mmio_latency: Span,
                /// Core time of a poll that finds a completion.
                poll_hit: Span,
                /// Core time of a poll that finds nothing.
                poll_empty: Span,
                /// Until a spinning core sees a line that a device wrote.
                detect: Span,
                /// What the first touch of data just written by DMA costs beyond the last cache: nothing where DMA writes into it.
                dma_touch: Span,
                /// Core time to post a receive (a doorbell record in memory, no MMIO).
                post_recv: Span,
                /// Core time of a copy apart from its bytes.
                copy_call: Span,
                /// Copy rate of one core where both buffers are cached.
                copy_rate_cached: Rate,
                /// Copy rate of one core from and to memory.
                copy_rate_streaming: Rate,
                /// The same for what follows the first page, where the prefetchers are ahead.
                copy_rate_long: Rate,
                /// Largest copy that counts as cached.
                copy_cached_limit: Bytes,
            }
            optional {}
            tables {}
        }
    };
}

cpu_parameters! {
    fabriscope_units::bare {
        /// Costs of one core.
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub struct CpuCosts
    }
}

impl CpuCosts {
    /// What is left where something else than a core posts and polls, whose own times are counted apart: the way to the adapter.
    #[must_use]
    pub fn posted_by_others(self) -> CpuCosts {
        let none = Span::ZERO;
        CpuCosts { wqe_build: none, mmio_busy: none, poll_hit: none, poll_empty: none, dma_touch: none, post_recv: none, ..self }
    }
    /// Time to copy `amount` bytes when the copies in progress touch `working_set` bytes.
    ///
    /// `copy_call + amount / rate`, the rate chosen by `working_set`; beyond the caches the first page goes at
    /// `copy_rate_streaming` and the rest at `copy_rate_long`. An empty copy is free.
    #[must_use]
    pub fn copy(&self, amount: Bytes, working_set: Bytes) -> Span {
        if amount == Bytes::ZERO {
            return Span::ZERO;
        }
        if working_set <= self.copy_cached_limit {
            return self.copy_call + self.copy_rate_cached.time(amount);
        }
        let first = amount.min(PAGE);
        self.copy_call + self.copy_rate_streaming.time(first) + self.copy_rate_long.time(amount - first)
    }

    /// The same when each line takes `crossing` longer than the `detect` that a line from another core takes.
    ///
    /// A core has as many lines in flight as before (Little's law), so the bytes take `1 + crossing / detect` times as long.
    #[must_use]
    pub fn copy_across(&self, amount: Bytes, working_set: Bytes, crossing: Span) -> Span {
        let near = self.copy(amount, working_set);
        let bytes = near.saturating_sub(self.copy_call).as_ps();
        let longer = u128::from(bytes) * u128::from(crossing.as_ps()) / u128::from(self.detect.as_ps().max(1));
        near + Span::from_ps(u64::try_from(longer).unwrap_or(u64::MAX / 4))
    }
}

/// Hardware prefetchers do not cross pages of this size. Basis: standard (x86-64 and Arm base pages).
const PAGE: Bytes = Bytes::from_kib(4);

/// When a single posted WQE travels inside the doorbell write instead of being fetched by the NIC.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Blueflame {
    /// Every single post that fits.
    Always,
    /// Only WQEs with inline data.
    Inline,
    /// Never: the NIC fetches every WQE.
    Never,
}

/// How one NIC of the node is told about new work.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DoorbellPolicy {
    /// When BlueFlame is used.
    pub blueflame: Blueflame,
    /// The largest WQE that fits the BlueFlame buffer.
    pub blueflame_limit: Bytes,
}

impl DoorbellPolicy {
    /// Whether a post of `wqes` entries, the only one being `wqe` bytes long, goes by BlueFlame.
    #[must_use]
    pub fn pushes(&self, wqes: usize, wqe: Bytes, inline: bool) -> bool {
        let allowed = match self.blueflame {
            Blueflame::Always => true,
            Blueflame::Inline => inline,
            Blueflame::Never => false,
        };
        allowed && wqes == 1 && wqe <= self.blueflame_limit
    }
}
