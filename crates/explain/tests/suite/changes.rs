//! Single changes: which are tried where, and that each says what a cluster with that change gives.

use crate::ask;
use ask::{catalog, parts, request, tell, tell_all};
use fabriscope_catalog::{AnyPart, ResolvedCluster};
use fabriscope_explain::{Changes, explain};
use fabriscope_units::Bytes;

fn tried(cluster: &str, line: &str, size: u64) -> ask::Explained {
    tell_all(&parts(cluster), request(line, Some(size), Changes::Tried))
}

fn with(cluster: &str, change: impl FnOnce(&mut ResolvedCluster)) -> ResolvedCluster {
    let mut parts = parts(cluster);
    change(&mut parts);
    parts
}

#[test]
fn a_change_is_what_the_changed_cluster_gives() {
    // Each is run on its own: the same number to the picosecond as when the cluster is changed by hand and explained.
    let told = tried("ri2", "ib_write_lat", 4096);
    let by_hand = |parts: ResolvedCluster| tell(&parts, "ib_write_lat", 4096).total();
    assert_eq!(told.change("PCIe x8 instead of x16"), by_hand(with("ri2", |parts| parts.sole_mut().node.pcie.lanes = 8)));
    assert_eq!(told.change("MTU 2048 B"), by_hand(with("ri2", |parts| parts.mtu = Bytes(2048))));
    let rate = by_hand(with("ri2", |parts| {
        let nic = &mut parts.sole_mut().node.nic;
        nic.message_interval.value = nic.message_interval.value / 2;
        nic.wqe_interval.value = nic.wqe_interval.value / 2;
    }));
    assert_eq!(told.change("twice the message rate"), rate);
    let fourth =
        catalog().parts().find_map(|part| if let AnyPart::Pcie(pcie) = part { (pcie.generation == 4).then_some(pcie) } else { None });
    let fourth = fourth.unwrap();
    assert_eq!(told.change("PCIe generation 4"), by_hand(with("ri2", |parts| parts.sole_mut().node.pcie.part.clone_from(fourth))));
}

#[test]
fn inline_is_tried_where_it_can_be() {
    // perftest has an option for it; payload up to `max_inline` of the adapter fits a request; who has said what goes inline has decided.
    let largest = parts("ri2").sole().node.nic.max_inline.as_u64();
    let has = |line: &str, size: u64, words: &str| tried("ri2", line, size).changes().iter().any(|(what, _)| what == words);
    assert!(has("ib_write_lat", largest, "payload inline") && has("ib_write_lat", largest, "payload not inline"));
    assert!(!has("ib_write_lat", largest + 1, "payload inline"));
    assert!(!has("ib_write_lat -I 0", 8, "payload inline"));
    assert!(!has("osu_latency", 8, "payload inline"));
}

#[test]
fn only_neighbours_of_the_mtu_are_tried() {
    // Half and twice, from 256 B to the adapter's largest. RI2 has 4096 B, the largest of InfiniBand: 2048 B alone.
    let mtus = |parts: &ResolvedCluster| -> Vec<String> {
        let told = tell_all(parts, request("ib_write_lat", Some(8), Changes::Tried));
        told.changes().into_iter().map(|(what, _)| what).filter(|what| what.starts_with("MTU")).collect()
    };
    assert_eq!(mtus(&parts("ri2")), ["MTU 2048 B instead of 4096 B"]);
    let small = with("ri2", |parts| parts.mtu = Bytes(256));
    assert_eq!(mtus(&small), ["MTU 512 B instead of 256 B"]);
    let middle = with("ri2", |parts| parts.mtu = Bytes(1024));
    assert_eq!(mtus(&middle), ["MTU 512 B instead of 1024 B", "MTU 2048 B instead of 1024 B"]);
}

#[test]
fn nothing_is_named_twice_and_nothing_is_tried_unasked() {
    for (cluster, line) in [("ri2", "osu_latency"), ("lab-16", "ib_write_bw"), ("azure-nda100v4", "osu_latency")] {
        let told = tried(cluster, line, 4096);
        let mut words: Vec<String> = told.changes().into_iter().map(|(what, _)| what).collect();
        let all = words.len();
        assert!(all > 3, "{cluster}: {words:?}");
        words.sort();
        words.dedup();
        assert_eq!(words.len(), all, "{cluster}: {words:?}");
        assert!(tell(&parts(cluster), line, 4096).changes().is_empty());
    }
}

#[test]
fn progress_counts_to_the_end() {
    // Once before each change: 0 of n, 1 of n, up to n − 1.
    let steps = std::cell::RefCell::new(Vec::new());
    let request = request("ib_write_lat", Some(8), Changes::Tried);
    let outcome = explain(&request, catalog(), &parts("ri2"), &|done, all| steps.borrow_mut().push((done, all))).unwrap();
    let all = outcome.get("changes").and_then(|changes| changes.as_array()).unwrap().len();
    assert_eq!(steps.take(), (0..all).map(|done| (done, all)).collect::<Vec<_>>());
}

#[test]
fn the_best_change_is_the_one_that_saves_most() {
    let told = tried("ri2", "ib_write_lat", 4096);
    let (best, least) = told.changes().into_iter().min_by_key(|(_, ps)| *ps).unwrap();
    let text = told.text();
    assert!(least < told.total() && text.contains(&format!("best change: {best}, saves")), "{best}: {text}");
}

#[test]
fn sizes_are_told_in_the_tools_own_options() {
    // `-s` of the tool behind the dashes and the size that is asked for give the same chain.
    let parts = parts("ri2");
    let asked = tell(&parts, "ib_write_lat", 512);
    let own = tell_all(&parts, request("ib_write_lat -s 512", None, Changes::Left));
    assert_eq!((asked.total(), asked.stages()), (own.total(), own.stages()));
}
