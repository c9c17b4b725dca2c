use std::process::Command;

use fabriscope_machine::import::{NodeFile, read};
use fabriscope_machine::{LinkKind, Machine, PathClass, VertexKind};
use fabriscope_units::Bytes;

use super::{class, node, rates, text};

/// What lstopo says.
fn lstopo(arguments: &[&str]) -> NodeFile {
    let mut command = Command::new("lstopo-no-graphics");
    command.args(arguments).args(["--of", "xml"]);
    let output = command.output().expect("lstopo writes what is read here; install it: apt-get install hwloc-nox");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8(output.stdout).unwrap();
    read(&text, &rates()).unwrap_or_else(|error| panic!("{error}\n{text}"))
}

fn count(machine: &Machine, wanted: fn(VertexKind) -> bool) -> usize {
    machine.of(wanted).count()
}

#[test]
fn a_synthetic_machine_of_lstopo() {
    let file = lstopo(&["-i", "pack:2 numa:2 core:4 pu:2"]);
    let machine = &file.machine;
    assert_eq!(machine.numas().len(), 4);
    for (index, numa) in machine.numas().into_iter().enumerate() {
        let vertex = machine.vertex(numa);
        assert_eq!(vertex.kind, VertexKind::Numa { package: index as u32 / 2 });
        assert_eq!((vertex.identity.cores, vertex.identity.cpus.len()), (4, 8));
        assert_eq!(vertex.identity.cpus.to_string(), format!("{}-{}", 8 * index, 8 * index + 7));
        assert_eq!(machine.vertex(machine.memory_of(numa).unwrap()).identity.size, Some(Bytes(1 << 30)));
    }
    // Within a socket, and between the two.
    assert_eq!(machine.links().iter().filter(|link| link.kind == LinkKind::Smp).count(), 1);
    assert!(file.notes.iter().any(|note| note.contains("no GPU and no adapter")), "{:?}", file.notes);
    assert_eq!(class(machine, "numa1", "numa3"), PathClass::Sys);
}

#[test]
fn this_machine_as_lstopo_sees_it() {
    for arguments in [&[][..], &["--whole-io"], &["--no-io"]] {
        let file = lstopo(arguments);
        assert!(!file.machine.numas().is_empty() && !file.host.is_empty(), "{file:?}");
        let processors: u32 = file.machine.numas().into_iter().map(|numa| file.machine.vertex(numa).identity.cpus.len()).sum();
        // All that this process may use are of the machine.
        assert!(processors as usize >= std::thread::available_parallelism().unwrap().get());
    }
}

#[test]
fn sockets_with_switches_gpus_and_adapters() {
    let file = node("two-sockets.hwloc.xml");
    let machine = &file.machine;
    assert_eq!((file.host.as_str(), file.notes.len()), ("gpu01", 0), "{:?}", file.notes);
    assert_eq!((machine.gpus().len(), machine.nics().len(), machine.numas().len()), (2, 2, 2));
    // The management port and the display are devices; ports of the host and of switches are no vertices.
    assert_eq!(count(machine, |kind| kind == VertexKind::Device), 2);
    assert_eq!(count(machine, |kind| kind == VertexKind::PcieSwitch), 2);
    assert_eq!(class(machine, "gpu0", "mlx5_0"), PathClass::Pix);
    assert_eq!(class(machine, "gpu1", "mlx5_0"), PathClass::Sys);
    assert_eq!(class(machine, "gpu0", "gpu1"), PathClass::Nvl);
    let nic = machine.vertex(machine.find("mlx5_0").unwrap());
    assert_eq!((nic.bus.as_str(), nic.identity.guid(), nic.identity.ports.len()), ("0000:24:00.0", Some(0x0c42_a103_007c_1000), 2));
    assert_eq!((nic.identity.class, nic.identity.part), (Some(0x02_0700), Some([0x15b3, 0x101b])));
    let slot = machine.links().iter().find(|link| machine.vertex(link.b).name == "mlx5_0").unwrap();
    // 31.507692 GB/s are 16 lanes of generation 4.
    assert_eq!(slot.kind, LinkKind::Pcie { generation: 4, lanes: 16 });
    // 100 GB/s of NVLink are four links of the first generation that has them: 25 GB/s each, or 20 for Pascal's four.
    let nvlink = machine.links().iter().find(|link| matches!(link.kind, LinkKind::NvLink { .. })).unwrap();
    assert_eq!(nvlink.kind, LinkKind::NvLink { generation: 2, links: 4 });
    let numa = machine.vertex(machine.find("numa1").unwrap());
    assert_eq!((numa.title.as_str(), numa.identity.processor.family), ("AMD EPYC 7763 64-Core Processor", Some(25)));
    assert_eq!(machine.vertex(machine.find("numa0-memory").unwrap()).identity.size, Some(Bytes(270_000_000_000)));
}

#[test]
fn the_third_version_says_the_same() {
    assert_eq!(node("two-sockets-3.hwloc.xml").machine, node("two-sockets.hwloc.xml").machine);
}

#[test]
fn adapters_without_verbs_count_where_none_has_them() {
    let plain = text("two-sockets.hwloc.xml").replace("osdev_type=\"3\"", "osdev_type=\"0\"");
    let machine = read(&plain, &rates()).unwrap().machine;
    let names: Vec<&str> = machine.nics().into_iter().map(|id| machine.vertex(id).name.as_str()).collect();
    assert_eq!(names, ["ib0", "eno1", "ib2"]);
}
