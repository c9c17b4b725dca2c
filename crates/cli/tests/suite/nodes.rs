//! Files about nodes on the command line: what is read, written, drawn and joined, and what is said where one is wrong.

use std::path::{Path, PathBuf};

use assert_cmd::Command;

fn repository() -> PathBuf {
    std::fs::canonicalize(Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")).unwrap()
}

fn run(arguments: &[&str], folder: &Path) -> (Option<i32>, String, String) {
    let output = Command::cargo_bin("fabriscope").unwrap().current_dir(folder).args(arguments).output().unwrap();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (output.status.code(), text(&output.stdout), text(&output.stderr))
}

/// What is printed; all is well.
fn prints(arguments: &[&str]) -> String {
    let (status, text, errors) = run(arguments, &repository());
    assert_eq!(status, Some(0), "{arguments:?}: {errors}");
    text
}

/// What is said; status 2 and nothing printed.
fn refused(arguments: &[&str], folder: &Path, words: &[&str]) {
    let (status, text, errors) = run(arguments, folder);
    assert_eq!((status, text.as_str()), (Some(2), ""), "{arguments:?}: {errors}");
    for word in words {
        assert!(errors.contains(word), "`{word}` is missing in:\n{errors}");
    }
    assert!(errors.contains("help: ") && !errors.contains("panicked"), "{errors}");
}

fn says(text: &str, words: &[&str]) {
    for word in words {
        assert!(text.contains(word), "`{word}` is missing in:\n{text}");
    }
}

#[test]
fn nodes_are_told_with_their_classes() {
    let text = prints(&["import", "fabrics/nodes/hgx-h100.nccl.xml"]);
    says(&text, &["NCCL topology XML of hgx-h100", "mlx5_3 (PIX)", "PCIe 5.0 x16", "Nothing looks wrong"]);
    let row = text.lines().find(|line| line.starts_with("gpu4 ") && line.contains("NVL")).unwrap();
    let cells: Vec<&str> = row.split_whitespace().collect();
    assert_eq!(cells[9..], ["SYS", "SYS", "SYS", "SYS", "PIX", "PHB", "PHB", "PHB"]);
    let text = prints(&["import", "fabrics/nodes/two-sockets.hwloc.xml"]);
    says(&text, &["hwloc XML of gpu01", "memory (GiB)", "502.9", "NVIDIA A100-SXM4-40GB"]);
    says(&prints(&["import", "fabrics/nodes/dgx-1v.topo"]), &["nvidia-smi topo -m of dgx-1v", "note: no rates", "mlx5_1 (PIX)"]);
    let json: serde_json::Value = serde_json::from_str(&prints(&["import", "fabrics/nodes/hgx-h100.topo", "--json"])).unwrap();
    assert_eq!((&json["classes"]["gpu0"]["mlx5_1"], &json["review"]["gpus"]), (&"NODE".into(), &8.into()));
}

#[test]
fn what_looks_wrong_is_told() {
    let folder = tempfile::tempdir().unwrap();
    let text = std::fs::read_to_string(repository().join("fabrics/nodes/hgx-h100.nccl.xml")).unwrap();
    // GPU 3 in a slot of half the width, the adapter beside GPU 0 in a slow one, two links of GPU 7 missing.
    let at = |text: &str, bus: &str, right: &str, wrong: &str| {
        let start = text.find(&format!("busid=\"{bus}\"")).unwrap();
        text[..start].to_owned() + &text[start..].replacen(right, wrong, 1)
    };
    let text = at(&text, "0000:61:00.0", "link_width=\"16\"", "link_width=\"8\"");
    let text = at(&text, "0000:1a:00.0", "32.0 GT/s PCIe", "8.0 GT/s PCIe");
    let text = at(&text, "0000:df:00.0", "count=\"5\"", "count=\"3\"");
    std::fs::write(folder.path().join("sick.xml"), text).unwrap();
    let (_, text, _) = run(&["import", "sick.xml"], folder.path());
    says(
        &text,
        &[
            "slots narrower or slower than those of their like",
            "gpu3: PCIe 5.0 x8 and not PCIe 5.0 x16",
            "mlx5_0: PCIe 3.0 x16 and not PCIe 5.0 x16",
            "adapters faster than their slot",
            "mlx5_0: 400 Gb/s of ports, PCIe 3.0 x16 carries",
            "GPUs with fewer links",
            "gpu7: 16 of 18",
        ],
    );
}

#[test]
fn wrong_files_are_refused_with_file_and_line() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path();
    let write = |name: &str, text: &str| std::fs::write(path.join(name), text).unwrap();
    let good = std::fs::read_to_string(repository().join("fabrics/nodes/hgx-h100.nccl.xml")).unwrap();
    write("cut.xml", &good[..good.len() / 2]);
    write("page.xml", "<html>\n</html>\n");
    write("twice.xml", &good.replace("0000:43:00.0", "0000:1b:00.0"));
    write("none.topo", "\tGPU0\tGPU1\tNIC0\nGPU0\t X \tNV4\tPIX\nGPU1\tNV4\t X \tN/A\nNIC0\tPIX\tN/A\t X \n");
    write("old.xml", "<topology version=\"1.5\"/>");
    for command in ["import", "show"] {
        refused(&[command, "cut.xml"], path, &["cut.xml: line ", "is the file cut off?"]);
        refused(&[command, "page.xml"], path, &["page.xml: line 1", "<html>", "lstopo --of xml"]);
        refused(&[command, "twice.xml"], path, &["twice.xml: line ", "0000:1b:00.0", "in line 4", "remove one"]);
        refused(&[command, "none.topo"], path, &["none.topo: line 3", "no path leads from GPU1", "correct its row"]);
        refused(&[command, "old.xml"], path, &["old.xml", "describes no processor", "is it complete?"]);
        refused(&[command, "missing.xml"], path, &["missing.xml"]);
    }
    write("good.xml", &good);
    refused(&["import", "good.xml", "--tables", "x"], path, &["good.xml describes a node", "--nodes"]);
    refused(&["route", "good.xml"], path, &["good.xml", "describes a node"]);
    refused(&["show", "good.xml", "--path", "gpu0", "gpu9"], path, &["no vertex `gpu9`", "gpu7"]);
    refused(&["show", "good.xml", "-o", "node.png"], path, &["node.png", ".svg"]);
    refused(&["show", "ri3", "-o", "node.svg"], path, &["ri3", "ri2"]);
    assert!(!path.join("node.png").exists() && !path.join("node.svg").exists());
}

#[test]
fn nodes_are_written_for_nccl_and_as_a_matrix() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("topo.xml");
    let file = file.to_str().unwrap();
    // Of the catalogue, through NCCL's file, the same classes.
    for (name, ability) in [("hgx-h100", "90"), ("dgx-1v", "70"), ("ibex-a100x4", "80")] {
        prints(&["export", name, "--nccl-topo", file, "--sm", ability]);
        let written = std::fs::read_to_string(file).unwrap();
        assert!(written.starts_with("<system version=\"1\">\n  <cpu "));
        // Each port at the fastest rate of its adapter: NDR, EDR, HDR.
        let speed =
            [("hgx-h100", 400_000), ("dgx-1v", 100_000), ("ibex-a100x4", 200_000)].into_iter().find(|known| known.0 == name).unwrap().1;
        assert_eq!(written.matches(&format!(" speed=\"{speed}\"")).count(), written.matches("<net ").count(), "{written}");
        let (direct, again) = (prints(&["export", name, "--nvidia-smi", "-"]), prints(&["export", file, "--nvidia-smi", "-"]));
        let cells = |text: &str| -> Vec<String> {
            let columns = text
                .lines()
                .next()
                .unwrap()
                .split('\t')
                .filter(|label| label.starts_with("GPU") && !label.contains(' ') || label.starts_with("NIC"))
                .count();
            let rows = text.lines().take(columns + 1).filter(|line| line.starts_with("GPU"));
            rows.flat_map(|row| row.split('\t').skip(1).take(columns).map(|cell| cell.trim().to_owned()).collect::<Vec<_>>()).collect()
        };
        let shown = cells(&direct);
        assert!(shown.iter().any(|cell| cell.starts_with("NV")) && shown.len() > 20, "{direct}");
        // NCCL knows sockets by NUMA domain only: what is within a socket to others is across to it.
        let plain =
            |cells: Vec<String>| cells.into_iter().map(|cell| if cell == "NODE" { "SYS".to_owned() } else { cell }).collect::<Vec<_>>();
        assert_eq!(plain(shown), plain(cells(&again)), "{name}\n{direct}\n{again}");
    }
    let matrix = prints(&["export", "fabrics/nodes/dgx-a100.topo", "--nvidia-smi", "-"]);
    says(&matrix, &["GPU0\t X \tNV12", "NIC4: mlx5_6", "48-63,176-191\t3\t"]);
}

/// Rectangles of a picture: x, y, width, height.
fn rectangles(svg: &str) -> Vec<[i32; 4]> {
    let number = |text: &str, name: &str| {
        let (_, rest) = text.split_once(&format!(" {name}=\"")).unwrap();
        rest.split('"').next().unwrap().parse().unwrap()
    };
    let boxes = svg.split("<g><rect").skip(1).map(|text| text.split('>').next().unwrap().to_owned());
    boxes.map(|text| ["x", "y", "width", "height"].map(|name| number(&text, name))).collect()
}

#[test]
fn every_node_of_the_catalogue_is_drawn() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("node.svg");
    let file = file.to_str().unwrap();
    let names: Vec<String> = std::fs::read_dir(repository().join("catalog/nodes"))
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .map(|path| path.file_stem().unwrap().to_string_lossy().into_owned())
        .collect();
    assert!(names.len() > 20);
    for name in names {
        prints(&["show", &name, "-o", file]);
        let svg = std::fs::read_to_string(file).unwrap();
        let boxes = rectangles(&svg);
        for (index, a) in boxes.iter().enumerate() {
            for b in &boxes[index + 1..] {
                let ends = |r: &[i32; 4]| (r[0], r[1], r[0] + r[2], r[1] + r[3]);
                let (a, b) = (ends(a), ends(b));
                let apart = a.2 <= b.0 || b.2 <= a.0 || a.3 <= b.1 || b.3 <= a.1;
                let within = |i: (i32, i32, i32, i32), o: (i32, i32, i32, i32)| i.0 >= o.0 && i.1 >= o.1 && i.2 <= o.2 && i.3 <= o.3;
                assert!(apart || within(a, b) || within(b, a), "{name}: {a:?} and {b:?}");
            }
        }
        let machine: serde_json::Value = serde_json::from_str(&prints(&["show", &name, "-o", file, "--json"])).unwrap();
        for vertex in machine["machine"]["vertices"].as_array().unwrap() {
            let word = vertex["name"].as_str().unwrap();
            assert!(svg.contains(&format!("<title>{word}")), "{name}: {word} is not drawn");
        }
        assert_eq!(svg, std::fs::read_to_string(file).unwrap());
    }
}

#[test]
fn a_path_is_told_step_by_step() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("node.svg");
    let path = ["gpu0-memory", "mlx5_5"];
    let text = prints(&["show", "fabrics/nodes/hgx-h100.nccl.xml", "--path", path[0], path[1], "-o", file.to_str().unwrap()]);
    says(&text, &["gpu0-memory to mlx5_5: SYS", "bound by numa0 -> numa1 (between sockets)", "22.0 *", "52.0", "switch0"]);
    assert!(std::fs::read_to_string(&file).unwrap().contains("#d9480f"));
    let json: serde_json::Value =
        serde_json::from_str(&prints(&["show", "hgx-h100", "--path", "gpu0-memory", "gpu1-memory", "--json"])).unwrap();
    assert_eq!(json["path"]["class"], "NVL");
    assert_eq!(json["path"]["written"]["steps"].as_array().unwrap().len(), 4);
    says(&prints(&["show", "dgx-a100"]), &["# node: ", "nearest adapter", "class  gpu0"]);
}

const FABRIC: &str = "
vendid=0x2c9
devid=0xd2f0
switchguid=0x2c903005e0001(2c903005e0001)
Switch\t40 \"S-0002c903005e0001\"\t\t# \"leaf01\" enhanced port 0 lid 1 lmc 0
[1]\t\"H-0c42a103007c1000\"[1](c42a103007c1000) \t\t# \"somewhere HCA-7\" lid 11 4xHDR
[2]\t\"H-0c42a103007c9999\"[1](c42a103007c9999) \t\t# \"gpu01 HCA-3\" lid 12 4xHDR
[3]\t\"H-0c42a103007caaaa\"[1](c42a103007caaaa) \t\t# \"gpu01 mlx5_9\" lid 13 4xHDR
[4]\t\"H-0c42a103007cbbbb\"[1](c42a103007cbbbb) \t\t# \"gpu02 mlx5_0\" lid 14 4xHDR
CA1 mlx5
";

#[test]
fn adapters_of_nodes_are_found_in_a_fabric() {
    let folder = tempfile::tempdir().unwrap();
    let ca = |guid: &str, name: &str, port: u32| {
        format!(
            "\nvendid=0x2c9\ndevid=0x101b\ncaguid=0x{guid}\nCa\t1 \"H-0{guid}\"\t\t# \"{name}\"\n[1]({guid}) \t\"S-0002c903005e0001\"[{port}]\t\t# lid 1{port} lmc 0 \"leaf01\" lid 1 4xHDR\n"
        )
    };
    let adapters = [
        ("c42a103007c1000", "somewhere HCA-7"),
        ("c42a103007c9999", "gpu01 HCA-3"),
        ("c42a103007caaaa", "gpu01 mlx5_9"),
        ("c42a103007cbbbb", "gpu02 mlx5_0"),
    ];
    let fabric: String = adapters.iter().zip(1..).map(|((guid, name), port)| ca(guid, name, port)).collect();
    let fabric = FABRIC.replace("CA1 mlx5\n", "") + &fabric;
    std::fs::write(folder.path().join("my.ibnetdiscover"), fabric).unwrap();
    let nodes = folder.path().join("nodes");
    std::fs::create_dir(&nodes).unwrap();
    std::fs::copy(repository().join("fabrics/nodes/two-sockets.hwloc.xml"), nodes.join("a.xml")).unwrap();
    let (status, text, errors) = run(&["import", "my.ibnetdiscover", "--nodes", "nodes"], folder.path());
    assert_eq!(status, Some(0), "{errors}");
    let row = |adapter: &str| text.lines().find(|line| line.split_whitespace().nth(1) == Some(adapter)).unwrap_or_else(|| panic!("{text}"));
    // By its GUID, although it is called otherwise; by its name, HCA-3 being the third.
    says(row("mlx5_0"), &["somewhere HCA-7", "GUID", "leaf01:1", "gpu0"]);
    says(row("mlx5_2"), &["gpu01 HCA-3", "name", "leaf01:2", "gpu1"]);
    says(&text, &["not in the fabric (1): gpu01 mlx5_1", "does not have (1): gpu01 mlx5_9", "without a file (1): gpu02"]);
    // The endpoint is the number that labs count by: sorted by host.
    let json = run(&["import", "my.ibnetdiscover", "--nodes", "nodes/a.xml", "--json"], folder.path()).1;
    let json: serde_json::Value = serde_json::from_str(&json).unwrap();
    assert_eq!((&json["nodes"]["found"][0]["endpoints"][0], &json["nodes"]["found"][0]["by"]), (&3.into(), &"GUID".into()));
    // NCCL's files have GUIDs with their bytes reversed.
    let nccl = "<system version=\"1\"><cpu numaid=\"0\"><pci busid=\"0000:01:00.0\" class=\"0x020700\"><nic><net name=\"ibp1\" dev=\"0\" guid=\"0xbbbb7c0003a1420c\"/></nic></pci></cpu></system>";
    std::fs::write(folder.path().join("gpu02.xml"), nccl).unwrap();
    let text = run(&["import", "my.ibnetdiscover", "--nodes", "gpu02.xml"], folder.path()).1;
    says(&text, &["gpu02", "ibp1", "gpu02 mlx5_0", "GUID"]);
    std::fs::copy(nodes.join("a.xml"), nodes.join("b.xml")).unwrap();
    refused(&["import", "my.ibnetdiscover", "--nodes", "nodes"], folder.path(), &["b.xml", "gpu01 has a file already", "a.xml"]);
    let empty = folder.path().join("empty");
    std::fs::create_dir(&empty).unwrap();
    refused(&["import", "my.ibnetdiscover", "--nodes", "empty"], folder.path(), &["no file about a node", "lstopo"]);
    refused(&["import", "my.ibnetdiscover", "--nodes", "my.ibnetdiscover"], folder.path(), &["my.ibnetdiscover", "none of the formats"]);
}
