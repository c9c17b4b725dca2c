//! `fabriscope monitor`: a lab watched as operators watch a machine.

use std::path::PathBuf;

use fabriscope_report::monitor::{Form, FormError, Monitor, Threshold};
use fabriscope_report::{Outcome, Verdict};
use fabriscope_units::Span;

use crate::arguments::quantity;
use crate::context::Context;
use crate::counting;
use crate::error::Failure;
use crate::output::{Output, OutputArgs};
use crate::progress::Progress;

/// Runs a lab and shows it as operators watch a machine: hot links, waiting, jobs, retries, over time.
///
/// The lab has one run, or jobs beside each other ([workload.jobs]), which then run together in their classes. Intervals double in
/// length when there would be more than --samples of them, so that memory has a bound however long the run is.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    /// The experiment, a TOML file
    #[arg(value_name = "LAB.toml")]
    lab: PathBuf,
    /// The length of the first intervals
    #[arg(long, value_name = "TIME", default_value = "1us", value_parser = quantity::<Span>)]
    every: Span,
    /// How many intervals there are at most
    #[arg(long, value_name = "COUNT", default_value_t = 512, value_parser = clap::value_parser!(u32).range(2..=1_000_000))]
    samples: u32,
    /// Show so many links in each view
    #[arg(long, value_name = "COUNT", default_value_t = 10)]
    top: usize,
    /// Show the sums as a program of the machine prints them
    #[arg(long = "as", value_name = "PROGRAM", value_parser = form)]
    form: Option<Form>,
    /// Only this node or switch, such as "node 3" or "leaf 0"
    #[arg(long, value_name = "NAME", requires = "form")]
    of: Option<String>,
    /// The largest value of a counter that is no error, of --as ibqueryerrors; 0 where nothing is said
    #[arg(long, value_name = "COUNTER=VALUE", requires = "form", value_parser = threshold)]
    threshold: Vec<Threshold>,
    /// Write every counter at the end of every interval: .om (OpenMetrics with times, for Prometheus and Grafana), .csv or .parquet
    #[arg(long, value_name = "FILE")]
    counters: Option<PathBuf>,
    /// Cores for one run of the packet engine on a large fabric, 0 for all; the result does not depend on it
    #[arg(long, value_name = "N", default_value_t = 1)]
    threads: usize,
    #[command(flatten)]
    output: OutputArgs,
}

const EXAMPLES: &str = "\
Programs of --as: perfquery, perfquery-x, ibqueryerrors, ibdiagnet, ethtool, rdma, cxi

Examples:
  fabriscope monitor labs/incast-8.toml
  fabriscope monitor labs/io-beside-all-reduce-ibex.toml --top 5
  fabriscope monitor labs/incast-8.toml --every 10us --counters incast.om
  fabriscope monitor labs/incast-8.toml --as perfquery --of \"node 0\"
  fabriscope monitor labs/link-flap.toml --as ibqueryerrors --threshold PortXmitWait=100000
  fabriscope monitor labs/io-beside-all-reduce-ibex.toml -o watched.html";

/// Runs the command.
pub fn run(args: &Args, context: &Context, output: &mut Output) -> Result<Verdict, Failure> {
    if args.every == Span::ZERO {
        return Err(Failure::told("--every 0 is no interval", "write a time such as 10us"));
    }
    let spinner = Progress::spinner("running");
    let question = fabriscope::monitor(&args.lab)
        .catalog(context.catalog()?)
        .seed(context.seed)
        .threads(super::cores(args.threads))
        .every(&args.every.to_string())
        .map_err(Failure::of)?
        .samples(args.samples)
        .top(args.top);
    let question = if args.output.draws() { question.drawn() } else { question };
    let watched = question.watch().map_err(Failure::of)?;
    drop(spinner);
    let mut outcome = match args.form {
        Some(form) => printed(form, args, &watched)?,
        None => question.shown(&watched),
    };
    if let Some(path) = &args.counters {
        outcome.text(counting::write_series(path, &watched.readings)?);
    }
    args.output.write(&outcome, output)
}

/// The sums as a program prints them; programs of the reader's get the text.
fn printed(form: Form, args: &Args, watched: &Monitor) -> Result<Outcome, Failure> {
    let text = form.text(watched, args.of.as_deref(), &args.threshold).map_err(|error| {
        let help = match &error {
            FormError::Machine { .. } => "see docs/monitoring.md for the programs of each machine",
            FormError::Nothing { .. } => "names are those of the views: fabriscope monitor LAB.toml",
            FormError::Threshold { .. } => "use a name such as PortXmitWait or SymbolErrorCounter",
        };
        Failure::told(error.to_string(), help)
    })?;
    let mut outcome = Outcome::new();
    outcome.set("program", form.name()).set("text", text.clone()).text(text);
    Ok(outcome)
}

fn form(text: &str) -> Result<Form, String> {
    let known = || Form::ALL.map(Form::name).join(", ");
    Form::ALL.into_iter().find(|form| form.name() == text).ok_or_else(|| format!("use one of {}", known()))
}

fn threshold(text: &str) -> Result<Threshold, String> {
    let parts = text.split_once('=').and_then(|(counter, most)| Some((counter, most.parse().ok()?)));
    let (counter, most) = parts.ok_or("write a counter and a number, such as PortXmitWait=1000")?;
    Ok(Threshold { counter: counter.to_owned(), most })
}
