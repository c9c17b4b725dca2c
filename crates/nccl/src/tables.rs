//! The numbers of the library: what it believes of hardware, by which it searches and chooses.
//!
//! They are facts about the software, as the switch points of an MPI library are, and so they stand here and not in the catalogue: no
//! byte of the model moves at one of these rates. Rates are in MB/s (10⁶ bytes) where they are built, so that all are whole.
//!
//! Source: NCCL 2.22.3, files and names at each table; `sm100` from NCCL 2.27 (src/graph/topo.h, search.cc, tuning.cc);
//! RCCL, src/graph/topo.h, search.cc, tuning.cc.

use fabriscope_units::{Bytes, Rate};

use crate::architecture::{Architecture, Processor};

/// So many MB/s.
pub(crate) const fn mbs(megabytes: u64) -> Rate {
    Rate::from_bps(megabytes * 8_000_000)
}

/// Within one device (topo.h, LOC_BW).
pub(crate) const LOCAL: Rate = mbs(5_000_000);
/// PCI Express 3.0 with 16 lanes (topo.h, PCI_BW).
pub(crate) const PCI: Rate = mbs(12_000);

/// What one NVLink carries (topo.h, SMxx_NVLINK_BW).
pub(crate) const fn nvlink_rate(capability: u32) -> Rate {
    mbs(match capability {
        100.. => 40_100,
        90.. => 20_600,
        86 => 12_000,
        70.. => 20_000,
        60.. => 18_000,
        _ => 20_000,
    })
}

/// What one xGMI link carries (RCCL, topo.h: VEGA_, MI200_, GFX94X_XGMI_WIDTH).
pub(crate) const fn xgmi_rate(gfx: u32) -> Rate {
    mbs(match gfx {
        0x940.. => 48_000,
        0x90a.. => 36_000,
        _ => 24_000,
    })
}

/// Between sockets (topo.cc, ncclTopoGetInterCpuBw).
pub(crate) const fn between_sockets(processor: Processor) -> Rate {
    match processor {
        Processor::IntelBroadwell | Processor::Arm => mbs(6_000),
        Processor::IntelSkylake => mbs(10_000),
        Processor::Amd => mbs(16_000),
        Processor::Power => mbs(32_000),
        Processor::Other => LOCAL,
    }
}

/// One lane of PCI Express: 3.0 carries 12 GB/s over 16 lanes, each generation twice as much (topo.cc, kvDictPciGen).
pub(crate) const fn pci_lane(generation: u32) -> Rate {
    let shift = if generation == 0 {
        2
    } else if generation > 7 {
        6
    } else {
        generation - 1
    };
    Rate::from_bps((187_500_000 * 8) << shift)
}

/// How far a channel leads.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Reach {
    /// It stays in the node.
    Node,
    /// It goes on over adapters.
    Network,
}

/// Speeds of a channel that are tried, fastest first (search.cc: speedArrayIntra, speedArrayInter and those of sm90 and sm100).
pub(crate) const fn speeds(capability: u32, amd: bool, reach: Reach) -> &'static [u64] {
    match (reach, capability) {
        (Reach::Node, 100..) => &[90_000, 80_000, 70_000, 60_000, 50_000, 45_000, 40_000, 30_000, 24_000, 20_000, 19_000, 18_000],
        (Reach::Node, 90..) => &[60_000, 50_000, 40_000, 30_000, 24_000, 20_000, 15_000, 12_000, 11_000, 6_000, 3_000],
        (Reach::Network, 100..) => &[
            96_000, 48_000, 45_100, 42_000, 40_000, 30_000, 24_000, 22_000, 20_000, 17_500, 15_000, 12_000, 6_000, 3_000, 2_400, 1_200,
            240, 120,
        ],
        (Reach::Network, 90..) => {
            &[48_000, 45_000, 42_000, 40_000, 30_000, 24_000, 22_000, 20_000, 17_500, 15_000, 12_000, 6_000, 3_000, 2_400, 1_200, 240, 120]
        }
        _ if amd => {
            &[48_000, 24_000, 20_000, 18_000, 15_000, 12_000, 10_000, 9_000, 7_000, 6_000, 5_000, 4_000, 3_000, 2_400, 1_200, 240, 120]
        }
        (Reach::Node, _) => &[40_000, 30_000, 20_000, 18_000, 15_000, 12_000, 10_000, 9_000, 7_000, 6_000, 5_000, 4_000, 3_000],
        (Reach::Network, _) => &[
            48_000, 30_000, 28_000, 24_000, 20_000, 18_000, 15_000, 12_000, 10_000, 9_000, 7_000, 6_000, 5_000, 4_000, 3_000, 2_400, 1_200,
            240, 120,
        ],
    }
}

/// Channels of a communicator at the most (device.h, MAXCHANNELS), and what a search may find: half of it.
pub(crate) const MOST_CHANNELS: usize = 32;
/// The same of later releases, which know Blackwell, and of RCCL (device.h, MAXCHANNELS of 2.27 and of RCCL).
pub(crate) const fn most_channels(architecture: Architecture) -> usize {
    match architecture {
        Architecture::Sm(100..) => 64,
        Architecture::Gfx(_) => 128,
        Architecture::Sm(_) => MOST_CHANNELS,
    }
}
/// Heads of NVLS and of CollNet in a node (device.h, NCCL_MAX_NVLS_ARITY, NCCL_MAX_DIRECT_ARITY).
pub(crate) const MOST_NVLS_HEADS: usize = 32;
pub(crate) const MOST_COLLNET_HEADS: usize = 8;
/// GPUs and adapters of a node at the most (graph.h, NCCL_TOPO_MAX_NODES).
pub(crate) const MOST_DEVICES: usize = 256;
/// Steps of one try of a search, of one with equal channels, and of a whole search (search.cc, NCCL_SEARCH_*TIMEOUT*).
pub(crate) const SEARCH_STEPS: i64 = 1 << 14;
pub(crate) const SEARCH_STEPS_SAME: i64 = 1 << 8;
pub(crate) const SEARCH_STEPS_ALL: i64 = 1 << 19;
/// Steps of the try of GPUs in the order of the bus (search.cc, ncclTopoSearchRecNet).
pub(crate) const SEARCH_STEPS_BUS_ORDER: i64 = 1 << 10;

/// Slots of a connection (device.h, NCCL_STEPS).
pub(crate) const SLOTS: u64 = 8;
/// Buffer of a connection by protocol: LL, LL128, Simple (init.cc, DEFAULT_*BUFFSIZE).
pub(crate) const BUFFERS: [Bytes; 3] = [Bytes(8 * 512 * 8 * 16), Bytes(120 * 640 * 8 * 8), Bytes(4 << 20)];
/// Buffer of a connection of RCCL: LL lines for 256 threads, LL128 for 256, Simple 4 MiB (rccl, device.h). Basis: published.
pub(crate) const BUFFERS_AMD: [Bytes; 3] = [Bytes(8 * 256 * 8 * 16), Bytes(120 * 256 * 8 * 8), Bytes(4 << 20)];
/// Chunks of point to point: GPUs over NVLink, over PCI Express, over the network (init.cc, NCCL_P2P_*_CHUNKSIZE).
pub(crate) const P2P_CHUNKS: [Bytes; 3] = [Bytes(512 << 10), Bytes(128 << 10), Bytes(128 << 10)];
/// Largest message of a channel that goes by LL (enqueue.cc, NCCL_P2P_LL_THRESHOLD).
pub(crate) const P2P_LL: Bytes = Bytes(16 << 10);
/// Chunk of NVLS (nvls.cc, NCCL_NVLS_CHUNKSIZE).
pub(crate) const NVLS_CHUNK: Bytes = Bytes(128 << 10);
/// Channels of NVLS: 16; from Blackwell's release on 24 within a node and 32 between nodes (nvls.cc, NVLS_NCHANNELS_SM*).
pub(crate) const fn nvls_channels(capability: u32, several_nodes: bool) -> usize {
    match (capability, several_nodes) {
        (100.., true) => 32,
        (100.., false) => 24,
        _ => 16,
    }
}

/// Threads of a channel: of all, of Simple and LL before more warps are added, of LL128 (device.h).
pub(crate) const MOST_THREADS: u32 = 640;
pub(crate) const SIMPLE_THREADS: u32 = 512;
pub(crate) const WARP: u32 = 32;
/// Of a tree's block those who reduce and those who spread, of all: 384 and 256 threads with Simple, where all are 512, and seven and three
/// tenths with lines (all_reduce.h, runTreeSplit).
pub(crate) const TREE_SPLIT_SIMPLE: [u32; 3] = [12, 8, 16];
pub(crate) const TREE_SPLIT_LINES: [u32; 3] = [7, 3, 10];
/// Warps of a block with NVLS that scatter, gather, reduce and spread (all_reduce.h, RunWorkColl of NVLS): in a node of few and of many
/// GPUs, where one group reduces and spreads, and between nodes.
pub(crate) const NVLS_WARPS_FEW: [u32; 4] = [7, 6, 7, 7];
pub(crate) const NVLS_WARPS: [u32; 4] = [8, 7, 5, 5];
pub(crate) const NVLS_WARPS_NODES: [u32; 4] = [8, 7, 3, 2];
/// GPUs of a node that are few.
pub(crate) const NVLS_FEW: u32 = 6;
/// The same of an all-gather and a reduce-scatter (all_gather.h, reduce_scatter.h).
pub(crate) const NVLS_WARPS_ALL_GATHER: [u32; 4] = [0, 16, 0, 4];
pub(crate) const NVLS_WARPS_REDUCE_SCATTER: [u32; 4] = [5, 0, 12, 0];
/// Bytes for each thread below which channels and threads are left out: LL (times ranks for rings), LL128, Simple, CollNet (comm.h).
pub(crate) const THREAD_THRESHOLDS: [u64; 3] = [8, 8, 64];
pub(crate) const COLLNET_THRESHOLD: u64 = 512;
/// Operations of a batch: 1024 bytes, 96 for each (device.h, NCCL_MAX_DEV_WORK_BATCH_COLLS).
pub(crate) const BATCH: u32 = 10;
/// Traffic of a channel at the least (enqueue.cc, MinTrafficPerChannel).
pub(crate) const LEAST_TRAFFIC: u64 = 512;

/// Base latencies in µs: tree, ring, CollNet direct and chain, NVLS and its tree, each LL, LL128, Simple (tuning.cc, baseLat).
pub(crate) const BASE_LATENCY: [[f64; 3]; 6] = [[6.8, 14.0, 0.0], [6.6, 14.0, 8.4], [0.0; 3], [0.0; 3], [0.0; 3], [0.0; 3]];
/// The same of Blackwell's release (2.27, baseLatencies).
pub(crate) const BASE_LATENCY_SM100: [[f64; 3]; 6] = [[6.8, 14.0, 8.4], [6.6, 14.0, 8.4], [0.0; 3], [0.0; 3], [0.0; 3], [0.0; 3]];
/// Latencies of a hop in µs over NVLink, PCI Express and the network (tuning.cc, hwLat).
pub(crate) const HOP_LATENCY: [[[f64; 3]; 6]; 3] = [
    [[0.6, 1.25, 28.0], [0.6, 1.9, 3.4], [0.0, 0.0, 3.7], [0.0, 0.0, 2.8], [0.0, 0.0, 25.0], [0.0, 0.0, 25.0]],
    [[1.0, 1.9, 28.0], [1.0, 2.5, 5.7], [0.0, 0.0, 3.7], [0.0, 0.0, 2.8], [0.0; 3], [0.0; 3]],
    [[5.0, 8.5, 28.0], [2.7, 4.0, 14.0], [0.0, 0.0, 31.0], [0.0, 0.0, 30.0], [0.0, 0.0, 18.0], [0.0, 0.0, 14.0]],
];
/// The same of Blackwell's release (2.27): trees with Simple 4 and 14, the tree of NVLS 20.9.
pub(crate) const HOP_LATENCY_SM100: [[[f64; 3]; 6]; 3] = [
    [[0.6, 1.25, 4.0], [0.6, 1.9, 3.4], [0.0, 0.0, 3.7], [0.0, 0.0, 2.8], [0.0, 0.0, 25.0], [0.0, 0.0, 25.0]],
    [[1.0, 1.9, 4.0], [1.0, 2.5, 5.7], [0.0, 0.0, 3.7], [0.0, 0.0, 2.8], [0.0; 3], [0.0; 3]],
    [[5.0, 8.5, 14.0], [2.7, 4.0, 14.0], [0.0, 0.0, 31.0], [0.0, 0.0, 30.0], [0.0, 0.0, 18.0], [0.0, 0.0, 20.9]],
];

/// The same of 2.18.3 (tuning.cc): NVLS begins with 23 µs, and hops of trees with Simple take 4, 6 and 14.
pub(crate) const BASE_LATENCY_2_18: [[f64; 3]; 6] =
    [[6.8, 14.0, 0.0], [6.6, 14.0, 8.4], [6.8, 14.0, 0.0], [6.8, 14.0, 0.0], [0.0, 0.0, 23.0], [0.0, 0.0, 23.0]];
pub(crate) const HOP_LATENCY_2_18: [[[f64; 3]; 6]; 3] = [
    [[0.6, 1.25, 4.0], [0.6, 1.9, 3.4], [0.0, 0.0, 8.0], [0.0, 0.0, 4.75], [0.0; 3], [0.0; 3]],
    [[1.0, 1.9, 6.0], [1.0, 2.5, 5.7], [0.0, 0.0, 8.0], [0.0, 0.0, 8.0], [0.0; 3], [0.0; 3]],
    [[5.0, 8.5, 14.0], [2.7, 4.0, 14.0], [0.0, 0.0, 10.7], [0.0, 0.0, 14.0], [0.0, 0.0, 18.0], [0.0, 0.0, 19.0]],
];
/// Most of LL on Hopper in 2.18.3, and how much of a ring's rate LL reaches.
pub(crate) const LL_MOST_HOPPER_2_18: [f64; 3] = [87.7, 22.5, 19.0];
pub(crate) const LL_SHARE_2_18: f64 = 0.25;

/// Which row of the tables by generation a GPU has: Volta, Ampere, Hopper, Blackwell.
pub(crate) const fn generation(capability: u32) -> usize {
    match capability {
        100.. => 3,
        90.. => 2,
        80.. => 1,
        _ => 0,
    }
}
/// Most of LL in GB/s, by generation, and 1, 2 or more nodes (tuning.cc, llMaxBws). With several nodes the row is that of the
/// processor: the first, and the second where it is AMD's.
pub(crate) const LL_MOST: [[f64; 3]; 4] = [[39.0, 39.0, 20.4], [87.7, 22.5, 19.0], [141.0, 45.0, 35.0], [282.0, 90.0, 70.0]];
/// Most of a channel in GB/s: rings with LL128, trees with LL128, trees with Simple (tuning.cc, perChMax*Bws).
pub(crate) const RING_LL128_MOST: [[f64; 3]; 4] = [[20.0; 3], [20.0; 3], [36.7; 3], [40.0; 3]];
pub(crate) const TREE_LL128_MOST: [[f64; 3]; 4] = [[20.0; 3], [20.0; 3], [36.7, 36.7, 29.0], [55.6, 31.67, 20.0]];
pub(crate) const TREE_MOST: [[f64; 3]; 4] = [[26.5, 18.5, 10.0], [24.0, 23.6, 17.8], [38.7, 41.4, 36.0], [70.0, 42.8, 24.0]];
/// How much of its links NVLS reaches on Blackwell, and most of a channel of its tree in GB/s (2.27, nvlsEfficiency,
/// perChMaxNVLSTreeBws). Hopper's release takes all of the links.
pub(crate) const NVLS_EFFICIENCY_SM100: f64 = 0.74;
pub(crate) const NVLS_TREE_MOST_SM100: [f64; 3] = [0.0, 96.0, 43.8];

/// What posting to the network costs in µs (tuning.cc, getNetOverhead).
pub(crate) const fn post_overhead(processor: Processor) -> f64 {
    if matches!(processor, Processor::Amd) { 2.0 } else { 1.0 }
}

/// How much of its rate a tree reaches from 64 B on, each twice the last: LL, LL128, Simple (tuning.cc, treeCorrectionFactor).
pub(crate) const TREE_CORRECTION: [[f64; 23]; 3] = [
    [1.0, 1.0, 1.0, 1.0, 0.9, 0.8, 0.7, 0.7, 0.7, 0.7, 0.6, 0.5, 0.4, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0, 1.0, 1.0, 1.0],
    [1.0, 1.0, 1.0, 1.0, 1.0, 0.9, 0.8, 0.8, 0.8, 0.7, 0.6, 0.6, 0.6, 0.6, 0.6, 0.6, 0.8, 0.9, 0.9, 0.9, 0.9, 1.0, 1.0],
    [0.9, 0.9, 0.9, 0.9, 0.9, 0.9, 0.9, 0.8, 0.7, 0.6, 0.6, 0.5, 0.5, 0.5, 0.5, 0.6, 0.7, 0.8, 0.7, 0.7, 0.8, 0.9, 0.9],
];
