//! What is wrong with a file is said with its line and what to do.

use super::{refused, text};
use fabriscope_units::Remedy;

fn says(text: &str, words: &[&str]) {
    let message = refused(text).in_full();
    for word in words {
        assert!(message.contains(word), "`{word}` is missing in: {message}");
    }
    assert!(message.contains("; ") || message.ends_with('?'), "no remedy: {message}");
}

/// A file with one thing changed.
fn changed(name: &str, right: &str, wrong: &str) -> String {
    let text = text(name);
    assert!(text.contains(right), "{right}");
    text.replacen(right, wrong, 1)
}

#[test]
fn files_of_other_kinds() {
    says("", &["none of the formats"]);
    says("hello\nworld\n", &["none of the formats", "lstopo --of xml"]);
    says("<?xml version=\"1.0\"?>\n<html><body/></html>", &["line 2", "<html>", "<topology>"]);
    says("<graphs version=\"1\"/>", &["line 1", "<graphs>"]);
    says("<system version=\"3\"/>", &["line 1", "version 3", "only 1 (NCCL) and 2 (RCCL)"]);
    says("<system/>", &["`version`"]);
    says("<topology><object type=\"Machine\"/></topology>", &["no processor"]);
    says("<topology version=\"4.0\"/>", &["version 4.0", "1.x to 3.0"]);
    says("<system version=\"1\"></system>", &["no processor", "complete"]);
    says("<topology version=\"2.0\"><object type=\"Machine\"/></topology>", &["no processor"]);
}

#[test]
fn files_that_are_cut_off() {
    for name in ["hgx-h100.nccl.xml", "two-sockets.hwloc.xml"] {
        let text = text(name);
        for share in 1..8 {
            let message = refused(&text[..text.len() * share / 8]).in_full();
            assert!(message.contains("line ") && message.contains("cut off"), "{message}");
        }
    }
    let matrix = text("dgx-1v.topo");
    let rows: String = matrix.lines().take(5).map(|line| format!("{line}\n")).collect();
    says(&rows, &["line 1", "rows: 4 of 12", "cut off"]);
    says(&changed("dgx-1v.topo", "NV1\tNV1\tNV2", "NV1"), &["line 2", "GPU0", "of 12", "cut off"]);
}

#[test]
fn wrong_values() {
    let nccl = "hgx-h100.nccl.xml";
    says(&changed(nccl, "busid=\"0000:1b:00.0\"", "busid=\"1b\""), &["line 4", "`1b` is no address", "0000:17:00.0"]);
    says(&changed(nccl, " busid=\"0000:1b:00.0\"", ""), &["line 4", "<pci> has no `busid`"]);
    says(&changed(nccl, "numaid=\"0\"", "numaid=\"zero\""), &["line 2", "`zero`"]);
    says(&changed(nccl, "count=\"5\"", "count=\"-5\""), &["line 6", "`-5`"]);
    says(&changed(nccl, " tclass=\"0x068000\"", ""), &["line 6", "`tclass`", "NVSwitch"]);
    says(&changed(nccl, "guid=\"0xa0", "guid=\"0xzz"), &["line 14", "hexadecimal"]);
    says(&changed(nccl, "link_width=\"16\"", "link_width=\"1600\""), &["line 3", "1600"]);
    says(&changed("grace-hopper-x4.nccl.xml", "bw=\"45000\"", "bw=\"0\""), &["bandwidth"]);
    let hwloc = "two-sockets.hwloc.xml";
    says(
        &changed(
            hwloc,
            "os_index=\"1\" cpuset=\"0x0000ff00\" complete_cpuset=\"0x0000ff00\" nodeset=\"0x00000002\" complete_nodeset=\"0x00000002\" gp_index=\"136\" local",
            "cpuset=\"all\" local",
        ),
        &["`all` is no set"],
    );
    says(&changed(hwloc, "a1\" pci_link_speed=\"31.507692\"", "a1\" pci_link_speed=\"fast\""), &["`fast`", "GB/s"]);
    says(&changed(hwloc, "1000000 100000 100000 1000000", "1000000 100000"), &["NVLinkBandwidth", "2 of 4"]);
    says(&changed("dgx-1v.topo", "NV2", "NVX"), &["line 2", "`NVX` is no class", "SYS"]);
}

#[test]
fn devices_twice() {
    says(&changed("hgx-h100.nccl.xml", "0000:43:00.0", "0000:1b:00.0"), &["0000:1b:00.0", "in line 4", "remove one"]);
    says(&changed("hgx-h100.nccl.xml", "gpu dev=\"1\"", "gpu dev=\"0\""), &["gpu0", "before"]);
    says(&changed("hgx-h100.nccl.xml", "numaid=\"1\"", "numaid=\"0\""), &["numa0", "in line 2"]);
    says(&changed("two-sockets.hwloc.xml", "name=\"mlx5_2\"", "name=\"mlx5_0\""), &["mlx5_0", "before"]);
    says(&changed("dgx-1v.topo", "\nGPU1\t", "\nGPU0\t"), &["line 3", "GPU0", "in line 2"]);
    says(&changed("dgx-1v.topo", "\tGPU1\t", "\tGPU0\t"), &["GPU0"]);
}

#[test]
fn files_that_contradict_themselves() {
    says(&changed("dgx-1v.topo", "GPU1\tNV1", "GPU1\tSYS"), &["line 3", "GPU1 has SYS to GPU0", "line 2 has NV1"]);
    says(&changed("hgx-h100.nccl.xml", "host_hash=\"0x6d1f2c9b5a3e7788\"", "host_hash=\"0x1\""), &["several hosts", "NCCL_MNNVL_ENABLE=0"]);
}

#[test]
fn a_gpu_without_a_way_to_an_adapter() {
    let none = "\tGPU0\tGPU1\tNIC0\nGPU0\t X \tNV4\tPIX\nGPU1\tNV4\t X \tN/A\nNIC0\tPIX\tN/A\t X \n";
    says(none, &["line 3", "GPU1", "no path", "correct its row"]);
}

#[test]
fn trees_without_end() {
    let deep = |open: &str, close: &str| format!("{}{}", open.repeat(3000), close.repeat(3000));
    let pci: String = (0..3000).map(|n| format!("<pci busid=\"{:04x}:{:02x}:00.0\" class=\"0x060400\">\n", n >> 8, n & 255)).collect();
    let text = format!("<system version=\"1\"><cpu numaid=\"0\">{pci}{}</cpu></system>", "</pci>".repeat(3000));
    says(&text, &["more than 64 PCI bridges"]);
    let bridges = deep("<object type=\"Bridge\" bridge_type=\"1-1\" pci_busid=\"0000:00:00.0\">", "</object>");
    let text = format!(
        "<topology version=\"2.0\"><object type=\"Package\" nodeset=\"0x1\"><object type=\"NUMANode\" os_index=\"0\" nodeset=\"0x1\" cpuset=\"0x1\"/><object type=\"Bridge\" bridge_type=\"0-1\">{bridges}</object></object></topology>"
    );
    let message = refused(&text).in_full();
    assert!(message.contains("described before") || message.contains("more than 64"), "{message}");
    let bombs = "<!DOCTYPE a [<!ENTITY b \"xxxxxxxxxx\"><!ENTITY c \"&b;&b;&b;&b;&b;&b;&b;&b;\"><!ENTITY d \"&c;&c;&c;&c;&c;&c;&c;&c;\">]><a>&d;&d;&d;</a>";
    says(bombs, &["line 1"]);
}
