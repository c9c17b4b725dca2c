//! Every number of a cluster's processor and adapter, read from the TOML files by a reader of a few lines that knows bases and units,
//! and compared with what the engines get: a field that is copied to the wrong place shows for the cluster at hand.

use std::fs;
use std::path::Path;

use fabriscope_catalog::{AnyPart, Catalog, ResolvedCluster};
use fabriscope_engine::{library, timing};
use fabriscope_units::{Bytes, Rate, Span};
use toml::{Table, Value};

/// A part with what it takes from its bases: keys of the part itself go first, tables are joined.
fn part(kind: &str, name: &str) -> Table {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../catalog").join(kind).join(format!("{name}.toml"));
    let own: Table = fs::read_to_string(&file).unwrap_or_else(|error| panic!("{}: {error}", file.display())).parse().unwrap();
    match own.get("base").and_then(Value::as_str) {
        Some(base) => joined(part(kind, base), own),
        None => own,
    }
}

fn joined(mut base: Table, own: Table) -> Table {
    for (key, value) in own {
        let number = value.get("value").is_some();
        let merged = match (base.remove(&key), value) {
            (Some(Value::Table(base)), Value::Table(own)) if !number => Value::Table(joined(base, own)),
            (_, value) => value,
        };
        base.insert(key, merged);
    }
    base
}

/// The number behind a path of keys, in units of the smallest one: ps, B, bit/s, or bare.
fn number(part: &Table, path: &str) -> Option<u64> {
    let mut keys = path.split('.');
    let first = part.get(keys.next()?)?;
    let found = keys.try_fold(first, |value, key| value.get(key))?;
    let found = found.get("value").unwrap_or(found);
    match found {
        Value::Integer(whole) => u64::try_from(*whole).ok(),
        Value::String(text) => scaled(text),
        _ => None,
    }
}

fn scaled(text: &str) -> Option<u64> {
    let (digits, unit) = text.split_once(' ')?;
    let scale: u64 = match unit {
        "ps" | "B" => 1,
        "ns" | "kb/s" => 1_000,
        "us" | "Mb/s" => 1_000_000,
        "ms" | "Gb/s" => 1_000_000_000,
        "MB/s" => 8_000_000,
        "GB/s" => 8_000_000_000,
        "KiB" => 1 << 10,
        "MiB" => 1 << 20,
        "GiB" => 1 << 30,
        _ => return None,
    };
    let (whole, fraction) = digits.split_once('.').unwrap_or((digits, ""));
    let tenths = 10u64.pow(fraction.len() as u32);
    let value: u64 = format!("{whole}{fraction}").parse().ok()?;
    Some(value * scale / tenths)
}

fn clusters() -> Vec<ResolvedCluster> {
    let catalog = Catalog::embedded().unwrap();
    let names: Vec<String> =
        catalog.parts().filter_map(|part| if let AnyPart::Cluster(cluster) = part { Some(cluster.name.clone()) } else { None }).collect();
    let all = names.iter().map(|name| catalog.target(name).unwrap());
    // Where nodes are unlike, each group by itself.
    all.flat_map(|parts| (0..parts.groups.len()).map(move |group| parts.narrowed(group).unwrap_or_else(|| parts.clone()))).collect()
}

fn same(cluster: &ResolvedCluster, file: &Table, table: &[(&str, u64)]) {
    for (path, got) in table {
        let expected = number(file, path).unwrap_or_else(|| panic!("{}: no `{path}`", cluster.name));
        assert_eq!(*got, expected, "{}: `{path}`", cluster.name);
    }
}

#[test]
fn the_reader_takes_bases_and_units() {
    // connectx-6 says 4.651 ns, 64 KiB to read ahead and 5000 contexts itself; its base connectx-5 says 26 ns for a work request.
    let nic = part("nics", "connectx-6");
    let read = |path| number(&nic, path).unwrap();
    assert_eq!(
        [read("message_interval"), read("wqe_interval"), read("read_ahead"), read("contexts.cached")],
        [4_651, 26_000, 65_536, 5000]
    );
    assert_eq!(number(&nic, "no.such.key"), None);
    assert_eq!([scaled("25 GB/s"), scaled("61.5 MiB"), scaled("3 parsec")], [Some(200_000_000_000), Some(64_487_424), None]);
}

#[test]
fn cores_cost_what_their_files_say() {
    let ps = Span::as_ps;
    let bits = |rate: Rate| rate.as_bps();
    let mut seen = 0;
    for cluster in clusters() {
        let (cpu, costs) = (&cluster.sole().node.cpu, cluster.sole().node.cpu.core());
        let table = [
            ("wqe_build", ps(costs.wqe_build)),
            ("mmio_busy", ps(costs.mmio_busy)),
            ("blueflame_block", ps(costs.blueflame_block)),
            ("mmio_latency", ps(costs.mmio_latency)),
            ("poll_hit", ps(costs.poll_hit)),
            ("poll_empty", ps(costs.poll_empty)),
            ("detect", ps(costs.detect)),
            ("dma_touch", ps(costs.dma_touch)),
            ("post_recv", ps(costs.post_recv)),
            ("copy_call", ps(costs.copy_call)),
            ("copy_rate_cached", bits(costs.copy_rate_cached)),
            ("copy_rate_streaming", bits(costs.copy_rate_streaming)),
            ("copy_rate_long", bits(costs.copy_rate_long)),
            ("copy_cached_limit", costs.copy_cached_limit.as_u64()),
        ];
        same(&cluster, &part("cpus", &cpu.name), &table);
        seen += 1;
    }
    assert!(seen > 50, "{seen} kinds of nodes");
}

#[test]
fn adapters_cost_what_their_files_say() {
    for cluster in clusters() {
        let (file, costs) = (part("nics", &cluster.sole().node.nic.name), timing::nic(&cluster));
        let table = [
            ("tx_latency", costs.tx_latency.as_ps()),
            ("rx_latency", costs.rx_latency.as_ps()),
            ("message_interval", costs.message_interval.as_ps()),
            ("wqe_interval", costs.wqe_interval.as_ps()),
            ("read_interval", costs.read_interval.as_ps()),
            ("atomic_latency", costs.atomic_latency.as_ps()),
            ("recv_latency", costs.recv_latency.as_ps()),
            ("read_ahead", costs.read_ahead.as_u64()),
            ("read_ahead_growth", costs.read_ahead_growth.as_u64()),
            ("cqe_size", costs.cqe_size.as_u64()),
            ("tx_buffer", costs.tx_buffer.as_u64()),
        ];
        same(&cluster, &file, &table);
        assert_eq!(costs.srd_latency.as_ps(), number(&file, "srd_latency").unwrap_or(0), "{}", cluster.name);
        // Contexts of queue pairs are those of adapters that have queue pairs in hardware.
        let interface = file.get("interface").and_then(Value::as_str).unwrap_or("verbs");
        let expected = matches!(interface, "verbs" | "iwarp").then(|| number(&file, "contexts.cached")).flatten();
        assert_eq!(costs.contexts.map(|contexts| u64::from(contexts.cached)), expected, "{}", cluster.name);
    }
}

#[test]
fn memory_is_behind_the_bus_of_the_file() {
    for cluster in clusters() {
        let node = &cluster.sole().node;
        let (file, bus) = (part("cpus", &node.cpu.name), timing::pcie(&cluster));
        // An adapter with cores has a switch in front, at both of the ways of a read.
        let switch = number(&part("nics", &node.nic.name), "dpu.switch_latency").unwrap_or(0);
        let remote = number(&file, "root_complex.numa_penalty").unwrap();
        let apart = |key: &str| number(&file, &format!("root_complex.{key}")).unwrap();
        let (read, write) = (apart("dma_read_latency") + 2 * switch, apart("dma_write_latency") + switch);
        let got = (bus.read_latency.as_ps(), bus.write_latency.as_ps());
        assert!(got == (read, write) || got == (read + remote, write + remote), "{}: {got:?}", cluster.name);
        let payloads = [bus.max_payload, bus.max_read_request, bus.completion_payload].map(Bytes::as_u64);
        // Buses before PCI Express have bursts of their own.
        let burst = number(&part("pcie", &node.pcie.part.name), "burst");
        let expected = ["max_payload", "max_read_request", "completion_payload"].map(|key| burst.unwrap_or_else(|| apart(key)));
        assert_eq!(payloads, expected, "{}", cluster.name);
    }
}

#[test]
fn doorbells_follow_the_file() {
    for cluster in clusters() {
        let (file, policy) = (part("nics", &cluster.sole().node.nic.name), timing::doorbell(&cluster));
        let kind = file.get("blueflame").and_then(Value::as_str).unwrap();
        assert_eq!(format!("{:?}", policy.blueflame).to_lowercase(), kind, "{}", cluster.name);
        same(&cluster, &file, &[("blueflame_limit", policy.blueflame_limit.as_u64())]);
    }
}

#[test]
fn libraries_cost_what_their_files_say() {
    let mut seen = 0;
    for cluster in clusters() {
        let file = part("software", &cluster.sole().software.name);
        let Some(library) = library(&cluster) else {
            assert!(number(&file, "mpi.connections.receives").is_none(), "{}: the file has connections", cluster.name);
            continue;
        };
        seen += 1;
        let table = [
            ("mpi.send_overhead", library.send.as_ps()),
            ("mpi.recv_overhead", library.receive.as_ps()),
            ("mpi.progress_overhead", library.progress.as_ps()),
            ("mpi.header", library.header.as_u64()),
            ("mpi.eager_copy_limit", library.copy_limit.as_u64()),
            ("mpi.signal_interval", u64::from(library.signal_interval)),
            ("mpi.connections.send_queue", u64::from(library.queues.send)),
            ("mpi.connections.receives", u64::from(library.queues.receives)),
            ("mpi.connections.buffer", library.queues.buffer.as_u64()),
        ];
        same(&cluster, &file, &table);
        // What the library does not say is as the processor has it; an adapter cannot take more in a work request than it has room for.
        let (cpu, nic) = (part("cpus", &cluster.sole().node.cpu.name), part("nics", &cluster.sole().node.nic.name));
        let or_cpu = |key: &str| number(&file, &format!("mpi.{key}")).or_else(|| number(&cpu, key)).unwrap();
        assert_eq!([library.wqe_build.as_ps(), library.poll_hit.as_ps()], ["wqe_build", "poll_hit"].map(or_cpu), "{}", cluster.name);
        let inline = number(&file, "mpi.inline_limit").unwrap().min(number(&nic, "max_inline").unwrap());
        assert_eq!(library.inline_limit.as_u64(), inline, "{}", cluster.name);
        if let Some(datagrams) = library.datagrams {
            // A datagram is a packet: its library's header is part of the MTU, and a receive has 40 B more for a global header.
            let packet = number(&file, "mpi.datagrams.mtu").unwrap().min(cluster.mtu.as_u64());
            let header = number(&file, "mpi.datagrams.header").unwrap();
            assert_eq!(datagrams.payload.as_u64() + header, packet, "{}", cluster.name);
            assert_eq!(datagrams.queues.buffer.as_u64(), packet + 40, "{}", cluster.name);
        }
    }
    assert!(seen > 5, "{seen} clusters with a library that says what connections take");
}
