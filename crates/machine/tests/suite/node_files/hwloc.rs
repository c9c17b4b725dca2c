use std::process::Command;

use fabriscope_machine::import::{NodeFile, read, review};
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

/// A file of hwloc with these objects; `cpuset` of the machine is that of sixteen processors.
fn file(version: &str, objects: &str) -> NodeFile {
    let machine = "<object type=\"Machine\" os_index=\"0\" cpuset=\"0x0000ffff\" nodeset=\"0x0000000f\" local_memory=\"4096\">";
    let text = format!("<?xml version=\"1.0\"?>\n<topology{version}>\n{machine}\n{objects}\n</object>\n</topology>");
    read(&text, &rates()).unwrap_or_else(|error| panic!("{error}\n{text}"))
}

/// Cores of two processors each, from the first to before the last.
fn cores(first: u32, last: u32) -> String {
    let unit = |number: u32| format!("<object type=\"PU\" os_index=\"{number}\" cpuset=\"{:#010x}\"/>", 1 << number);
    let core = |number: u32| {
        let units = unit(2 * number) + &unit(2 * number + 1);
        format!("<object type=\"Core\" os_index=\"{number}\" cpuset=\"{:#010x}\">{units}</object>\n", 3 << (2 * number))
    };
    (first..last).map(core).collect()
}

fn object(kind: &str, number: u32, cpus: u32, inside: &str) -> String {
    let set = format!("os_index=\"{number}\" cpuset=\"{cpus:#010x}\" nodeset=\"{:#x}\"", 1 << number);
    format!("<object type=\"{kind}\" {set} local_memory=\"1024\">{inside}</object>\n")
}

/// Sockets, NUMA domains, cores and processors, as `hwloc-info` counts them.
fn counts(file: &NodeFile) -> [u32; 4] {
    let review = review(&file.machine);
    [review.sockets, review.domains, review.cores, review.processors]
}

/// Of each domain its name, socket, processors, and its memories in order.
fn domains(machine: &Machine) -> Vec<(String, u32, String, Vec<String>)> {
    let name = |id| machine.vertex(id).name.clone();
    let of = |numa| {
        let vertex = machine.vertex(numa);
        let VertexKind::Numa { package } = vertex.kind else { unreachable!() };
        let links = machine.around(numa).iter().map(|link| machine.link(*link)).filter(|link| link.kind == LinkKind::Memory);
        (name(numa), package, vertex.identity.cpus.to_string(), links.map(|link| name(link.other(numa))).collect())
    };
    machine.numas().into_iter().map(of).collect()
}

fn domain(name: &str, package: u32, cpus: &str, memories: &[&str]) -> (String, u32, String, Vec<String>) {
    (name.to_owned(), package, cpus.to_owned(), memories.iter().map(ToString::to_string).collect())
}

#[test]
fn packages_below_a_group_with_one_memory() {
    let socket = |number: u32| object("Package", number, 0xff << (8 * number), &cores(4 * number, 4 * number + 4));
    let group = object("NUMANode", 0, 0xffff, "") + &socket(0) + &socket(1);
    let file = file(" version=\"2.0\"", &format!("<object type=\"Group\" cpuset=\"0x0000ffff\">{group}</object>"));
    assert_eq!(counts(&file), [2, 1, 8, 16]);
    assert_eq!(
        domains(&file.machine),
        [domain("numa0", 0, "0-7", &["numa0-memory"]), domain("numa0-package1", 1, "8-15", &["numa0-memory"])]
    );
    assert_eq!(class(&file.machine, "numa0", "numa0-package1"), PathClass::Sys);
}

#[test]
fn a_memory_beside_packages_and_one_around_another() {
    // As KNL shows its two: one for all processors, one for half of them.
    let package = object("Package", 0, 0xffff, &(object("NUMANode", 1, 0x00ff, "") + &cores(0, 8)));
    let file = file(" version=\"2.0\"", &(object("NUMANode", 0, 0xffff, "") + &package));
    assert_eq!(counts(&file), [1, 2, 8, 16]);
    assert_eq!(
        domains(&file.machine),
        [domain("numa1", 0, "0-7", &["numa1-memory", "numa0-memory"]), domain("numa0", 0, "8-15", &["numa0-memory"])]
    );
    assert_eq!(file.machine.memory_of(file.machine.find("numa1").unwrap()), Some(file.machine.find("numa1-memory").unwrap()));
}

#[test]
fn two_memories_of_the_same_processors() {
    let fast = object("NUMANode", 1, 0xffff, "").replacen("<object ", "<object subtype=\"HBM\" ", 1);
    let file = file(" version=\"2.0\"", &object("Package", 0, 0xffff, &(object("NUMANode", 0, 0xffff, "") + &fast + &cores(0, 8))));
    assert_eq!(counts(&file), [1, 2, 8, 16]);
    assert_eq!(domains(&file.machine), [domain("numa0", 0, "0-15", &["numa0-memory", "numa1-memory"])]);
    assert_eq!(file.machine.vertex(file.machine.find("numa1-memory").unwrap()).title, "HBM");
}

#[test]
fn cores_without_memory_and_memory_without_cores() {
    // What a container sees: the memory of socket 0 is not allowed, the processors of socket 2 are hidden, 3 is behind CXL.
    let objects = object("Package", 0, 0x000f, &cores(0, 2))
        + &object("Package", 1, 0x00f0, &(object("NUMANode", 1, 0x00f0, "") + &cores(2, 4)))
        + &object("Package", 2, 0, &object("NUMANode", 2, 0, ""))
        + &object("NUMANode", 3, 0, "");
    let file = file(" version=\"2.0\"", &objects);
    assert_eq!(counts(&file), [3, 3, 4, 8]);
    assert_eq!(
        domains(&file.machine),
        [
            domain("package0", 0, "0-3", &["numa3-memory"]),
            domain("numa1", 1, "4-7", &["numa1-memory"]),
            domain("numa2", 2, "", &["numa2-memory"]),
        ]
    );
    assert!(file.notes[0].contains("NUMA domain 3 has no processors: its memory is taken to be at package0"), "{:?}", file.notes);
    let gpu = object("NUMANode", 3, 0, "").replacen("<object ", "<object subtype=\"GPUMemory\" ", 1);
    let file = self::file(" version=\"2.0\"", &objects.replace(&object("NUMANode", 3, 0, ""), &gpu));
    assert_eq!(counts(&file), [3, 2, 4, 8]);
}

#[test]
fn files_before_the_second_version() {
    // Without a package the processors are one, and the file is told to say so.
    let none = file("", &cores(0, 8));
    assert_eq!((counts(&none), none.notes[0].contains("names no package")), ([1, 1, 8, 16], true), "{:?}", none.notes);
    // A NUMANode was around what it is the memory of, a package was a socket, and one memory was the machine's.
    let socket = |number: u32| object("Socket", number, 0xff << (8 * number), &cores(4 * number, 4 * number + 4));
    let around = object("NUMANode", 0, 0x00ff, &socket(0)) + &object("NUMANode", 1, 0xff00, &socket(1));
    let two = file("", &around);
    assert_eq!(counts(&two), [2, 2, 8, 16]);
    assert_eq!(domains(&two.machine), [domain("numa0", 0, "0-7", &["numa0-memory"]), domain("numa1", 1, "8-15", &["numa1-memory"])]);
    let one = file("", &(socket(0) + &socket(1)));
    assert_eq!(counts(&one), [2, 1, 8, 16]);
    assert_eq!(one.machine.vertex(one.machine.find("numa0-memory").unwrap()).identity.size, Some(Bytes(4096)));
}

#[test]
fn adapters_without_verbs_do_not_count_wherever_they_stand() {
    // The first host bridge has a port for management only, the second an adapter with verbs.
    let bridge = |bus: &str, kind: u32, name: &str| {
        let device = format!("<object type=\"OSDev\" name=\"{name}\" osdev_type=\"{kind}\"/>");
        let pci = format!("<object type=\"PCIDev\" pci_busid=\"{bus}\" pci_type=\"0200 [8086:1521] [0000:0000] 01\">{device}</object>");
        format!("<object type=\"Bridge\" bridge_type=\"0-1\">{pci}</object>")
    };
    let package =
        object("NUMANode", 0, 0xffff, "") + &cores(0, 8) + &bridge("0000:01:00.0", 2, "eno1") + &bridge("0000:81:00.0", 3, "mlx5_0");
    let machine = file(" version=\"2.0\"", &object("Package", 0, 0xffff, &package)).machine;
    assert_eq!(machine.nics(), [machine.find("mlx5_0").unwrap()]);
    // Two devices of one address: both are there, and one says so.
    let twice = package.replace("0000:81:00.0", "0000:01:00.0");
    let file = file(" version=\"2.0\"", &object("Package", 0, 0xffff, &twice));
    assert!(file.notes[0].contains("0000:01:00.0 stands in line 13 as well"), "{:?}", file.notes);
}
