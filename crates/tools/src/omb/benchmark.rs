//! Which of the benchmarks runs, and its fixed properties.

use fabriscope_mpi::{OneSided, Update};

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
    /// `osu_multi_lat`.
    MultiLatency,
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
    /// `osu_acc_latency`.
    AccLatency,
    /// `osu_get_acc_latency`.
    GetAccLatency,
    /// `osu_fop_latency`.
    FopLatency,
    /// `osu_cas_latency`.
    CasLatency,
}

/// What a one-sided benchmark does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Act {
    /// It moves bytes.
    Move(OneSided),
    /// It changes elements of the target.
    Update(Update),
}

/// Every benchmark.
pub const BENCHMARKS: [Benchmark; 15] = [
    Benchmark::Latency,
    Benchmark::Bandwidth,
    Benchmark::BothWays,
    Benchmark::MessageRate,
    Benchmark::MultiLatency,
    Benchmark::GpuPingPong,
    Benchmark::PutLatency,
    Benchmark::PutBandwidth,
    Benchmark::PutBothWays,
    Benchmark::GetLatency,
    Benchmark::GetBandwidth,
    Benchmark::AccLatency,
    Benchmark::GetAccLatency,
    Benchmark::FopLatency,
    Benchmark::CasLatency,
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
            Benchmark::MultiLatency => "osu_multi_lat",
            Benchmark::GpuPingPong => "mpi_gpu_bw",
            Benchmark::PutLatency => "osu_put_latency",
            Benchmark::PutBandwidth => "osu_put_bw",
            Benchmark::PutBothWays => "osu_put_bibw",
            Benchmark::GetLatency => "osu_get_latency",
            Benchmark::GetBandwidth => "osu_get_bw",
            Benchmark::AccLatency => "osu_acc_latency",
            Benchmark::GetAccLatency => "osu_get_acc_latency",
            Benchmark::FopLatency => "osu_fop_latency",
            Benchmark::CasLatency => "osu_cas_latency",
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
            Benchmark::MultiLatency => {
                "half round trip of an MPI message beside other pairs, as the first of them sees it (OSU Micro-Benchmarks)"
            }
            Benchmark::GpuPingPong => "ping-pong of two ranks of one node, from GPU to GPU; 2 x bytes / round trip",
            Benchmark::PutLatency => "an MPI_Put and its flush (OSU Micro-Benchmarks)",
            Benchmark::PutBandwidth => "bandwidth of a window of MPI_Puts (OSU Micro-Benchmarks)",
            Benchmark::PutBothWays => "the same, both ways at once (OSU Micro-Benchmarks)",
            Benchmark::GetLatency => "an MPI_Get and its flush (OSU Micro-Benchmarks)",
            Benchmark::GetBandwidth => "bandwidth of a window of MPI_Gets (OSU Micro-Benchmarks)",
            Benchmark::AccLatency => "an MPI_Accumulate and its flush (OSU Micro-Benchmarks)",
            Benchmark::GetAccLatency => "an MPI_Get_accumulate and its flush (OSU Micro-Benchmarks)",
            Benchmark::FopLatency => "an MPI_Fetch_and_op of one element and its flush (OSU Micro-Benchmarks)",
            Benchmark::CasLatency => "an MPI_Compare_and_swap of one element and its flush (OSU Micro-Benchmarks)",
        }
    }
    /// The operation, where one side alone acts.
    pub(crate) fn one_sided(self) -> Option<Act> {
        match self {
            Benchmark::PutLatency | Benchmark::PutBandwidth | Benchmark::PutBothWays => Some(Act::Move(OneSided::Put)),
            Benchmark::GetLatency | Benchmark::GetBandwidth => Some(Act::Move(OneSided::Get)),
            _ => self.update().map(Act::Update),
        }
    }
    /// The call, where it changes elements of the target.
    pub(crate) fn update(self) -> Option<Update> {
        match self {
            Benchmark::AccLatency => Some(Update::Accumulate),
            Benchmark::GetAccLatency => Some(Update::GetAccumulate),
            Benchmark::FopLatency => Some(Update::FetchAndOp),
            Benchmark::CasLatency => Some(Update::CompareAndSwap),
            _ => None,
        }
    }
    /// Whether one operation at a time is measured.
    pub(crate) fn is_latency(self) -> bool {
        matches!(self, Benchmark::Latency | Benchmark::MultiLatency | Benchmark::PutLatency | Benchmark::GetLatency)
            || self.update().is_some()
    }
    /// Whether several pairs can take part.
    pub(crate) fn has_pairs(self) -> bool {
        matches!(self, Benchmark::MessageRate | Benchmark::MultiLatency)
    }
    /// The title in the first line of the output; `suffix` names the accelerator: `-CUDA`.
    pub(crate) fn title(self, suffix: &str) -> String {
        let name = match self {
            Benchmark::Latency => "Latency",
            Benchmark::Bandwidth => "Bandwidth",
            Benchmark::BothWays => "Bi-Directional Bandwidth",
            Benchmark::MessageRate => "Multiple Bandwidth / Message Rate",
            Benchmark::MultiLatency => "Multi Latency",
            Benchmark::PutLatency => return format!("OSU MPI_Put{suffix} Latency Test"),
            Benchmark::PutBandwidth => return format!("OSU MPI_Put{suffix} Bandwidth Test"),
            Benchmark::PutBothWays => return format!("OSU MPI_Put{suffix} Bi-directional Bandwidth Test"),
            Benchmark::GetLatency => return format!("OSU MPI_Get{suffix} Latency Test"),
            Benchmark::GetBandwidth => return format!("OSU MPI_Get{suffix} Bandwidth Test"),
            Benchmark::AccLatency => return format!("OSU MPI_Accumulate{suffix} latency Test"),
            Benchmark::GetAccLatency => return format!("OSU MPI_Get_accumulate{suffix} latency Test"),
            Benchmark::FopLatency => return format!("OSU MPI_Fetch_and_op{suffix} latency Test"),
            Benchmark::CasLatency => return format!("OSU MPI_Compare_and_swap{suffix} latency Test"),
            Benchmark::GpuPingPong => return "Ping-pong of two ranks on two GPUs of a node".to_owned(),
        };
        format!("OSU MPI{suffix} {name} Test")
    }
}
