//! `spark-shuffle`: two stages of a job of Apache Spark with a shuffle between them.
//!
//! Source: Spark's shuffle (`fetcher.rs`, `server.rs`), SparkUCX; limits and costs are parts of the catalogue
//! ([`fabriscope_catalog::ShuffleLibrary`]).
//! Modelled: map tasks on cores, partitions even or skewed, drives, fetches of blocks over sockets and RDMA, packet by packet, reduce tasks that
//! work while blocks come; times and bytes under the names of Spark's user interface and event log.
//! Not modelled: garbage collection, spills, compression, the driver, failures and speculation; the rest stands where it belongs.

mod drive;
mod fetcher;
mod job;
mod kind;
mod maps;
mod options;
mod partitions;
mod reducer;
mod report;
mod server;
mod task;

use std::sync::Arc;

use fabriscope_catalog::{Drive, Shared, ShuffleLibrary};
use fabriscope_node::{Main, Process, ProgramError, Record, Ties};
use fabriscope_platform::{Target, path_mtu};
use fabriscope_rpc::channel::{Contacts, Over, Terms};
use fabriscope_tool::Operation::Iteration;
use fabriscope_tool::{PerNode, Placing, Prepared, Ranks, Rows, SizeOption, Suite, Traits, UsageError};
use fabriscope_units::Bytes;

pub use drive::DriveQueue;
pub use fetcher::{Fetcher, Limits, Request};
pub use kind::JobKind;
pub use options::{Fetch, OPTIONS};
pub use partitions::{Skew, blocks};
pub use task::TaskRecord;

use job::{Job, Role, Stack};
use maps::MapWork;
use options::Settings;

/// The program's name.
pub const NAME: &str = "spark-shuffle";
/// One line for a list of tools.
pub const ABOUT: &str = "a shuffle of Apache Spark (GroupBy, SortBy, TeraSort) over TCP and RDMA: stages, fetch wait";

/// What the program is.
#[must_use]
pub const fn traits() -> Traits {
    Traits { ranks: Ranks::Job(PerNode::One), sizes: SizeOption::Fixed, ..Traits::new(Suite::Single, Iteration) }
}

/// Reads the command line and makes the programs.
///
/// # Errors
/// A wrong command line; a transport that the adapters do not have; a drive that is not in the catalogue.
pub fn prepare(args: &[String], target: &Target) -> Result<Prepared, UsageError> {
    let settings = options::read(NAME, ABOUT, args, target)?;
    let executors = target.layout.nodes;
    let drive = settings.drive.as_deref().map(|name| drive_of(name, target)).transpose()?;
    let stacks = settings.over.iter().map(|fetch| stack(*fetch, &settings, target)).collect::<Result<Vec<_>, _>>()?;
    let usual = stacks.first().map_or(1, |stack| (*stack.library.threads).min(settings.cores).min(executors - 1));
    let threads = settings.threads.unwrap_or(usual).clamp(1, settings.cores.max(1));
    let output = Bytes(settings.data.0 / u64::from(settings.maps));
    let maps = stacks.first().map_or_else(Vec::new, |stack| {
        let of_kind = settings.kind.of(&stack.library);
        let rate = settings.map_rate.unwrap_or(*of_kind.map_rate);
        let work = MapWork { output, rate, start: *stack.library.task_start, reads_input: of_kind.reads_input };
        let of = |executor: u32| {
            let tasks: Vec<u32> = (executor..settings.maps).step_by(executors as usize).collect();
            maps::run(&tasks, executor, settings.cores, work, drive.as_ref().map(|drive| DriveQueue::new(drive)))
        };
        (0..executors).flat_map(of).collect()
    });
    let job = Arc::new(Job {
        blocks: blocks(output, settings.reducers, settings.skew, settings.seed),
        executors,
        threads,
        contacts: Contacts::default(),
        maps,
        drives: (0..executors).map(|_| Record::default()).collect(),
        drive,
        waiting: Record::default(),
        stages: stacks.iter().map(|_| Record::default()).collect(),
        stacks,
        settings,
    });
    let per_node = 2 * threads;
    let main = |_| -> Main {
        let job = job.clone();
        Box::new(move |process| Box::pin(run(process, job)))
    };
    let mains = (0..executors * per_node).map(main).collect();
    let finish = move || report::report(&job);
    Ok(Prepared { placing: Placing::Blocks { per_node }, mains, ties: Ties::Any, finish: Box::new(finish), rows: Rows::default() })
}

async fn run(process: Process, job: Arc<Job>) -> Result<(), ProgramError> {
    for (number, stack) in job.stacks.iter().enumerate() {
        match job.role(process.rank()) {
            (executor, Role::Fetches(thread)) => reducer::run(&process, &job, number, (executor, thread)).await?,
            (executor, Role::Serves(thread)) => server::run(&process, &job, stack, (executor, thread)).await?,
        }
        process.barrier().await;
    }
    Ok(())
}

/// The library that fetches so, and its terms.
fn stack(fetch: Fetch, settings: &Settings, target: &Target) -> Result<Stack, UsageError> {
    let rdma = fetch != Fetch::Tcp;
    let wanted = |library: &&ShuffleLibrary| library.one_sided.is_some() == rdma;
    let mut found = target.services.iter().filter_map(|software| software.shuffle.as_ref()).filter(wanted);
    let library = found.next().cloned().ok_or_else(|| UsageError::Conflict {
        what: format!("no library of the catalogue shuffles over {}", fetch.name()),
        remedy: "add software with a [shuffle] table".to_owned(),
    })?;
    let terms = Terms {
        read_size: *library.read_size,
        eager_limit: library.one_sided.as_ref().map_or(Bytes::ZERO, |one_sided| *one_sided.eager_limit),
        header: *library.block_header,
        window: WINDOW,
        inline: target.max_inline,
        mtu: path_mtu(target.mtu),
    };
    let limits = Limits {
        bytes: settings.max_bytes.unwrap_or(*library.max_bytes_in_flight),
        requests: settings.max_requests.unwrap_or(*library.max_requests_in_flight),
        share: *library.request_share,
    };
    let of_kind = settings.kind.of(&library);
    let (reduce_rate, writes_output) = (settings.reduce_rate.unwrap_or(*of_kind.reduce_rate), of_kind.writes_output);
    let over = if rdma { Over::Send } else { Over::Tcp };
    Ok(Stack { fetch, over, library, terms, limits, reduce_rate, writes_output })
}

fn drive_of(name: &str, target: &Target) -> Result<Shared<Drive>, UsageError> {
    target.drives.iter().find(|drive| drive.name == name).cloned().ok_or_else(|| {
        let known: Vec<&str> = target.drives.iter().map(|drive| drive.name.as_str()).collect();
        UsageError::Conflict { what: format!("there is no drive `{name}`"), remedy: format!("use one of {}", known.join(", ")) }
    })
}

/// Messages that a connection has buffers for. Basis: assumed; active messages of UCX have their own flow control, and shared buffers.
const WINDOW: u32 = 2048;
