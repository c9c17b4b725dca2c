//! `spdk_nvme_perf`: reads and writes of drives of the node, or of another node over NVMe over RDMA.
//!
//! Source: NVM Express Base Specification 2.0 (queues of 64 B commands and 16 B completions), NVMe over RDMA Transport Specification 1.0
//! (capsules are RDMA sends, a target writes and reads the host's memory by RDMA); SPDK's program `perf` for options and output.
//! Modelled: each command as verbs on the simulated adapters; a core's time for it at both ends, interrupts or polling; who serves it at
//! the target: cores of the host, cores of a DPU, or the adapter by itself; drives with their rates and queues (`drive.rs`).
//! Not modelled: NVMe over TCP, admin commands, zones, metadata; PCI Express between drives and memory shared with others.

mod command;
mod drive;
mod host;
mod local;
mod queue_pair;
mod report;
mod settings;
mod target;

use std::sync::Arc;

use fabriscope_node::{Core, Main, Process, ProgramError, Ties};
use fabriscope_platform::Target;
use fabriscope_tool::{Measures, Operation, Placing, Prepared, Ranks, Rows, SizeOption, Suite, Traits, UsageError};

pub use drive::{Access, Drives};
pub use settings::OPTIONS;

use command::Shared;
use settings::{Server, Settings};

/// The program's name.
pub const NAME: &str = "spdk_nvme_perf";
/// One line for a list of tools.
pub const ABOUT: &str = "reads and writes of NVMe drives: of the node, or of another over NVMe over RDMA";

/// What the program is.
#[must_use]
pub const fn traits() -> Traits {
    let base = Traits::new(Suite::Single, Operation::Read);
    Traits { measures: Measures::Rate, ranks: Ranks::Two, sizes: SizeOption::Fixed, ..base }
}

/// Reads the command line and makes the programs: cores of the host on one node, those of the target on another.
///
/// # Errors
/// A wrong command line; drives, software or offloads that the cluster has not; a transport that the adapters do not carry.
pub fn prepare(args: &[String], target: &Target) -> Result<Prepared, UsageError> {
    let settings = Arc::new(Settings::read(args, target)?);
    let shared = Arc::new(Shared::new(&settings));
    let cores = settings.cores;
    let main = |number: u32| -> Main {
        let (settings, shared) = (settings.clone(), shared.clone());
        Box::new(move |process| Box::pin(run(process, settings, shared, number)))
    };
    let mains = (0..2 * cores).map(main).collect();
    let finish = move || report::output(&settings, &shared);
    Ok(Prepared { placing: Placing::Pairs { pairs: cores }, mains, ties: Ties::Any, finish: Box::new(finish), rows: Rows::default() })
}

/// One core of either side.
async fn run(process: Process, settings: Arc<Settings>, shared: Arc<Shared>, number: u32) -> Result<(), ProgramError> {
    let (host, core) = (number < settings.cores, number % settings.cores);
    if settings.local {
        return if host { local::run(&process, &settings, &shared, core).await } else { Ok(()) };
    }
    if host {
        return host::run(&process, &settings, &shared, core).await;
    }
    if core >= settings.target_cores {
        process.barrier().await;
        process.barrier().await;
        return Ok(());
    }
    if settings.server == Server::Dpu {
        let (settings, shared, host) = (settings.clone(), shared.clone(), process.cpu());
        process.spawn(
            Core::Adapter(0),
            Box::new(move |worker| Box::pin(async move { target::run(&worker, &settings, &shared, (core, Some(host))).await })),
        );
        process.barrier().await;
        process.barrier().await;
        return Ok(());
    }
    target::run(&process, &settings, &shared, (core, None)).await
}
