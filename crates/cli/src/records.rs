//! `--flows`, `--cdf` and `--series`: a row for each flow, share of them, or queue and pair at each step, in a file for other tools.

use std::path::{Path, PathBuf};

use fabriscope_engine::Watch;
use fabriscope_report::render::records;
use fabriscope_report::{Grid, Outcome};
use fabriscope_units::Span;

use crate::arguments::quantity;
use crate::error::Failure;
use crate::output::{write_file, write_with};

/// What to record, and where to write it.
#[derive(Debug, Clone, Default, PartialEq, Eq, clap::Args)]
pub struct RecordArgs {
    /// Write a row for each flow of [workload.flows], or for each message of a pattern, to this file: its completion time, the time that
    /// it takes alone, and the slowdown; .csv or .parquet
    #[arg(long, value_name = "FILE")]
    pub flows: Option<PathBuf>,
    /// Write how completion times and slowdowns are distributed to this file: .csv or .parquet
    #[arg(long, value_name = "FILE")]
    pub cdf: Option<PathBuf>,
    /// Write the bytes of every queue, and what each host sends to each other, at every step to this file: .csv or .parquet
    #[arg(long, value_name = "FILE")]
    pub series: Option<PathBuf>,
    /// The length of a step of --series [default: 10us]
    #[arg(long, value_name = "TIME", requires = "series", value_parser = quantity::<Span>)]
    pub step: Option<Span>,
}

/// The step where none is named. Basis: assumed; some round trips of a building.
const STEP: Span = Span::from_us(10);

impl RecordArgs {
    /// The length of a step, where a series was asked for.
    pub fn step(&self) -> Result<Option<Span>, Failure> {
        if self.step == Some(Span::ZERO) {
            return Err(Failure::told("--step 0 is no interval", "write a time such as 10us"));
        }
        for path in [&self.flows, &self.cdf, &self.series].into_iter().flatten() {
            format(path)?;
        }
        Ok(self.series.as_ref().map(|_| self.step.unwrap_or(STEP)))
    }

    /// Whether the messages of a pattern are timed.
    pub fn watch(&self) -> Watch {
        if self.flows.is_some() || self.cdf.is_some() { Watch::On } else { Watch::Off }
    }

    /// Writes the files.
    pub fn write(&self, outcome: &Outcome) -> Result<(), Failure> {
        let of = "patterns and flows";
        for (path, name) in [(&self.flows, "flows"), (&self.cdf, "cdf"), (&self.series, "series")] {
            let Some(path) = path else { continue };
            let grid = outcome.recorded(name).ok_or_else(|| {
                Failure::told(
                    format!("--{name} {}: this lab has none", path.display()),
                    format!("use a lab of {of}, or leave --{name} out"),
                )
            })?;
            table(path, grid)?;
        }
        Ok(())
    }
}

/// A way to write a table.
#[derive(Clone, Copy)]
enum Format {
    Csv,
    Parquet,
}

fn format(path: &Path) -> Result<Format, Failure> {
    match path.extension().and_then(|extension| extension.to_str()) {
        Some("csv") => Ok(Format::Csv),
        Some("parquet") => Ok(Format::Parquet),
        _ => Err(Failure::told(format!("{}: no format has this extension", path.display()), "name the file FILE.csv or FILE.parquet")),
    }
}

fn table(path: &Path, grid: &Grid) -> Result<(), Failure> {
    match format(path)? {
        Format::Csv => write_file(path, &records::csv(grid)),
        Format::Parquet => {
            // The writer of the library has to own what it writes to, and to send it.
            let mut bytes = Vec::new();
            let written = records::parquet(grid, &mut bytes);
            write_with(path, |writer| written.and_then(|()| writer.write_all(&bytes)))
        }
    }
}
