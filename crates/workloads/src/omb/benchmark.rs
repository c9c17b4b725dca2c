//! Which of the benchmarks runs, and its fixed properties.

use crate::mpi::OneSided;

/// One benchmark.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Benchmark {
    /// `osu_latency`.
    Latency,
    /// `osu_bw`.
    Bandwidth,
    /// `osu_bibw`.
    BothWays,
    /// `osu_mbw_mr`.
    MessageRate,
    /// `mpi_gpu_bw`.
    GpuPingPong,
    /// `osu_put_latency`.
    PutLatency,
    /// `osu_put_bw`.
    PutBandwidth,
    /// `osu_put_bibw`.
    PutBothWays,
    /// `osu_get_latency`.
    GetLatency,
    /// `osu_get_bw`.
    GetBandwidth,
}

/// Every benchmark.
pub const BENCHMARKS: [Benchmark; 10] = [
    Benchmark::Latency,
    Benchmark::Bandwidth,
    Benchmark::BothWays,
    Benchmark::MessageRate,
    Benchmark::GpuPingPong,
    Benchmark::PutLatency,
    Benchmark::PutBandwidth,
    Benchmark::PutBothWays,
    Benchmark::GetLatency,
    Benchmark::GetBandwidth,
];

impl Benchmark {
    /// The program's name.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Benchmark::Latency => "osu_latency",
            Benchmark::Bandwidth => "osu_bw",
            Benchmark::BothWays => "osu_bibw",
            Benchmark::MessageRate => "osu_mbw_mr",
            Benchmark::GpuPingPong => "mpi_gpu_bw",
            Benchmark::PutLatency => "osu_put_latency",
            Benchmark::PutBandwidth => "osu_put_bw",
            Benchmark::PutBothWays => "osu_put_bibw",
            Benchmark::GetLatency => "osu_get_latency",
            Benchmark::GetBandwidth => "osu_get_bw",
        }
    }
    /// One line for a list of tools.
    #[must_use]
    pub fn about(self) -> &'static str {
        match self {
            Benchmark::Latency => "half round trip of an MPI message (OSU Micro-Benchmarks)",
            Benchmark::Bandwidth => "MPI bandwidth, a window of messages one way (OSU Micro-Benchmarks)",
            Benchmark::BothWays => "MPI bandwidth, both ways at once (OSU Micro-Benchmarks)",
            Benchmark::MessageRate => "MPI bandwidth and message rate of several pairs (OSU Micro-Benchmarks)",
            Benchmark::GpuPingPong => "ping-pong of two ranks of one node, from GPU to GPU; 2 x bytes / round trip",
            Benchmark::PutLatency => "an MPI_Put and its flush (OSU Micro-Benchmarks)",
            Benchmark::PutBandwidth => "bandwidth of a window of MPI_Puts (OSU Micro-Benchmarks)",
            Benchmark::PutBothWays => "the same, both ways at once (OSU Micro-Benchmarks)",
            Benchmark::GetLatency => "an MPI_Get and its flush (OSU Micro-Benchmarks)",
            Benchmark::GetBandwidth => "bandwidth of a window of MPI_Gets (OSU Micro-Benchmarks)",
        }
    }
    /// The operation, where one side alone acts.
    pub(crate) fn one_sided(self) -> Option<OneSided> {
        match self {
            Benchmark::PutLatency | Benchmark::PutBandwidth | Benchmark::PutBothWays => Some(OneSided::Put),
            Benchmark::GetLatency | Benchmark::GetBandwidth => Some(OneSided::Get),
            _ => None,
        }
    }
    /// Whether one operation at a time is measured.
    pub(crate) fn is_latency(self) -> bool {
        matches!(self, Benchmark::Latency | Benchmark::PutLatency | Benchmark::GetLatency)
    }
    /// The title in the first line of the output; `suffix` names the accelerator: `-CUDA`.
    pub(crate) fn title(self, suffix: &str) -> String {
        let name = match self {
            Benchmark::Latency => "Latency",
            Benchmark::Bandwidth => "Bandwidth",
            Benchmark::BothWays => "Bi-Directional Bandwidth",
            Benchmark::MessageRate => "Multiple Bandwidth / Message Rate",
            Benchmark::PutLatency => return format!("OSU MPI_Put{suffix} Latency Test"),
            Benchmark::PutBandwidth => return format!("OSU MPI_Put{suffix} Bandwidth Test"),
            Benchmark::PutBothWays => return format!("OSU MPI_Put{suffix} Bi-directional Bandwidth Test"),
            Benchmark::GetLatency => return format!("OSU MPI_Get{suffix} Latency Test"),
            Benchmark::GetBandwidth => return format!("OSU MPI_Get{suffix} Bandwidth Test"),
            Benchmark::GpuPingPong => return "Ping-pong of two ranks on two GPUs of a node".to_owned(),
        };
        format!("OSU MPI{suffix} {name} Test")
    }
}
