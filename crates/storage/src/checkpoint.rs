//! A checkpoint of a job: every process writes its share into a file of its own, and all wait until the data are on drives.
//!
//! Modelled: files opened, pages, RPCs, servers and drives, by the engine of RPCs.
//! Not modelled: collective buffering, compression, files that several processes share.

use fabriscope_engine_storage::{DataRun, Direction, Sharing};
use fabriscope_lustre::LayoutError;
use fabriscope_units::Bytes;

use crate::ior;
use crate::mount::Mount;

/// What writing took.
#[derive(Debug, Clone, PartialEq)]
pub struct Written {
    /// From the first open to the last byte on a drive, in s.
    pub seconds: f64,
    /// What binds, in words.
    pub binds: String,
}

/// Writes `bytes` of all processes.
///
/// # Errors
/// A default layout of the file system that does not fit it.
pub fn checkpoint(mount: &Mount, bytes: Bytes) -> Result<Written, LayoutError> {
    let processes = u64::from(mount.system.processes().max(1));
    let each = bytes.0.div_ceil(processes).max(1);
    let run = DataRun {
        direction: Direction::Write,
        sharing: Sharing::Own,
        layout: mount.layout(None, None)?,
        transfer: Bytes(each.min(CALL)),
        bytes: Bytes(each),
        random: false,
        direct: false,
        fsync: true,
    };
    let done = run.run(&mount.system);
    Ok(Written { seconds: ior::open_time(mount) + done.time_of(bytes.0 as f64), binds: done.usage.remark() })
}

/// What a call writes. Basis: assumed (buffers of libraries such as HDF5 and ADIOS are of some MiB).
const CALL: u64 = 4 << 20;
