//! Tools of infiniband-diags on virtual hosts: they find the fabric of the cluster by the datagrams of subnet management.

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
    // A LID that nobody has, and counters, which are not there yet.
    for (words, told) in [(&["smpquery", "nodeinfo", "77"][..], "failed"), (&["perfquery"], "classportinfo query")] {
        let output = exec(&[&["--on", "ri2", "--"], words].concat());
        let said = text(&output.stdout) + &text(&output.stderr);
        assert!(!output.status.success() && said.contains(told), "{words:?}\n{said}");
    }
    // Ethernet has no such management.
    assert!(!exec(&["--on", "alaska-roce25", "--", "ibnetdiscover"]).status.success());
}
