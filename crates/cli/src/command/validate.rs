//! `fabriscope validate`: predictions beside published measurements.

use std::path::{Path, PathBuf};

use fabriscope_report::validate::validate;
use fabriscope_report::{Measured, Tolerances, measured};

use crate::context::Context;
use crate::error::{Failure, Verdict};
use crate::output::Output;
use crate::progress::Progress;
use fabriscope_lab::prediction::Predictor;
use fabriscope_lab::published;

/// Compares predictions with published measurements.
///
/// Prints, per table, the points, and the median, 90th percentile and maximum of the absolute errors and the bias, in
/// percent of the measured values. Ends with exit status 1 where one of the project's tables is over its limits.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    /// The tables to compare; all, if none is named
    tables: Vec<String>,
    /// Measurements of your own, a CSV file with the columns of validation/
    #[arg(long, value_name = "FILE.csv")]
    measured: Option<PathBuf>,
    /// Run every row on this cluster instead of the one it names
    #[arg(long, value_name = "CLUSTER")]
    on: Option<String>,
    /// Also run rows that take minutes: collectives among more than 128 ranks
    #[arg(long)]
    long: bool,
    /// Print each point
    #[arg(long, conflicts_with = "json")]
    points: bool,
    /// Print JSON: a list of {table, points, skipped, median, p90, max, bias}
    #[arg(long)]
    json: bool,
    /// Write the result to this file
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
}

const EXAMPLES: &str = "\
Examples:
  fabriscope validate                                       every table of the project
  fabriscope validate ri2-osu_bw --points                   one table, point by point
  fabriscope validate --measured ours.csv --on ours.toml    your measurements on your cluster
  fabriscope validate csd3-opa-imb-alltoall --long --points every row, half an hour
  fabriscope validate --json -o errors.json";

/// Runs the command.
pub fn run(args: &Args, context: &Context, output: &mut Output) -> Result<Verdict, Failure> {
    let (files, tolerances) = match &args.measured {
        Some(path) => (vec![read(path)?], Tolerances::default()),
        None => (published::tables()?, published::tolerances()?),
    };
    check_names(&args.tables, &files)?;
    let on = args.on.as_deref().map(|text| context.cluster(text)).transpose()?;
    let progress = Progress::new("validating");
    let predictor = Predictor::new(context.catalog()?, on, context.seed(), args.long, |done, all| progress.at(done, all));
    let report = validate(&files, &args.tables, &tolerances, &predictor).map_err(Failure::of)?;
    drop(predictor);
    drop(progress);
    if let Some(path) = &args.output {
        output.redirect(path)?;
    }
    if args.json {
        output.json(&report.json())?;
    } else {
        if args.points {
            output.text(&report.points_text())?;
        }
        output.text(&report.text())?;
    }
    Ok(if report.failures().next().is_none() { Verdict::Good } else { Verdict::Bad })
}

fn read(path: &Path) -> Result<Measured, Failure> {
    let name = path.display().to_string();
    let bytes = std::fs::read(path).map_err(|cause| {
        Failure::told(format!("{name}: cannot be read: {cause}"), "check that the file exists and that you may read it")
    })?;
    measured::read(&name, &bytes).map_err(Failure::of)
}

fn check_names(wanted: &[String], files: &[Measured]) -> Result<(), Failure> {
    let mut known: Vec<&str> = files.iter().flat_map(|f| f.rows().iter().map(|row| row.table.as_str())).collect();
    known.dedup();
    match wanted.iter().find(|name| !known.contains(&name.as_str())) {
        Some(name) => Err(Failure::told(format!("there is no table `{name}`"), format!("the tables are {}", known.join(", ")))),
        None => Ok(()),
    }
}
