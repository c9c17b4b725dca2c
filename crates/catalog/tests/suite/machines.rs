//! The graphs of all nodes of the catalogue, by what must hold of any graph: paths lead both ways, no path is faster than its links, files
//! for other programs say the same, and processors are in sets that can be read back.

use std::collections::BTreeMap;
use std::sync::OnceLock;

use fabriscope_catalog::{Catalog, Kind, Node};
use fabriscope_machine::export::{Unknown, cell, nccl, nvidia_smi};
use fabriscope_machine::sharing::{Sharing, Use, Weight};
use fabriscope_machine::{Access, CpuSet, LinkKind, Machine, PathClass, Purpose, ResourceId, VertexId, import};
use fabriscope_units::{Bytes, Rate, Time};
use proptest::prelude::*;

/// The graph of every node.
fn machines() -> &'static [(String, Machine)] {
    static MACHINES: OnceLock<Vec<(String, Machine)>> = OnceLock::new();
    MACHINES.get_or_init(|| {
        let catalog = Catalog::embedded().unwrap();
        let machine = |name: &str| {
            let node = Node { part: Some(name.to_owned()), ..Node::default() };
            catalog.resolve_node(&node).unwrap().machine().unwrap_or_else(|error| panic!("{name}: {error}"))
        };
        catalog.names(Kind::Node).into_iter().map(|name| (name.to_owned(), machine(name))).collect()
    })
}

/// GPUs, adapters and domains.
fn devices(machine: &Machine) -> Vec<VertexId> {
    machine.gpus().into_iter().chain(machine.nics()).chain(machine.numas()).collect()
}

#[test]
fn paths_lead_both_ways() {
    for (name, machine) in machines() {
        let devices: Vec<VertexId> = devices(machine).into_iter().take(24).collect();
        for from in &devices {
            for to in &devices {
                for purpose in [Purpose::Dma, Purpose::Copy] {
                    let (there, back) = (machine.path(*from, *to, purpose), machine.path(*to, *from, purpose));
                    let (Some(there), Some(back)) = (&there, &back) else {
                        assert_eq!(there.is_some(), back.is_some(), "{name}: {from:?} and {to:?}");
                        continue;
                    };
                    assert_eq!(there.latency(machine), back.latency(machine), "{name}: {from:?} and {to:?}");
                    assert_eq!(machine.class_of(there), machine.class_of(back), "{name}: {from:?} and {to:?}");
                    // A chain without gaps that passes nothing twice.
                    let mut passed = there.vertices(machine);
                    assert_eq!((passed.first(), passed.last()), (Some(from), Some(to)), "{name}");
                    let length = passed.len();
                    passed.sort_unstable_by_key(|vertex| vertex.index());
                    passed.dedup();
                    assert_eq!(passed.len(), length, "{name}: a path passes a place twice");
                }
            }
        }
    }
}

#[test]
fn no_path_is_faster_than_its_links() {
    for (name, machine) in machines() {
        let devices: Vec<VertexId> = devices(machine).into_iter().take(16).collect();
        for from in &devices {
            for to in devices.iter().filter(|to| *to != from) {
                let Some(path) = machine.path(*from, *to, Purpose::Copy) else { continue };
                let narrowest = path.steps.iter().map(|step| machine.link(step.link).rate.into_iter().max().unwrap()).min().unwrap();
                for access in [Access::Read, Access::Write] {
                    let rate = path.rate(machine, access);
                    assert!(rate <= narrowest && rate > Rate::default(), "{name}: {rate} over a link of {narrowest}");
                    // What binds is what says so: alone, a transfer gets exactly that.
                    let mut sharing = machine.sharing();
                    let id = sharing.start(Time::ZERO, Bytes(1 << 20), machine.uses(&path, access), Rate::from_bps(u64::MAX));
                    let alone = sharing.rate(id).unwrap();
                    assert!(alone.as_bps().abs_diff(rate.as_bps()) <= rate.as_bps() / 1000 + 1, "{name}: {alone}, not {rate}");
                }
            }
        }
    }
}

#[test]
fn nearer_is_not_slower_to_reach() {
    // The nearest adapter of a GPU is the one with the least latency, and its class is the least of all, too.
    for (name, machine) in machines() {
        let adapters = machine.nics();
        for gpu in machine.gpus() {
            let Some(near) = machine.nearest(gpu, &adapters, Purpose::Dma) else { continue };
            let latency = |adapter: VertexId| machine.path(gpu, adapter, Purpose::Dma).map(|path| path.latency(machine));
            let least = adapters.iter().filter_map(|adapter| latency(*adapter)).min();
            assert_eq!(latency(near), least, "{name}");
            let classes = adapters.iter().map(|adapter| machine.class(gpu, *adapter)).min();
            assert!(machine.class(gpu, near) <= PathClass::Sys && classes.is_some(), "{name}");
        }
    }
}

#[test]
fn the_matrix_is_symmetric() {
    for (name, machine) in machines() {
        let devices: Vec<VertexId> = machine.gpus().into_iter().chain(machine.nics()).take(20).collect();
        for from in &devices {
            for to in &devices {
                let (one, other) = (cell(machine, *from, *to), cell(machine, *to, *from));
                assert_eq!(one, other, "{name}");
                assert_eq!(one == "X", from == to, "{name}: {one}");
            }
        }
        // A row for each device, with as many cells; then the legend.
        let text = nvidia_smi(machine);
        let head = text.lines().next().unwrap();
        let columns = head.split('\t').filter(|word| word.starts_with("GPU") && !word.contains(' ') || word.starts_with("NIC")).count();
        let rows = text.lines().skip(1).take_while(|line| line.starts_with("GPU") || line.starts_with("NIC")).count();
        assert_eq!(columns, rows, "{name}: {text}");
    }
}

/// Pairs of GPUs that see each other by NVLink, in a node and in what is read from the file that NCCL would get.
fn linked_and_read(name: &str, machine: &Machine) -> Option<(usize, usize)> {
    let catalog = Catalog::embedded().unwrap();
    let rates = catalog.node_file_rates("nccl").unwrap_or_else(|error| panic!("{error}"));
    let unknown = Unknown { ability: Some(80), port: Some(Rate::from_gbps(200)) };
    let text = nccl(machine, unknown).ok()?;
    let read = import::read(&text, &rates).unwrap_or_else(|error| panic!("{name}: {error}\n{text}")).machine;
    assert_eq!((read.gpus().len(), read.nics().len()), (machine.gpus().len(), machine.nics().len()), "{name}");
    let linked = |machine: &Machine| {
        let gpus = machine.gpus();
        let pairs = gpus.iter().flat_map(|a| gpus.iter().map(move |b| (*a, *b)));
        pairs.filter(|(a, b)| a != b && machine.class(*a, *b) == PathClass::Nvl).count()
    };
    let nvidia = machine.links().iter().any(|link| matches!(link.kind, LinkKind::NvLink { .. }));
    Some(if nvidia { (linked(machine), linked(&read)) } else { (0, 0) })
}

#[test]
fn files_for_nccl_are_read_back() {
    // What NCCL would read has the devices and the links between GPUs that the node has.
    let mut seen = 0;
    for (name, machine) in machines().iter().filter(|(_, machine)| !machine.gpus().is_empty()) {
        if let Some((here, read)) = linked_and_read(name, machine) {
            assert_eq!(here, read, "{name}");
            seen += 1;
        }
    }
    assert!(seen >= 10, "{seen} nodes");
}

#[test]
fn gpus_beside_a_power9_stay_neighbours_in_files() {
    let (name, machine) = machines().iter().find(|(name, _)| name == "ac922").unwrap();
    let (here, read) = linked_and_read(name, machine).unwrap();
    assert_eq!(here, read, "pairs of GPUs by NVLink");
}

/// Rates by progressive filling, worked out anew: all grow together until a resource is full.
fn filled(capacities: &[f64], flows: &[Vec<usize>]) -> Vec<f64> {
    let (mut rates, mut frozen) = (vec![0.0; flows.len()], vec![false; flows.len()]);
    while frozen.iter().any(|frozen| !frozen) {
        let room = |resource: usize| {
            let on = || flows.iter().enumerate().filter(move |(_, flow)| flow.contains(&resource));
            let open = on().filter(|(flow, _)| !frozen[*flow]).count();
            let used: f64 = on().map(|(flow, _)| rates[flow]).sum();
            (open > 0).then(|| (capacities[resource] - used) / open as f64)
        };
        let step = (0..capacities.len()).filter_map(room).fold(f64::INFINITY, f64::min);
        for (rate, _) in rates.iter_mut().zip(&frozen).filter(|(_, frozen)| !**frozen) {
            *rate += step;
        }
        for (resource, capacity) in capacities.iter().enumerate() {
            let used: f64 = flows.iter().zip(&rates).filter(|(flow, _)| flow.contains(&resource)).map(|(_, rate)| rate).sum();
            if used > capacity * (1.0 - 1e-9) {
                flows.iter().zip(&mut frozen).filter(|(flow, _)| flow.contains(&resource)).for_each(|(_, frozen)| *frozen = true);
            }
        }
    }
    rates
}

proptest! {
    /// Transfers that share resources get what progressive filling gives them (Bertsekas, Gallager §6.5.2).
    #[test]
    fn rates_are_those_of_progressive_filling(
        capacities in prop::collection::vec(1u64..200, 1..5),
        flows in prop::collection::vec(prop::collection::btree_set(0usize..5, 1..4), 1..8),
    ) {
        let flows: Vec<Vec<usize>> = flows.into_iter().map(|flow| flow.into_iter().map(|resource| resource % capacities.len()).collect::<Vec<_>>()).map(|mut flow| { flow.sort_unstable(); flow.dedup(); flow }).collect();
        let mut sharing = Sharing::new(capacities.iter().map(|gbps| Rate::from_gbps(*gbps)).collect());
        let ids: Vec<_> = flows
            .iter()
            .map(|flow| {
                let uses: Vec<Use> = flow.iter().map(|resource| Use { resource: ResourceId(*resource as u32), weight: Weight::ONE }).collect();
                sharing.start(Time::ZERO, Bytes(1 << 40), uses, Rate::from_bps(u64::MAX))
            })
            .collect();
        let expected = filled(&capacities.iter().map(|gbps| *gbps as f64).collect::<Vec<_>>(), &flows);
        for (id, expected) in ids.iter().zip(expected) {
            let found = sharing.rate(*id).unwrap().as_bps() as f64 / 1e9;
            prop_assert!((found - expected).abs() < 1e-5 * expected + 1e-6, "{} Gb/s, not {}: {:?} {:?}", found, expected, capacities, flows);
        }
    }

    /// All bytes are moved, none twice: transfers on one resource end when the sum of what is there has passed it.
    #[test]
    fn a_resource_is_never_idle_while_somebody_wants_it(sizes in prop::collection::vec((1u64..2000, 0u64..500), 1..10)) {
        // 8 Gb/s are 1000 B per us. The last end is that of a single server that is busy whenever there is work.
        let mut sharing = Sharing::new(vec![Rate::from_gbps(8)]);
        let mut sorted = sizes.clone();
        sorted.sort_by_key(|(_, at)| *at);
        let uses = || vec![Use { resource: ResourceId(0), weight: Weight::ONE }];
        let ids: Vec<_> = sorted.iter().map(|(kb, us)| sharing.start(Time::from_ps(us * 1_000_000), Bytes(kb * 1000), uses(), Rate::from_bps(u64::MAX))).collect();
        let last = ids.iter().filter_map(|id| sharing.end(*id)).max().unwrap();
        let mut server = 0;
        for (kb, us) in &sorted {
            server = server.max(*us) + kb;
        }
        prop_assert!(last.as_ps().abs_diff(server * 1_000_000) <= 1000 * sizes.len() as u64, "{}, not {} us", last, server);
    }

    /// Processors as a mask, as a list, and back.
    #[test]
    fn processors_in_sets(numbers in prop::collection::btree_set(0u32..300, 1..40)) {
        let list: Vec<String> = numbers.iter().map(u32::to_string).collect();
        let set = CpuSet::of_list(&list.join(",")).unwrap();
        prop_assert_eq!(set.len() as usize, numbers.len());
        prop_assert!((0..320).all(|number| set.contains(number) == numbers.contains(&number)));
        prop_assert_eq!(CpuSet::of_mask(&set.mask()), Some(set.clone()));
        prop_assert_eq!(CpuSet::of_list(&set.to_string()), Some(set));
    }
}

#[test]
fn adapters_are_beside_a_memory() {
    let mut by_class = BTreeMap::<String, u32>::new();
    for (name, machine) in machines() {
        for adapter in machine.nics() {
            let Some(memory) = machine.host_memory_of(adapter) else {
                assert!(["cs-2", "cs-3"].contains(&name.as_str()), "{name}: only the ports of a wafer are apart from hosts");
                continue;
            };
            let path = machine.path(adapter, memory, Purpose::Dma).unwrap();
            // By PCI Express or a GPU's bridge, and never to the other socket where one of its own has memory.
            assert!(machine.class_of(&path) <= PathClass::Sys, "{name}");
            *by_class.entry(machine.class_of(&path).to_string()).or_default() += 1;
        }
    }
    assert!(!by_class.contains_key("SYS"), "an adapter whose nearest memory is at another socket: {by_class:?}");
}
