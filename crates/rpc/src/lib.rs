//! `rpc`: calls of procedures on other nodes, over sockets and over queue pairs.
//!
//! Source: gRPC over HTTP/2 and RPC over RDMA (`message.rs`, `channel`); Dean and Barroso, "The tail at scale", CACM 2013, for calls that ask
//! many servers; what calls cost is a part of the catalogue ([`fabriscope_catalog::RpcLibrary`]).
//! Modelled: clients with closed and open loops, servers with event loops and workers, marshalling, frames, system calls or work requests,
//! fan-out; every message packet by packet. [`channel`] has the messages alone, for other programs.
//! Not modelled: encryption, load balancing, deadlines, work that shares cores; the rest stands where it belongs.

pub mod channel;
mod client;
mod job;
mod message;
mod options;
mod pool;
mod report;
mod server;
mod stages;

use std::sync::Arc;

use fabriscope_catalog::RpcLibrary;
use fabriscope_node::{Main, Process, ProgramError, Record, Ties};
use fabriscope_platform::{Target, path_mtu};
use fabriscope_tool::Operation::Iteration;
use fabriscope_tool::{Measures, PerNode, Placing, Prepared, Ranks, Rows, SizeOption, Suite, Traits, UsageError};
use fabriscope_units::Bytes;

pub use options::OPTIONS;
pub use pool::{Pool, Turn};
pub use stages::{Moments, Stage};

use channel::{Contacts, Over, Terms};
use job::{Job, Role, Stack};
use message::{Cost, Message};
use options::Settings;

/// The program's name.
pub const NAME: &str = "rpc";
/// One line for a list of tools.
pub const ABOUT: &str = "calls of procedures on other nodes (gRPC, RPC over RDMA): throughput, tails, where time goes";

/// What the program is.
#[must_use]
pub const fn traits() -> Traits {
    let traits = Traits::new(Suite::Single, Iteration);
    Traits { measures: Measures::Rate, ranks: Ranks::Job(PerNode::One), sizes: SizeOption::Fixed, ..traits }
}

/// Reads the command line and makes the programs.
///
/// # Errors
/// A wrong command line; a transport that the adapters do not have.
pub fn prepare(args: &[String], target: &Target) -> Result<Prepared, UsageError> {
    let settings = options::read(NAME, ABOUT, args, target)?;
    let nodes = target.layout.nodes;
    let stacks = settings.over.iter().map(|over| stack(*over, &settings, target)).collect::<Result<Vec<_>, _>>()?;
    let clients = Job::clients(&settings, nodes) as usize;
    let job = Arc::new(Job {
        nodes,
        contacts: Contacts::default(),
        pools: (0..settings.servers).map(|_| Record::default()).collect(),
        moments: (0..clients).map(|_| Record::default()).collect(),
        measured: (0..clients).map(|_| Record::default()).collect(),
        stacks,
        settings,
    });
    let per_node = Job::per_node(&job.settings);
    let main = |_| -> Main {
        let job = job.clone();
        Box::new(move |process| Box::pin(run(process, job)))
    };
    let mains = (0..nodes * per_node).map(main).collect();
    let finish = move || report::report(&job);
    Ok(Prepared { placing: Placing::Blocks { per_node }, mains, ties: Ties::Any, finish: Box::new(finish), rows: Rows::default() })
}

/// The library that uses a transport, and what messages cost with it.
fn stack(over: Over, settings: &Settings, target: &Target) -> Result<Stack, UsageError> {
    let wanted = |library: &&RpcLibrary| if over.is_rdma() { library.rdma.is_some() } else { library.streams.is_some() };
    let mut found = target.services.iter().filter_map(|software| software.rpc.as_ref()).filter(wanted);
    let library = found.next().cloned().ok_or_else(|| UsageError::Conflict {
        what: format!("no library of the catalogue calls procedures over {}", over.name()),
        remedy: "add software with an [rpc] table".to_owned(),
    })?;
    let zero = Bytes::ZERO;
    let (read_size, rdma) = (library.streams.as_ref().map_or(zero, |streams| *streams.read_size), library.rdma.as_ref());
    let terms = Terms {
        read_size,
        eager_limit: rdma.map_or(zero, |rdma| *rdma.eager_limit),
        header: rdma.map_or(zero, |rdma| *rdma.header),
        window: *library.outstanding,
        inline: target.max_inline,
        mtu: path_mtu(target.mtu),
    };
    let request = Cost::of(&library, Message::Request, settings.request);
    let reply = Cost::of(&library, Message::Reply, settings.reply);
    Ok(Stack { over, library, terms, request, reply })
}

async fn run(process: Process, job: Arc<Job>) -> Result<(), ProgramError> {
    for stack in &job.stacks {
        match job.role(process.rank()) {
            Role::Server { server, thread } => {
                if thread == 0 {
                    *job.pools[server as usize].lock() = Pool::new(job.settings.workers, *stack.library.handoff);
                }
                server::run(process.clone(), &job, stack, (server, thread)).await?;
            }
            Role::Client { client } => client::run(process.clone(), &job, stack, client).await?,
            Role::Nobody => {
                channel::Port::open(&process, (stack.over, channel::ConnectionEnd::Caller), &[], &job.contacts, stack.terms).await?;
                for _ in &job.settings.loads {
                    process.barrier().await;
                }
            }
        }
    }
    Ok(())
}
