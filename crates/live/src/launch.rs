//! Starts the programs of a command line on virtual hosts, runs the fabric under them, and clears up after them.

use std::collections::VecDeque;
use std::ffi::{OsStr, OsString};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::PathBuf;
use std::process::{Child, Command};
use std::sync::Arc;

use fabriscope_catalog::{Layer, ResolvedCluster};
use fabriscope_engine::{Cluster, Control, Counting, Engine, Job, Peers, Run, RunOptions, timing};
use fabriscope_engine_packet::PacketEngine;
use fabriscope_node::{Main, Process, ProgramError, Ties};
use fabriscope_platform::{Binding, Layout, Target};
use fabriscope_units::{Span, Time};

use crate::arena::{Arena, Header};
use crate::cm;
use crate::device::Device;
use crate::elf;
use crate::error::LiveError;
use crate::folder::{self, Folder, shell_status};
use crate::gpu::{self, Gpus};
use crate::management::Management;
use crate::memory::HostMemory;
use crate::ports::{self, Change};
use crate::process;
use crate::question::Answer;
use crate::real;
use crate::sockets::Sockets;
use crate::task::FIRST_NUMBER;
use crate::thread::spawn;
use crate::world::{Arrival, Host, Key, Program, Shared, World};
use crate::{Clock, HostCommand, STAND_IN, Settings};

/// How the programs ended.
#[derive(Debug)]
pub struct Ended {
    /// Of each command: what a shell would say (128 and the signal of one that was killed).
    pub statuses: Vec<i32>,
    /// When the last one ended.
    pub end: Time,
    /// What the engine saw; nothing in real time.
    pub run: Option<Run>,
    /// What was wrong and could not be told to a program.
    pub complaints: Vec<String>,
    /// Control verbs that were refused, and why.
    pub refusals: Vec<String>,
}

/// CLOCK_REALTIME at the start of every run, in ns: 2026-01-01, so that two runs print the same.
const EPOCH: u64 = 1_767_225_600_000_000_000;
/// CLOCK_MONOTONIC there, in ns.
const BOOT: u64 = 1_000_000_000_000;
/// Reading a clock by a call. Basis: assumed, a read through the kernel's page for clocks.
const CLOCK_READ: Span = Span::from_ns(25);
/// Reading the time stamp counter: so little that no measurement shows it, and so much that a loop around it ends. Basis: assumed.
const TSC_READ: Span = Span::from_ns(1);
/// Looks at the turn before a side lets others run, and times that it does so before it sleeps. Another process of the same core runs within
/// 1 us then, where waking one that sleeps takes 15 to 25 (docs/performance.md).
const SPIN: u64 = 20;
const YIELDS: u64 = 200;

/// The nodes that so many hosts are: as for benchmarks between nodes, those that the cluster names.
#[must_use]
pub fn seats(cluster: &Cluster, hosts: usize, seed: u64) -> Vec<u32> {
    let hosts = u32::try_from(hosts).unwrap_or(u32::MAX).min(cluster.nodes());
    cluster.some(hosts, cluster.parts.placement, seed)
}

/// Runs `commands` on hosts of `cluster` with these names, which are all that programs may be on.
///
/// # Errors
/// A program that is not there or cannot be reached, more hosts or processes than the cluster has, a run that stalls.
pub fn run(
    cluster: &Cluster,
    (names, commands): (&[String], &[HostCommand]),
    settings: &Settings,
    options: &RunOptions,
) -> Result<Ended, LiveError> {
    if STAND_IN.is_empty() {
        return Err(LiveError::NoStandIn);
    }
    if cluster.parts.uniform().is_none() {
        return Err(LiveError::Unlike { cluster: cluster.parts.name.clone() });
    }
    let programs = commands.iter().map(|command| elf::find(command.words.first().map_or(OsStr::new(""), OsString::as_os_str)));
    let programs: Vec<PathBuf> = programs.collect::<Result<_, _>>()?;
    let most = if settings.clock == Clock::Real { cluster.nodes().min(real::MOST_HOSTS) } else { cluster.nodes() };
    if names.len() > most as usize {
        return Err(LiveError::TooFewHosts { asked: names.len(), nodes: most });
    }
    let seats = seats(cluster, names.len(), settings.seed);
    let folder = Folder::create()?;
    let target = Target::of(&cluster.parts, Layout { nodes: 2, per_node: 1 }, Binding::new(Vec::new()));
    if settings.clock == Clock::Real {
        let statuses = real::run(&folder, (cluster, &target), (names, commands, &programs, &seats), settings)?;
        return Ok(Ended { statuses, end: Time::ZERO, run: None, complaints: Vec::new(), refusals: Vec::new() });
    }
    let header = header(&cluster.parts);
    let arena = folder.at("arena");
    let arena_of_run = Arena::create(&arena, header).map_err(|error| LiveError::Folder { path: arena.clone(), error })?;
    let devices = folder.hosts(settings.clock, (cluster, &target), (names, &seats), crate::address::management)?;
    let with_memories = |(name, devices): (&String, Vec<Device>)| Host {
        name: name.clone(),
        folder: folder.of_host(name),
        memories: devices.iter().map(|device| HostMemory::new(device.addresses)).collect(),
        devices,
        agent: Vec::new(),
    };
    let hosts: Vec<Host> = names.iter().zip(devices).map(with_memories).collect();
    let control = Control::default();
    let management =
        (cluster.parts.link_layer.layer() == Layer::InfiniBand).then(|| Management::new(cluster, &hosts, &seats, control.clone()));
    let shared = Shared::new(arena_of_run, world(target, hosts, settings));
    shared.world().management = management;
    let mut starts: Vec<Vec<(u32, Command)>> = names.iter().map(|_| Vec::new()).collect();
    for (index, (command, program)) in (0..).zip(commands.iter().zip(programs)) {
        let node = names.iter().position(|name| *name == command.host).unwrap_or(0);
        let name = command.words.iter().map(|word| word.to_string_lossy()).collect::<Vec<_>>().join(" ");
        shared.world().programs.push(Program::new(name, node as u32, FIRST_NUMBER + index, None));
        let mut start = Command::new(&program);
        start.args(&command.words[1..]).arg0(&command.words[0]).envs(folder.variables(&command.host)).env("FABRISCOPE_LIVE", &arena);
        start.env("PYTHONHASHSEED", "0");
        // Threads run one at a time; what malloc gives back within an arena of a thread would not be zero when it comes again (`shim/shared.c`).
        start.env("MALLOC_ARENA_MAX", "1");
        starts[node].push((index, start));
    }
    let mut changes = ports::changes(cluster, options.faults.as_ref(), &seats);
    let mut of_host = |(node, starts): (u32, Vec<(u32, Command)>)| -> Main {
        let changes = std::mem::take(&mut changes[node as usize]);
        let (shared, traced) = (shared.clone(), settings.traced);
        Box::new(move |process| {
            process.trace(traced);
            if traced {
                process.keep_activities();
            }
            Box::pin(host(process, shared, (node, starts), changes.into()))
        })
    };
    // GPUs are the first ranks, so that they have the numbers that communicators give them.
    let (gpus, per_node) = shared.world().gpus.as_ref().map_or((0, 0), |gpus| (gpus.due.len() as u32, gpus.per_node));
    let of_gpu = |gpu: u32| -> Main {
        let shared = shared.clone();
        Box::new(move |process| Box::pin(gpu::rank::serve(process, shared, gpu)))
    };
    let mains: Vec<Main> = (0..gpus).map(of_gpu).chain((0..).zip(starts).map(&mut of_host)).collect();
    let nodes = seats.iter().flat_map(|seat| (0..per_node).map(|_| *seat)).chain(seats.iter().copied()).collect();
    let of_run = shared.clone();
    folder.begin(move || of_run.end_all());
    let options = RunOptions { peers: Peers::Passing, counting: Counting::Ports, control: Some(control), ..options.clone() };
    let result = PacketEngine.run(cluster, Job::tied(nodes, mains, Ties::Any), &options, settings.seed);
    folder.ended();
    shared.end_all();
    let mut world = shared.world();
    let unused = world.management.as_mut().and_then(Management::complaint);
    world.complaints.extend(unused);
    let run = result.map_err(|error| hanging(error, &world))?;
    let statuses = world.programs.iter().take(commands.len()).map(|program| shell_status(program.status.unwrap_or(0))).collect();
    Ok(Ended { statuses, end: run.end, run: Some(run), complaints: world.complaints.clone(), refusals: world.refusals.clone() })
}

/// What programs share before any of them has begun.
fn world(target: Target, hosts: Vec<Host>, settings: &Settings) -> World {
    let mut sockets = Sockets::default();
    sockets.management = settings.management;
    let mut world = World::new(hosts, sockets);
    if let Some(library) = target.nccl.clone() {
        let per_node = settings.ranks_per_node.unwrap_or(u32::MAX).min(library.gpus());
        let shape = (world.hosts.len() as u32, per_node);
        world.gpus = Some(Gpus::new(target.clone(), library, shape));
    }
    world.per_message = target.perftest.map_or(Span::ZERO, |perftest| *perftest.loop_overhead);
    world.ranks_per_node = settings.ranks_per_node;
    world
}

/// A host: starts its programs, and those that come to it from others, until all of the run have ended.
async fn host(
    process: Process,
    shared: Shared,
    (node, starts): (u32, Vec<(u32, Command)>),
    mut changes: VecDeque<Change>,
) -> Result<(), ProgramError> {
    if shared.world().gpus.is_some() {
        // The run lasts as long as its GPUs do, which is as long as its programs.
        process.serve();
    }
    for (program, command) in starts {
        start(&process, &shared, (program, command))?;
    }
    shared.world().begun += 1;
    loop {
        let come = std::mem::take(&mut shared.world().starts[node as usize]);
        for arrival in come {
            spawn(&shared, &process, arrival);
        }
        if shared.world().wants_agents {
            cm::agent::begin(&shared, &process, node)?;
        }
        if shared.world().is_over() {
            return Ok(());
        }
        let rank = process.rank();
        let until = ports::carry_out(&shared, &process, node, &mut changes);
        shared.world().await_all(rank, &[Key::Host(node)]);
        process.wait_any_until(&[], &[], until).await;
        shared.world().await_none(rank, &[Key::Host(node)]);
        drop(process.take_notes());
    }
}

/// Starts a program of the command line.
fn start(process: &Process, shared: &Shared, (program, mut command): (u32, Command)) -> Result<(), ProgramError> {
    let slot = shared.world().free_slot().ok_or_else(|| ProgramError("there are more threads than the fabric serves".to_owned()))?;
    let number = shared.world().programs[program as usize].number;
    shared.arena.open(slot, number, 0);
    command.env("FABRISCOPE_LIVE_SLOT", slot.to_string());
    // SAFETY: the closure only makes system calls that are safe after fork.
    #[allow(unsafe_code)]
    unsafe {
        command.pre_exec(|| {
            process::before_exec();
            Ok(())
        });
    }
    let child = command.spawn().map_err(|error| ProgramError(format!("`{}` does not start: {error}", command.get_program().display())))?;
    shared.world().programs[program as usize].pid = child.id();
    watch(child, shared);
    spawn(shared, process, Arrival { slot, program, first: Answer::number(0) });
    Ok(())
}

/// Notes the end of a process when it comes.
fn watch(mut child: Child, shared: &Shared) {
    let deaths = Arc::clone(&shared.deaths);
    // It ends with the process, which is killed at the latest when the run is over.
    std::thread::spawn(move || {
        if let Ok(status) = child.wait() {
            deaths.note(child.id(), status.into_raw());
        }
    });
}

fn header(parts: &ResolvedCluster) -> Header {
    let (cpu, core) = (timing::cpu(parts), process::own_core());
    Header {
        epoch: EPOCH,
        boot: BOOT,
        tsc: folder::tsc(parts),
        clock_read: CLOCK_READ.as_ps(),
        tsc_read: TSC_READ.as_ps(),
        fabric: std::process::id().into(),
        post_send: (cpu.wqe_build + cpu.mmio_busy).as_ps(),
        post_recv: cpu.post_recv.as_ps(),
        poll_empty: cpu.poll_empty.as_ps(),
        spin: if core > 0 { SPIN } else { 0 },
        yields: if core > 0 { YIELDS } else { 0 },
        core,
        ..Header::default()
    }
}

/// The error of a run that stands still says who waits for whom.
fn hanging(error: fabriscope_engine::EngineError, world: &World) -> LiveError {
    match error {
        fabriscope_engine::EngineError::Stalled { at, .. } => LiveError::Hangs { at, who: world.describe() },
        fabriscope_engine::EngineError::Program { at, message, .. } => LiveError::Failed { at, message },
        error => LiveError::Engine(error),
    }
}
