//! PSM2's numbers.

use fabriscope_catalog::{GpuProtocol, Psm2};
use fabriscope_psm2::{Costs, Library};
use fabriscope_units::Bytes;

/// The library's numbers from its part.
pub(crate) fn library(part: &Psm2, gpu: Option<&GpuProtocol>) -> Library {
    let bytes = Bytes::saturating_u32;
    Library {
        tiny: bytes(*part.tiny_limit),
        sdma: bytes(*part.sdma_limit),
        sdma_blocking: bytes(*part.sdma_limit_blocking),
        eager: bytes(*part.eager_limit),
        eager_device: gpu.map_or(0, |gpu| bytes(*gpu.eager_limit)),
        prefetch: gpu.map_or(1, |gpu| *gpu.depth),
        window: bytes(*part.window),
        tid: bytes(*part.tid),
        credits: *part.flow_credits,
        timeout: *part.timeout,
        timeout_max: *part.timeout_max,
        costs: Costs {
            send: *part.send,
            packet: *part.packet,
            post: *part.post,
            receive: *part.receive,
            matching: *part.matching,
            entry: *part.entry,
            system_call: *part.system_call,
            descriptor: *part.descriptor,
            window: *part.grant,
            page: *part.page,
        },
    }
}
