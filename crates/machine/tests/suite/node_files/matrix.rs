use fabriscope_machine::import::{read, review};
use fabriscope_machine::{LinkKind, Machine, PathClass, export};

use super::{class, node, rates, text};

/// Cells of the devices, without escapes and what is behind them.
fn cells(text: &str) -> Vec<Vec<String>> {
    let plain = text.replace("\u{1b}[4m", "").replace("\u{1b}[0m", "");
    let head: Vec<&str> = plain.lines().next().unwrap().split('\t').skip(1).collect();
    let count = head.iter().position(|label| label.contains("Affinity")).unwrap();
    let row = |line: &str| line.split('\t').skip(1).take(count).map(|cell| cell.trim().to_owned()).collect();
    plain.lines().skip(1).take(count).map(row).collect()
}

#[test]
fn the_same_matrix_comes_out() {
    for (name, gpus, nics) in [("dgx-1v.topo", 8, 4), ("dgx-a100.topo", 8, 8), ("hgx-h100.topo", 8, 8)] {
        let file = node(name);
        assert_eq!((file.machine.gpus().len(), file.machine.nics().len()), (gpus, nics), "{name}");
        assert_eq!(file.notes.len(), 1, "{:?}", file.notes);
        let written = export::nvidia_smi(&file.machine);
        assert_eq!(cells(&written), cells(&text(name)), "{name}\n{written}");
        let again = read(&written, &rates()).unwrap();
        assert_eq!(export::nvidia_smi(&again.machine), written, "{name}");
    }
}

fn nvlinks(machine: &Machine) -> Vec<(u32, u32)> {
    let each = machine.links().iter().filter_map(|link| match link.kind {
        LinkKind::NvLink { generation, links } => Some((generation, links)),
        _ => None,
    });
    each.collect()
}

#[test]
fn generations_follow_from_the_number_of_links() {
    // DGX-1: 16 pairs with 24 links; six at each GPU are those of Volta.
    let cube = nvlinks(&node("dgx-1v.topo").machine);
    assert_eq!((cube.len(), cube.iter().map(|(_, links)| links).sum::<u32>()), (16, 24));
    assert!(cube.iter().all(|(generation, _)| *generation == 2));
    // Twelve to each of seven peers are more than a GPU has: a switch.
    assert_eq!(nvlinks(&node("dgx-a100.topo").machine), [(3, 12); 8]);
    assert_eq!(nvlinks(&node("hgx-h100.topo").machine), [(4, 18); 8]);
}

#[test]
fn names_and_affinities() {
    let machine = node("dgx-a100.topo").machine;
    assert_eq!(class(&machine, "gpu0", "mlx5_1"), PathClass::Pxb);
    assert_eq!(class(&machine, "gpu7", "mlx5_0"), PathClass::Sys);
    let numa = machine.vertex(machine.find("numa7").unwrap());
    assert_eq!((numa.identity.number, numa.identity.cpus.to_string().as_str()), (Some(7), "112-127,240-255"));
    assert_eq!(class(&node("hgx-h100.topo").machine, "gpu0", "mlx5_3"), PathClass::Node);
    // Names in the head, and blanks for tabs, as logs of jobs have it.
    let pasted = text("dgx-1v.topo").replace('\t', "   ");
    assert_eq!(export::nvidia_smi(&read(&pasted, &rates()).unwrap().machine), export::nvidia_smi(&node("dgx-1v.topo").machine));
}

#[test]
fn what_does_not_go_together_is_noted() {
    let odd = "\tGPU0\tGPU1\tNIC0\tCPU Affinity\nGPU0\t X \tPIX\tPIX\t\nGPU1\tPIX\t X \tSYS\t\nNIC0\tPIX\tSYS\t X \t\n";
    let file = read(odd, &rates()).unwrap();
    assert_eq!(file.notes.len(), 2, "{:?}", file.notes);
    assert!(file.notes[1].contains("line 3: SYS from GPU1 to NIC0 does not go with the other classes: PIX here"), "{:?}", file.notes);
}

#[test]
fn blanks_for_tabs_as_a_terminal_has_them() {
    // A label of seven characters fills its column: one blank is left before the next.
    let copied = "\
$ nvidia-smi topo -m
        GPU0    GPU1    mlx5_10 mlx5_11 CPU Affinity    NUMA Affinity   GPU NUMA ID
GPU0     X      NV12    PXB     NODE    0-15,32-47      0               N/A
GPU1    NV12     X      SYS     SYS     16-31,48-63     1               N/A
mlx5_10 PXB     SYS      X      NODE
mlx5_11 NODE    SYS     NODE     X

Legend:
  X    = Self
";
    let tabs = "\tGPU0\tGPU1\tmlx5_10\tmlx5_11\tCPU Affinity\tNUMA Affinity\tGPU NUMA ID\n\
        GPU0\t X \tNV12\tPXB\tNODE\t0-15,32-47\t0\t\tN/A\nGPU1\tNV12\t X \tSYS\tSYS\t16-31,48-63\t1\t\tN/A\n\
        mlx5_10\tPXB\tSYS\t X \tNODE\t\t\t\nmlx5_11\tNODE\tSYS\tNODE\t X \t\t\t\n";
    let wanted = read(tabs, &rates()).unwrap();
    assert_eq!(class(&wanted.machine, "gpu0", "mlx5_10"), PathClass::Pxb);
    // One blank between all words, and a head at the margin, are the same as well.
    let squeezed: String = copied.lines().map(|line| line.split_whitespace().collect::<Vec<_>>().join(" ") + "\n").collect();
    for text in [copied, &squeezed] {
        assert_eq!(read(text, &rates()).unwrap().machine, wanted.machine, "{text}");
    }
    assert_eq!(review(&wanted.machine).processors, 64);
}

#[test]
fn processors_of_several_domains_count_once() {
    // In a virtual machine each GPU and its adapter are apart from the others, at the processors of one of two sockets.
    let mut text = "\tGPU0\tGPU1\tGPU2\tGPU3\tCPU Affinity\tNUMA Affinity\n".to_owned();
    for gpu in 0..4 {
        let cells: Vec<&str> = (0..4).map(|other| if gpu == other { " X " } else { "SYS" }).collect();
        let affinity = if gpu < 2 { "0-55,112-167\t0" } else { "56-111,168-223\t1" };
        text += &format!("GPU{gpu}\t{}\t{affinity}\n", cells.join("\t"));
    }
    let machine = read(&text, &rates()).unwrap().machine;
    assert_eq!((machine.gpus().len(), review(&machine).processors), (4, 224));
}
