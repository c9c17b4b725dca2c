//! What perftest has beside its loops: events, shared receives, groups, raw frames, pages, windows and wrong keys.

use crate::machine;
use fabriscope_catalog::ResolvedCluster;
use fabriscope_tools::Tool;
use fabriscope_units::{Bytes, Remedy};
use machine::{column, latency, parts, ri2, run, run_on, target};

fn refused(parts: &ResolvedCluster, line: &str) -> String {
    let words: Vec<String> = line.split_whitespace().skip(1).map(str::to_owned).collect();
    let tool = Tool::by_name(line.split(' ').next().unwrap()).unwrap();
    tool.prepare(&words, &target(parts)).map(drop).unwrap_err().in_full()
}

/// A wrong key ends in the status and the lines that the tool has for it; the responder's adapter refused once.
#[test]
fn a_wrong_key_is_a_remote_access_error() {
    for (line, counts) in [
        ("ib_write_bw -n 50 -s 64 --wrong_rkey", "scnt=50, ccnt=0"),
        ("ib_read_lat -n 5 --wrong_rkey", "scnt=1, ccnt=0"),
        ("ib_atomic_bw -n 8 --wrong_rkey", "scnt=8, ccnt=0"),
    ] {
        let output = run(line);
        let told = format!(" Completion with error at client\n Failed status 10: wr_id 0 syndrom 0x0\n{counts}\n");
        assert!(output.text.ends_with(&told), "{line}\n{}", output.text);
        assert!(output.remarks.iter().any(|remark| remark.contains("IBV_WC_REM_ACCESS_ERR")), "{:?}", output.remarks);
    }
    let told = refused(&parts("ri2"), "ib_write_lat --wrong_rkey");
    assert!(told.contains("needs a key of the peer"), "{told}");
}

/// A window is bound by a request of the adapter, a key takes no longer than one of a region.
#[test]
fn a_window_lets_the_peer_in_as_a_region_does() {
    let ri2 = parts("ri2");
    let plain = latency(&ri2, "ib_read_lat -n 20");
    for kind in ["1", "2"] {
        let (output, _) = run_on(&ri2, &format!("ib_read_lat -n 20 --mw_type {kind}"));
        assert_eq!(column(&output, "latency")[0].1, plain);
        assert!(output.remarks[0].starts_with("each end bound a memory window"), "{:?}", output.remarks);
    }
}

/// 256 MiB are 65,536 pages of 4 KiB, 8 to a line: read one after the other, a page in eight begins a line that was never read. In strides of
/// 32 KiB each message begins one; over the adapter's 16,384 lines (512 MiB) it does so for ever. Pages of 2 MiB and 1 GiB fit.
#[test]
fn translations_are_read_where_they_do_not_fit() {
    let ri2 = parts("ri2");
    let bus = |page: &str, size| latency(&ri2, &format!("ib_read_lat -n 200 -s {size} --cycle_buffer 1G --page_size {page}"));
    let miss = bus("4K", 32_768) - bus("1G", 32_768);
    // A miss at the responder before it reads, one at the requester before it writes: two reads of host memory in turn, of 0.3 to 0.9 us.
    assert!((0.6..1.8).contains(&miss), "{miss} us");
    assert!(bus("2M", 32_768) - bus("1G", 32_768) < 0.1 * miss, "512 pages are 64 lines, which all are read once");
    // What is read once and fits costs nothing afterwards.
    let fits = latency(&ri2, "ib_read_lat -n 2000 -s 4096 --cycle_buffer 1M --page_size 4K");
    let never = latency(&ri2, "ib_read_lat -n 2000 -s 4096");
    assert_eq!(fits, never, "32 lines");
}

/// A virtual function costs nothing where the pages that are used fit into the IOMMU's 64 entries, and a walk at each end where each message is on
/// a new one: 330 ns at the responder before it reads, 330 at the requester before it writes. Pages of 2 MiB are 512 messages of 4 KiB.
#[test]
fn a_virtual_function_costs_walks_of_new_pages() {
    let (host, guest) = (parts("ri2"), parts("lab-sriov"));
    let mut large = guest.clone();
    large.iommu.as_mut().unwrap().page = Bytes::from_mib(2);
    let of = |parts: &ResolvedCluster, more: &str| latency(parts, &format!("ib_read_lat -n 400 -s 4096{more}"));
    let new_pages = " --cycle_buffer 1G --page_size 1G";
    assert_eq!(of(&guest, ""), of(&host, ""), "one page");
    assert_eq!(of(&large, new_pages), of(&host, new_pages));
    let walks = of(&guest, new_pages) - of(&host, new_pages);
    assert!((walks - 0.66).abs() < 0.005, "{walks} us");
    let rate = |parts: &ResolvedCluster| {
        column(&run_on(parts, "ib_write_bw -n 400 -s 65536 --cycle_buffer 1G --page_size 1G").0, "bandwidth")[0].1
    };
    assert!(rate(&guest) > 0.99 * rate(&host), "six walks at a time are 74 GB/s of pages of 4 KiB");
}

/// Each page of a region on demand is a fault when it is used first: at the responder and at the requester.
#[test]
fn the_first_use_of_a_page_on_demand_is_a_fault() {
    let output = run("ib_read_lat -n 20 --odp -U");
    let first = output.text.lines().find_map(|line| line.strip_prefix("1, ")).unwrap().parse::<f64>().unwrap();
    let typical = column(&output, "latency")[0].1;
    let plain = latency(&parts("ri2"), "ib_read_lat -n 20");
    assert!((500.0..502.0 + plain).contains(&first), "two faults of 250 us: {first}");
    assert_eq!(typical, plain);
}

/// A core that sleeps pays an interrupt and waking up at each end: 4.5 us beyond polling, the same for each turn.
#[test]
fn events_cost_an_interrupt() {
    let ri2 = parts("ri2");
    let extra = latency(&ri2, "ib_send_lat -n 50 -e") - latency(&ri2, "ib_send_lat -n 50");
    assert!((4.4..5.2).contains(&extra), "{extra} us");
}

#[test]
fn receives_may_be_shared() {
    for connection in ["RC", "UC", "UD"] {
        let size = if connection == "UD" { "1024" } else { "4096" };
        let line = format!("ib_send_bw -n 200 -q 4 -s {size} -c {connection}");
        let (own, shared) = (run(&line), run(&format!("{line} --use-srq")));
        assert!(shared.text.contains("Using SRQ      : ON") && own.text.contains("Using SRQ      : OFF"));
        let [own, shared] = [own, shared].map(|output| column(&output, "bandwidth")[0].1);
        assert!((shared / own - 1.0).abs() < 0.02, "{connection}: {own} and {shared}");
    }
    assert!(refused(&parts("ri2"), "ib_write_bw --use-srq").contains("shares receives"));
}

#[test]
fn datagrams_go_to_a_group() {
    let ri2 = ri2(4, 1);
    for line in ["ib_send_bw -c UD -g -n 100 -s 1024", "ib_send_lat -c UD -g -n 20"] {
        let (output, run) = run_on(&ri2, line);
        assert!(output.text.contains(" MGID: 255:01:00:00:00:02:201:133:00:00:00:00:00:00:00:00\n"), "{}", output.text);
        assert!(run.stats.copies > 0, "switches copy");
        let plain = run_on(&ri2, &line.replace(" -g", "")).0;
        let metric = if line.contains("_lat") { "latency" } else { "bandwidth" };
        let ratio = column(&output, metric)[0].1 / column(&plain, metric)[0].1;
        assert!((0.9..1.4).contains(&ratio), "{line}: {ratio}");
    }
    assert!(refused(&ri2, "ib_send_bw -g").contains("-c UD"));
}

/// REQ, REP and RTU are three datagrams before the clock starts: what is measured stays.
#[test]
fn the_connection_manager_comes_first() {
    let ri2 = parts("ri2");
    let ((plain, before), (met, after)) = (run_on(&ri2, "ib_write_lat -n 20"), run_on(&ri2, "ib_write_lat -n 20 -R"));
    assert_eq!(column(&plain, "latency"), column(&met, "latency"));
    assert_eq!(after.stats.packets, before.stats.packets + 3);
    assert!(met.text.contains("rdma_cm QPs\t : ON\n Data ex. method : rdma_cm\n") && met.text.contains("Transport type : IB"));
}

/// A frame has 24 bytes beyond what the tool counts: preamble, check sequence, gap. 1,500 B at 25 Gb/s are 487.7 ns at best.
#[test]
fn raw_frames_fill_the_link() {
    let roce = parts("alaska-roce25");
    let (output, _) = run_on(&roce, "raw_ethernet_bw -n 2000 -s 1500 --report_gbits -E 24:8a:07:0d:00:01");
    assert!(output.text.contains("Connection type : RawEth") && output.text.contains("| 24:8A:07:0D:00:01"), "{}", output.text);
    let rate = column(&output, "bandwidth")[0].1;
    let link = 25.0 * 1500.0 / 1524.0;
    assert!((0.93 * link..=1.001 * link).contains(&rate), "{rate} of {link} Gb/s");
    let (raw, ud) = (latency(&roce, "raw_ethernet_lat -n 20 -s 64"), latency(&roce, "ib_send_lat -n 20 -s 64 -c UD"));
    assert!((0.7..1.1).contains(&(raw / ud)), "{raw} and {ud} us");
    assert!(refused(&parts("ri2"), "raw_ethernet_lat").contains("frames of Ethernet"));
    assert!(refused(&roce, "raw_ethernet_lat -c RC").contains("frames have none"));
}
