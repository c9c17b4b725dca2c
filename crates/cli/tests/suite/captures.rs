//! Captures from the command line: what is written is read back as the same messages, and dissected without complaint.

use std::path::Path;

use assert_cmd::Command;
use fabriscope_capture::{Kind, conversation};

fn run(args: &[&str]) -> String {
    let output = Command::cargo_bin("fabriscope").unwrap().args(args).output().unwrap();
    assert!(output.status.success(), "{args:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

/// A permutation, its capture replayed, and the capture of that: the same bytes.
#[test]
fn a_lab_its_capture_and_the_capture_of_the_replay() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    let hosts: Vec<String> = (1..=12).map(|host| format!("\"10.0.0.{host}\"")).collect();
    let cluster = "cluster = \"alaska-roce25:12\"\n";
    std::fs::write(at("lab.toml"), format!("{cluster}[workload.permutation]\nsize = \"20 KiB\"\n")).unwrap();
    let replay = format!("{cluster}[workload.capture]\nfile = \"first.pcap\"\nhosts = [{}]\n", hosts.join(", "));
    std::fs::write(at("replay.toml"), replay).unwrap();
    for (lab, pcap) in [("lab.toml", "first.pcap"), ("replay.toml", "second.pcap")] {
        run(&["run", text(&at(lab)), "--pcap", text(&at(pcap)), "--tap", "nodes"]);
    }
    let (first, second) = (std::fs::read(at("first.pcap")).unwrap(), std::fs::read(at("second.pcap")).unwrap());
    assert_eq!(first, second);
    let found = conversation(&first).unwrap();
    assert_eq!((found.messages.len(), found.hosts.len(), found.incomplete, found.others), (12, 12, 0, 0));
    assert!(found.messages.iter().all(|message| message.bytes.0 == 20 << 10 && message.kind == Kind::Write));
    // Every host sends one message and gets one.
    for host in &found.hosts {
        assert_eq!(found.messages.iter().filter(|message| message.requester == *host).count(), 1);
        assert_eq!(found.messages.iter().filter(|message| message.responder == *host).count(), 1);
    }
}

/// Messages of every kind and transport that the benchmarks send, read back.
#[test]
fn what_benchmarks_send() {
    let folder = tempfile::tempdir().unwrap();
    let pcap = folder.path().join("x.pcapng");
    for (tool, options, kind, size) in [
        ("ib_send_bw", &["-s", "10000"][..], Kind::Send, 10_000),
        ("ib_send_bw", &["-c", "UC", "-s", "10000"], Kind::Send, 10_000),
        ("ib_send_bw", &["-c", "UD", "-s", "1000"], Kind::Send, 1000),
        ("ib_write_bw", &["-c", "UC", "-s", "9000"], Kind::Write, 9000),
        ("ib_read_bw", &["-s", "10000"], Kind::Read, 10_000),
        ("ib_atomic_bw", &[], Kind::Atomic, 8),
    ] {
        let args = ["bench", tool, "--on", "alaska-roce25", "-n", "20", "--pcap", text(&pcap)];
        run(&args.iter().chain(options).copied().collect::<Vec<_>>());
        let found = conversation(&std::fs::read(&pcap).unwrap()).unwrap();
        let of_kind: Vec<_> = found.messages.iter().filter(|message| message.kind == kind).collect();
        // A sender without acknowledgements is done before its last packet leaves.
        assert!(of_kind.len() >= 19, "{tool} {options:?}: {} messages", of_kind.len());
        assert!(of_kind.iter().all(|message| message.bytes.0 == size), "{tool} {options:?}");
        assert_eq!((found.repeats, found.others), (0, 0), "{tool} {options:?}");
    }
}

/// What sockets send, on Ethernet and over InfiniBand: every segment is whole, with right checksums.
#[test]
fn segments_of_sockets() {
    let folder = tempfile::tempdir().unwrap();
    let pcap = folder.path().join("x.pcapng");
    for cluster in ["alaska-roce25", "ri2"] {
        let args = ["bench", "osu_latency", "--transport", "tcp", "--on", cluster, "-i", "5", "-x", "1", "-m", "1:16384"];
        run(&args.into_iter().chain(["--pcap", text(&pcap)]).collect::<Vec<_>>());
        let mut command = std::process::Command::new("tshark");
        command.args(["-r", text(&pcap), "-o", "tcp.check_checksum:TRUE", "-o", "ip.check_checksum:TRUE", "-T", "fields"]);
        command.args(["-e", "_ws.malformed", "-e", "ip.checksum.status", "-e", "tcp.checksum.status"]);
        let output = command.output().expect("tshark judges the captures; install it: apt-get install tshark");
        let lines = String::from_utf8(output.stdout).unwrap();
        assert!(lines.lines().count() > 100 && lines.lines().all(|line| line == "\t1\t1"), "{cluster}: {lines}");
    }
}

/// All links of a lab with pause frames, and native InfiniBand, through tshark.
#[test]
fn tshark_finds_nothing_malformed() {
    let folder = tempfile::tempdir().unwrap();
    let pcap = folder.path().join("x.pcapng");
    let lab = folder.path().join("lab.toml");
    for cluster in ["alaska-roce25:12", "lab-16", "roce v1"] {
        let named = match cluster {
            "roce v1" => "[cluster]\nbase = \"alaska-roce25\"\nnodes = 12\nlink_layer = \"roce_v1\"".to_owned(),
            named => format!("cluster = \"{named}\""),
        };
        std::fs::write(&lab, format!("{named}\n[workload.incast]\nsenders = 8\nsize = \"256 KiB\"\n")).unwrap();
        run(&["run", text(&lab), "--pcap", text(&pcap), "--tap", "all", "--snap", "200"]);
        let tshark = |filter: &str| {
            let mut command = std::process::Command::new("tshark");
            command.args(["-r", text(&pcap), "-Y", filter, "-T", "fields", "-e", "frame.number"]);
            let output = command.output().expect("tshark judges the captures; install it: apt-get install tshark");
            assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
            String::from_utf8(output.stdout).unwrap().lines().count()
        };
        assert_eq!(tshark("_ws.malformed"), 0, "{cluster}");
        // 8 senders, 64 packets each, two hops or more.
        assert!(tshark("infiniband.bth") > 8 * 64 * 2, "{cluster}");
        let pauses = tshark("macc.opcode == 0x0101");
        assert_eq!(tshark("eth.type == 0x8915") > 0, cluster == "roce v1");
        assert_eq!(pauses > 0, cluster != "lab-16", "{cluster}: {pauses} pause frames");
    }
}

/// Ultra Ethernet by its own port, iWARP in TCP, and a word on standard error for what has no published layout.
#[test]
fn transports_that_are_no_roce() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    let fields = |file: &Path, fields: &[&str]| {
        let wanted = fields.iter().flat_map(|field| ["-e", field]);
        let output = Command::new("tshark").arg("-r").arg(file).args(["-T", "fields"]).args(wanted).output().unwrap();
        String::from_utf8(output.stdout).unwrap().lines().map(str::to_owned).collect::<Vec<_>>()
    };
    let lab = "cluster = \"lab-roce-128\"\n[workload.incast]\nsenders = 2\nsize = \"20 KiB\"\ntransport = \"uet\"\n";
    std::fs::write(at("lab.toml"), lab).unwrap();
    run(&["run", text(&at("lab.toml")), "--pcap", text(&at("uet.pcapng")), "--tap", "nodes"]);
    let ports = fields(&at("uet.pcapng"), &["udp.dstport", "_ws.malformed"]);
    assert!(ports.len() > 10 && ports.iter().all(|line| line.trim_end() == "4793"), "{ports:?}");

    let osu = |cluster: &str, file: &Path| {
        let bench = ["bench", "osu_latency", "--on", cluster, "--pcap", text(file), "--", "-m", "4096:4096", "-i", "2", "-x", "1"];
        let output = Command::cargo_bin("fabriscope").unwrap().args(bench).output().unwrap();
        assert!(output.status.success(), "{cluster}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stderr).unwrap()
    };
    assert!(!osu("lab-iwarp-t5", &at("iwarp.pcap")).contains("layout"));
    let lengths = fields(&at("iwarp.pcap"), &["tcp.len"]);
    assert!(lengths.iter().any(|length| length == "1460") && lengths.iter().any(|length| length == "0"), "{lengths:?}");
    assert!(osu("aws-c5n-efa", &at("srd.pcapng")).contains("SRD (EFA) is in the form of RoCE version 2"));
    assert!(osu("slingshot11-milan", &at("cxi.pcap")).contains("Slingshot is in the form of RoCE version 2"));
}
