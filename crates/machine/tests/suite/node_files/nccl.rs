use fabriscope_machine::export::Unknown;
use fabriscope_machine::import::read;
use fabriscope_machine::{Access, CpuSet, LinkKind, Machine, PathClass, Purpose, VertexKind, export};
use fabriscope_units::Rate;
use fabriscope_units::Remedy;

use super::{class, node, rates, strict, text};

const FILES: [&str; 3] = ["hgx-h100.nccl.xml", "grace-hopper-x4.nccl.xml", "corners.nccl.xml"];

fn able(ability: u32) -> Unknown {
    Unknown { ability: Some(ability), port: Some(Rate::from_gbps(200)) }
}

/// Elements of one kind in any order and sets without leading zeros: NCCL does not care for either.
fn sorted(mut element: strict::Element) -> strict::Element {
    if let Some(affinity) = element.attributes.get_mut("affinity") {
        *affinity = CpuSet::of_mask(affinity).unwrap().mask();
    }
    element.children = element.children.into_iter().map(sorted).collect();
    element.children.sort_by_key(|child| format!("{child:?}"));
    element
}

#[test]
fn what_nccl_reads_is_written_again() {
    for name in FILES {
        let (before, machine) = (strict::read(&text(name)).unwrap(), node(name).machine);
        let written = export::nccl(&machine, Unknown::default()).unwrap();
        let after = strict::read(&written).unwrap_or_else(|error| panic!("{name}: {error}\n{written}"));
        assert_eq!(sorted(before), sorted(after), "{name}:\n{written}");
        // And what was read again is the same machine.
        assert_eq!(read(&written, &rates()).unwrap().machine, machine, "{name}");
    }
}

fn link(machine: &Machine, a: &str, b: &str) -> (LinkKind, Rate) {
    let [a, b] = [a, b].map(|name| machine.find(name).unwrap());
    let found = machine.links().iter().find(|link| [link.a, link.b] == [a, b] || [link.b, link.a] == [a, b]);
    found.map(|link| (link.kind, link.rate[0])).unwrap()
}

#[test]
fn eight_gpus_behind_switches() {
    let file = node("hgx-h100.nccl.xml");
    let machine = &file.machine;
    assert_eq!((machine.gpus().len(), machine.nics().len(), machine.numas().len(), file.notes.len()), (8, 8, 2, 0), "{:?}", file.notes);
    for gpu in 0..8 {
        for nic in 0..8 {
            let expected = if gpu == nic {
                PathClass::Pix
            } else if gpu / 4 == nic / 4 {
                PathClass::Phb
            } else {
                PathClass::Sys
            };
            assert_eq!(class(machine, &format!("gpu{gpu}"), &format!("mlx5_{nic}")), expected);
        }
    }
    // 5 + 4 + 4 + 5 links of 22 GB/s to the switches; PCIe 5.0 x16 as the tests have it.
    assert_eq!(link(machine, "gpu3", "nvswitch"), (LinkKind::NvLink { generation: 4, links: 18 }, Rate::from_gbps(18 * 22 * 8)));
    assert_eq!(link(machine, "gpu3", "switch3"), (LinkKind::Pcie { generation: 5, lanes: 16 }, Rate::from_gbps(5 * 16)));
    // Sapphire Rapids by its model.
    assert_eq!(link(machine, "numa0", "numa1"), (LinkKind::Smp, Rate::from_gbps(22 * 8)));
    let gpu = machine.vertex(machine.find("gpu7").unwrap());
    assert_eq!((gpu.bus.as_str(), gpu.identity.compute_capability, gpu.identity.part), ("0000:df:00.0", Some(90), Some([0x10de, 0x2330])));
    let port = &machine.vertex(machine.find("mlx5_2").unwrap()).identity.ports[0];
    assert_eq!((port.guid, port.rate), (Some(0xa088_c203_007c_1200), Some(Rate::from_gbps(400))));
    assert_eq!(machine.vertex(machine.find("numa0").unwrap()).identity.cpus.to_string(), "0-47,96-143");
    let path = machine.path(machine.find("gpu0-memory").unwrap(), machine.find("mlx5_1").unwrap(), Purpose::Dma).unwrap();
    assert_eq!(path.rate(machine, Access::Write), Rate::from_gbps(80));
}

#[test]
fn processors_with_gpus_of_their_own() {
    let machine = node("grace-hopper-x4.nccl.xml").machine;
    assert_eq!(link(&machine, "gpu0", "gpu3"), (LinkKind::NvLink { generation: 4, links: 6 }, Rate::from_gbps(6 * 22 * 8)));
    // Ten links of 45,000 MB/s.
    assert_eq!(link(&machine, "numa2", "gpu2"), (LinkKind::Coherent, Rate::from_gbps(450 * 8)));
    assert_eq!(link(&machine, "numa0", "numa2"), (LinkKind::Smp, Rate::from_gbps(48)));
    assert_eq!(class(&machine, "gpu1", "gpu2"), PathClass::Nvl);
    assert_eq!(class(&machine, "gpu1", "cxi2"), PathClass::Sys);
    assert_eq!(class(&machine, "gpu1", "numa1"), PathClass::C2c);
}

#[test]
fn rare_elements() {
    let file = node("corners.nccl.xml");
    let machine = &file.machine;
    // Joined beside the tree: no host bridge between GPU 0 and the adapter at the other socket.
    assert_eq!(class(machine, "gpu0", "mlx5_0"), PathClass::Pxb);
    assert_eq!(class(machine, "gpu0", "eth0"), PathClass::Phb);
    assert_eq!(machine.vertex(machine.find("mlx5_0").unwrap()).identity.ports.len(), 2);
    assert_eq!(link(machine, "numa8", "gpu1"), (LinkKind::HostNvLink { generation: 2, links: 3 }, Rate::from_gbps(3 * 20 * 8)));
    assert!(file.notes.iter().any(|note| note.contains("`Unknown` is not known")), "{:?}", file.notes);
    assert_eq!(machine.of(|kind| kind == VertexKind::ScaleUpSwitch).count(), 0);
}

#[test]
fn hidden_gpus_and_unknown_words_are_passed_over() {
    let hidden = text("corners.nccl.xml").replacen("target=\"0035:04:00.0\"", "target=\"0006:04:00.0\"", 1);
    let file = read(&hidden, &rates()).unwrap();
    assert!(file.notes.iter().any(|note| note.contains("3 NVLinks lead to 0006:04:00.0")), "{:?}", file.notes);
    // The other side still tells of the link that it has.
    assert!(file.notes.iter().any(|note| note.contains("counts 0 NVLinks") || note.contains("which counts 0")), "{:?}", file.notes);
    let newer = text("hgx-h100.nccl.xml").replace("<nic>", "<nic speed_grade=\"7\">").replace("</cpu>", "<fridge/></cpu>");
    let file = read(&newer, &rates()).unwrap();
    assert!(export::nccl(&file.machine, Unknown::default()).unwrap().contains("<nic speed_grade=\"7\">"));
}

#[test]
fn machines_of_other_origin_are_written_for_nccl() {
    for name in ["hgx-h100.topo", "two-sockets.hwloc.xml"] {
        let machine = node(name).machine;
        let error = export::nccl(&machine, Unknown::default()).unwrap_err();
        assert!(error.in_full().contains("gpu0") && error.in_full().contains("--sm 90"), "{error}");
        let written = export::nccl(&machine, able(80)).unwrap();
        strict::read(&written).unwrap_or_else(|error| panic!("{name}: {error}\n{written}"));
        assert_eq!(written.matches(" speed=\"200000\"").count(), written.matches("<net ").count());
        let again = read(&written, &rates()).unwrap().machine;
        assert_eq!((again.gpus().len(), again.nics().len()), (machine.gpus().len(), machine.nics().len()));
        let kind = |machine: &Machine| export::cell(machine, machine.gpus()[0], machine.nics()[0]);
        assert_eq!(kind(&again), kind(&machine), "{name}");
    }
}

#[test]
fn more_than_nccl_reads_is_refused() {
    let pci = |number: u32| {
        let bus = format!("{:04x}:{:02x}:00.0", number >> 8, number & 255);
        format!("<pci busid=\"{bus}\" class=\"0x020000\"><nic><net name=\"n{number}\" dev=\"{number}\"/></nic></pci>")
    };
    let nics: String = (0..90).map(pci).collect();
    let file = read(&format!("<system version=\"1\"><cpu numaid=\"0\">{nics}</cpu></system>"), &rates()).unwrap();
    assert_eq!(
        export::nccl(&file.machine, Unknown::default()).unwrap_err().in_full(),
        "the file would have 272 elements, and NCCL reads 255 at most; leave out some adapters"
    );
}

#[test]
fn numbers_that_clash_or_miss_are_made_unique() {
    // Two domains that say they are number 0.
    let apart = "\tGPU0\tGPU1\tNIC0\tCPU Affinity\tNUMA Affinity\nGPU0\t X \tSYS\tPIX\t0-3\t0\nGPU1\tSYS\t X \tSYS\t0-3\t0\nNIC0\tPIX\tSYS\t X \t\t\n";
    let machine = read(apart, &rates()).unwrap().machine;
    let written = export::nccl(&machine, able(90)).unwrap();
    let numbers: Vec<&str> = written.split("numaid=\"").skip(1).map(|rest| rest.split('"').next().unwrap()).collect();
    assert_eq!(numbers, ["0", "1"]);
    assert_eq!(read(&written, &rates()).unwrap().machine.gpus().len(), 2);
}
