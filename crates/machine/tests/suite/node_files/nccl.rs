use fabriscope_machine::export::Unknown;
use fabriscope_machine::import::{Format, read, review};
use fabriscope_machine::{Access, CpuSet, LinkKind, Machine, PathClass, Purpose, VertexId, VertexKind, export};
use fabriscope_units::Rate;
use fabriscope_units::Remedy;

use super::{class, node, rates, strict, text};

const FILES: [&str; 4] = ["hgx-h100.nccl.xml", "grace-hopper-x4.nccl.xml", "corners.nccl.xml", "mi250x-x2.rccl.xml"];

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
fn gpus_of_amd_and_their_links() {
    let file = node("mi250x-x2.rccl.xml");
    let machine = &file.machine;
    assert_eq!((file.format, file.notes.len()), (Format::Rccl, 0), "{:?}", file.notes);
    assert_eq!((machine.gpus().len(), machine.nics().len(), machine.numas().len()), (4, 2, 2));
    // Four links within a card, one between two cards: 38 GB/s each, as the tests have it for gfx90a.
    assert_eq!(link(machine, "gpu0", "gpu1"), (LinkKind::Xgmi { links: 4 }, Rate::from_gbps(4 * 38 * 8)));
    assert_eq!(link(machine, "gpu0", "gpu2"), (LinkKind::Xgmi { links: 1 }, Rate::from_gbps(38 * 8)));
    assert_eq!(review(machine).gpu_links, 4 + 4 + 1 + 1);
    // No link joins 0 and 3: traffic between them passes a GPU between.
    assert_eq!((class(machine, "gpu0", "gpu1"), class(machine, "gpu0", "gpu3")), (PathClass::Nvl, PathClass::Nvb));
    assert_eq!((class(machine, "gpu2", "cxi1"), class(machine, "gpu2", "cxi0")), (PathClass::Phb, PathClass::Sys));
    let gpu = machine.vertex(machine.find("gpu2").unwrap());
    // `sm` of RCCL is no compute capability.
    assert_eq!((gpu.title.as_str(), gpu.identity.compute_capability, gpu.identity.said("gpu/sm")), ("gfx90a", None, Some("90")));
    // Newer files name the architecture, and the class of accelerators without display is another.
    let newer = text("mi250x-x2.rccl.xml").replace("gcn=\"910\"", "gcn=\"gfx942:sramecc+:xnack-\"").replace("0x038000", "0x120000");
    let machine = read(&newer, &rates()).unwrap().machine;
    assert_eq!(link(&machine, "gpu0", "gpu1"), (LinkKind::Xgmi { links: 4 }, Rate::from_gbps(4 * 52 * 8)));
}

#[test]
fn templates_of_clouds() {
    let file = node("template.nccl.xml");
    let machine = &file.machine;
    let names = |ids: Vec<VertexId>| ids.into_iter().map(|id| machine.vertex(id).name.clone()).collect::<Vec<_>>();
    assert_eq!((names(machine.gpus()), names(machine.nics())), (gpus(3), ["nic0", "nic1", "nic2"].map(String::from).to_vec()));
    assert_eq!(class(machine, "gpu0", "nic0"), PathClass::Pix);
    assert_eq!((class(machine, "gpu0", "nic1"), class(machine, "gpu0", "nic2")), (PathClass::Phb, PathClass::Sys));
    assert_eq!(link(machine, "gpu1", "switch1").0, LinkKind::Pcie { generation: 4, lanes: 16 });
    assert!(file.notes[0].contains("3 GPUs and 3 adapters are known by their class alone"), "{:?}", file.notes);
    assert!(file.notes[1].starts_with("1 devices have no class"), "{:?}", file.notes);
    // A GPU that the file numbers keeps its number.
    let gpu = "link_width=\"16\"><gpu dev=\"0\" sm=\"90\" rank=\"0\" gdr=\"1\"/></pci>";
    let mixed = text("template.nccl.xml").replacen(
        "0003:00:00.0\" class=\"0x030200\" link_speed=\"32.0 GT/s PCIe\" link_width=\"16\"/>",
        &format!("0003:00:00.0\" class=\"0x030200\" link_speed=\"32.0 GT/s PCIe\" {gpu}"),
        1,
    );
    let mixed = read(&mixed, &rates()).unwrap().machine;
    assert_eq!(mixed.vertex(mixed.find("gpu0").unwrap()).bus, "0003:00:00.0");
    assert_eq!(mixed.vertex(mixed.find("gpu1").unwrap()).bus, "0001:00:00.0");
}

fn gpus(count: u32) -> Vec<String> {
    (0..count).map(|number| format!("gpu{number}")).collect()
}

#[test]
fn switches_may_share_an_address() {
    // A file of RCCL that people edited has two switches of one address, and an adapter with that of the switch above it.
    let shared = text("template.nccl.xml").replace("ffff:ff:02.0", "ffff:ff:01.0").replace("0103:00:00.0", "ffff:ff:03.0");
    let file = read(&shared, &rates()).unwrap();
    assert_eq!((file.machine.gpus().len(), file.machine.nics().len()), (3, 3));
    assert_eq!(class(&file.machine, "gpu0", "nic1"), PathClass::Phb);
    assert_eq!(class(&file.machine, "gpu2", "nic2"), PathClass::Pix);
    let notes: Vec<&String> = file.notes.iter().filter(|note| note.contains("taken as two devices")).collect();
    assert_eq!((notes.len(), notes[0].as_str()), (2, "line 8: ffff:ff:01.0 stands in line 4 as well: taken as two devices"));
}

#[test]
fn interfaces_off_the_bus_under_every_processor_are_one() {
    // Each rank puts them under the processor that it sees first; the file of all ranks has them under each.
    let nic = "<nic><net name=\"eth0\" dev=\"0\" speed=\"10000\" port=\"0\" guid=\"0x0\" maxconn=\"65536\" gdr=\"0\"/></nic>";
    let cpu = |number: u32| {
        let gpu = format!("<gpu dev=\"{number}\" sm=\"80\" rank=\"{number}\" gdr=\"1\"/>");
        let pci = format!("<pci busid=\"000{number}:01:00.0\" class=\"0x030200\" link_speed=\"\" link_width=\"0\">{gpu}</pci>");
        format!(
            "<cpu numaid=\"{number}\" affinity=\"0000000f\" arch=\"x86_64\" vendor=\"AuthenticAMD\" familyid=\"25\" modelid=\"1\">{pci}{nic}</cpu>"
        )
    };
    let text = format!("<system version=\"1\">{}{}{}</system>", cpu(0), cpu(1), cpu(2));
    let machine = read(&text, &rates()).unwrap().machine;
    assert_eq!((machine.gpus().len(), machine.nics().len()), (3, 1));
    for gpu in gpus(3) {
        assert_eq!(class(&machine, &gpu, "eth0"), PathClass::Phb);
    }
    // And under every processor it is written again.
    let written = export::nccl(&machine, Unknown::default()).unwrap();
    assert_eq!(sorted(strict::read(&written).unwrap()), sorted(strict::read(&text).unwrap()), "{written}");
    // One that has a port more is the same one.
    let more = text.replacen("</nic>", "<net name=\"eth1\" dev=\"1\" guid=\"0x0\"/></nic>", 1);
    let machine = read(&more, &rates()).unwrap().machine;
    assert_eq!(machine.vertex(machine.find("eth0").unwrap()).identity.ports.len(), 2);
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
fn blanks_around_values_are_none_of_theirs() {
    // NCCL reads 253 characters of a value: what is kept of a longer one has to be more than blanks.
    let blank = text("hgx-h100.nccl.xml").replace("link_width=\"16\"", &format!("link_width=\"{}16\"", " ".repeat(300)));
    let machine = read(&blank, &rates()).unwrap().machine;
    assert_eq!(machine, node("hgx-h100.nccl.xml").machine);
    let written = export::nccl(&machine, Unknown::default()).unwrap();
    assert_eq!(read(&written, &rates()).unwrap().machine, machine);
}

#[test]
fn adapters_without_names_keep_theirs() {
    // One without a port is written with the name that it was given; one whose port has no name is given the next.
    let net = |gpu: &str| format!("<net name=\"{gpu}\" dev=");
    let unnamed = text("grace-hopper-x4.nccl.xml");
    let second = unnamed.lines().find(|line| line.contains("name=\"cxi1\"")).unwrap().to_owned();
    let unnamed = unnamed.replace(&second, "").replace(&net("cxi3"), "<net dev=");
    let machine = read(&unnamed, &rates()).unwrap().machine;
    let written = export::nccl(&machine, Unknown::default()).unwrap();
    let again = read(&written, &rates()).unwrap().machine;
    assert_eq!(again.nics().len(), 4, "{written}");
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
