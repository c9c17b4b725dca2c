//! The commands; one file each.

pub mod bench;
mod bench_hpl;
mod calibrate;
mod clusters;
mod completions;
mod demo;
mod diagnose;
mod exec;
mod expect;
mod explain;
mod export;
pub mod import;
mod infer;
mod machines;
mod man;
mod monitor;
mod parts;
mod power;
mod report;
mod route;
mod run;
mod schema;
mod sensitivity;
mod serve;
mod show;
mod subnet;
mod sweep;
mod topo;
mod trace;
mod train;
mod transports;
mod validate;

use clap::Subcommand;

use crate::arguments::Arguments;
use crate::context::Context;
use crate::error::{Failure, Verdict};
use crate::output::Output;

/// What to do.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Run perftest and the OSU benchmarks on two simulated nodes, beside the published figures
    Demo(demo::Args),
    /// Run a benchmark on a cluster; without a name, list the benchmarks
    Bench(Box<bench::Args>),
    /// Run programs that use RDMA verbs, as they are, on virtual hosts and in virtual time
    Exec(exec::Args),
    /// Show where the time of one message or of a whole operation goes, its bottleneck, and what a change would save
    Explain(explain::Args),
    /// Compare predictions with published measurements
    Validate(validate::Args),
    /// Fit numbers of a cluster to measurements of it
    Calibrate(calibrate::Args),
    /// Print what the usual tools should show on a cluster, and what passes
    Expect(expect::Args),
    /// Say what a step of training takes, what of it is the network, and which layout is best
    Train(Box<train::Args>),
    /// Say what a served language model gives by load: times to tokens, tokens a second, what of it is the network
    Infer(Box<infer::Args>),
    /// Say whether a measured table is normal for a cluster, and what is most probably wrong if it is not
    Diagnose(diagnose::Args),
    /// Run an experiment file
    Run(run::Args),
    /// Run an experiment and watch it as operators watch a machine: hot links, waiting, jobs, retries
    Monitor(monitor::Args),
    /// Run every point of a study on all cores, and keep them as they are done
    Sweep(sweep::Args),
    /// Write a page about a cluster, several side by side, an experiment, or a study
    Report(report::Args),
    /// Serve a page on this machine: choose clusters, tools and parts in a browser
    Serve(serve::Args),
    /// Read a fabric or a node that another tool described, and say what looks wrong in it
    Import(import::Args),
    /// Read traces of real programs and workload files, and say what was read, used and left out
    Trace(trace::Args),
    /// Write a fabric or a node for another tool
    Export(export::Args),
    /// Route a fabric as OpenSM or otherwise, and say whether it can deadlock
    Route(route::Args),
    /// Show what a subnet manager sends to discover and configure a fabric, and how long that takes
    Subnet(subnet::Args),
    /// Analyse a topology (diameter, bisection, path diversity, deadlock), and draw it
    Topo(topo::Args),
    /// Compare the transports: what they promise, what they need, which operations they have
    Transports(transports::Args),
    /// List the clusters
    Clusters(clusters::Args),
    /// List the machines of the TOP500: what HPL reaches on them beside what was published, and the network's share of it
    Machines(machines::Args),
    /// List the parts and the numbers in them
    Parts(parts::Args),
    /// Show what the network of a cluster draws, idle and at full load, by part, node and bit
    Power(power::Args),
    /// Show which numbers of the parts matter: vary each, and see what moves
    Sensitivity(sensitivity::Args),
    /// Show a part or a cluster; draw a node
    Show(show::Args),
    /// Print the JSON schema of a kind of TOML file
    Schema(schema::Args),
    /// Print the completions of a shell
    Completions(completions::Args),
    /// Print or write manual pages
    Man(man::Args),
}

/// Runs the command of `arguments`.
pub fn run(arguments: &Arguments, context: &Context, output: &mut Output) -> Result<Verdict, Failure> {
    match &arguments.command {
        Command::Demo(args) => demo::run(args, context, output),
        Command::Bench(args) => bench::run(args, context, output),
        Command::Exec(args) => exec::run(args, context, output),
        Command::Explain(args) => explain::run(args, context, output),
        Command::Validate(args) => validate::run(args, context, output),
        Command::Calibrate(args) => calibrate::run(args, context, output),
        Command::Expect(args) => expect::run(args, context, output),
        Command::Train(args) => train::run(args, context, output),
        Command::Infer(args) => infer::run(args, context, output),
        Command::Diagnose(args) => diagnose::run(args, context, output),
        Command::Run(args) => run::run(args, context, output),
        Command::Monitor(args) => monitor::run(args, context, output),
        Command::Sweep(args) => sweep::run(args, context, output),
        Command::Report(args) => report::run(args, context, output),
        Command::Serve(args) => serve::run(args, context, output),
        Command::Import(args) => import::run(args, context, output),
        Command::Trace(args) => trace::run(args, context, output),
        Command::Export(args) => export::run(args, context, output),
        Command::Route(args) => route::run(args, context, output),
        Command::Subnet(args) => subnet::run(args, context, output),
        Command::Topo(args) => topo::run(args, context, output),
        Command::Transports(args) => transports::run(args, context, output),
        Command::Clusters(args) => clusters::run(args, context, output),
        Command::Machines(args) => machines::run(args, context, output),
        Command::Parts(args) => parts::run(args, context, output),
        Command::Power(args) => power::run(args, context, output),
        Command::Sensitivity(args) => sensitivity::run(args, context, output),
        Command::Show(args) => show::run(args, context, output),
        Command::Schema(args) => schema::run(args, output),
        Command::Completions(args) => completions::run(args, output),
        Command::Man(args) => man::run(args, output),
    }
}

/// The cores that were asked for; 0 asks for all there are.
fn cores(asked: usize) -> usize {
    if asked > 0 { asked } else { std::thread::available_parallelism().map_or(1, usize::from) }
}
