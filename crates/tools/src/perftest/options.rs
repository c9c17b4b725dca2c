//! The options of the perftest programs: which exist, and what they default to.
//!
//! Source: perftest 6.29 manual and behaviour (format: docs/formats.md).

use fabriscope_tool::arguments::Meaning::{Harmless, Refused, Usual};
use fabriscope_tool::arguments::{Opt, Takes, opt};

/// Every option of the family; which test may use which is decided in [`super::settings`].
pub(crate) const OPTIONS: &[Opt] = &[
    opt('a', "all", Takes::Nothing, Usual, "run sizes from 2 to 2^23"),
    opt('A', "atomic_type", Takes::Value("type"), Usual, "FETCH_AND_ADD or CMP_AND_SWAP (default FETCH_AND_ADD)"),
    opt('b', "bidirectional", Takes::Nothing, Usual, "measure both directions at once (bandwidth tests)"),
    opt('c', "connection", Takes::Value("RC|XRC|UC|UD|DC|SRD"), Usual, "transport service (default RC)"),
    opt('d', "ib-dev", Takes::Value("device"), Usual, "device name to print"),
    opt('D', "duration", Takes::Value("seconds"), Usual, "run for this long in simulated time instead of a number of iterations"),
    opt('f', "margin", Takes::Value("seconds"), Usual, "with -D: leave this much out at both ends (default 2)"),
    opt('F', "CPU-freq", Takes::Nothing, Harmless("the simulated clock does not drift"), "do not warn about the CPU frequency"),
    opt('h', "help", Takes::Nothing, Usual, "show this page"),
    opt('H', "report-histogram", Takes::Nothing, Usual, "print all samples in order of length (latency tests)"),
    opt(
        'i',
        "ib-port",
        Takes::Value("port"),
        Harmless("a simulated device has one port; give -d or place the job for others"),
        "device port",
    ),
    opt('I', "inline_size", Takes::Value("bytes"), Usual, "largest message sent inline"),
    opt('l', "post_list", Takes::Value("requests"), Usual, "post lists of this many requests, one doorbell each"),
    opt('m', "mtu", Takes::Value("bytes"), Usual, "path MTU: 256, 512, 1024, 2048 or 4096 (default: the port's)"),
    opt('n', "iters", Takes::Value("count"), Usual, "exchanges (at least 5; default 1000, ib_write_bw 5000)"),
    opt('N', "noPeak", Takes::Nothing, Usual, "do not look for the peak bandwidth"),
    opt('o', "outs", Takes::Value("count"), Usual, "outstanding reads and atomics (default 16)"),
    opt('p', "port", Takes::Value("port"), Harmless("both ends know each other"), "TCP port of the server"),
    opt('q', "qp", Takes::Value("count"), Usual, "queue pairs (bandwidth tests)"),
    opt('Q', "cq-mod", Takes::Value("count"), Usual, "one completion for this many requests (default 100; 1 above 8192 bytes without -a)"),
    opt('r', "rx-depth", Takes::Value("count"), Usual, "receive queue depth (default 512)"),
    opt(
        's',
        "size",
        Takes::Value("bytes"),
        Usual,
        "message size (default 65536 for bandwidth, 2 for latency; K, M and G are powers of 1024)",
    ),
    opt('\0', "rate_limit", Takes::Value("Gb/s"), Usual, "rate that each queue pair keeps to, in whole Gb/s"),
    opt('R', "rdma_cm", Takes::Nothing, Usual, "connect by rdma_cm (iWARP adapters only, which do so without it too)"),
    opt('S', "sl", Takes::Value("sl"), Usual, "service level 0 to 15"),
    opt('t', "tx-depth", Takes::Value("count"), Usual, "requests outstanding per queue pair (default 128)"),
    opt('u', "qp-timeout", Takes::Value("exponent"), Usual, "retransmission timer 4.096 us * 2^exponent (default 14)"),
    opt('U', "report-unsorted", Takes::Nothing, Usual, "print all samples in order of time (latency tests)"),
    opt('V', "version", Takes::Nothing, Usual, "print the version whose output this follows"),
    opt('x', "gid-index", Takes::Value("index"), Usual, "GID index 0 to 64 (RoCE; default 3, RoCEv2 over IPv4)"),
    opt('\0', "report_gbits", Takes::Nothing, Usual, "bandwidth in 10^9 bit/s instead of 2^20 byte/s"),
    opt('\0', "out_json", Takes::Nothing, Usual, "also write the results as JSON"),
    opt('\0', "out_json_file", Takes::Value("file"), Usual, "name of that file (default perftest_out.json)"),
    opt('\0', "output", Takes::Value("what"), Usual, "print one number only: bandwidth, message_rate or latency"),
    opt('\0', "perform_warm_up", Takes::Nothing, Usual, "send one queue of messages before the measurement (always with -a)"),
    opt('\0', "use_cuda", Takes::Value("gpu"), Usual, "buffers in the memory of this NVIDIA GPU of both nodes (GPUDirect RDMA)"),
    opt('\0', "use_cuda_bus_id", Takes::Value("bus id"), Usual, "the same by its PCI address"),
    opt('\0', "use_rocm", Takes::Value("gpu"), Usual, "buffers in the memory of this AMD GPU of both nodes"),
    opt('\0', "use_cuda_dmabuf", Takes::Nothing, Harmless("how memory is pinned does not change the way of its bytes"), "pin by DMA-BUF"),
    opt('\0', "use_rocm_dmabuf", Takes::Nothing, Harmless("how memory is pinned does not change the way of its bytes"), "pin by DMA-BUF"),
    opt('\0', "use_old_post_send", Takes::Nothing, Usual, "show ibv_wr* API : OFF; the cost of posting is the catalogue's either way"),
    opt('C', "report-cycles", Takes::Nothing, Refused("simulated time is kept in picoseconds, not in CPU cycles; leave -C out"), ""),
    opt('e', "events", Takes::Nothing, Refused("sleeping on completion events is not modelled; leave -e out to poll"), ""),
    opt('g', "mcg", Takes::Nothing, Refused("multicast is not modelled by these programs; leave -g out"), ""),
    opt('k', "rate_limit_type", Takes::Value("type"), Refused("limits act in the adapter, as with HW; leave -k out"), ""),
    opt('O', "dualport", Takes::Nothing, Refused("a simulated device has one port; use -q for more queue pairs"), ""),
    opt('T', "tos", Takes::Value("tos"), Refused("it belongs to rdma_cm; use -S for the service level"), ""),
    opt('z', "comm_rdma_cm", Takes::Nothing, Refused("connections are set up out of band before the clock starts; leave -z out"), ""),
    opt('\0', "cpu_util", Takes::Nothing, Refused("a polling core is always busy; leave --cpu_util out"), ""),
    opt('\0', "run_infinitely", Takes::Nothing, Refused("a simulation must end; use -D or -n"), ""),
    opt('\0', "use-srq", Takes::Nothing, Refused("shared receive queues are not used by these programs yet; leave --use-srq out"), ""),
    opt('\0', "use_hl", Takes::Value("bus id"), Refused("accelerators of Habana have their adapters on the chip; leave --use_hl out"), ""),
    opt('\0', "cuda_mem_type", Takes::Value("type"), Refused("buffers are in the GPU's own memory; leave --cuda_mem_type out"), ""),
    opt('\0', "gpu_touch", Takes::Value("how"), Refused("what kernels do meanwhile is not modelled; leave --gpu_touch out"), ""),
    opt(
        '\0',
        "disable_pcie_relaxed",
        Takes::Nothing,
        Refused("PCIe ordering is a property of the node part in the catalogue; change it there"),
        "",
    ),
];

/// Notes at the end of the help page.
pub(crate) const NOTES: &str = "\nBoth ends run in the simulated cluster: there is no server name. Once iterations of more\n\
than 8192 bytes repeat (one direction, without receives), the rest are counted, not simulated, unless packets or counters\n\
are taken down; elsewhere a smaller -n gives the same averages sooner, because the simulated machine has no jitter.\n";
