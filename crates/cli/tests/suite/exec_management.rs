//! Tools of infiniband-diags on virtual hosts, and OpenSM: they find the fabric of the cluster by the datagrams of subnet management, read what its
//! ports count, and say where packets go.

use std::process::Command;

use crate::exec::{exec, is_installed, stdout, text};

#[test]
fn a_host_shows_its_port() {
    is_installed("ibstat");
    let printed = stdout(&exec(&["--on", "ri2", "--", "ibstat"]));
    for line in ["CA 'mlx5_0'", "State: Active", "Rate: 100", "Base lid: 1", "Port GUID: 0xb83fd20300000001", "Link layer: InfiniBand"] {
        assert!(printed.contains(line), "{line}\n{printed}");
    }
    let links = stdout(&exec(&["--on", "ri2", "--", "iblinkinfo"]));
    assert_eq!(links.matches("( 4X      25.78125 Gbps Active/  LinkUp)").count(), 4, "{links}");
}

/// All devices and cables are found, and what is written is read as the fabric that it is.
#[test]
fn ibnetdiscover_finds_the_fabric() {
    is_installed("ibnetdiscover");
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("lab-1024.ibnetdiscover");
    std::fs::write(&file, stdout(&exec(&["--on", "lab-1024", "--", "ibnetdiscover"]))).unwrap();
    let fabriscope = |words: &[&str]| stdout(&Command::new(env!("CARGO_BIN_EXE_fabriscope")).args(words).output().unwrap());
    let found = fabriscope(&["import", file.to_str().unwrap()]);
    let exported = folder.path().join("exported.ibnetdiscover");
    std::fs::write(&exported, fabriscope(&["export", "lab-1024", "--format", "ibnetdiscover"])).unwrap();
    let known = fabriscope(&["import", exported.to_str().unwrap()]);
    for what in ["switches ", "  of level 1", "  of level 2", "hosts ", "cables ", "  between switches"] {
        let count =
            |text: &str| text.lines().find(|line| line.starts_with(what)).map(|line| line.split_whitespace().last().unwrap().to_owned());
        assert_eq!(count(&found), count(&known), "{what}\n{found}\n{known}");
        assert!(count(&found).is_some(), "{what}\n{found}");
    }
}

#[test]
fn agents_say_what_they_do_not_have() {
    is_installed("smpquery");
    let node = stdout(&exec(&["--on", "ri2", "--", "smpquery", "nodeinfo", "3"]));
    assert!(node.contains("NodeType:........................Switch") && node.contains("NumPorts:........................2"), "{node}");
    // A LID that nobody has, and counters by virtual lane.
    for (words, told) in [(&["smpquery", "nodeinfo", "77"][..], "failed"), (&["perfquery", "-X"], "query")] {
        let output = exec(&[&["--on", "ri2", "--"], words].concat());
        let said = text(&output.stdout) + &text(&output.stderr);
        assert!(!output.status.success() && said.contains(told), "{words:?}\n{said}");
    }
    // Ethernet has no such management.
    assert!(!exec(&["--on", "alaska-roce25", "--", "ibnetdiscover"]).status.success());
}

/// libc reads a stream past the calls that can be seen: who writes to the pipe gets its turn all the same, at the same moment in every run.
#[test]
fn streams_of_pipes_wait_in_virtual_time() {
    is_installed("ibnetdiscover");
    let run = || stdout(&exec(&["--on", "ri2", "--", "sh", "-c", "ibnetdiscover | sed -n 2p; date +%N"]));
    let printed = run();
    assert_eq!(printed.lines().next(), Some("# Topology file: generated on Thu Jan  1 00:00:00 2026"), "{printed}");
    assert_eq!(printed, run());
}

/// What a row of a tool says behind its name and the dots.
fn value(text: &str, name: &str) -> u64 {
    let row = text.lines().find(|line| line.starts_with(&format!("{name}:.")));
    let digits = row.map(|row| row.trim_start_matches(|c: char| !c.is_ascii_digit()).to_owned());
    digits.and_then(|digits| digits.parse().ok()).unwrap_or_else(|| panic!("no {name} in\n{text}"))
}

/// 200 messages of 64 KiB are 16 packets of 4 KiB each; a packet has 8 bytes of LRH, 12 of BTH and 4 of ICRC besides, and the message is
/// acknowledged by packets of 24 bytes and 4 of AETH.
#[test]
fn perfquery_reads_and_resets_what_ports_count() {
    is_installed("perfquery");
    let ends = "sleep 1; perfquery -x 2 1; perfquery -R 2 1; perfquery 2 1";
    let server = format!("ib_send_bw -F -n 200 > $TMPDIR/server; {ends}");
    let folder = tempfile::tempdir().unwrap();
    let server = server.replace("$TMPDIR", folder.path().to_str().unwrap());
    let client = format!("ib_send_bw -F -n 200 a > {}/client", folder.path().display());
    // The host of the server is the last but one: its LID is 1, the client's 2.
    let printed = stdout(&exec(&["--on", "ri2", "--host", "a:", "sh", "-c", &server, "--host", "b:", "sh", "-c", &client]));
    let (read, reset) = printed.split_once("# Port counters").unwrap();
    let (packets, bytes) = (200 * 16, 200 * 65536 + 200 * 16 * 24);
    assert_eq!((value(read, "PortXmitPkts"), value(read, "PortXmitData")), (packets, bytes / 4), "{printed}");
    let acknowledged = value(read, "PortRcvPkts");
    assert_eq!(value(read, "PortRcvData"), acknowledged * 28 / 4, "{printed}");
    assert!((1..=packets).contains(&acknowledged), "{printed}");
    for counter in ["PortXmitPkts", "PortXmitData", "PortRcvPkts", "PortXmitWait"] {
        assert_eq!(value(reset, counter), 0, "{printed}");
    }
}

/// OpenSM finds the fabric, computes its tables and writes them: from then on packets leave the first switch by the port that it chose, and by
/// no other. Whoever asks for paths asks it.
#[test]
fn opensm_manages_the_fabric() {
    is_installed("opensm");
    is_installed("ibtracert");
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path().display();
    // Of the way from LID 1024 to LID 512, the port by which it leaves the first switch.
    let way = "ibtracert 1024 512 | sed -n 's/^\\[\\([0-9]*\\)\\] -> switch.*/\\1/p' | sed -n 2p";
    let manager = format!(
        "echo before $({way}); opensm -R updn -f {at}/log > {at}/said & sleep 1; echo after $({way}); sleep 5; for port in $(seq 9 16); do \
         echo port $port $(perfquery -x 1152 $port | grep XmitData); done; kill -INT $!; wait"
    );
    let manager = format!("export OSM_TMP_DIR={at}; {manager}");
    let receiver = format!("sleep 2; ib_write_bw -F -n 200 > {at}/receiver; sminfo; saquery -p --slid 1024 --dlid 512 | grep -c dlid");
    let sender = format!("sleep 2; ib_write_bw -F -n 200 a > {at}/sender");
    let commands = ["--host", "sm:", "sh", "-c", &manager, "--host", "a:", "sh", "-c", &receiver, "--host", "b:", "sh", "-c", &sender];
    let printed = stdout(&exec(&[&["--on", "lab-1024"], &commands[..]].concat()));
    let log = std::fs::read_to_string(folder.path().join("log")).unwrap();
    assert!(log.contains("updn tables configured on all switches") && log.contains("SUBNET UP") && !log.contains("ERR"), "{log}");
    let word = |begin: &str| printed.lines().find_map(|line| line.strip_prefix(begin)).unwrap_or_else(|| panic!("{printed}")).to_owned();
    let (before, after) = (word("before "), word("after "));
    assert_ne!(before, after, "{printed}");
    for port in 9..=16 {
        let sent = value(&word(&format!("port {port} ")), "PortXmitData");
        assert_eq!(sent > 3_000_000, port.to_string() == after, "port {port} sent {sent} words\n{printed}");
    }
    assert!(printed.contains("sminfo: sm lid 1 sm guid 0xb83fd20300000001") && printed.contains("SMINFO_MASTER"), "{printed}");
    assert!(printed.lines().any(|line| line == "1"), "{printed}");
}
