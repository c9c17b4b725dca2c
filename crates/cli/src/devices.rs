//! Options about the inside of nodes: where each rank is, which GPU it has, and how the MPI library moves bytes there.

use fabriscope_lab::devices::DeviceOptions;

/// The options, as typed.
#[derive(Debug, Clone, Default, PartialEq, Eq, clap::Args)]
pub struct DeviceArgs {
    /// Where the ranks of each node are: `core` (one core after the other), `socket` or `numa` (these in turn), `core:0,20` (these
    /// cores); `0,2` are their GPUs on nodes that have some, and cores elsewhere (default: GPUs in turn with the cores next to them, or `core`)
    #[arg(long, value_name = "WHERE")]
    pub bind: Option<String>,
    /// By what means long messages within a node travel: `shm` (FIFO), `cma`, `knem`, `xpmem` (default: as the library does)
    #[arg(long, value_name = "MEANS")]
    pub intra_node: Option<String>,
    /// Whether the MPI library takes buffers on a GPU; `off`: the program copies them itself (default: as the library does)
    #[arg(long, value_name = "on|off")]
    pub gpu_aware: Option<String>,
    /// Whether adapters and cores reach the memory of GPUs (GPUDirect RDMA, GDRCopy): PSM2_GPUDIRECT (default: as the library does)
    #[arg(long, value_name = "on|off")]
    pub gpudirect: Option<String>,
}

impl DeviceArgs {
    /// What was asked for.
    pub fn options(&self) -> DeviceOptions {
        let DeviceArgs { bind, intra_node, gpu_aware, gpudirect } = self.clone();
        DeviceOptions { bind, intra_node, gpu_aware, gpudirect }
    }
}
