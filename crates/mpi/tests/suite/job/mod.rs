//! Jobs of ranks that all run one program, and what they report; libraries with one number changed.

use fabriscope_catalog::{Mpi, ResolvedCluster};
use fabriscope_engine::{Cluster, Engine, Job, Loss, Run, RunOptions};
use fabriscope_engine_packet::PacketEngine;
use fabriscope_mpi::{Rank, World, shmem};
use fabriscope_node::{Main, ProgramError, Record};
use fabriscope_platform::{Binding, Layout, Target};
use fabriscope_units::{Span, Time};

/// The library of a cluster whose nodes are alike.
pub fn library(parts: &mut ResolvedCluster) -> &mut Mpi {
    parts.sole_mut().software.mpi.as_mut().expect("an MPI library")
}

/// A cluster with another piece of software.
pub fn with_software(mut parts: ResolvedCluster, name: &str) -> ResolvedCluster {
    parts.sole_mut().software = crate::machine::catalog().software(name).unwrap().clone();
    parts
}

fn execute(parts: &ResolvedCluster, nodes: Vec<u32>, mains: Vec<Main>, loss: Loss) -> Result<Run, String> {
    let cluster = Cluster::new(parts.clone()).unwrap();
    PacketEngine
        .run(&cluster, Job::programs(nodes, mains), &RunOptions { loss, ..RunOptions::default() }, 1)
        .map_err(|error| error.to_string())
}

/// Runs `program` on `nodes` · `per_node` ranks, block by block; each has joined the others, and memories keep what is written.
pub fn ranks<F, R>(parts: &ResolvedCluster, layout: (u32, u32), program: F) -> Result<Run, String>
where
    F: Fn(Rank) -> R + Clone + Send + 'static,
    R: Future<Output = Result<(), ProgramError>> + 'static,
{
    ranks_losing(Loss::None, parts, layout, program)
}

/// The same over links that lose packets.
pub fn ranks_losing<F, R>(loss: Loss, parts: &ResolvedCluster, (nodes, per_node): (u32, u32), program: F) -> Result<Run, String>
where
    F: Fn(Rank) -> R + Clone + Send + 'static,
    R: Future<Output = Result<(), ProgramError>> + 'static,
{
    let count = nodes * per_node;
    let target = Target::of(parts, Layout { nodes, per_node }, Binding::default());
    let world = World::with_contents(parts.sole().software.mpi.as_ref().expect("an MPI library"), &target, count);
    let main = |_| -> Main {
        let (world, program) = (world.clone(), program.clone());
        Box::new(move |process| {
            Box::pin(async move {
                let rank = Rank::init_all(process, world).await?;
                rank.synchronise().await?;
                program(rank).await
            })
        })
    };
    execute(parts, (0..count).map(|rank| rank / per_node).collect(), (0..count).map(main).collect(), loss)
}

/// The same of processing elements with `heap` bytes of symmetric heap, all of it kept.
pub fn pes<F, R>(parts: &ResolvedCluster, (nodes, per_node): (u32, u32), heap: u64, program: F) -> Result<Run, String>
where
    F: Fn(shmem::Pe) -> R + Clone + Send + 'static,
    R: Future<Output = Result<(), ProgramError>> + 'static,
{
    let count = nodes * per_node;
    let target = Target::of(parts, Layout { nodes, per_node }, Binding::default());
    let library = target.shmem.clone().expect("a library of OpenSHMEM");
    let job = shmem::Job::new(&library, parts.sole().software.mpi.as_ref().expect("its transport"), &target, (count, heap), true);
    let main = |_| -> Main {
        let (job, program) = (job.clone(), program.clone());
        Box::new(move |process| {
            Box::pin(async move {
                let pe = shmem::Pe::init_all(process, job).await?;
                pe.memory().expose(0, heap as usize)?;
                pe.synchronise().await?;
                program(pe).await
            })
        })
    };
    execute(parts, (0..count).map(|pe| pe / per_node).collect(), (0..count).map(main).collect(), Loss::None)
}

/// A list that all ranks of a job write into.
#[derive(Debug)]
pub struct Notes<T>(Record<Vec<T>>);

impl<T> Clone for Notes<T> {
    fn clone(&self) -> Notes<T> {
        Notes(self.0.clone())
    }
}

impl<T> Default for Notes<T> {
    fn default() -> Notes<T> {
        Notes(Record::default())
    }
}

impl<T> Notes<T> {
    pub fn add(&self, note: T) {
        self.0.lock().push(note);
    }
    pub fn take(&self) -> Vec<T> {
        self.0.take()
    }
}

/// Half of the time of a ping and its answer of `size` bytes between two ranks that wait for each other, after one that is not measured.
pub fn ping(parts: &ResolvedCluster, layout: (u32, u32), size: u32) -> Span {
    let notes = Notes::<(Time, Time)>::default();
    let times = notes.clone();
    ranks(parts, layout, move |rank| {
        let times = times.clone();
        async move {
            for turn in 0..2 {
                rank.synchronise().await?;
                let begun = rank.now();
                if rank.rank() == 0 {
                    rank.send(1, 0, size).await?;
                    rank.recv(Some(1), Some(0), size).await?;
                } else {
                    rank.recv(Some(0), Some(0), size).await?;
                    rank.send(0, 0, size).await?;
                }
                if rank.rank() == 0 && turn == 1 {
                    times.add((begun, rank.now()));
                }
            }
            rank.synchronise().await
        }
    })
    .unwrap_or_else(|error| panic!("{size} B: {error}"));
    let (begun, ended) = notes.take()[0];
    Span::from_ps(ended.since(begun).as_ps() / 2)
}
