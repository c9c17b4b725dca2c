//! Exchanges of tokens among experts: what their programs print, and what the mechanisms say.

use fabriscope_platform::{Binding, Layout, Target};
use fabriscope_tools::ToolOutput;
use fabriscope_units::Remedy;

use crate::machine;

fn run(cluster: &str, nodes: u32, line: &str) -> ToolOutput {
    let parts = machine::parts(cluster);
    let target = Target::of(&parts, Layout { nodes, per_node: parts.sole().node.gpus }, Binding::default());
    machine::run_for(&target, &parts, line).0
}

fn value(output: &ToolOutput, metric: &str) -> f64 {
    output.points.iter().find(|point| point.metric == metric).unwrap_or_else(|| panic!("{metric}: {}", output.text)).value
}

/// A thread that takes another adapter after `stripe` messages to the same peer has 8 · `stripe` in a row for one adapter across rails, and with
/// a window of half of that two of four adapters are busy; along rails all four are, and across with a window of the whole row as well.
#[test]
fn across_rails_half_of_the_adapters_are_busy() {
    let bandwidth =
        |options: &str| value(&run("aws-p5", 2, &format!("efa_alltoall --msg-size 131072 --msgs 32 --stripe 8 {options}")), "bandwidth");
    let (across, along, wide) = (bandwidth("--window 32"), bandwidth("--window 32 --rail"), bandwidth("--window 128"));
    assert!((0.4..0.62).contains(&(across / along)), "{across} {along}");
    assert!(wide > 0.8 * along, "{wide} {along}");
    // Four adapters of 100 Gb/s, 46.6 GiB/s, are the most.
    assert!(along < 46.6 && along > 30.0, "{along}");
}

/// 8 · 16 tokens of 7408 B leave a GPU: 15 of 16 of them by an adapter of 400 Gb/s, 50 B/ns, where nothing goes over the links of the node.
#[test]
fn few_tokens_take_as_long_as_the_wire() {
    let output = run("deepseek-h800-cx7", 2, "deepep_low_latency --num-tokens 16 --num-experts 256");
    assert!(output.text.starts_with("[rank 0] Dispatch bandwidth: "), "{}", output.text);
    assert!(output.text.contains(" GB/s, avg_t="), "{}", output.text);
    let (dispatch, combine) = (value(&output, "dispatch latency"), value(&output, "combine latency"));
    let wire = 8.0 * 16.0 * 15.0 / 16.0 * 7408.0 / 50e3;
    assert!(dispatch > wire && dispatch < 3.0 * wire, "{dispatch} {wire}");
    assert!(combine > 1.5 * wire && combine > dispatch, "{combine} {dispatch}");
}

/// A proxy that is one thread takes its time for every message: 8 · 16 tokens, half of which leave the node, and 128 counts.
#[test]
fn a_proxy_posts_one_after_the_other() {
    let latency =
        |library: &str| value(&run("pplx-h100-cx7", 2, &format!("pplx_alltoall --num-tokens 16 --library {library}")), "dispatch latency");
    let (gpu, proxy) = (latency("pplx-ibgda"), latency("pplx-ibrc"));
    // 64 posts of 0.9 us and 128 signals of 1.8 us are 288 us, without the verbs.
    assert!(proxy > 288.0 && proxy > 1.5 * gpu, "{proxy} {gpu}");
}

/// RDMA bandwidth counts tokens that stay on the node as well; on two nodes it may be more than the adapter's 50 GB/s, never twice as much.
#[test]
fn forwarding_prints_what_deepep_prints() {
    let output = run("deepseek-h800-cx7", 2, "deepep_normal --num-tokens 256 --num-topk-groups 2 --rdma-chunks 8,16");
    let rate = value(&output, "dispatch bandwidth");
    assert!(rate > 10.0 && rate < 100.0, "{}", output.text);
    for line in [
        "[config] num_tokens=256, hidden=7168, num_topk_groups=2, num_topk=8",
        "[tuning] SMs 24, RDMA chunk 8, ",
        "[tuning] Best combine: SMs 24, RDMA chunk ",
    ] {
        assert!(output.text.contains(line), "{line}: {}", output.text);
    }
    let one = run("deepseek-h800-cx7", 1, "deepep_normal --num-tokens 256");
    assert!(one.text.contains(" GB/s (NVL), t: "), "{}", one.text);
}

/// Two adapters that take 800 ns for a message, whatever its length: 2.5 million a second, 9.5 and 19.1 GiB/s of 4 and 8 KiB; longer ones are
/// held up by the wire, 46.6 GiB/s.
#[test]
fn an_adapter_takes_its_time_for_every_message() {
    let bandwidth = |bytes: u32| value(&run("aws-p5en", 2, &format!("efa_alltoall --rail --msgs 128 --msg-size {bytes}")), "bandwidth");
    for (bytes, least, most) in [(4096, 9.0, 9.6), (8192, 18.0, 19.1), (65536, 35.0, 46.6)] {
        let found = bandwidth(bytes);
        assert!((least..most).contains(&found), "{bytes} B: {found} GiB/s");
    }
}

/// Half of 8 · 16 tokens of 7408 B leave a GPU by 200 Gb/s, 25 B/ns; one thread of NVSHMEM takes longer for them than four of UCCL-EP.
#[test]
fn threads_post_over_slingshot() {
    let line = |library: &str| format!("deepep_low_latency --num-tokens 16 --num-experts 64 --library {library}");
    let latency = |library: &str| value(&run("alps", 2, &line(library)), "dispatch latency");
    let (four, one) = (latency("uccl-ep-cxi"), latency("pplx-cxi"));
    let wire = 8.0 * 16.0 / 2.0 * 7408.0 / 25e3;
    assert!(four > wire && one > four, "{wire} {four} {one}");
    let normal = run("alps", 2, "deepep_normal --num-tokens 256 --num-topk-groups 2 --library uccl-ep-cxi");
    let rate = value(&normal, "dispatch bandwidth");
    assert!(rate > 5.0 && rate < 50.0, "{}", normal.text);
}

#[test]
fn libraries_drive_adapters_of_their_interface() {
    let refused = |cluster: &str, nodes: u32, line: &str| {
        let parts = machine::parts(cluster);
        let target = Target::of(&parts, Layout { nodes, per_node: parts.sole().node.gpus }, Binding::default());
        let mut words = line.split_whitespace().map(str::to_owned);
        let tool = fabriscope_tools::Tool::by_name(&words.next().unwrap()).unwrap();
        tool.prepare(&words.collect::<Vec<_>>(), &target).map(drop).err().map(|error| error.in_full())
    };
    for (cluster, nodes, line, said) in [
        (
            "alps",
            2,
            "deepep_low_latency --num-experts 64",
            "`deepep-v1` posts from the GPU (IBGDA), to adapters with `verbs`, and the adapters here",
        ),
        ("alps", 2, "deepep_low_latency --num-experts 64", "pplx-cxi, uccl-ep-cxi"),
        ("alps", 2, "deepep_normal --library uccl-ep", "`uccl-ep` drives adapters through `verbs`"),
        ("alps", 2, "pplx_alltoall --kernels nvshmem", "`pplx-ibgda` posts from the GPU"),
        ("aws-p5", 2, "deepep_normal", "uccl-ep-efa"),
        ("alps", 1, "deepep_low_latency --num-experts 64", "IBGDA"),
    ] {
        let error = refused(cluster, nodes, line).unwrap_or_else(|| panic!("{cluster}: {line} is not refused"));
        assert!(error.contains(said), "{cluster}: {line}: {error}");
    }
    // Where all goes over the links of one node no adapter is asked for.
    assert_eq!(refused("alps", 1, "deepep_normal --library uccl-ep"), None);
    assert_eq!(refused("alps", 1, "deepep_low_latency --num-experts 64 --library uccl-ep"), None);
}

#[test]
fn what_does_not_fit_is_refused() {
    let parts = machine::parts("deepseek-h800-cx7");
    let target = Target::of(&parts, Layout { nodes: 2, per_node: 8 }, Binding::default());
    let refused = |line: &str| {
        let mut words = line.split_whitespace().map(str::to_owned);
        let tool = fabriscope_tools::Tool::by_name(&words.next().unwrap()).unwrap();
        tool.prepare(&words.collect::<Vec<_>>(), &target).map(drop).unwrap_err().to_string()
    };
    assert!(refused("deepep_normal --num-experts 100").contains("100 experts"));
    assert!(refused("deepep_low_latency --num-experts 16 --num-topk 17").contains("17 experts"));
    assert!(refused("deepep_low_latency --library deepep").contains("`deepep`"));
    assert!(refused("deepep_normal --library pplx-ibgda").contains("`pplx-ibgda`"));
    assert!(refused("pplx_alltoall --kernels mpi").contains("mpi"));
}
