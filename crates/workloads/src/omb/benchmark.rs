//! Which of the benchmarks runs, and its fixed properties.

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
}

/// Every benchmark.
pub const BENCHMARKS: [Benchmark; 5] =
    [Benchmark::Latency, Benchmark::Bandwidth, Benchmark::BothWays, Benchmark::MessageRate, Benchmark::GpuPingPong];

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
        }
    }
    /// The title in the first line of the output; `suffix` names the accelerator: `-CUDA`.
    pub(crate) fn title(self, suffix: &str) -> String {
        let name = match self {
            Benchmark::Latency => "Latency",
            Benchmark::Bandwidth => "Bandwidth",
            Benchmark::BothWays => "Bi-Directional Bandwidth",
            Benchmark::MessageRate => "Multiple Bandwidth / Message Rate",
            Benchmark::GpuPingPong => return "Ping-pong of two ranks on two GPUs of a node".to_owned(),
        };
        format!("OSU MPI{suffix} {name} Test")
    }
}
