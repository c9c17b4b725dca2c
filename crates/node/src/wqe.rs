//! How large a work request is as a driver builds it.

use fabriscope_units::Bytes;
use fabriscope_verbs::{SendFlags, SendWr, WrOpcode};

/// Size of the WQE that a driver of the mlx5 family builds: 16-byte control segment, address and atomic
/// segments, then data segments of 16 bytes or the inline data with its 4-byte header, rounded up to 16.
#[must_use]
pub fn wqe_bytes(wr: &SendWr) -> Bytes {
    let remote = match wr.opcode {
        WrOpcode::AtomicFetchAndAdd | WrOpcode::AtomicCmpAndSwp => 32,
        // What mlx5 calls UMR: control and memory key, for BIND a list of pieces of 64 bytes as well.
        WrOpcode::BindMw => 160,
        WrOpcode::LocalInv => 112,
        _ if wr.remote.is_some() => 16,
        _ if wr.ud.is_some() => 48,
        _ => 0,
    };
    let data = if wr.flags.contains(SendFlags::INLINE) {
        let inline: u64 = wr.sge.iter().map(|s| u64::from(s.length)).sum();
        (4 + inline).div_ceil(16) * 16
    } else {
        16 * wr.sge.len() as u64
    };
    Bytes(16 + remote + data)
}
