//! Exit status, `--catalog`, `--measured` and files: what a script relies on.

use std::path::Path;

use assert_cmd::Command;

fn fabriscope(args: &[&str]) -> (Option<i32>, String, String) {
    let output = Command::cargo_bin("fabriscope").unwrap().args(args).output().unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    (output.status.code(), text(output.stdout), text(output.stderr))
}

/// A folder whose ConnectX-5 takes ten microseconds longer to send.
fn slow_catalog() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    let nics = folder.path().join("nics");
    std::fs::create_dir(&nics).unwrap();
    let part = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../catalog/nics/connectx-5.toml");
    let text = std::fs::read_to_string(part).unwrap();
    let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
    let line = lines.iter_mut().find(|line| line.starts_with("tx_latency")).unwrap();
    *line = "tx_latency = { value = \"10 us\", basis = \"assumed\", note = \"for a test\" }".to_owned();
    std::fs::write(nics.join("connectx-5.toml"), lines.join("\n")).unwrap();
    folder
}

#[test]
fn a_folder_of_parts_takes_the_place_of_the_catalogue() {
    let folder = slow_catalog();
    let folder = folder.path().to_str().unwrap();
    let latency = |args: &[&str]| -> f64 {
        let (status, text, message) = fabriscope(args);
        assert_eq!(status, Some(0), "{message}");
        text.lines().last().unwrap().split_whitespace().nth(1).unwrap().parse().unwrap()
    };
    let common = ["bench", "osu_latency", "--on", "ri2", "-m", "8:8"];
    let ours = latency(&common);
    let slow = latency(&[&["--catalog", folder], common.as_slice()].concat());
    assert!(slow > ours + 9.0, "{slow} us with the slow adapter, {ours} us without");
}

#[test]
fn a_table_that_got_worse_is_exit_status_1() {
    let folder = slow_catalog();
    let (status, text, _) = fabriscope(&["validate", "ri2-ib_write_lat", "--catalog", folder.path().to_str().unwrap()]);
    assert_eq!(status, Some(1));
    assert!(text.contains("WORSE"), "{text}");
}

#[test]
fn measurements_of_the_user_are_compared_and_skipped_rows_counted() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("ours.csv");
    let rows = "table,cluster,benchmark,variant,nodes,ranks,message_bytes,metric,unit,value,source,notes\n\
        ours,unknown-machine,osu_latency,,2,2,8,latency,us,1.2,,\n\
        ours,unknown-machine,osu_latency,,2,2,12,latency,us,1.2,,\n\
        ours,unknown-machine,osu_bw,,2,2,,peak bandwidth,MB/s,12000,,\n\
        ours,unknown-machine,osu_unknown,,2,64,8,latency,us,9,,\n\
        ours,unknown-machine,ib_write_bw,-q 2 -b,2,2,4096,bandwidth,Gb/s,150,,\n";
    std::fs::write(&path, rows).unwrap();
    let path = path.to_str().unwrap();
    let points = |args: &[&str]| -> (u64, u64) {
        let (status, text, message) = fabriscope(args);
        assert_eq!(status, Some(0), "{message}");
        let value: serde_json::Value = serde_json::from_str(&text).unwrap();
        // A row for each metric.
        let sum = |key: &str| value.as_array().unwrap().iter().map(|row| row[key].as_u64().unwrap()).sum();
        (sum("points"), sum("skipped"))
    };
    assert_eq!(points(&["validate", "--measured", path, "--on", "ri2", "--json"]), (4, 1));
    assert_eq!(points(&["validate", "--measured", path, "--json"]), (0, 5));
    let (_, text, _) = fabriscope(&["validate", "--measured", path]);
    assert!(text.contains("4 skipped: the catalogue has no cluster `unknown-machine`"), "{text}");
}

#[test]
fn a_result_may_go_to_a_file() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("parts.json");
    let (status, text, _) = fabriscope(&["validate", "ri2-ib_read_lat", "--json", "-o", path.to_str().unwrap()]);
    assert_eq!((status, text.as_str()), (Some(0), ""));
    assert!(std::fs::read_to_string(&path).unwrap().contains("\"median\""));
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1, "nothing else is left behind");
}

#[test]
fn the_tools_options_and_our_own_may_be_mixed() {
    let (_, first, _) = fabriscope(&["bench", "ib_write_bw", "--on", "ri2", "-s", "64", "-n", "200"]);
    let (_, behind, _) = fabriscope(&["bench", "ib_write_bw", "-s", "64", "-n", "200", "--on=ri2"]);
    assert_eq!(first, behind);
    let (status, help, _) = fabriscope(&["bench", "ib_write_bw", "--help"]);
    assert_eq!(status, Some(0));
    assert!(help.contains("--tx-depth"), "{help}");
}

/// Little's law: what is in flight is what arrives per time, times how long each takes.
#[test]
fn a_closed_loop_obeys_littles_law() {
    let folder = tempfile::tempdir().unwrap();
    let (lab, curve) = (folder.path().join("lab.toml"), folder.path().join("curve.svg"));
    let text = "cluster = \"lab-dragonfly-72\"\nrouting = \"minimal\"\n[workload.closed_loop]\npattern = \"permutation\"\n\
                outstanding = [1, 4]\nmessages = 200\nsize = \"16 KiB\"\nany_order = true\n";
    std::fs::write(&lab, text).unwrap();
    let run = |extra: &[&str]| {
        let mut command = assert_cmd::Command::cargo_bin("fabriscope").unwrap();
        let output = command.args(["run", lab.to_str().unwrap()]).args(extra).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        output.stdout
    };
    let value: serde_json::Value = serde_json::from_slice(&run(&["--json"])).unwrap();
    for point in value["points"].as_array().unwrap() {
        let number = |key: &str| point[key].as_f64().unwrap();
        // 16 KiB in four packets of 4 KiB with 34 B of headers each, at 400 Gb/s: 16,520 B in 330.4 ns.
        let under_way = number("throughput") * number("mean_ps") / 330_400.0;
        let share = under_way / number("outstanding");
        // Hosts that are done early leave the others: below one, and not by much.
        assert!((0.55..1.01).contains(&share), "{share} of {point}");
    }
    assert!(run(&["-o", curve.to_str().unwrap()]).is_empty());
    let picture = std::fs::read_to_string(&curve).unwrap();
    assert!(picture.starts_with("<svg") && picture.contains("messages in flight per host") && picture.ends_with("</svg>\n"));
}
