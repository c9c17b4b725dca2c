//! Nodes as other tools describe them: readers, one format one file.
//!
//! ```text
//!  text ──read──► NodeFile { machine, host, notes } ──review──► what an operator checks first
//! ```
//!
//! Read: what `lstopo --of xml` writes (`hwloc`), topology files of NCCL and RCCL (`nccl`), what `nvidia-smi topo -m` prints (`matrix`).
//! Readers take what is there and note what they did not understand; what contradicts itself is an error. Rates that a file
//! does not say come with [`Rates`].

mod assembly;
mod classes;
mod element;
mod error;
mod hwloc;
mod hwloc_devices;
mod hwloc_domains;
mod hwloc_links;
mod matrix;
mod nccl;
mod nccl_links;
mod rates;
mod review;

use std::fmt;

use serde::Serialize;

use crate::graph::Machine;

pub use error::{ImportError, Mistake};
pub use rates::{NvLinkRate, PcieRate, Rates, SocketRate, XgmiRate};
pub use review::{Finding, Review, bundle, nearest, review};

/// Which of the formats a file is in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub enum Format {
    /// XML of hwloc.
    Hwloc,
    /// XML of NCCL.
    Nccl,
    /// XML of RCCL.
    Rccl,
    /// The matrix of `nvidia-smi topo -m`.
    NvidiaSmi,
}

impl fmt::Display for Format {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Format::Hwloc => "hwloc XML",
            Format::Nccl => "NCCL topology XML",
            Format::Rccl => "RCCL topology XML",
            Format::NvidiaSmi => "nvidia-smi topo -m",
        })
    }
}

/// A node out of a file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct NodeFile {
    /// What the file was.
    pub format: Format,
    /// Name of the host; empty where the file does not say it.
    pub host: String,
    /// The node.
    pub machine: Machine,
    /// What was left out, or taken for granted.
    pub notes: Vec<String>,
}

/// Whether a text looks like one of the formats, so that its errors are those of that format.
#[must_use]
pub fn looks_like(text: &str) -> bool {
    let text = text.trim_start_matches('\u{feff}').trim_start();
    text.starts_with('<') || text.lines().take(HEAD_LINES).any(matrix::is_head)
}

/// Reads a node in whichever of the formats the text is.
///
/// # Errors
/// A format that is not known, and what the reader of the format says.
pub fn read(text: &str, rates: &Rates) -> Result<NodeFile, ImportError> {
    // Editors of some systems mark the beginning of a file.
    let text = text.trim_start_matches('\u{feff}');
    if text.trim_start().starts_with('<') {
        let plain = element::without_comments(text.trim_start());
        let document = element::document(&plain)?;
        let root = element::Element::root(&document);
        return match root.name() {
            "system" => nccl::read(root, rates),
            "topology" => hwloc::read(root, rates),
            other => Err(ImportError::OtherSchema { line: root.line(), root: other.to_owned() }),
        };
    }
    if text.lines().take(HEAD_LINES).any(matrix::is_head) {
        return classes::build(&matrix::parse(text)?, rates);
    }
    Err(ImportError::Unknown)
}

/// Lines before the matrix: of a shell, of a job.
const HEAD_LINES: usize = 200;
