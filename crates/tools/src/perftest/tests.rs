//! Command lines and golden output.

use fabriscope_catalog::{Interface, Rdma};
use fabriscope_platform::{Binding, Layout, LinkType};
use fabriscope_units::Remedy;
use fabriscope_units::{Span, Time};

use super::*;

fn target() -> Target {
    Target {
        nvme_offload: None,
        services: Vec::new(),
        drives: Vec::new(),
        node_drives: None,
        gpu: None,
        nccl: None,
        nccl_between: None,
        nodes: 2,
        layout: Layout { nodes: 2, per_node: 1 },
        devices: vec!["mlx5_0".to_owned(), "mlx5_1".to_owned()],
        interface: Interface::Verbs,
        link: LinkType::InfiniBand,
        mtu: 4096,
        datagram: None,
        rdma: Rdma::ReadWrite,
        max_inline: 956,
        max_outstanding_reads: 16,
        binding: Binding::default(),
        mpi: None,
        shmem: None,
        unordered: false,
        dpu: None,
        triggered: false,
        aggregation: None,
        processor: None,
        loads: Err(fabriscope_platform::loads::Untold { what: String::new(), remedy: String::new() }),
        cores: None,
        compression: None,
        perftest: None,
        hcl: None,
        wafer: None,
        every_iteration: false,
        experts: Vec::new(),
    }
}
fn parse_on(target: &Target, line: &str) -> Result<Settings, UsageError> {
    let mut words = line.split_whitespace().map(str::to_owned);
    let name = words.next().unwrap();
    let test = TESTS.into_iter().find(|test| test.name() == name).unwrap();
    Settings::parse(test, &words.collect::<Vec<_>>(), target)
}
fn parse(line: &str) -> Settings {
    parse_on(&target(), line).unwrap()
}
fn refused(line: &str) -> String {
    parse_on(&target(), line).unwrap_err().in_full()
}
fn address(lid: u32, qpn: u32, psn: u32, rkey: u32, vaddr: u64) -> Address {
    Address { lid, qpn, psn, rkey, vaddr, gid: [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 255, 255, 10, 0, 0, 1] }
}
fn measured(rows: Vec<(Row, Vec<Time>)>) -> Measured {
    Measured {
        local: vec![address(0x0b, 0x12, 0x2f5841, 0x200c00, 0x7f2e5f64b000)],
        remote: vec![address(0x0d, 0x13, 0xfd0c7e, 0x200d00, 0x7f443b2f8000)],
        rows,
        ..Measured::default()
    }
}
fn bandwidth_row(average: f64) -> Row {
    Row::Bandwidth(BandwidthRow { size: 65_536, iterations: 5000, peak: 49.01375e9, average, message_rate: 0.747_625 })
}
fn latency_row() -> Row {
    Row::Latency(LatencyRow {
        size: 2,
        iterations: 1000,
        min: 0.98,
        max: 3.12,
        typical: 1.01,
        average: 1.02,
        deviation: 0.0,
        percentile_99: 1.12,
        percentile_99_9: 2.95,
    })
}

#[test]
fn defaults_are_those_of_the_tools() {
    let s = parse("ib_write_bw");
    assert_eq!((s.sizes.as_slice(), s.iterations(), s.tx_depth, s.cq_mod, s.inline_size), (&[65_536][..], Some(5000), 128, 1, 0));
    let s = parse("ib_write_bw -a");
    assert_eq!((s.sizes.len(), s.sizes[0], s.sizes[22], s.cq_mod, s.warm_up), (23, 2, 1 << 23, 100, true));
    let s = parse("ib_write_lat");
    assert_eq!((s.sizes.as_slice(), s.iterations(), s.tx_depth, s.cq_mod, s.inline_size), (&[2][..], Some(1000), 1, 1, 220));
    assert_eq!(parse("ib_send_lat").inline_size, 236);
    assert_eq!(parse("ib_send_lat -c UD").inline_size, 188);
    assert_eq!(parse("ib_read_lat -I 100").inline_size, 0);
    assert_eq!(parse("ib_send_bw").rx_depth, 512);
    assert_eq!(parse("ib_send_bw -c UD").rx_depth, 1000);
    assert_eq!(parse("ib_send_bw -c UD -a").sizes.last(), Some(&4096));
    assert_eq!(parse("ib_send_bw -c UD").sizes, [4096]);
    assert_eq!(parse("ib_atomic_bw").sizes, [8]);
    assert_eq!(parse("ib_write_bw -n 50").tx_depth, 50);
    assert_eq!(parse("ib_write_bw -s 4096 -l 16 -n 1600").cq_mod, 16);
    assert_eq!(parse("ib_write_bw -d mlx5_1").nic, 1);
    assert_eq!(parse("ib_write_lat -D 10").length, Length::Duration { whole: Span::from_us(10_000_000), margin: Span::from_us(2_000_000) });
}

#[test]
fn what_does_not_fit_is_refused_with_a_remedy() {
    for (line, part) in [
        ("ib_write_bw -s 0", "1 to 2147483647"),
        ("ib_write_bw -s 1099511627776", "1 to 2147483647"),
        ("ib_write_bw -n 4", "5 to 100000000"),
        ("ib_write_bw -c UD", "use -c RC"),
        ("ib_read_lat -c UC", "use -c RC"),
        ("ib_write_bw -c TCP", "RC, XRC, UC, UD, DC, SRD"),
        ("ib_atomic_lat -c SRD", "use -c RC"),
        ("ib_send_bw -c SRD -s 8192", "1 to 4096"),
        ("ib_send_lat -c UD -s 8192", "1 to 4096"),
        ("ib_write_lat -b", "bandwidth tests"),
        ("ib_write_bw -U", "latency tests"),
        ("ib_atomic_bw -s 16", "8 bytes"),
        ("ib_write_lat -A FETCH_AND_ADD", "ib_atomic_lat"),
        ("ib_write_bw -D 3 -n 10", "give one of them"),
        ("ib_write_bw -D 4 -f 2", "give -f 1 or less"),
        ("ib_write_bw -m 9000", "256, 512, 1024, 2048, 4096"),
        ("ib_write_bw -d mlx5_9", "mlx5_0, mlx5_1"),
        ("ib_write_bw -I 912 -l 7", "multiple of -l"),
        ("ib_write_lat -I 2000", "0 to 912"),
        ("ib_write_bw server01", "leave it out"),
        ("ib_write_bw --itres 3", "--iters"),
    ] {
        let message = refused(line);
        assert!(message.contains(part), "{line}: {message}");
    }
    let small = Target { mtu: 2048, max_inline: 100, ..target() };
    assert!(parse_on(&small, "ib_write_bw -m 4096").unwrap_err().in_full().contains("-m 2048 or less"));
    assert_eq!(parse_on(&small, "ib_write_lat").unwrap().inline_size, 100);
    assert!(refused("ib_write_bw --help").contains("--report_gbits"));
}

#[test]
fn a_bandwidth_report() {
    let s = parse("ib_write_bw --report_gbits -Q 100");
    let out = report(&s, &measured(vec![(bandwidth_row(48.99625e9), vec![])]));
    let golden = "\
---------------------------------------------------------------------------------------
                    RDMA_Write BW Test
 Dual-port       : OFF\t\tDevice         : mlx5_0
 Number of qps   : 1\t\tTransport type : IB
 Connection type : RC\t\tUsing SRQ      : OFF
 PCIe relax order: ON\t\tLock-free      : OFF
 ibv_wr* API     : ON\t\tUsing Enhanced Reorder      : OFF
 TX depth        : 128
 CQ Moderation   : 100
 CQE Poll Batch  : 16
 Mtu             : 4096[B]
 Link type       : IB
 Max inline data : 0[B]
 rdma_cm QPs\t : OFF
 Data ex. method : Ethernet
---------------------------------------------------------------------------------------
 local address: LID 0x0b QPN 0x0012 PSN 0x2f5841 RKey 0x200c00 VAddr 0x007f2e5f64b000
 remote address: LID 0x0d QPN 0x0013 PSN 0xfd0c7e RKey 0x200d00 VAddr 0x007f443b2f8000
---------------------------------------------------------------------------------------
 #bytes     #iterations    BW peak[Gb/sec]    BW average[Gb/sec]   MsgRate[Mpps]
 65536      5000             392.11             391.97 \t\t     0.747625
---------------------------------------------------------------------------------------
";
    assert_eq!(out.text, golden);
    assert_eq!(
        out.points.iter().map(|point| point.metric).collect::<Vec<_>>(),
        ["bandwidth", "bandwidth_peak", "message_rate", "iterations"]
    );
}

#[test]
fn a_slow_bandwidth_has_more_digits() {
    let s = parse("ib_write_bw");
    let row = Row::Bandwidth(BandwidthRow { size: 2, iterations: 5000, peak: 53_463.4, average: 51_223.99, message_rate: 0.025_612 });
    let text = report(&s, &measured(vec![(row, vec![])])).text;
    assert!(text.contains("\n 2          5000           0.050987            0.048851            0.025612\n"), "{text}");
    assert!(text.contains("BW peak[MiB/sec]    BW average[MiB/sec]"));
}

#[test]
fn a_latency_report() {
    let text = report(&parse("ib_send_lat"), &measured(vec![(latency_row(), vec![])])).text;
    let golden = "\
---------------------------------------------------------------------------------------
                    Send Latency Test
 Dual-port       : OFF\t\tDevice         : mlx5_0
 Number of qps   : 1\t\tTransport type : IB
 Connection type : RC\t\tUsing SRQ      : OFF
 PCIe relax order: ON\t\tLock-free      : OFF
 ibv_wr* API     : ON\t\tUsing Enhanced Reorder      : OFF
 TX depth        : 1
 Mtu             : 4096[B]
 Link type       : IB
 Max inline data : 236[B]
 rdma_cm QPs\t : OFF
 Data ex. method : Ethernet
---------------------------------------------------------------------------------------
 local address: LID 0x0b QPN 0x0012 PSN 0x2f5841
 remote address: LID 0x0d QPN 0x0013 PSN 0xfd0c7e
---------------------------------------------------------------------------------------
 #bytes #iterations    t_min[usec]    t_max[usec]  t_typical[usec]    t_avg[usec]    t_stdev[usec]   99% percentile[usec]   99.9% percentile[usec] 
 2       1000          0.98           3.12         1.01     \t       1.02        \t0.00   \t\t1.12    \t\t2.95   
---------------------------------------------------------------------------------------
";
    assert_eq!(text, golden);
}

#[test]
fn addresses_on_ethernet_and_of_reads() {
    let roce = Target { link: LinkType::Ethernet, ..target() };
    let s = parse_on(&roce, "ib_read_bw -b -q 1 -l 2").unwrap();
    let mut ends = measured(vec![]);
    ends.local[0].lid = 0;
    let text = report(&s, &ends).text;
    for part in [
        "                    RDMA_Read Bidirectional Post List BW Test\n",
        " Post List       : 2\n",
        " Link type       : Ethernet\n GID index       : 3\n Outstand reads  : 16\n",
        " local address: LID 0000 QPN 0x0012 PSN 0x2f5841 OUT 0x10 RKey 0x200c00 VAddr 0x007f2e5f64b000\n\
         \x20GID: 00:00:00:00:00:00:00:00:00:00:255:255:10:00:00:01\n",
    ] {
        assert!(text.contains(part), "{text}");
    }
}

#[test]
fn samples_stand_before_their_row() {
    let us = |n: f64| Time::from_ps((n * 1e6) as u64);
    let posted = vec![us(0.0), us(2.0), us(4.5), us(7.0), us(1007.0), us(1009.004)];
    let row = Row::Latency(statistics::latency(2, &posted, 2.0).unwrap());
    let text = report(&parse("ib_write_lat -U -H"), &measured(vec![(row, posted)])).text;
    assert!(text.contains("#, usec\n1, 1\n2, 1.25\n3, 1.25\n4, 500\n5, 1.002\n#, usec\n1, 1\n2, 1.002\n3, 1.25\n------"), "{text}");
}

#[test]
fn one_number_only() {
    let rows = || measured(vec![(bandwidth_row(48.99625e9), vec![])]);
    assert_eq!(report(&parse("ib_write_bw --report_gbits --output=bandwidth"), &rows()).text, "391.970000\n");
    assert_eq!(report(&parse("ib_write_bw --output=message_rate"), &rows()).text, "0.747625\n");
    assert_eq!(report(&parse("ib_write_lat --output=latency"), &measured(vec![(latency_row(), vec![])])).text, "1.020000\n");
}

#[test]
fn json_holds_the_last_row() {
    let out = report(
        &parse("ib_write_bw --report_gbits --out_json --out_json_file=r.json"),
        &measured(vec![(bandwidth_row(48.99625e9), vec![])]),
    );
    assert_eq!(out.files[0].name, "r.json");
    let text = &out.files[0].text;
    assert!(text.starts_with("{\n\"test_info\": {\n\"test\": \"RDMA_Write_BW_Test\",\n\"Dual_port\": \"OFF\","), "{text}");
    let golden = "\"results\": {\n\"MsgSize\": 65536,\n\"n_iterations\": 5000,\n\"BW_peak\": 392.11,\n\"BW_average\": 391.97,\n\"MsgRate\": 0.747625\n}\n}\n";
    assert!(text.ends_with(golden), "{text}");
    let out = report(&parse("ib_send_lat --out_json"), &measured(vec![(latency_row(), vec![])]));
    assert_eq!(out.files[0].name, "perftest_out.json");
    assert!(out.files[0].text.contains("\"percentile_99\": 1.12,\n\"percentile_99.9\": 2.95\n}"), "{}", out.files[0].text);
}

/// An EFA adapter has SRD and UD, and what its generation does with memory; SRD completes every request by itself.
#[test]
fn efa_takes_what_its_generation_has() {
    let efa = |rdma| Target { interface: Interface::Efa, datagram: Some(8256), rdma, ..target() };
    let told = |rdma, line: &str| parse_on(&efa(rdma), line).unwrap_err().in_full();
    assert!(told(Rdma::None, "ib_send_lat").contains("give -c SRD or -c UD"));
    assert!(told(Rdma::None, "ib_read_lat -c SRD").contains("ib_send_lat"));
    assert!(told(Rdma::Read, "ib_write_bw -c SRD").contains("ib_send_bw"));
    assert!(told(Rdma::ReadWrite, "ib_atomic_lat -c SRD").contains("no atomics"));
    for line in ["ib_send_lat -c SRD", "ib_send_bw -c UD", "ib_read_bw -c SRD", "ib_write_lat -c SRD"] {
        parse_on(&efa(Rdma::ReadWrite), line).unwrap_or_else(|error| panic!("{line}: {error}"));
    }
    let s = parse_on(&efa(Rdma::None), "ib_send_bw -c SRD -a").unwrap();
    assert_eq!((s.sizes.last(), s.cq_mod), (Some(&8192), 1));
}

fn gpus(title: &str) -> Target {
    let buses = ["0000:07:00.0", "0000:47:00.0"].map(str::to_owned).to_vec();
    let gpu = fabriscope_platform::GpuTarget {
        title: title.to_owned(),
        count: 2,
        own: 2,
        switches: None,
        buses,
        read_rate: fabriscope_units::Rate::from_gbps(12_000),
        write_cost: 0,
        launch: Span::ZERO,
    };
    Target { gpu: Some(gpu), ..target() }
}

#[test]
fn gpus_are_taken_by_number_or_address() {
    let nvidia = gpus("NVIDIA A100 SXM4, 40 GB");
    let place = |line: &str| parse_on(&nvidia, line).unwrap().gpu.map(|gpu| (gpu.driver, gpu.place().0));
    assert_eq!(place("ib_write_bw"), None);
    assert_eq!(place("ib_write_bw --use_cuda=0"), Some((Driver::Cuda, 1)));
    assert_eq!(place("ib_send_lat --use_cuda=1 --use_cuda_dmabuf"), Some((Driver::Cuda, 2)));
    assert_eq!(place("ib_read_lat --use_cuda_bus_id 47:00.0"), Some((Driver::Cuda, 2)));
    assert_eq!(place("ib_read_bw --use_cuda_bus_id=0000:07:00.0"), Some((Driver::Cuda, 1)));
    assert_eq!(parse_on(&nvidia, "ib_send_lat --use_cuda=1").unwrap().inline_size, 0);
    assert_eq!(parse_on(&nvidia, "ib_send_lat --use_cuda=1 -I 32 -s 64").unwrap().inline_size, 32);
    let amd = gpus("AMD Instinct MI300X, 192 GB");
    assert_eq!(parse_on(&amd, "ib_write_bw --use_rocm=1").unwrap().gpu.map(|gpu| gpu.place().0), Some(2));
}

#[test]
fn what_gpus_cannot_do_is_refused_with_a_remedy() {
    let nvidia = gpus("NVIDIA A100 SXM4, 40 GB");
    let nameless = Target { gpu: nvidia.gpu.clone().map(|gpu| fabriscope_platform::GpuTarget { buses: Vec::new(), ..gpu }), ..target() };
    for (target, line, message) in [
        (&target(), "ib_write_bw --use_cuda=0", "--use_cuda needs GPUs, and the nodes of this cluster have none; choose a cluster"),
        (&nvidia, "ib_write_bw --use_cuda=2", "--use_cuda 2: the nodes have 2 GPUs; give 0 to 1"),
        (
            &nvidia,
            "ib_write_bw --use_rocm=0",
            "--use_rocm is for GPUs of AMD, and the nodes have: NVIDIA A100 SXM4, 40 GB; give --use_cuda=0",
        ),
        (&nvidia, "ib_write_bw --use_cuda_bus_id=48:00.0", "no GPU has this address; give one of 0000:07:00.0, 0000:47:00.0"),
        (&nameless, "ib_write_bw --use_cuda_bus_id=47:00.0", "needs PCI addresses, and the node part has none; give --use_cuda=0"),
        (
            &nvidia,
            "ib_write_lat --use_cuda=0",
            "latency of reads and sends only: a core does not spin on the memory of a GPU; run ib_send_lat",
        ),
        (&nvidia, "ib_send_lat --use_cuda=0 -I 64 -s 64", "--use_cuda has no inline messages"),
        (&nvidia, "ib_send_lat --use_hl=0", "--use_hl has no meaning here"),
    ] {
        let refused = parse_on(target, line).unwrap_err().in_full();
        assert!(refused.contains(message), "{line}: {refused}");
    }
}

#[test]
fn a_report_tells_of_the_gpu() {
    let s = parse_on(&gpus("NVIDIA A100-SXM4-40GB"), "ib_write_bw --use_cuda=1").unwrap();
    let text = report(&s, &measured(vec![(bandwidth_row(48.99625e9), vec![])])).text;
    // As cuda_memory.c prints it; the buffer is twice the size.
    let opening = "\
        Perftest doesn't supports CUDA tests with inline messages: inline size set to 0\n\
        initializing CUDA\n\
        Listing all CUDA devices in system:\n\
        CUDA device 0: PCIe address is 07:00\n\
        CUDA device 1: PCIe address is 47:00\n\
        \n\
        Picking device No. 1\n\
        [pid = 4242, dev = 1] device name = [NVIDIA A100-SXM4-40GB]\n\
        creating CUDA Ctx\n\
        making it the current CUDA Ctx\n\
        CUDA device integrated: 0\n\
        allocated GPU buffer of a 131072 address at 0x55d1c0a862a0 for type CUDA_MEM_DEVICE\n\
        ------";
    assert!(text.starts_with(opening), "{text}");
    assert!(text.ends_with("------\ndeallocating GPU buffer 00007f2e5f63a000\ndestroying current CUDA Ctx\n"), "{text}");
    let bare = report(&parse("ib_write_bw"), &measured(vec![(bandwidth_row(48.99625e9), vec![])])).text;
    assert!(text.contains(&bare[..bare.len() / 2]), "the rest is as without it");
}
