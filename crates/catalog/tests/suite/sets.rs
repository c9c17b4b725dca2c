//! Sets, tables and targets that people write as text: reading and printing agree, and what they mean follows the standards.

use std::collections::BTreeMap;

use fabriscope_catalog::{
    Catalog, EthernetQos, HostSet, Partition, Partitions, PortTables, QosRequest, ResolvedCluster, VlArb, VlQos, VlWeight, keys,
};
use fabriscope_units::Bytes;
use proptest::prelude::*;

/// Ranges of hosts, first and length.
fn ranges() -> impl Strategy<Value = Vec<(u32, u32)>> {
    prop::collection::vec((0u32..200, 0u32..20), 0..8)
}

fn written(ranges: &[(u32, u32)]) -> String {
    let one = |(first, more): &(u32, u32)| if *more == 0 { first.to_string() } else { format!("{first}-{}", first + more) };
    ranges.iter().map(one).collect::<Vec<_>>().join(", ")
}

proptest! {
    /// A set of hosts prints as it is read, and its questions agree with the plain list of its numbers.
    #[test]
    fn sets_of_hosts_are_lists_of_numbers(ranges in ranges(), count in 0u32..250) {
        let text = written(&ranges);
        let set = HostSet::parse(&text).unwrap();
        prop_assert_eq!(set.to_string(), text);
        let all: Vec<u32> = ranges.iter().flat_map(|(first, more)| *first..=first + more).collect();
        let below: Vec<u32> = all.iter().copied().filter(|host| *host < count).collect();
        prop_assert_eq!(set.among(count).collect::<Vec<_>>(), below);
        prop_assert_eq!(set.is_empty(), all.is_empty());
        for host in 0..230 {
            prop_assert_eq!(set.contains(host), all.contains(&host));
        }
        prop_assert_eq!(set.beyond(count).is_some(), all.iter().any(|host| *host >= count));
    }

    /// No text makes the reader panic; what it refuses it names.
    #[test]
    fn any_text_is_read_or_refused(text in "[-0-9, al]{0,12}") {
        match HostSet::parse(&text) {
            Ok(set) => prop_assert_eq!(HostSet::parse(&set.to_string()).unwrap(), set),
            Err(message) => prop_assert!(message.contains("is no host or range of hosts"), "{}", message),
        }
    }

    /// An arbitration table prints as OpenSM writes it.
    #[test]
    fn arbitration_tables_print_as_they_are_read(entries in prop::collection::vec((0u32..15, 0u32..256), 0..64)) {
        let table = VlArb(entries.iter().map(|(vl, weight)| VlWeight { vl: *vl, weight: *weight }).collect());
        prop_assert_eq!(VlArb::parse(&table.to_string()).unwrap(), table);
    }

    /// IBA vol. 1 §10.9.3: two ends may talk where they share the 15 bits of a key and one of them is a full member. That is so of two
    /// hosts exactly where a partition has both, not both limited; the default partition has all.
    #[test]
    fn keys_match_where_a_partition_joins_two(members in prop::collection::vec(prop::collection::vec(0u8..3, 6), 1..4)) {
        let mut partitions = Partitions::new();
        // Host h of partition p is a full member (2), a limited one (1), or none.
        for (number, hosts) in members.iter().enumerate() {
            let those = |wanted: u8| {
                let named: Vec<String> = (0..6).filter(|host| hosts[*host] == wanted).map(|host| host.to_string()).collect();
                HostSet::parse(&named.join(",")).unwrap()
            };
            let partition = Partition { pkey: Some(number as u32 + 1), full: those(2), limited: those(1) };
            partitions.insert(format!("p{number}"), partition);
        }
        // The default partition with no member: else everybody talks to everybody.
        partitions.insert("default".to_owned(), Partition::default());
        for one in 0..6u32 {
            for other in 0..6u32 {
                let (mine, theirs) = (keys(&partitions, one), keys(&partitions, other));
                let matching = |a: &u16, b: &u16| a & 0x7fff == b & 0x7fff && (a | b) & 0x8000 != 0;
                let talk = mine.iter().any(|a| theirs.iter().any(|b| matching(a, b)));
                let joined = members.iter().any(|hosts| {
                    let pair = [hosts[one as usize], hosts[other as usize]];
                    !pair.contains(&0) && pair.contains(&2)
                });
                prop_assert_eq!(talk, joined, "hosts {} and {}", one, other);
            }
        }
    }

    /// Shares of a buffer never exceed it, and lanes without a share have nothing.
    #[test]
    fn lanes_share_the_buffer(shares in prop::collection::vec(0u32..9, 1..15), buffer in 1u64..1 << 24) {
        prop_assume!(shares.iter().any(|share| *share > 0));
        let qos = VlQos { vl_buffers: Some(shares.clone()), ..VlQos::even(shares.len() as u32) };
        let each: Vec<u64> = (0..shares.len() as u32).map(|vl| qos.buffer(Bytes(buffer), vl).0).collect();
        let all: u64 = each.iter().sum();
        prop_assert!(all <= buffer && all + shares.len() as u64 > buffer, "{} of {}", all, buffer);
        prop_assert!(shares.iter().zip(&each).all(|(share, bytes)| *share > 0 || *bytes == 0));
    }
}

#[test]
fn without_partitions_everybody_is_a_full_member_of_the_default() {
    // 0x7FFF with the bit of membership, §10.9.
    assert_eq!(keys(&Partitions::new(), 7), [0xffff]);
    // Another partition comes after it, in the table of the port.
    let blue = Partition { pkey: Some(0x12), full: HostSet::default(), limited: HostSet::parse("all").unwrap() };
    assert_eq!(keys(&BTreeMap::from([("blue".to_owned(), blue)]), 7), [0xffff, 0x0012]);
}

#[test]
fn tables_left_out() {
    // Levels modulo lanes; lanes that high priority does not serve have 64 · 64 B = 4 KiB each in turn.
    let weight = |vl, weight| VlWeight { vl, weight };
    let qos = VlQos { vlarb_high: VlArb(vec![weight(2, 10)]), high_limit: 3, ..VlQos::even(4) };
    let full = qos.full(None);
    assert_eq!(full.sl2vl, [0, 1, 2, 3, 0, 1, 2, 3, 0, 1, 2, 3, 0, 1, 2, 3]);
    assert_eq!(full.low, [weight(0, 64), weight(1, 64), weight(3, 64)]);
    assert_eq!((full.high, full.high_limit), (vec![weight(2, 10)], 3));
    // Ports of adapters have what they say themselves, and the rest as all ports.
    let ports = PortTables { high_limit: Some(255), vlarb_high: Some(VlArb::default()), ..PortTables::default() };
    let full = qos.full(Some(&ports));
    assert_eq!((full.high_limit, full.high.len(), full.low.len()), (255, 0, 4));
    // A buffer of 64 KiB in four lanes.
    assert_eq!(qos.buffer(Bytes(65_536), 3), Bytes(16_384));
}

fn on(name: &str, more: &str) -> ResolvedCluster {
    let catalog = Catalog::embedded().unwrap();
    let cluster = catalog.parse_cluster("varied.toml", &format!("name = \"varied\"\ntitle = \"t\"\nbase = \"{name}\"\n{more}")).unwrap();
    catalog.resolve(&cluster, None).unwrap_or_else(|error| panic!("{error}"))
}

#[test]
fn what_traffic_asks_for_becomes_a_number() {
    let infiniband = on("ri2", "");
    let ethernet = on("thor-roce-100g", "");
    let classes = "[qos.ethernet]\nclasses = [{ priorities = [0, 3], share = 100 }]\ndscp = { \"46\" = 3 }\n";
    let mapped = on("thor-roce-100g", classes);
    let none = QosRequest::default();
    let level = |level| QosRequest { service_level: Some(level), ..none };
    let priority = |priority| QosRequest { priority: Some(priority), ..none };
    let dscp = |dscp| QosRequest { dscp: Some(dscp), ..none };
    let class = QosRequest { traffic_class: Some("bulk"), ..none };
    // Four bits of service level; three of priority; a DSCP has the priority of its first three bits, 46 / 8 = 5, unless a table says else.
    let table: [(&ResolvedCluster, QosRequest<'_>, Result<u8, &str>); 14] = [
        (&infiniband, none, Ok(0)),
        (&infiniband, level(15), Ok(15)),
        (&infiniband, level(16), Err("there is no service_level 16")),
        (&infiniband, priority(3), Err("`priority` on InfiniBand links")),
        (&infiniband, dscp(8), Err("`dscp` on InfiniBand links")),
        (&ethernet, priority(7), Ok(7)),
        (&ethernet, priority(8), Err("there is no priority 8")),
        (&ethernet, dscp(46), Ok(5)),
        (&ethernet, dscp(64), Err("there is no dscp 64")),
        (&mapped, dscp(46), Ok(3)),
        (&mapped, dscp(7), Ok(0)),
        (&ethernet, level(1), Err("`service_level` on Ethernet links")),
        (&infiniband, class, Err("the traffic class `bulk` on a cluster without classes")),
        (&infiniband, QosRequest { priority: Some(1), ..level(1) }, Err("`service_level` and `priority` together")),
    ];
    for (cluster, request, expected) in table {
        let found = request.level(cluster);
        match (found, expected) {
            (Ok(found), Ok(expected)) => assert_eq!(found, expected, "{request:?}"),
            (Err(problem), Err(expected)) => {
                assert_eq!(problem.message, expected);
                assert!(!problem.help.is_empty(), "{request:?}");
            }
            (found, _) => panic!("{request:?}: {found:?}"),
        }
    }
}

#[test]
fn pauses_by_priority() {
    // Nothing said: all of a lossless cluster pause. A list: those alone. A cluster that drops: none.
    let all = EthernetQos::default();
    let listed = EthernetQos { lossless: Some(vec![3]), ..EthernetQos::default() };
    let table =
        [(&all, true, 5, true), (&listed, true, 3, true), (&listed, true, 5, false), (&listed, false, 3, false), (&all, false, 5, false)];
    for (qos, lossless, priority, pauses) in table {
        assert_eq!(qos.pauses(priority, lossless), pauses, "{:?}, {lossless}, {priority}", qos.lossless);
    }
}

#[test]
fn names_with_a_slip_are_found() {
    // One letter wrong, missing, too many, or two in the wrong order: the remedy names what was meant.
    let catalog = Catalog::embedded().unwrap();
    for (typed, meant) in
        [("ri3", "ri2"), ("frontir", "frontier"), ("lummi-c", "lumi-c"), ("betyz-hdr", "betzy-hdr"), ("ARCHER2", "archer2")]
    {
        let error = catalog.target(typed).unwrap_err();
        let help = miette::Diagnostic::help(&error).map(|help| help.to_string()).unwrap_or_default();
        assert!(format!("{error} {help}").contains(&format!("`{meant}`")), "{typed}: {error}; {help}");
    }
    // Nothing is near to this: no guess.
    let error = catalog.target("zzzzzzzzzzzz").unwrap_err();
    let help = miette::Diagnostic::help(&error).map(|help| help.to_string()).unwrap_or_default();
    assert!(!help.contains("did you mean"), "{help}");
}

#[test]
fn smaller_targets_keep_the_parts() {
    let catalog = Catalog::embedded().unwrap();
    let (all, some) = (catalog.target("betzy-hdr").unwrap(), catalog.target("betzy-hdr:10").unwrap());
    assert_eq!((some.nodes(), some.sole().node.clone()), (10, all.sole().node.clone()));
    assert_eq!((some.switch.clone(), some.mtu, some.routing), (all.switch.clone(), all.mtu, all.routing));
    assert_eq!(some.endpoints(), 10);
    // Groups by name, in the order asked for.
    let names = |text: &str| -> Vec<String> { catalog.target(text).unwrap().groups.iter().map(|group| group.name.clone()).collect() };
    assert_eq!(names("lumi"), ["lumi-c", "lumi-g"]);
    assert_eq!(names("lumi:lumi-g"), ["lumi-g"]);
    assert_eq!(names("lumi:lumi-g+lumi-c"), ["lumi-g", "lumi-c"]);
    assert!(catalog.target("lumi:lumi-x").is_err());
}
