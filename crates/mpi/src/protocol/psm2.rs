//! PSM2's numbers.

use fabriscope_catalog::{GpuProtocol, Psm2};
use fabriscope_psm2::Library;

/// The library's numbers from its part, and from that of the library above it.
pub(crate) fn library(part: &Psm2, gpu: Option<&GpuProtocol>) -> Library {
    let eager_device = gpu.map_or(0, |gpu| gpu.eager_limit.saturating_u32());
    Library { parameters: part.plain(), eager_device, prefetch: gpu.map_or(1, |gpu| *gpu.depth) }
}
