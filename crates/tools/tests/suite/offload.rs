//! Operations that workers on the DPU carry out: closed forms, overlap, amounts, and what is refused.

use crate::machine;
use std::fmt::Write;

use fabriscope_catalog::{Catalog, ResolvedCluster};
use fabriscope_collectives::{Algorithm, Call, Kind};
use fabriscope_engine::{Cluster, Engine, Job, Run, RunOptions, timing};
use fabriscope_engine_packet::PacketEngine;
use fabriscope_platform::Layout;
use fabriscope_tools::{Tool, ToolOutput, UsageError};
use fabriscope_units::Remedy;
use fabriscope_units::{Bytes, Span};
use machine::{column, parts, target};

fn prepared(parts: &ResolvedCluster, (nodes, per_node): (u32, u32), line: &str) -> Result<fabriscope_tools::Prepared, UsageError> {
    let mut words = line.split_whitespace().map(str::to_owned);
    let tool = Tool::by_name(&words.next().unwrap()).unwrap();
    let target = fabriscope_platform::Target { layout: Layout { nodes, per_node }, ..target(parts) };
    tool.prepare(&words.collect::<Vec<_>>(), &target)
}

fn run(parts: &ResolvedCluster, layout: (u32, u32), line: &str) -> (ToolOutput, Run) {
    let prepared = prepared(parts, layout, line).unwrap_or_else(|error| panic!("{line}: {error}"));
    let nodes = (0..prepared.mains.len() as u32).map(|rank| prepared.placing.seat(rank).0).collect();
    let job = Job::programs(nodes, prepared.mains);
    let run = PacketEngine.run(&Cluster::new(parts.clone()).unwrap(), job, &RunOptions::default(), 1);
    let run = run.unwrap_or_else(|error| panic!("{line}: {error}"));
    ((prepared.finish)(), run)
}

/// Size, overall, computed, pure time in us and overlap in percent, as printed.
fn rows(output: &ToolOutput) -> Vec<(u64, [f64; 4])> {
    let lines = output.text.lines().filter(|line| line.starts_with(|first: char| first.is_ascii_digit()));
    let number = |word: Option<&str>| word.unwrap().parse::<f64>().unwrap();
    let row = |line: &str| {
        let mut words = line.split_whitespace();
        (number(words.next()) as u64, [0; 4].map(|_| number(words.next())))
    };
    lines.map(row).collect()
}

fn us(span: Span) -> f64 {
    span.as_us_f64()
}

/// The host's put and the worker's are the same RDMA write; what is beside it follows from the parts:
///
/// offloaded − own = hand over, descriptor (post, adapter, write into the worker's memory), worker sees it (detect, turn, step), posts,
/// and sees the end (detect, turn, completion, step), word (post, adapter, write into the host's memory), rank sees it
/// (detect, progress) − what the rank does itself (call, post, detect, progress, completion).
#[test]
fn an_offloaded_put_is_the_sum_of_its_stages() {
    let parts = parts("lab-bluefield-2");
    let (host, dpu) = (timing::cpu(&parts), parts.sole().node.dpu.clone().unwrap());
    let (arm, nic, port) = (dpu.cpu.core(), &parts.sole().node.nic, timing::port(&parts));
    let mpi = parts.sole().software.mpi.clone().unwrap();
    let offload = mpi.offload.clone().unwrap();
    let adapter = *nic.tx_latency + *nic.rx_latency;
    // 16 B control, 16 B address, 64 B inline with 4 B in front, rounded up to 80 B: two blocks.
    let post_descriptor = host.wqe_build + host.mmio_latency + host.blueflame_block;
    let to_arm = *dpu.cpu.root_complex.dma_write_latency + *dpu.part.switch_latency;
    let into_arm = port.write_time(Bytes(64)).max(dpu.memory_rate().time(Bytes(64))) + to_arm;
    let into_host = port.write_time(Bytes(8)) + port.write_latency;
    let post_arm = arm.wqe_build + arm.mmio_latency;
    let worker = arm.detect + *offload.turn + *offload.step;
    let added = *offload.hand_over
        + post_descriptor
        + adapter
        + into_arm
        + worker
        + post_arm
        + worker
        + arm.poll_hit
        + post_arm
        + adapter
        + into_host
        + host.detect
        + *mpi.progress_overhead;
    let own = *mpi.send_overhead + host.wqe_build + host.mmio_latency + host.detect + *mpi.progress_overhead + host.poll_hit;
    for (tool, sizes) in [("osu_put_latency", [1024, 65_536]), ("osu_get_latency", [1024, 65_536])] {
        for size in sizes {
            let latency = |more: &str| column(&run(&parts, (2, 1), &format!("{tool} -m {size}:{size} -i 1 -x 1{more}")).0, "latency")[0].1;
            let (offloaded, direct) = (latency(" --offload dpu"), latency(""));
            let expected = us(added) - us(own);
            assert!(
                (offloaded - direct - expected).abs() < 2e-6,
                "{tool} {size}: {offloaded} - {direct} = {}, not {expected}",
                offloaded - direct
            );
        }
    }
}

/// While a rank computes, its worker does all: what remains is handing over, the post, and one look at the counter.
#[test]
fn computing_hides_all_but_the_hand_over() {
    for name in ["lab-bluefield-2", "lab-bluefield-3"] {
        let parts = parts(name);
        let (host, mpi) = (timing::cpu(&parts), parts.sole().software.mpi.clone().unwrap());
        let rest = *mpi.offload.as_ref().unwrap().hand_over + host.wqe_build + host.mmio_busy + *mpi.progress_overhead;
        for tool in ["osu_ialltoall", "osu_iallgather"] {
            // The descriptors of the first iterations ask for completions, which are polled once.
            let (output, _) = run(&parts, (2, 1), &format!("{tool} -m 8:65536 -i 4 -x 4"));
            assert!(rows(&output).len() > 10, "{}", output.text);
            for (size, [overall, _, pure, _]) in rows(&output) {
                // Two decimals are printed of each.
                assert!(overall - pure <= us(rest) + us(host.poll_hit) + 0.011, "{name} {tool} {size}: {overall} - {pure}, {rest}");
                assert!(overall - pure >= us(rest) - 0.011, "{name} {tool} {size}: {overall} - {pure}, {rest}");
            }
        }
    }
}

/// Overlap by size, in percent: host-progressed operations stand still while the rank computes (rendezvous needs its core), workers do not.
#[test]
fn overlap_by_size() {
    let parts = parts("lab-bluefield-2");
    let overlap = |how: &str| -> Vec<(u64, f64)> {
        let (output, _) = run(&parts, (2, 2), &format!("osu_ialltoall -m 1024:262144 -i 2 --offload {how}"));
        rows(&output).into_iter().map(|(size, [.., overlap])| (size, overlap)).collect()
    };
    let mut table = String::new();
    for (((size, none), (_, dpu)), (_, staged)) in overlap("none").into_iter().zip(overlap("dpu")).zip(overlap("dpu-staged")) {
        let _ = writeln!(table, "{size:>8} {none:>6.1} {dpu:>6.1} {staged:>6.1}");
        assert!(dpu > 95.0 && staged > 95.0, "{table}");
        assert!(size < 32_768 || none < 10.0, "{table}");
    }
}

/// Twice the block, twice the bytes that arrive: every pair of ranks has one block, in each of two loops of one iteration with one before
/// it; staged, a block of another worker's rank arrives three times, a rank's own block twice.
#[test]
fn amounts_are_those_of_the_operation() {
    let parts = parts("lab-bluefield-2");
    let delivered = |size: u64, how: &str| {
        run(&parts, (2, 2), &format!("osu_ialltoall -m {size}:{size} -i 1 -x 1 --offload {how}")).1.stats.bytes_delivered
    };
    let (ranks, loops) = (4, 4);
    for (how, blocks) in [("dpu", ranks * ranks), ("dpu-staged", 3 * ranks * (ranks - 1) + 2 * ranks)] {
        assert_eq!(delivered(8192, how) - delivered(4096, how), loops * blocks * 4096, "{how}");
    }
}

#[test]
fn what_workers_do_leaves_every_byte_where_it_belongs() {
    let software = Catalog::embedded().unwrap().software("mvapich2-dpu").unwrap().clone();
    let offload = software.mpi.clone().unwrap().offload.unwrap();
    for operation in [Kind::Alltoall, Kind::Alltoallv, Kind::Allgather, Kind::Bcast] {
        let algorithm = Algorithm::named(operation, offload.algorithm(operation).unwrap()).unwrap();
        for ranks in [1, 2, 5, 8] {
            let call = Call { operation, ranks, per_node: 2, root: ranks - 1, size: Bytes(6), width: Bytes(1) };
            algorithm.proof(&call).unwrap_or_else(|flaw| panic!("{operation} of {ranks}: {flaw}"));
        }
    }
}

#[test]
fn the_choice_is_printed_and_keys_decide_the_way() {
    let remarks = |name: &str, line: &str| run(&parts(name), (2, 2), line).0.remarks.join("\n");
    let own = remarks("lab-bluefield-2", "osu_ialltoall -m 8:8 -i 1");
    assert!(own.starts_with("alltoall: 2 workers on the DPU of each node, host to host by keys registered across"), "{own}");
    let staged = remarks("lab-ipu-e2000", "osu_ibcast -m 8:8 -i 1");
    assert!(staged.contains("through the memories of the DPUs"), "{staged}");
    assert_eq!(remarks("lab-bluefield-2", "osu_ialltoall -m 8:8 -i 1 --offload none"), "alltoall: posted(32) at 8 bytes");
    assert!(!remarks("lab-bluefield-2", "osu_alltoall -m 8:8 -i 1").contains("DPU"));
    // Staging costs two more ways over PCI Express at each end, and half of the bandwidth.
    let latency =
        |how: &str| column(&run(&parts("lab-bluefield-2"), (2, 1), &format!("osu_latency -m 8:8 --offload {how}")).0, "latency")[0].1;
    assert!(latency("dpu-staged") > latency("dpu") + 2.0 && latency("dpu") > 2.0 * latency("none"));
    let rate =
        |how: &str| column(&run(&parts("lab-bluefield-2"), (2, 1), &format!("osu_bw -m 1M:1M -i 2 --offload {how}")).0, "bandwidth")[0].1;
    assert!(rate("dpu") > 0.98 * rate("none") && rate("dpu-staged") < 0.75 * rate("dpu"));
}

/// What an application spent under a call, in us.
fn spent(output: &ToolOutput, call: &str) -> f64 {
    output.points.iter().find(|point| point.metric == call).map_or(0.0, |point| point.value)
}

/// Of the transpositions of all fields, the last has nothing beside it; all others have a transform and a copy of another field. Workers hide
/// those, so that twice the fields show no more; the library on the host hides none, whose rendezvous need its core. What is computed is the
/// same.
#[test]
fn transpositions_pass_behind_transforms() {
    let parts = parts("lab-bluefield-2");
    let of = |fields: u32, how: &str| {
        run(&parts, (2, 4), &format!("p3dfft -n 64 --fields {fields} --node-seconds {} --offload {how}", 0.05 * f64::from(fields))).0
    };
    let (host, dpu) = (of(2, "none"), of(2, "dpu"));
    assert_eq!(spent(&host, "compute"), spent(&dpu, "compute"));
    let (shown, hidden) = (spent(&host, "MPI_Alltoallv"), spent(&dpu, "MPI_Alltoallv"));
    let (shown_of_four, hidden_of_four) = (spent(&of(4, "none"), "MPI_Alltoallv"), spent(&of(4, "dpu"), "MPI_Alltoallv"));
    assert!(hidden < 0.5 * shown && shown_of_four > 1.8 * shown, "{hidden} of {shown} us, {shown_of_four} of four fields");
    assert!(hidden_of_four < 1.2 * hidden, "{hidden} us of two fields, {hidden_of_four} of four");
    assert!(dpu.remarks[0].starts_with("what goes on beside computation: 4 workers on the DPU of each node"), "{:?}", dpu.remarks);
    // Without such steps, nothing can be handed over.
    let refused = prepared(&parts, (2, 4), "p3dfft -n 64 --offload dpu").unwrap_err().in_full();
    assert!(refused.contains("nothing of it goes on beside computation; let it begin something: --fields 2 or more"), "{refused}");
}

/// Workers move every block of rows and columns once, a rank's own as well: of n points a rank has (n/2 + 1) n/2 n/2 complex numbers on 2 x 2
/// ranks, moved in four transpositions of each field, in two iterations.
#[test]
fn transpositions_of_workers_move_every_block_once() {
    let parts = parts("lab-bluefield-2");
    let delivered = |points: u64| run(&parts, (2, 2), &format!("p3dfft -n {points} --fields 3 --offload dpu")).1.stats.bytes_delivered;
    let own = |points: u64| (points / 2 + 1) * (points / 2) * (points / 2) * 16;
    assert_eq!(delivered(32) - delivered(16), 2 * 3 * 4 * 4 * (own(32) - own(16)));
}

/// Products by a worker, which serves one rank: 2 · 128³ operations at 10 Gflop/s one after the other are 419 us each, behind which the next
/// tiles come; at the end a tile is put and a word written. A rank that multiplies at 40 Gflop/s waits for its tiles, unless they are got ahead.
#[test]
fn products_by_workers_take_as_long_as_their_cores() {
    let parts = parts("lab-bluefield-2");
    let of = |more: &str| run(&parts, (2, 1), &format!("bspmm --tasks 8 --compute-rate 40 --dpu-compute-rate 10 {more}")).0;
    let (host, ahead) = (of("--offload none"), of("--offload none --ahead 1"));
    let (handed, naive) = (of("--offload dpu"), of("--offload dpu --products dpu"));
    let product = 2.0 * 128f64.powi(3) / 1e10 * 1e6;
    let (all, computed) = (spent(&naive, "iteration"), 8.0 * product);
    assert!(all > computed && all < computed + 100.0, "{all} us, {computed} computed");
    let iteration = |output: &ToolOutput| spent(output, "iteration");
    assert!(iteration(&ahead) < iteration(&host) && iteration(&host) < iteration(&handed) && iteration(&handed) < all);
    let refused = prepared(&parts, (2, 1), "bspmm --products dpu").unwrap_err().in_full();
    assert!(refused.contains("workers on a DPU compute, and there are none; add --offload dpu"), "{refused}");
}

#[test]
fn what_cannot_be_handed_over_is_refused() {
    let wrong = |name: &str, line: &str| prepared(&parts(name), (2, 2), line).unwrap_err().in_full();
    for (name, line, expected) in [
        ("ri2", "osu_ialltoall --offload dpu", "the adapters of this cluster have no cores; use a cluster with a DPU"),
        ("lab-bluefield-2", "osu_ialltoall --workers 9", "9 workers on the 8 cores of `bluefield-2`; give --workers 8 or less"),
        ("lab-bluefield-2", "osu_ialltoall --offload gpu", "--offload takes one of dpu, dpu-staged, triggered, none, not `gpu`"),
        ("lab-bluefield-2", "osu_alltoall --offload dpu", "waits inside the call"),
        ("lab-bluefield-2", "osu_bw -W 4096 --offload dpu", "hands over 2048 messages at a time at the most"),
        ("lab-bluefield-2", "p3dfft -n 32 --fields 2 --offload triggered", "adapters carry out barriers by themselves, and nothing else"),
        ("lab-bluefield-2", "osu_latency --workers 2", "the host carries it out; add --offload dpu"),
        ("lab-ipu-e2000", "osu_latency --offload dpu", "cannot use keys of the host's memory (GVMI); use --offload dpu-staged"),
        ("lab-ipu-e2000", "osu_put_latency --offload dpu-staged", "one-sided operations need keys of the host's memory"),
    ] {
        let message = wrong(name, line);
        assert!(message.contains(expected), "{line}: {message}");
    }
}

/// Workers reduce in their own memory, at the rate of their cores: computing hides it, and every rank has the operands of all.
#[test]
fn workers_reduce_and_computing_hides_it() {
    for (name, how) in [("lab-bluefield-2", "dpu"), ("lab-bluefield-2", "dpu-staged"), ("lab-ipu-e2000", "dpu-staged")] {
        for operation in ["iallreduce", "ireduce", "ireduce_scatter"] {
            let line = format!("osu_{operation} -m 65536:65536 -i 3 -x 1 --offload {how}");
            let output = run(&parts(name), (4, 2), &line).0;
            let (_, [_, _, pure, overlap]) = rows(&output)[0];
            assert!(pure > 20.0 && overlap > 90.0, "{name}, {line}: {}", output.text);
        }
    }
    // Operands that are staged anyway need one read, not two.
    let parts = parts("lab-bluefield-2");
    let read = |how: &str| run(&parts, (2, 1), &format!("osu_iallreduce -m 4M:4M -i 1 -x 0 --offload {how}")).1.stats.bytes_delivered;
    assert!(read("dpu") != read("dpu-staged"));
    // A core that copies at half the rate takes longer, and the operation with it.
    let pure = |parts: &ResolvedCluster| rows(&run(parts, (2, 1), "osu_iallreduce -m 4M:4M -i 2 -x 1 --offload dpu").0)[0].1[2];
    let mut slow = parts.clone();
    let cpu = &mut slow.sole_mut().node.dpu.as_mut().unwrap().cpu;
    let half = |rate: fabriscope_units::Rate| fabriscope_units::Rate::from_bps(rate.as_bps() / 2);
    cpu.copy_rate_streaming.value = half(*cpu.copy_rate_streaming);
    cpu.copy_rate_long.value = half(*cpu.copy_rate_long);
    assert!(pure(&slow) > 1.1 * pure(&parts), "{} and {}", pure(&slow), pure(&parts));
}

/// A put of OpenSHMEM that a worker carries out takes the hand-over, the worker and the word more than the host's own; the overlap is that
/// of a core that only hands over.
#[test]
fn puts_of_openshmem_go_by_workers() {
    let parts = parts("lab-bluefield-2");
    let time = |line: &str| {
        let output = run(&parts, (2, 1), line).0;
        output.points.iter().find(|point| point.metric == "latency").unwrap().value
    };
    for (tool, least) in [("osu_oshm_put", 2.0), ("osu_oshm_get", 1.5), ("osu_oshm_put_nb", 2.0), ("osu_oshm_get_nb", 1.5)] {
        let [own, handed] = ["", "--offload dpu"].map(|how| time(&format!("{tool} {how} -m 4096:4096 -i 3 -x 1 heap")));
        assert!(handed > own + least && handed < own + 6.0, "{tool}: {own} and {handed}");
    }
    // As long as a row of them is in the worker's hands the host goes on; the oldest is waited for.
    let rate = |how: &str| run(&parts, (2, 1), &format!("osu_oshm_put_mr_nb {how} -m 8:8 -i 600 -x 10 heap")).0.points[0].value;
    assert!(rate("--offload dpu") > 0.1e6 && rate("--offload dpu") < rate(""), "{} and {}", rate("--offload dpu"), rate(""));
    for (line, expected) in [
        ("osu_oshm_atomics --offload dpu heap", "an option of puts and gets"),
        ("osu_oshm_barrier --offload dpu", "an option of puts and gets"),
        ("osu_oshm_put --offload dpu-staged heap", "one-sided operations need keys of the host's memory"),
    ] {
        let message = prepared(&parts, (2, 1), line).err().unwrap().to_string();
        assert!(message.contains(expected), "{line}: {message}");
    }
}
