//! Nodes written for NCCL and as the matrix of `nvidia-smi`, and read again: the classes between devices are those that the node had.

use crate::drawn;
use crate::node_files::class;
use drawn::{ac922, devices, dgx_a100, nodes, rates, volta};
use fabriscope_machine::export::{cell, nccl, nvidia_smi};
use fabriscope_machine::import::{Format, read};
use fabriscope_machine::{LinkKind, Machine, PathClass, Purpose};
use fabriscope_units::{Rate, Span};
use proptest::prelude::*;

fn through_nccl(machine: &Machine) -> (String, Machine) {
    let text = nccl(machine, volta()).unwrap();
    let file = read(&text, &rates()).unwrap_or_else(|error| panic!("{error}\n{text}"));
    assert_eq!(file.format, Format::Nccl);
    (text, file.machine)
}

fn links(machine: &Machine, a: &str, b: &str) -> Vec<(LinkKind, Rate, Span)> {
    let ends = [a, b].map(|name| machine.find(name).unwrap());
    let between = machine.links().iter().filter(|link| ends.contains(&link.a) && ends.contains(&link.b));
    between.map(|link| (link.kind, link.rate[0], link.latency)).collect()
}

#[test]
fn nvlinks_to_a_power9() {
    // NCCL, topo.cc: class 0x068001 is a processor (the bridge by which POWER9 shows an NVLink), 0x030200 a GPU. Four GPUs with one bundle of
    // three links to each.
    let (text, read) = through_nccl(&ac922());
    assert_eq!(text.matches("count=\"3\" tclass=\"0x068001\"").count(), 4, "{text}");
    assert_eq!(text.matches("count=\"3\" tclass=\"0x030200\"").count(), 4, "{text}");
    assert_eq!((text.matches("<nvlink ").count(), text.matches("<c2c ").count()), (8, 0), "{text}");
    // Three links of 160 Gb/s each, at the latency of NVLink.
    let expected = (LinkKind::HostNvLink { generation: 2, links: 3 }, Rate::from_gbps(480), Span::from_ns(300));
    for (gpu, numa) in [("gpu0", "numa0"), ("gpu1", "numa0"), ("gpu2", "numa1"), ("gpu3", "numa1")] {
        assert_eq!(links(&read, numa, gpu), [expected], "{gpu}");
        // Copies by the GPU's engines take them, and so do cores and adapters: the file has the GPU's address, but no width of a slot.
        for purpose in [Purpose::Copy, Purpose::Dma] {
            let path = read.path(read.find(gpu).unwrap(), read.find(numa).unwrap(), purpose).unwrap();
            assert_eq!((read.class_of(&path), path.latency(&read)), (PathClass::C2c, Span::from_ns(300)), "{gpu}, {purpose:?}");
            let drawn = ac922();
            let path = drawn.path(drawn.find(gpu).unwrap(), drawn.find(numa).unwrap(), purpose).unwrap();
            assert_eq!((drawn.class_of(&path), path.latency(&drawn)), (PathClass::C2c, Span::from_ns(300)), "{gpu}, {purpose:?}");
        }
    }
    // Neighbours by one NVLink of 300 ns, and not by two through their processor; the others across sockets.
    assert_eq!(links(&read, "gpu0", "gpu1"), [(LinkKind::NvLink { generation: 2, links: 3 }, Rate::from_gbps(480), Span::from_ns(300))]);
    for (a, b, expected) in [("gpu0", "gpu1", PathClass::Nvl), ("gpu2", "gpu3", PathClass::Nvl), ("gpu1", "gpu2", PathClass::Sys)] {
        assert_eq!((class(&ac922(), a, b), class(&read, a, b)), (expected, expected), "{a} and {b}");
    }
    // Once more: what was read is written the same.
    assert_eq!(nccl(&read, volta()).unwrap().matches("0x068001").count(), 4);
}

#[test]
fn a_processor_at_the_end_of_nvlinks_by_hand() {
    // As NCCL 2.4 and later dump it on Summit, one socket with one GPU.
    let text = "<system version=\"1\"><cpu numaid=\"0\" affinity=\"0000000f\" arch=\"ppc64\"><pci busid=\"0004:04:00.0\" class=\"0x030200\" link_speed=\"\" \
                link_width=\"0\"><gpu dev=\"0\" sm=\"70\" rank=\"0\" gdr=\"1\"><nvlink target=\"0004:00:00.0\" count=\"2\" tclass=\"0x068001\"/></gpu></pci></cpu></system>";
    let machine = read(text, &rates()).unwrap().machine;
    assert_eq!(
        links(&machine, "numa0", "gpu0"),
        [(LinkKind::HostNvLink { generation: 2, links: 2 }, Rate::from_gbps(320), Span::from_ns(300))]
    );
    let again = nccl(&machine, volta()).unwrap();
    assert!(again.contains("<nvlink target=\"0004:00:00.0\" count=\"2\" tclass=\"0x068001\"/>"), "{again}");
}

#[test]
fn a_slot_beside_nvlinks_is_kept_where_its_width_is_known() {
    // A GPU that is on the bus by two lanes as well: an adapter's DMA goes by the way of less latency, which is that slot.
    let text = "<system version=\"1\"><cpu numaid=\"0\" affinity=\"0000000f\" arch=\"ppc64\"><pci busid=\"0004:04:00.0\" class=\"0x030200\" \
                link_speed=\"8.0 GT/s PCIe\" link_width=\"2\"><gpu dev=\"0\" sm=\"70\" rank=\"0\" gdr=\"1\"><nvlink target=\"0004:00:00.0\" count=\"2\" \
                tclass=\"0x068001\"/></gpu></pci></cpu></system>";
    let machine = read(text, &rates()).unwrap().machine;
    assert_eq!(class(&machine, "numa0", "gpu0"), PathClass::Phb);
    let copies = machine.path(machine.find("gpu0").unwrap(), machine.find("numa0").unwrap(), Purpose::Copy).unwrap();
    assert_eq!(machine.class_of(&copies), PathClass::C2c);
}

#[test]
fn chip_to_chip_links_stay_what_they_are() {
    // A processor with a GPU of its own by NVLink-C2C: 3600 Gb/s are 450000 MB/s.
    let mut drawing = drawn::Drawing::new(1);
    let gpu = drawing.gpu(None);
    drawing.join(drawing.numas[0], gpu, LinkKind::Coherent, 3600, 100);
    drawing.nic(drawing.bridges[0]);
    let (text, read) = through_nccl(&drawing.done());
    assert!(text.contains("<c2c bw=\"450000\" count=\"1\"/>") && !text.contains("<nvlink"), "{text}");
    assert_eq!(links(&read, "numa0", "gpu0"), [(LinkKind::Coherent, Rate::from_gbps(3600), Span::from_ns(100))]);
}

#[test]
fn a_dgx_a100_by_its_drawing() {
    let machine = dgx_a100();
    let (text, read) = through_nccl(&machine);
    let count = |what: &str| text.matches(what).count();
    // 2 sockets, 4 switches, 8 GPUs, 8 adapters of one port; 12 links from each GPU to the switches.
    assert_eq!((count("<cpu "), count("class=\"0x060400\""), count("<gpu "), count("<net ")), (2, 4, 8, 8));
    assert_eq!(count("count=\"12\" tclass=\"0x068000\""), 8);
    for machine in [&machine, &read] {
        for gpu in 0..8 {
            for nic in 0..8 {
                // Two GPUs and two adapters below each switch, two switches at each socket.
                let expected = match (gpu / 2 == nic / 2, gpu / 4 == nic / 4) {
                    (true, _) => PathClass::Pix,
                    (_, true) => PathClass::Phb,
                    _ => PathClass::Sys,
                };
                assert_eq!(class(machine, &format!("gpu{gpu}"), &format!("mlx5_{nic}")), expected, "gpu{gpu}, mlx5_{nic}");
            }
        }
    }
    // Any two GPUs by their NVLinks: NV12.
    let gpus = machine.gpus();
    let cells = gpus.iter().flat_map(|a| gpus.iter().map(|b| cell(&machine, *a, *b)));
    assert_eq!(cells.filter(|cell| cell == "NV12").count(), 56);
}

#[test]
fn the_path_of_a_dgx_a100_has_its_narrowest_link() {
    // GPU 0 to the adapter below its switch: two crossings of 100 ns at 256 Gb/s. To one at the other socket: switch, bridge, NUMA, NUMA, bridge,
    // switch, device: 100 + 100 + 20 + 60 + 20 + 100 + 100 = 500 ns, and 200 Gb/s between the sockets.
    let machine = dgx_a100();
    let way = |from: &str, to: &str| {
        let path = machine.path(machine.find(from).unwrap(), machine.find(to).unwrap(), Purpose::Dma).unwrap();
        (path.latency(&machine), path.rate(&machine, fabriscope_machine::Access::Write))
    };
    assert_eq!(way("gpu0", "mlx5_1"), (Span::from_ns(200), Rate::from_gbps(256)));
    assert_eq!(way("gpu0", "mlx5_2"), (Span::from_ns(400), Rate::from_gbps(256)));
    assert_eq!(way("gpu0", "mlx5_7"), (Span::from_ns(500), Rate::from_gbps(200)));
    // From the memory of the other socket: memory 80, sockets 60, bridge 20, switch and device 200.
    assert_eq!(way("memory1", "mlx5_0"), (Span::from_ns(360), Rate::from_gbps(200)));
    let near = machine.host_memory_of(machine.find("mlx5_7").unwrap()).unwrap();
    assert_eq!(machine.vertex(near).name, "memory1");
    assert_eq!(machine.home(machine.find("gpu5").unwrap()), Some(1));
}

/// Cells of all pairs of devices.
fn cells(machine: &Machine) -> Vec<(String, String, String)> {
    let mut all = Vec::new();
    for (a, from) in devices(machine) {
        for (b, to) in devices(machine) {
            all.push((a.clone(), b, cell(machine, from, to)));
        }
    }
    all.sort();
    all
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    /// NCCL's file has the whole tree: every class comes back.
    #[test]
    fn classes_survive_the_file_of_nccl(machine in nodes()) {
        let (text, read) = through_nccl(&machine);
        prop_assert_eq!(cells(&read), cells(&machine), "{}", text);
        let total = |machine: &Machine| machine.links().iter().map(|link| if let LinkKind::NvLink { links, .. } = link.kind { links } else { 0 }).sum::<u32>();
        prop_assert_eq!(total(&read), total(&machine));
        // And written again it is the same file.
        prop_assert_eq!(nccl(&read, volta()).unwrap(), nccl(&through_nccl(&read).1, volta()).unwrap());
    }

    /// A matrix has less: the smallest machine with these classes. Its matrix is the same.
    #[test]
    fn a_matrix_gives_its_matrix(machine in nodes()) {
        let text = nvidia_smi(&machine);
        let file = read(&text, &rates()).unwrap_or_else(|error| panic!("{error}\n{text}"));
        let classes = |machine: &Machine| cells(machine).into_iter().map(|(_, _, cell)| cell).collect::<Vec<_>>();
        prop_assert_eq!(file.machine.gpus().len(), machine.gpus().len());
        // Names of GPUs are their numbers, those of adapters stand in the legend.
        prop_assert_eq!(classes(&file.machine), classes(&machine), "{}", text);
    }
}
