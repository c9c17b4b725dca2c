//! `fabriscope run`: an experiment file, and how fast it ran.

use std::path::{Path, PathBuf};

use fabriscope_lab::fast_forward::Forwarding;
use fabriscope_lab::run::{LabRun, RunSettings, SingleRun};
use fabriscope_lab::{ResolvedLab, load};
use fabriscope_report::{Outcome, Verdict};

use crate::context::Context;
use crate::counting::CounterArgs;
use crate::energy::EnergyArgs;
use crate::error::Failure;
use crate::memory::MemoryArgs;
use crate::output::{Output, OutputArgs, write_file};
use crate::progress::Progress;
use crate::records::RecordArgs;
use crate::tap::{self, Pcap};
use crate::timeline::{self, TimelineArgs};

/// Runs an experiment file.
///
/// The same file, seed and version give the same bytes, except for what --stats adds about the machine that ran it.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    /// The experiment, a TOML file
    #[arg(value_name = "LAB.toml")]
    lab: PathBuf,
    /// Add packets, packet_hops, wall_s, packet_hops_per_s and peak_rss_bytes
    #[arg(long)]
    stats: bool,
    /// Cores for one run of the packet engine on a large fabric, 0 for all; the result does not depend on it
    #[arg(long, value_name = "N", default_value_t = 1)]
    threads: usize,
    /// Leave steady states out, in which every window of time is like the one before; `=check` simulates every packet as well and
    /// says how far both are apart
    #[arg(long, value_name = "HOW", num_args = 0..=1, require_equals = true, default_missing_value = "skip")]
    fast_forward: Option<HowFar>,
    #[command(flatten)]
    pcap: Pcap,
    #[command(flatten)]
    counters: CounterArgs,
    #[command(flatten)]
    energy: EnergyArgs,
    #[command(flatten)]
    records: RecordArgs,
    #[command(flatten)]
    timeline: TimelineArgs,
    #[command(flatten)]
    memory: MemoryArgs,
    #[command(flatten)]
    output: OutputArgs,
}

/// What becomes of steady states.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum HowFar {
    /// They are left out
    Skip,
    /// And every packet is simulated as well
    Check,
}

const EXAMPLES: &str = "\
Examples:
  fabriscope run labs/permutation-1024.toml --stats
  fabriscope run labs/permutation-1024.toml --fast-forward=check
  fabriscope run labs/incast-8.toml --json -o incast.json
  fabriscope run labs/permutation-16.toml --pcap all.pcapng --tap all
  fabriscope run labs/hot-spot-64.toml --counters
  fabriscope run labs/incast-8.toml --counters incast.om --every 10us
  fabriscope run labs/ring-all-reduce-128.toml --energy
  fabriscope run labs/incast-8.toml --trace incast.pftrace
  fabriscope run labs/incast-8.toml --series queues.csv --step 1us
  fabriscope run labs/flows-websearch.toml --flows flows.parquet
  fabriscope run labs/incast-8.toml --flows flows.csv --cdf cdf.csv
  fabriscope schema lab                       what may stand in such a file";

/// Runs the command.
pub fn run(args: &Args, context: &Context, output: &mut Output) -> Result<Verdict, Failure> {
    let catalog = context.catalog()?;
    let lab = load(catalog, &args.lab).map_err(Failure::of)?;
    let settings = RunSettings {
        seed: context.seed,
        threads: super::cores(args.threads),
        capture: args.pcap.request(),
        counting: args.counters.counting()?,
        link_loads: args.energy.watch(),
        timeline: args.timeline.request(),
        memory: args.memory.limit(),
        series: args.records.step()?,
        flows: args.records.watch(),
        forwarding: match args.fast_forward {
            None => Forwarding::AsSaid,
            Some(HowFar::Skip) => Forwarding::Steady,
            Some(HowFar::Check) => Forwarding::Check,
        },
        drawn: args.output.draws(),
    };
    let spinner = Progress::spinner("running");
    let done = fabriscope_lab::run::run(catalog, &lab, &settings)?;
    drop(spinner);
    match done {
        LabRun::Sweep(outcome) => {
            args.records.write(&outcome)?;
            args.output.write(&outcome, output)
        }
        LabRun::One(single) => {
            let outcome = finished(args, context, &lab, &single)?;
            args.records.write(&outcome)?;
            let verdict = args.output.write(&outcome, output)?;
            for file in single.tool.iter().flat_map(|t| &t.files) {
                write_file(Path::new(&file.name), &file.text)?;
            }
            Ok(verdict)
        }
    }
}

/// The outcome with what was asked for besides; captured packets and counters go to their files.
fn finished(args: &Args, context: &Context, lab: &ResolvedLab, single: &SingleRun) -> Result<Outcome, Failure> {
    if let Some(taps) = &single.taps {
        tap::write(taps, &single.run.sightings)?;
    }
    timeline::write(&single.kernels)?;
    let mut outcome = single.outcome(lab);
    args.energy.tell(context, (&single.cluster, &single.run), &mut outcome)?;
    let counters = args.counters.show(&single.cluster, &single.run)?;
    if let Some(sums) = counters.json {
        outcome.set("counters", sums);
    }
    if let Some(table) = counters.table {
        outcome.text(format!("\n{table}"));
    }
    if args.stats {
        single.statistics(&mut outcome);
    }
    if let Some(note) = counters.note {
        outcome.text(note);
    }
    Ok(outcome)
}
