//! The time of a collective operation of a job that has the fabric to itself: what the benchmark of its library prints.
//!
//! Source: OSU Micro-Benchmarks 7.4 for MPI, nccl-tests 2.19.6 for NCCL and RCCL.
//! Modelled: the mean over iterations and ranks; the algorithms that the cluster's library chooses; on the nodes that the cluster's
//! placement says. Data of MPI are in host memory, those of NCCL on GPUs, out of place.
//! Not modelled: a barrier of NCCL, which has none.

use crate::cluster::{Cluster, Question};
use crate::engine::Engine;
use crate::message::MOST_BYTES_OF_MPI;
use crate::status::Failure;

/// Which operation; `fabriscope_collective` of the header.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
#[repr(i32)]
pub enum CollectiveKind {
    /// Every rank gets the sum of all.
    Allreduce = 0,
    /// Every rank gets what one has.
    Broadcast = 1,
    /// One rank gets the sum of all.
    Reduce = 2,
    /// Every rank gets what each has.
    Allgather = 3,
    /// Every rank gets a part of the sum of all.
    ReduceScatter = 4,
    /// Every rank gets something else from each.
    Alltoall = 5,
    /// Nobody goes on before all are there.
    Barrier = 6,
}

/// Who carries it out; `fabriscope_library` of the header.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
#[repr(i32)]
pub enum CollectiveLibrary {
    /// The MPI library of the cluster.
    Mpi = 0,
    /// NCCL or RCCL, as the cluster's GPUs have it.
    Nccl = 1,
}

/// One operation of a job.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Collective {
    /// Which.
    pub kind: CollectiveKind,
    /// Who carries it out.
    pub library: CollectiveLibrary,
    /// Nodes of the job.
    pub nodes: u32,
    /// Ranks on each; all cores or GPUs, as the library has it, if 0.
    pub ranks_per_node: u32,
    /// The buffer of a rank; of an all-gather what each rank gives, of an all-to-all what each gives to each.
    pub bytes: u64,
    /// What computes it.
    pub engine: Engine,
}

impl CollectiveKind {
    /// Every operation, in the order of the codes.
    pub const ALL: [CollectiveKind; 7] = [
        CollectiveKind::Allreduce,
        CollectiveKind::Broadcast,
        CollectiveKind::Reduce,
        CollectiveKind::Allgather,
        CollectiveKind::ReduceScatter,
        CollectiveKind::Alltoall,
        CollectiveKind::Barrier,
    ];

    /// The benchmark of MPI, and that of NCCL.
    fn tools(self) -> (&'static str, Option<&'static str>) {
        match self {
            CollectiveKind::Allreduce => ("osu_allreduce", Some("all_reduce_perf")),
            CollectiveKind::Broadcast => ("osu_bcast", Some("broadcast_perf")),
            CollectiveKind::Reduce => ("osu_reduce", Some("reduce_perf")),
            CollectiveKind::Allgather => ("osu_allgather", Some("all_gather_perf")),
            CollectiveKind::ReduceScatter => ("osu_reduce_scatter", Some("reduce_scatter_perf")),
            CollectiveKind::Alltoall => ("osu_alltoall", Some("alltoall_perf")),
            CollectiveKind::Barrier => ("osu_barrier", None),
        }
    }

    /// nccl-tests count the blocks of all ranks.
    fn counts_all_blocks(self) -> bool {
        matches!(self, CollectiveKind::Allgather | CollectiveKind::Alltoall)
    }
}

impl CollectiveLibrary {
    /// Every library, in the order of the codes.
    pub const ALL: [CollectiveLibrary; 2] = [CollectiveLibrary::Mpi, CollectiveLibrary::Nccl];
}

impl Collective {
    /// Its time in picoseconds.
    ///
    /// # Errors
    /// More nodes or ranks than there are, an operation that the library does not have, a length that does not divide, what the engine
    /// does not do.
    pub fn picoseconds(self, cluster: &Cluster) -> Result<u64, Failure> {
        let Collective { kind, library, nodes, ranks_per_node, bytes, engine } = self;
        if nodes == 0 || nodes > cluster.nodes() {
            let (name, all) = (&cluster.parts().name, cluster.nodes());
            return Err(Failure::argument(format!("a job on {nodes} nodes: {name} has {all}"), format!("give 1 to {all} nodes")));
        }
        if bytes == 0 && kind != CollectiveKind::Barrier {
            return Err(Failure::argument("a collective operation of 0 bytes takes no time", "give 1 byte or more"));
        }
        self.check_ranks(cluster)?;
        let job = Some((nodes, ranks_per_node));
        let ask = |tool, metric, size| Question { tool, metric, size, ends: None, job, engine };
        let (of_mpi, of_nccl) = kind.tools();
        match library {
            CollectiveLibrary::Mpi if kind == CollectiveKind::Barrier => cluster.answer(ask(of_mpi, "latency", 0), || Ok(Vec::new())),
            CollectiveLibrary::Mpi if bytes > MOST_BYTES_OF_MPI => {
                let help = format!("give at most {MOST_BYTES_OF_MPI} bytes");
                Err(Failure::argument(format!("the OSU benchmarks have no buffers of {bytes} bytes"), help))
            }
            CollectiveLibrary::Mpi => {
                cluster.answer(ask(of_mpi, "latency", bytes), || Ok(vec!["-m".to_owned(), format!("{bytes}:{bytes}")]))
            }
            CollectiveLibrary::Nccl => {
                let help = "take FABRISCOPE_MPI, or an all-reduce of a few bytes";
                let tool = of_nccl.ok_or_else(|| Failure::refused("NCCL has no barrier", help))?;
                let size = self.counted(cluster)?;
                cluster.answer(ask(tool, "time", size), || Ok(["-b", "-e"].map(|option| [option.to_owned(), size.to_string()]).concat()))
            }
        }
    }

    /// Whether a node has a core or a GPU for each of its ranks, and the engine the library.
    fn check_ranks(&self, cluster: &Cluster) -> Result<(), Failure> {
        let (what, most) = match self.library {
            CollectiveLibrary::Mpi => ("cores", cluster.cores_per_node()),
            CollectiveLibrary::Nccl => ("GPUs", cluster.gpus_per_node()),
        };
        let name = &cluster.parts().name;
        if most == 0 {
            return Err(Failure::refused(format!("nodes of {name} have no {what}"), "take FABRISCOPE_MPI"));
        }
        if self.ranks_per_node > most {
            let message = format!("{} ranks on each node of {name}, which has {most} {what}", self.ranks_per_node);
            return Err(Failure::argument(message, format!("give 1 to {most}, or 0 for all")));
        }
        if self.library == CollectiveLibrary::Nccl && self.engine == Engine::Flow {
            let help = "take FABRISCOPE_PACKET or FABRISCOPE_AUTO";
            return Err(Failure::refused("the flow engine has no model of kernels of NCCL", help));
        }
        Ok(())
    }

    /// The size as nccl-tests count it.
    fn counted(&self, cluster: &Cluster) -> Result<u64, Failure> {
        let per_node = if self.ranks_per_node > 0 { self.ranks_per_node } else { cluster.gpus_per_node().max(1) };
        let ranks = u64::from(self.nodes) * u64::from(per_node);
        if !self.kind.counts_all_blocks() {
            return Ok(self.bytes);
        }
        let too_much = || Failure::argument(format!("{ranks} blocks of {} bytes are more than can be counted", self.bytes), "give fewer");
        self.bytes.checked_mul(ranks).ok_or_else(too_much)
    }
}
