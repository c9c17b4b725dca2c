//! `fabriscope serve`: the page in a browser; and the process that answers one of its questions.

use std::ffi::OsString;
use std::io::{Write, stdin, stdout};
use std::net::SocketAddr;
use std::time::Duration;

use fabriscope_serve::children::Settings;
use fabriscope_serve::limits::{Limits, confine};
use fabriscope_serve::server::serve;
use fabriscope_serve::worker::work;
use fabriscope_units::{Bytes, Span};

use crate::arguments::quantity;
use crate::context::Context;
use crate::error::{Failure, Verdict};
use crate::output::Output;

/// Serves a page on this machine: choose a cluster, a tool and other parts; see curves, stages and links; share the address.
///
/// Open the address that is printed in a browser; Ctrl-C ends the server. Only this machine can reach it unless another
/// address is given. Each question is answered by a process of its own under the limits below, and ended when the reader
/// asks something else.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    /// Where to serve; port 0 takes a free one. Whoever reaches another address than this machine's own can ask questions
    #[arg(long, value_name = "ADDRESS:PORT", default_value = "127.0.0.1:8421")]
    address: SocketAddr,
    /// Memory that an answer may take
    #[arg(long, value_name = "BYTES", default_value = "4GiB", value_parser = quantity::<Bytes>)]
    memory: Bytes,
    /// Time that an answer may take
    #[arg(long, value_name = "TIME", default_value = "120s", value_parser = quantity::<Span>)]
    timeout: Span,
    /// Questions that are answered at once, each on one core; 0 for as many as there are cores
    #[arg(long, value_name = "N", default_value_t = 0)]
    cores: usize,
    /// Questions that wait or are answered; more are turned away
    #[arg(long, value_name = "N", default_value_t = 256)]
    waiting: usize,
    /// Answer the question on standard input
    #[arg(long, hide = true)]
    worker: bool,
}

const EXAMPLES: &str = "\
Examples:
  fabriscope serve                                     then open http://127.0.0.1:8421/
  fabriscope serve --catalog my-parts/                 with clusters and parts of your own
  fabriscope serve --address 0.0.0.0:8421 --cores 8    for a group, on a machine that only the group reaches";

/// Runs the command.
pub fn run(args: &Args, context: &Context, output: &mut Output) -> Result<Verdict, Failure> {
    // At most a day: more is no limit.
    let limits = Limits { memory: args.memory, time: Duration::from_secs((args.timeout.as_ps() / 1_000_000_000_000).clamp(1, 86_400)) };
    if args.worker {
        return answer(limits, context);
    }
    let mut worker: Vec<OsString> = context.program().map_err(|cause| {
        Failure::told(format!("this program does not find itself: {cause}"), "start it by its whole path, from where it is installed")
    })?;
    worker.extend(["serve", "--worker", "--memory"].map(OsString::from));
    worker.push(format!("{}B", args.memory.0).into());
    worker.push("--timeout".into());
    worker.push(format!("{}s", limits.time.as_secs()).into());
    if let Some(folder) = context.folder() {
        worker.push("--catalog".into());
        worker.push(folder.into());
    }
    let settings = Settings { worker, limits, at_once: super::cores(args.cores), waiting: args.waiting };
    let mut told = Ok(());
    serve(context.catalog()?, args.address, settings, |address| {
        told = output.text(&format!("http://{address}/\n")).and_then(|()| output.flush());
        if !address.ip().is_loopback() {
            let words =
                "others than this machine can reach this server: there are no accounts, and anybody who reaches it can ask questions\n";
            // Nobody to tell is no reason to stop.
            drop(std::io::stderr().lock().write_all(words.as_bytes()));
        }
    })
    .map_err(Failure::of)?;
    told.map(|()| Verdict::Good)
}

/// Answers the question on standard input.
fn answer(limits: Limits, context: &Context) -> Result<Verdict, Failure> {
    confine(limits).map_err(|cause| Failure::told(format!("limits cannot be set: {cause}"), "give limits below those of ulimit -a"))?;
    work(context.catalog()?, &mut stdin().lock(), &mut stdout().lock())
        .map_err(|cause| Failure::told(format!("the question: {cause}"), "this is for `fabriscope serve` to call"))?;
    Ok(Verdict::Good)
}
