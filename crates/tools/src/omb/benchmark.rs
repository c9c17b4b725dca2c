//! The benchmarks, one row each: a benchmark whose loop is here already is added by its row.

use fabriscope_mpi::{OneSided, Update};
use fabriscope_tool::{Data, Direction, Exchange, Measures, Operation, Ranks, SizeOption, Suite, Traits};

/// One benchmark.
#[derive(Debug, PartialEq, Eq)]
pub struct Benchmark {
    /// The program's name.
    pub name: &'static str,
    /// One line for a list of tools.
    pub about: &'static str,
    /// What the first line of the output calls it; `{}` stands for the accelerator: `-CUDA`.
    title: &'static str,
    /// What an iteration is.
    pub(super) body: Body,
    /// What is printed.
    pub(super) metric: Metric,
    /// The smallest and the largest size without `-m`, in bytes.
    pub(super) sweep: (u32, u32),
    /// Who takes part.
    pub(super) ranks: Ranks,
    /// Whose times are printed.
    pub(super) seen: Seen,
}

/// An iteration of a benchmark.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Body {
    /// A message there and one back.
    PingPong,
    /// A window of messages, and a short one back.
    Window,
    /// A window of messages each way.
    BothWindows,
    /// The origin alone acts.
    OneSided(Act),
}

/// What a one-sided benchmark does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Act {
    /// It moves bytes.
    Move(OneSided),
    /// It changes elements of the target.
    Update(Update),
}

/// What is printed of the time of an iteration.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Metric {
    /// Half of it.
    HalfRoundTrip,
    /// The time itself.
    Time,
    /// Bytes a second of a window.
    Bandwidth,
    /// The same of both directions together.
    BandwidthOfBoth,
    /// Bytes and messages a second of all pairs together.
    MessageRate,
    /// Bytes a second of a message there and back, in GB/s.
    BandwidthOfRoundTrip,
}

/// Whose times are printed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Seen {
    /// The mean of all pairs; iterations follow each other.
    EveryPair,
    /// Those of the first pair; all begin an iteration together.
    FirstPair,
}

const PUT: Body = Body::OneSided(Act::Move(OneSided::Put));
const GET: Body = Body::OneSided(Act::Move(OneSided::Get));
/// The largest message by default, in bytes (basis: the tools).
const LARGEST: u32 = 4 << 20;
/// A message at least; `osu_latency` begins with none.
const SWEEP: (u32, u32) = (1, LARGEST);

/// Two ranks, all sizes from a byte on.
const fn row(name: &'static str, title: &'static str, body: Body, metric: Metric, about: &'static str) -> Benchmark {
    Benchmark { name, about, title, body, metric, sweep: SWEEP, ranks: Ranks::Two, seen: Seen::EveryPair }
}
/// An update of elements of the target.
const fn update(name: &'static str, title: &'static str, update: Update, about: &'static str) -> Benchmark {
    row(name, title, Body::OneSided(Act::Update(update)), Metric::Time, about)
}

/// Every benchmark.
#[rustfmt::skip]
pub static BENCHMARKS: &[Benchmark] = &[
    Benchmark {
        sweep: (0, LARGEST),
        ..row("osu_latency", "OSU MPI{} Latency Test", Body::PingPong, Metric::HalfRoundTrip, "half round trip of an MPI message (OSU Micro-Benchmarks)")
    },
    row("osu_bw", "OSU MPI{} Bandwidth Test", Body::Window, Metric::Bandwidth, "MPI bandwidth, a window of messages one way (OSU Micro-Benchmarks)"),
    row("osu_bibw", "OSU MPI{} Bi-Directional Bandwidth Test", Body::BothWindows, Metric::BandwidthOfBoth, "MPI bidirectional bandwidth (OSU Micro-Benchmarks)"),
    Benchmark {
        ranks: Ranks::Pairs,
        ..row("osu_mbw_mr", "OSU MPI{} Multiple Bandwidth / Message Rate Test", Body::Window, Metric::MessageRate, "MPI bandwidth and message rate of several pairs (OSU Micro-Benchmarks)")
    },
    Benchmark {
        ranks: Ranks::Pairs,
        seen: Seen::FirstPair,
        ..row("osu_multi_lat", "OSU MPI{} Multi Latency Test", Body::PingPong, Metric::HalfRoundTrip, "multi-pair latency: half round trip of the first of several pairs (OSU Micro-Benchmarks)")
    },
    Benchmark {
        // The sizes of the published tables.
        sweep: (128, 1 << 30),
        ranks: Ranks::TwoOnOneNode,
        ..row("mpi_gpu_bw", "Ping-pong of two ranks on two GPUs of a node", Body::PingPong, Metric::BandwidthOfRoundTrip, "ping-pong of two ranks of one node, from GPU to GPU; 2 x bytes / round trip")
    },
    row("osu_put_latency", "OSU MPI_Put{} Latency Test", PUT, Metric::Time, "an MPI_Put and its flush (OSU Micro-Benchmarks)"),
    row("osu_put_bw", "OSU MPI_Put{} Bandwidth Test", PUT, Metric::Bandwidth, "bandwidth of a window of MPI_Puts (OSU Micro-Benchmarks)"),
    row("osu_put_bibw", "OSU MPI_Put{} Bi-directional Bandwidth Test", PUT, Metric::BandwidthOfBoth, "bidirectional bandwidth (OSU Micro-Benchmarks)"),
    row("osu_get_latency", "OSU MPI_Get{} Latency Test", GET, Metric::Time, "an MPI_Get and its flush (OSU Micro-Benchmarks)"),
    row("osu_get_bw", "OSU MPI_Get{} Bandwidth Test", GET, Metric::Bandwidth, "bandwidth of a window of MPI_Gets (OSU Micro-Benchmarks)"),
    update("osu_acc_latency", "OSU MPI_Accumulate{} latency Test", Update::Accumulate, "an MPI_Accumulate and its flush (OSU Micro-Benchmarks)"),
    update("osu_get_acc_latency", "OSU MPI_Get_accumulate{} latency Test", Update::GetAccumulate, "an MPI_Get_accumulate and its flush (OSU Micro-Benchmarks)"),
    update("osu_fop_latency", "OSU MPI_Fetch_and_op{} latency Test", Update::FetchAndOp, "an MPI_Fetch_and_op of one element and its flush (OSU Micro-Benchmarks)"),
    update("osu_cas_latency", "OSU MPI_Compare_and_swap{} latency Test", Update::CompareAndSwap, "an MPI_Compare_and_swap of one element and its flush (OSU Micro-Benchmarks)"),
];

impl Benchmark {
    /// The operation, where one side alone acts.
    pub(crate) fn one_sided(&self) -> Option<Act> {
        if let Body::OneSided(act) = self.body { Some(act) } else { None }
    }
    /// The call, where it changes elements of the target.
    pub(crate) fn update(&self) -> Option<Update> {
        if let Body::OneSided(Act::Update(update)) = self.body { Some(update) } else { None }
    }
    /// Whether one operation at a time is measured.
    pub(crate) fn is_latency(&self) -> bool {
        matches!(self.metric, Metric::HalfRoundTrip | Metric::Time)
    }
    /// Whether both sides act at the same time.
    pub(crate) fn is_bidirectional(&self) -> bool {
        self.metric == Metric::BandwidthOfBoth
    }
    /// The smallest message that can be asked for, in bytes.
    #[must_use]
    pub fn smallest(&self) -> u32 {
        self.sweep.0.min(1)
    }
    /// Whether the ranks are on the GPUs of one node.
    #[must_use]
    pub fn is_within_a_node(&self) -> bool {
        self.ranks == Ranks::TwoOnOneNode
    }
    /// The title in the first line of the output; `suffix` names the accelerator: `-CUDA`.
    pub(crate) fn title(&self, suffix: &str) -> String {
        self.title.replace("{}", suffix)
    }

    /// What the program is.
    #[must_use]
    pub fn traits(&self) -> Traits {
        let operation = match self.body {
            Body::PingPong | Body::Window | Body::BothWindows => Operation::Message,
            Body::OneSided(Act::Move(OneSided::Put)) => Operation::Put,
            Body::OneSided(Act::Move(OneSided::Get)) => Operation::Get,
            Body::OneSided(Act::Update(Update::Accumulate)) => Operation::Accumulate,
            Body::OneSided(Act::Update(Update::GetAccumulate)) => Operation::GetAccumulate,
            Body::OneSided(Act::Update(Update::FetchAndOp | Update::CompareAndSwap)) => Operation::SingleUpdate,
        };
        Traits {
            measures: match self.metric {
                Metric::HalfRoundTrip | Metric::Time => Measures::Latency,
                Metric::Bandwidth | Metric::BandwidthOfBoth | Metric::BandwidthOfRoundTrip => Measures::Bandwidth,
                Metric::MessageRate => Measures::Rate,
            },
            exchange: match (self.metric, self.update()) {
                (Metric::HalfRoundTrip, _) => Exchange::PingPong,
                (_, Some(_)) => Exchange::RoundTrip,
                _ => Exchange::Other,
            },
            direction: if self.is_bidirectional() { Direction::Bidirectional } else { Direction::OneWay },
            ranks: self.ranks,
            sizes: if self.update().is_some_and(Update::is_single) { SizeOption::Fixed } else { SizeOption::Range },
            data: if self.is_within_a_node() { Data::OnGpus } else { Data::OnHosts },
            ..Traits::new(if self.is_within_a_node() { Suite::Single } else { Suite::Omb }, operation)
        }
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// The benchmark of this name.
    pub(crate) fn named(name: &str) -> &'static Benchmark {
        BENCHMARKS.iter().find(|benchmark| benchmark.name == name).unwrap()
    }

    #[test]
    fn titles_name_the_accelerator() {
        assert_eq!(named("osu_bibw").title("-CUDA"), "OSU MPI-CUDA Bi-Directional Bandwidth Test");
        assert_eq!(named("osu_put_bibw").title(""), "OSU MPI_Put Bi-directional Bandwidth Test");
        for benchmark in BENCHMARKS {
            assert!(!benchmark.title("").contains(['{', '}']), "{}", benchmark.name);
        }
    }

    #[test]
    fn windows_are_of_bandwidths() {
        for benchmark in BENCHMARKS {
            let window = matches!(benchmark.body, Body::Window | Body::BothWindows);
            assert!(!(window && benchmark.is_latency()), "{}: a window has no latency", benchmark.name);
            assert_eq!(benchmark.seen == Seen::FirstPair, benchmark.name == "osu_multi_lat", "{}", benchmark.name);
        }
    }
}
