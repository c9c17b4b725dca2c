//! What `osu_latency` prints between two nodes of RI2, as JSON: every number of its table, and the settings that it was run with.
//!
//! `cargo run --example osu_latency -p fabriscope`

use std::io::Write;
use std::process::ExitCode;

use fabriscope::render::{Json, Renderer};

/// The JSON of a short run.
pub fn osu_latency() -> Result<String, Box<dyn std::error::Error>> {
    let outcome = fabriscope::bench("osu_latency", "ri2").args(["-m", "1:1024", "-i", "20", "-x", "5"]).seed(1).outcome()?;
    Ok(Json.render(&outcome)?)
}

fn main() -> ExitCode {
    match osu_latency() {
        Ok(json) => {
            let written = std::io::stdout().lock().write_all(json.as_bytes());
            if written.is_ok() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
        }
        Err(error) => {
            drop(writeln!(std::io::stderr(), "{error}"));
            ExitCode::from(2)
        }
    }
}
