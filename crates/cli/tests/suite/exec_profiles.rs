//! Profiles of hardware mocks as clusters: the parts they become, what programs see of them, and what is said where one is wrong.

use std::path::Path;
use std::process::{Command, Output};

use crate::exec::{exec, is_installed, root, rows, stdout, text};

const H100: &str = "examples/profiles/hgx-h100.yaml";
const A100: &str = "examples/profiles/roce-a100.yaml";

fn fabriscope(words: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_fabriscope")).current_dir(root()).args(words).output().unwrap()
}

fn of(profile: &str) -> String {
    root().join(profile).display().to_string()
}

/// What the file says is what the tools show: kind, board, firmware, GUIDs by node and adapter, rate, description.
#[test]
fn programs_see_the_adapters_of_the_profile() {
    is_installed("ibv_devinfo");
    is_installed("ibstat");
    let profile = of(H100);
    let info = stdout(&exec(&["--on", &profile, "--", "ibv_devinfo"]));
    assert_eq!(info.matches("hca_id:\tmlx5_").count(), 8, "{info}");
    for line in [
        "fw_ver:\t\t\t\t28.42.1000",
        "node_guid:\t\t\t5c25:7300:4217:0000",
        "node_guid:\t\t\t5c25:7300:4217:000e",
        "vendor_part_id:\t\t\t4129",
        "board_id:\t\t\tMT_0000000891",
        "link_layer:\t\tInfiniBand",
    ] {
        assert!(info.contains(line), "{line}\n{info}");
    }
    // The second node's first adapter: 1 << 5, and one more for its port.
    let second = stdout(&exec(&["--on", &profile, "--host", "a:", "true", "--host", "b:", "ibstat", "mlx5_0"]));
    for line in ["CA type: MT4129", "Hardware version: 0x0", "Rate: 400", "Node GUID: 0x5c25730042170020", "Port GUID: 0x5c25730042170021"]
    {
        assert!(second.contains(line), "{line}\n{second}");
    }
    let described = ["cat", "/sys/class/infiniband/mlx5_3/node_desc", "/sys/class/infiniband/mlx5_3/board_id"];
    let described = stdout(&exec(&[&["--on", &profile, "--host", "gpu7:"], &described[..]].concat()));
    assert_eq!(described, "gpu7 mlx5_3\nMT_0000000891\n");
    let links = stdout(&exec(&["--on", &profile, "--", "iblinkinfo"]));
    assert!(links.contains("node0 mlx5_5:") && links.contains("0x5c2573004217000b"), "{links}");
    // Ethernet has GIDs of its own, which lead to the ports whatever their GUIDs are.
    let ethernet = stdout(&exec(&["--on", &of(A100), "--", "ibv_devinfo"]));
    assert_eq!((ethernet.matches("link_layer:\t\tEthernet").count(), ethernet.matches("fw_ver:\t\t\t\t20.41.1000").count()), (2, 2));
}

/// perftest on the profile's nodes measures what `bench` predicts of them, and so do pingpongs on Ethernet.
#[test]
fn programs_run_on_profiles() {
    is_installed("ib_send_lat");
    let (profile, two) = (of(H100), of(H100) + ":2");
    let mut measured = rows(&stdout(&exec(&["--on", &two, "--host", "a:", "ib_send_lat", "-F", "--host", "b:", "ib_send_lat", "-F", "a"])));
    measured.dedup();
    assert_eq!(measured, rows(&stdout(&fabriscope(&["bench", "ib_send_lat", "--on", &profile]))));
    let words = ["ibv_rc_pingpong", "-g", "1", "-n", "100"];
    let (ethernet, client) = (of(A100), [&words[..], &["a"]].concat());
    let printed = stdout(&exec(&[&["--on", &ethernet, "--host", "a:"], &words[..], &["--host", "b:"], &client].concat()));
    assert_eq!(printed.lines().filter(|line| line.starts_with("100 iters in ")).count(), 2, "{printed}");
}

/// The profile, the cluster that `import` writes of it and the catalogue's own with the same parts are one.
#[test]
fn a_profile_becomes_parts_of_the_catalogue() {
    let told = stdout(&fabriscope(&["import", H100, "--csv"]));
    for row in ["nodes,2,hgx-h100", "GPUs of each,8,h100-sxm5", "adapters of each,8,connectx-7", "link of each adapter,1,ndr"] {
        assert!(told.contains(row), "{row}\n{told}");
    }
    let told = stdout(&fabriscope(&["import", A100, "--csv"]));
    for row in ["nodes,4,dgx-a100", "GPUs of each,4,a100-sxm4-80", "adapters of each,2,connectx-6", "link of each adapter,1,200gbe"] {
        assert!(told.contains(row), "{row}\n{told}");
    }
    let folder = tempfile::tempdir().unwrap();
    let mine = folder.path().join("mine.toml").display().to_string();
    stdout(&fabriscope(&["import", H100, "-o", &mine]));
    let bench = |on: &str| rows(&stdout(&fabriscope(&["bench", "ib_write_bw", "--on", on, "-s", "65536", "-n", "200"])));
    assert_eq!(bench(H100), bench(&mine));
    let lab = folder.path().join("lab.toml");
    std::fs::copy(of(A100), folder.path().join("p.yaml")).unwrap();
    let words = "cluster = \"p.yaml:2\"\n[workload.bench]\ntool = \"ib_write_bw\"\nargs = [\"-s\", \"65536\", \"-n\", \"200\"]\n";
    std::fs::write(&lab, words).unwrap();
    assert_eq!(rows(&stdout(&fabriscope(&["run", lab.to_str().unwrap()]))), bench(A100));
    for command in [&["topo", H100][..], &["export", H100, "--format", "ibnetdiscover"], &["route", H100], &["show", H100]] {
        assert!(!stdout(&fabriscope(command)).is_empty());
    }
    // 24 nodes with 8 adapters are more than 64 ports: a fat tree takes the place of the one switch.
    let topology = stdout(&fabriscope(&["topo", &format!("{H100}:24")]));
    assert!(topology.contains("192 endpoints") && topology.contains("diameter        3 switches"), "{topology}");
}

/// The least that the mocks accept: adapters alone, with what they assume of them.
#[test]
fn a_block_of_adapters_is_enough() {
    let told = refused_or_not("infiniband:\n  enabled: true\n  hca_count: 4\n", &["import", "--csv"]);
    assert!(told.contains("adapters of each,4,connectx-7") && told.contains("processors of each,2,xeon-8480c"), "{told}");
    // A tray of GB200 is a node: four GPUs of the seventy-two, with the processors beside them.
    let tray = "device_defaults: { name: NVIDIA GB200 }\ndevices: [{}, {}, {}, {}]\ninfiniband: { enabled: true }\nnvlink: { version: 5, links_per_gpu: 18 }\n";
    let told = refused_or_not(tray, &["import", "--csv"]);
    assert!(told.contains("processors of each,2,grace") && told.contains("GPUs of each,4,gb200-b200"), "{told}");
    // All GPUs of the node, where none is listed.
    let told = refused_or_not("device_defaults: { name: NVIDIA B200 }\ninfiniband: { enabled: true }\n", &["import", "--csv"]);
    assert!(told.contains("GPUs of each,8,b200") && told.contains("adapters of each,8,connectx-7"), "{told}");
    for gpu in ["NVIDIA B200", "NVIDIA H200", "NVIDIA A100-SXM4-40GB", "Tesla V100-SXM2-32GB", "NVIDIA GB200", "NVIDIA GH200 480GB"] {
        let nic = if gpu.contains("V100") { "MT4119\n  rate_gbps: 100" } else { "MT4129" };
        let profile = format!(
            "device_defaults: {{ name: \"{gpu}\" }}\ndevices:\n{}infiniband:\n  enabled: true\n  hca_type: {nic}\n",
            "  - {}\n".repeat(4)
        );
        let told = refused_or_not(&profile, &["bench", "ib_write_lat", "-n", "20", "--on"]);
        assert!(!rows(&told).is_empty(), "{gpu}: {told}");
    }
}

/// What a command says of a profile, which is its last word.
fn refused_or_not(profile: &str, words: &[&str]) -> String {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("p.yaml"), profile).unwrap();
    let output = Command::new(env!("CARGO_BIN_EXE_fabriscope")).current_dir(folder.path()).args(words).arg("p.yaml").output().unwrap();
    // Long lines are broken between words.
    let told = text(&output.stderr);
    let told = told.split_whitespace().filter(|word| *word != "│").collect::<Vec<_>>().join(" ");
    text(&output.stdout) + &told
}

#[test]
fn what_is_wrong_with_a_profile_is_told_at_its_line() {
    let profile = std::fs::read_to_string(Path::new(&of(H100))).unwrap();
    let line = |of: &str| profile.lines().position(|line| line.contains(of)).unwrap() + 1;
    let wrong = |from: &str, to: &str, words: &[&str]| {
        assert!(profile.contains(from), "{from}");
        let told = refused_or_not(&profile.replace(from, to), &["bench", "ib_send_lat", "--on"]);
        let place = format!("p.yaml:{}:", line(from));
        for word in words.iter().copied().chain([place.as_str()]) {
            assert!(told.contains(word), "`{word}` is missing of `{to}` in:\n{told}");
        }
    };
    wrong("NVIDIA H100 80GB HBM3", "NVIDIA L40S", &["no node with GPUs called `NVIDIA L40S`", "`H200`", "fabriscope: { node: hgx-h100 }"]);
    wrong("\"MT4129\"", "\"MT4117\"", &["no adapter `MT4117`", "MT4115 (connectx-4)", "fabriscope: { nic: connectx-7 }"]);
    wrong("rate_gbps: 400", "rate_gbps: 300", &["no port of infiniband at 300 Gb/s", "write one of 100, 200, 400"]);
    wrong("rate_gbps: 400", "rate_gbps: fast", &["`rate_gbps` is `fast`", "a whole number"]);
    wrong("\"InfiniBand\"", "\"Infinity\"", &["no link layer `Infinity`", "InfiniBand or Ethernet"]);
    wrong("port_state: \"ACTIVE\"", "port_state: \"DOWN\"", &["`port_state` is DOWN", "--faults"]);
    wrong("enabled: true", "enabled: false", &["`infiniband` is not enabled", "enabled: true"]);
    wrong("enabled: true", "enabled: perhaps", &["true or false"]);
    wrong("hcas_per_gpu: 1", "hcas_per_gpu: 2", &["16 adapters", "`hgx-h100` has slots for 8"]);
    wrong("hcas_per_gpu: 1", "hca_count: 17", &["17 adapters of a node", "at most 16"]);
    wrong("hcas_per_gpu: 1", "hca_per_gpu: 1", &["unknown key `hca_per_gpu`", "did you mean `hcas_per_gpu`?"]);
    wrong("5c2573:0042:17", "5c25:73", &["`5c25:73` is not six bytes", "12 hexadecimal digits"]);
    wrong("links_per_gpu: 18", "links_per_gpu: 12", &["12 links of each GPU, but those of `hgx-h100` have 18"]);
    wrong("version: 4", "version: 5", &["nvlink-5, but the GPUs of `hgx-h100` have nvlink-4"]);
    wrong("- { index: 4, pci", "- { index: 4, name: \"NVIDIA H200\", pci", &["a GPU is `NVIDIA H200` and another `NVIDIA H100 80GB HBM3`"]);
    wrong("MT_0000000891", &"long".repeat(20), &["`board` is no line of 1 to 63 bytes"]);
    wrong("nvlink:", "fabriscope: { node: hgx-h10 }\nnvlink:", &["no node called `hgx-h10`", "did you mean `hgx-h100`"]);
    wrong("nvlink:", "fabriscope: { switch: qm9700 }\nnvlink:", &["unknown key `switch`", "node, nic and nodes"]);
    wrong("nvlink:", "devices: []\nnvlink:", &["the key `devices` twice"]);
    let more = refused_or_not(&profile, &["exec", "--on", "p.yaml:4096", "--", "true", "--on"]);
    assert!(more.contains("4096 nodes with 8 adapters have more GUIDs"), "{more}");
    for (other, words) in [
        ("- topology: t\n  tree: {}\n", "no profile of a hardware mock"),
        ("", "no profile of a hardware mock"),
        ("name: x\n", "neither GPUs nor adapters"),
        ("infiniband: [\n", "not YAML"),
        ("infiniband: 3\n", "a text in the place of something else"),
    ] {
        let told = refused_or_not(other, &["bench", "ib_send_lat", "--on"]);
        assert!(told.contains(words), "{words}\n{told}");
    }
}
