//! How near two devices of a node are, in the library's classes.
//!
//! Source: NCCL 2.22.3, src/graph/topo.h (PATH_LOC to PATH_DIS).

use std::fmt;

/// How near two devices are, in the library's order: what is later is worse.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum PathType {
    /// The same device.
    Loc,
    /// NVLink or xGMI, also through a switch.
    Nvl,
    /// The same through another GPU.
    Nvb,
    /// One PCI Express switch.
    Pix,
    /// Several.
    Pxb,
    /// By a GPU that is nearer to the adapter.
    Pxn,
    /// Through a host bridge.
    Phb,
    /// Between sockets.
    Sys,
    /// By the network only.
    Net,
    /// Not at all.
    Dis,
}

impl PathType {
    /// All of them, nearest first.
    pub const ALL: [PathType; 10] = [
        PathType::Loc,
        PathType::Nvl,
        PathType::Nvb,
        PathType::Pix,
        PathType::Pxb,
        PathType::Pxn,
        PathType::Phb,
        PathType::Sys,
        PathType::Net,
        PathType::Dis,
    ];
    /// As the library prints it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            PathType::Loc => "LOC",
            PathType::Nvl => "NVL",
            PathType::Nvb => "NVB",
            PathType::Pix => "PIX",
            PathType::Pxb => "PXB",
            PathType::Pxn => "PXN",
            PathType::Phb => "PHB",
            PathType::Sys => "SYS",
            PathType::Net => "NET",
            PathType::Dis => "DIS",
        }
    }
    /// The next worse.
    pub(crate) fn worse(self) -> PathType {
        PathType::ALL.get(self as usize + 1).copied().unwrap_or(PathType::Dis)
    }
}

impl fmt::Display for PathType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}
