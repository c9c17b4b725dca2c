//! The benchmarks, one row each.

use fabriscope_mpi::shmem::Operation;
use fabriscope_tool::{Exchange, Measures, Operation as Carried, PerNode, Ranks, SizeOption, Suite, Traits};

/// One benchmark.
#[derive(Debug, PartialEq, Eq)]
pub struct Benchmark {
    /// The program's name.
    pub name: &'static str,
    /// One line for a list of tools.
    pub about: &'static str,
    /// What the first line of the output calls it.
    pub(super) title: &'static str,
    pub(super) family: Family,
    /// What a PE does, where it acts on another.
    pub(super) act: Act,
}

/// What a benchmark is, by the benchmarks that are alike.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Family {
    /// One operation at a time.
    Latency,
    /// Many, between pairs.
    Rate,
    /// Beside computation.
    Overlap,
    /// Sixteen operations on elements.
    Atomics,
    /// All PEs.
    Collective(Operation),
}

/// A call that moves bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Act {
    Put,
    PutNonBlocking,
    Get,
    GetNonBlocking,
    /// None of these.
    Other,
}

const fn row(name: &'static str, title: &'static str, family: Family, act: Act, about: &'static str) -> Benchmark {
    Benchmark { name, about, title, family, act }
}
const fn collective(name: &'static str, title: &'static str, operation: Operation, about: &'static str) -> Benchmark {
    row(name, title, Family::Collective(operation), Act::Other, about)
}

/// Every benchmark.
#[rustfmt::skip]
pub static BENCHMARKS: &[Benchmark] = &[
    row("osu_oshm_put", "Put Test", Family::Latency, Act::Put, "an OpenSHMEM put and quiet (OSU Micro-Benchmarks)"),
    row("osu_oshm_put_nb", "Put_nbi Test", Family::Latency, Act::PutNonBlocking, "the same with the non-blocking put"),
    row("osu_oshm_put_mr", "Put Message Rate Test", Family::Rate, Act::Put, "message rate of OpenSHMEM puts between pairs of PEs (OSU Micro-Benchmarks)"),
    row("osu_oshm_put_mr_nb", "Put_nb Message Rate Test", Family::Rate, Act::PutNonBlocking, "the same with non-blocking puts"),
    row("osu_oshm_put_overlap", "Put_nbi Test", Family::Overlap, Act::Put, "how much of an OpenSHMEM put computation hides (OSU Micro-Benchmarks)"),
    row("osu_oshm_get", "Get Test", Family::Latency, Act::Get, "an OpenSHMEM get (OSU Micro-Benchmarks)"),
    row("osu_oshm_get_nb", "Get_nbi Test", Family::Latency, Act::GetNonBlocking, "the same with the non-blocking get, and quiet"),
    row("osu_oshm_get_mr_nb", "Get_nb Message Rate Test", Family::Rate, Act::GetNonBlocking, "the same with non-blocking gets"),
    row("osu_oshm_atomics", "Atomic Operation Rate Test", Family::Atomics, Act::Other, "rate and latency of OpenSHMEM atomics on 4 and 8 bytes (OSU Micro-Benchmarks)"),
    collective("osu_oshm_barrier", "Barrier Latency Test", Operation::Barrier, "shmem_barrier_all among the PEs of several nodes (OSU Micro-Benchmarks)"),
    collective("osu_oshm_broadcast", "Broadcast Latency Test", Operation::Broadcast, "shmem_broadcast32 (OSU Micro-Benchmarks)"),
    collective("osu_oshm_collect", "Collect Latency Test", Operation::Collect, "shmem_collect32 (OSU Micro-Benchmarks)"),
    collective("osu_oshm_fcollect", "FCollect Latency Test", Operation::FCollect, "shmem_fcollect32 (OSU Micro-Benchmarks)"),
    collective("osu_oshm_reduce", "Reduce Latency Test", Operation::Reduce, "shmem_float_sum_to_all (OSU Micro-Benchmarks)"),
];

impl Benchmark {
    /// Whether all PEs of a job of any shape take part.
    #[must_use]
    pub fn is_collective(&self) -> bool {
        matches!(self.family, Family::Collective(_))
    }
    /// Whether it moves messages whose size is an option.
    pub(super) fn has_sizes(&self) -> bool {
        !matches!(self.family, Family::Atomics | Family::Collective(Operation::Barrier))
    }
    /// What the program is.
    #[must_use]
    pub fn traits(&self) -> Traits {
        let operation = match (self.family, self.act) {
            (Family::Atomics, _) => Carried::Atomic,
            (Family::Collective(operation), _) => Carried::Collective(operation.kind()),
            (_, Act::Get | Act::GetNonBlocking) => Carried::Get,
            _ => Carried::Put,
        };
        Traits {
            measures: match self.family {
                Family::Latency | Family::Collective(_) => Measures::Latency,
                Family::Rate | Family::Atomics => Measures::Rate,
                Family::Overlap => Measures::Overlap,
            },
            exchange: if operation == Carried::Get && self.family == Family::Latency { Exchange::RoundTrip } else { Exchange::Other },
            ranks: match self.family {
                Family::Latency | Family::Overlap => Ranks::Two,
                Family::Rate | Family::Atomics => Ranks::Pairs,
                Family::Collective(_) => Ranks::Job(PerNode::Cores),
            },
            sizes: if self.has_sizes() { SizeOption::Range } else { SizeOption::Fixed },
            ..Traits::new(Suite::OmbShmem, operation)
        }
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// The benchmark of this name.
    pub fn named(name: &str) -> &'static Benchmark {
        BENCHMARKS.iter().find(|benchmark| benchmark.name == name).unwrap()
    }

    #[test]
    fn who_acts_on_another_has_an_act() {
        for benchmark in BENCHMARKS {
            let moves = !matches!(benchmark.family, Family::Atomics | Family::Collective(_));
            assert_eq!(moves, benchmark.act != Act::Other, "{}", benchmark.name);
        }
    }
}
