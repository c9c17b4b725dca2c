//! `--pcap`: what to capture, and the file.

use std::io::Write;
use std::path::PathBuf;

use fabriscope_engine::Sighting;
use fabriscope_lab::tap::{CaptureRequest, Taps};

use crate::error::Failure;
use crate::output::write_with;

/// What to capture, and where.
#[derive(Debug, Clone, Default, PartialEq, Eq, clap::Args)]
pub struct Pcap {
    /// Write the packets that pass a port to this file: pcap with nanoseconds, or pcapng by its extension
    #[arg(long, value_name = "FILE")]
    pub pcap: Option<PathBuf>,
    /// The port to capture at, both directions: `node 1`, `node 1:ADAPTER`, `switch 0:PORT`, `leaf 3:PORT` and other names,
    /// `nodes` (every adapter), `all` (every link, where packets leave); may be given several times [default: node 0]
    #[arg(long, value_name = "WHERE", requires = "pcap")]
    pub tap: Vec<String>,
    /// Keep only so many bytes of each frame
    #[arg(long, value_name = "BYTES", requires = "pcap", value_parser = clap::value_parser!(u32).range(16..))]
    pub snap: Option<u32>,
}

impl Pcap {
    /// What was asked for.
    pub fn request(&self) -> CaptureRequest {
        CaptureRequest { file: self.pcap.clone(), taps: self.tap.clone(), snap: self.snap }
    }
}

/// Writes what passed the taps into their file.
pub fn write(taps: &Taps, sightings: &[Sighting]) -> Result<(), Failure> {
    write_with(taps.file(), |writer| taps.write(sightings, writer))?;
    // Standard output has no part in it; in a pcapng it is the comment of the section.
    let notes: String = taps.notes(sightings).iter().map(|note| format!("# {}: {note}\n", taps.file().display())).collect();
    drop(std::io::stderr().lock().write_all(notes.as_bytes()));
    Ok(())
}
