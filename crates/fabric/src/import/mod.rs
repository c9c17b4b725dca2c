//! Fabrics as other tools describe them: readers, one format one file.
//!
//! ```text
//!  bytes ──text──► String ──read──► Subnet { devices, cables, notes } ──review──► what an operator checks first
//!                                      └──fabric(&links)──► Fabric with Coordinates::Irregular
//! ```
//!
//! Read: files of `ibnetdiscover` and `ibsim` (`ibnetdiscover`), `opensm-subnet.lst` (`subnet_lst`), Slurm's `topology.conf`
//! (`slurm_conf`) and `topology.yaml` (`slurm_yaml`), cabling plans of Graphviz (`dot`), topologies of htsim (`htsim`) and
//! of the ns-3 simulators HPCC and SimAI (`ns3`), edge lists (`edges`), all of them compressed or not; forwarding tables of OpenSM and `dump_fts` (`lfts`, line by line).
//! Readers take what is there and report what they did not understand; what contradicts itself is an error.

mod dot;
mod dot_words;
mod edges;
mod error;
mod hostlist;
mod hosts;
mod htsim;
mod ibnetdiscover;
mod levels;
mod lfts;
mod ns3;
mod review;
mod slurm_conf;
mod slurm_yaml;
mod subnet;
mod subnet_lst;
mod text;
mod tree;
mod wired;
pub mod yaml;

pub use error::{ImportError, Mistake};
pub use hosts::Host;
pub use lfts::{LftsError, LftsSummary, read_lfts};
pub use review::{Chassis, Class, Finding, Review, review};
pub(crate) use subnet::natural;
pub use subnet::{Cable, Device, Kind, Plug, Speed, Subnet, Unread};
pub use text::{plain, text};
pub use wired::Wiring;

/// Reads a fabric in whichever of the formats the text is.
///
/// # Errors
/// A format that is not known, and what the reader of the format says.
pub fn read(text: &str) -> Result<Subnet, ImportError> {
    // Editors of some systems mark the beginning of a file.
    let text = text.trim_start_matches('\u{feff}');
    let first = text.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#')).take(200);
    for line in first {
        if subnet_lst::looks_like(line) {
            return subnet_lst::read(text);
        }
        if ibnetdiscover::looks_like(line) {
            return ibnetdiscover::read(text);
        }
        if slurm_conf::looks_like(line) {
            return slurm_conf::read(text);
        }
        if slurm_yaml::looks_like(line) {
            return slurm_yaml::read(text);
        }
        if htsim::looks_like(line) {
            return htsim::read(text);
        }
        if dot::looks_like(line) {
            return dot::read(text);
        }
        if line.starts_with("Unicast lids") {
            return Err(ImportError::ForwardingTables);
        }
    }
    if ns3::looks_like(text) {
        return ns3::read(text);
    }
    if edges::looks_like(text) {
        return edges::read(text);
    }
    Err(ImportError::Unknown)
}
