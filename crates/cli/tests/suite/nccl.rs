//! nccl-tests on clusters of the catalogue: contents arrive, `explain` names what binds.

use assert_cmd::Command;

fn prints(args: &[&str]) -> String {
    let output = Command::cargo_bin("fabriscope").unwrap().args(args).output().unwrap();
    assert!(output.status.success(), "{args:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

/// The columns `#wrong` of all rows.
fn wrong(text: &str) -> Vec<String> {
    let rows = text.lines().filter(|line| !line.starts_with('#') && !line.is_empty());
    rows.flat_map(|row| {
        let cells: Vec<String> = row.split_whitespace().map(str::to_owned).collect();
        [cells[8].clone(), cells[12].clone()]
    })
    .collect()
}

#[test]
fn every_operation_ends_with_the_right_contents() {
    let tools = ["all_reduce", "all_gather", "reduce_scatter", "broadcast", "reduce", "alltoall", "gather", "scatter", "sendrecv"];
    for tool in tools {
        let name = format!("{tool}_perf");
        for on in [["azure-ndh100v5", "1"], ["aws-p4de-nccl", "2"]] {
            let text = prints(&["bench", &name, "--on", on[0], "--nodes", on[1], "-b", "1K", "-e", "1M", "-f", "32", "-n", "2"]);
            assert!(text.contains("# Out of bounds values : 0 OK"), "{name}: {text}");
            assert!(wrong(&text).iter().all(|wrong| wrong == "0"), "{name}: {text}");
        }
    }
    let unchecked = prints(&["bench", "reduce_perf", "--on", "azure-ndh100v5", "-b", "1K", "-e", "1K", "-n", "2", "-c", "0"]);
    assert_eq!(wrong(&unchecked), ["N/A", "N/A"]);
}

#[test]
fn explain_names_the_bound_and_the_next_best() {
    let text = prints(&["explain", "all_reduce_perf", "--on", "azure-nda100v4", "-s", "1024"]);
    let row = text.lines().find(|line| line.starts_with("1 KiB ")).unwrap();
    assert!(row.contains("Ring LL ") && row.contains("blocks of the kernels") && row.contains("Tree LL "), "{text}");
    assert!(text.contains("twice as fast") && text.contains("Tree Simple, 1 channels"), "{text}");
    let json: serde_json::Value =
        serde_json::from_str(&prints(&["explain", "all_reduce_perf", "--on", "aws-p4de-nccl", "--nodes", "2", "-s", "65536", "--json"]))
            .unwrap();
    let size = &json["sizes"][0];
    assert_eq!((size["bound"].as_str(), size["bytes"].as_u64()), (Some("adapters and network"), Some(65536)), "{json}");
    // The adapters read only: nothing but Simple is left.
    assert!(size["others"].as_array().unwrap().iter().all(|other| other["us"].as_f64() > size["taken"]["us"].as_f64()), "{json}");
    let sends = prints(&["explain", "alltoall_perf", "--on", "azure-nda100v4", "-s", "1048576"]);
    assert!(sends.contains("sends and receives") && sends.contains("links between GPUs"), "{sends}");
}

/// 20 nodes as 4, 8 and 16 of them take, and all of them: trees of five levels, and a ring.
#[test]
fn many_nodes_take_as_long_as_some_of_them_say() {
    let time = |variables: &[&str], more: &[&str]| -> (f64, String) {
        let job =
            ["bench", "all_reduce_perf", "--on", "azure-ndh100v5:20", "--nodes", "20", "--ppn", "2", "-b", "4K", "-e", "4K", "-n", "4"];
        let variables = variables.iter().flat_map(|variable| ["--env", variable]);
        let output = Command::cargo_bin("fabriscope").unwrap().args(job).args(variables).args(more).output().unwrap();
        let text = String::from_utf8(output.stdout).unwrap();
        let row = text.lines().find(|line| !line.starts_with('#') && !line.is_empty()).unwrap();
        (row.split_whitespace().nth(5).unwrap().parse().unwrap(), String::from_utf8(output.stderr).unwrap())
    };
    for (variables, unit) in [(&["NCCL_ALGO=Tree"][..], "us a level of the trees"), (&["NCCL_ALGO=Ring", "NCCL_PROTO=LL"], "us a node")] {
        let ((some, said), (all, exact)) = (time(variables, &[]), time(variables, &["--exact"]));
        assert!(said.contains("20 nodes as 4, 8, 16 of them take") && said.contains(unit) && !exact.contains("of them take"), "{said}");
        assert!((some / all - 1.0).abs() < 0.03, "{unit}: {some} us by some of the nodes, {all} by all");
    }
}

/// What `bench` says it chose, a line for each size.
fn choices(args: &[&str]) -> Vec<String> {
    let output = Command::cargo_bin("fabriscope").unwrap().args(args).output().unwrap();
    let all = String::from_utf8_lossy(&output.stderr).into_owned() + &String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{args:?}: {all}");
    all.lines().filter(|line| line.contains(" channels of ")).map(str::to_owned).collect()
}

#[test]
fn a_tuner_file_that_is_written_is_chosen_by() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("nccl_tuner.conf");
    let path = file.to_str().unwrap();
    let job = ["--nodes", "1", "--operations", "allreduce", "--sizes", "4KiB:256KiB"];
    let found: serde_json::Value =
        serde_json::from_str(&prints(&[&["export", "azure-nda100v4", "--nccl-tuner", "-", "--json"], &job[..]].concat())).unwrap();
    prints(&[&["export", "azure-nda100v4", "--nccl-tuner", path], &job[..]].concat());
    let text = std::fs::read_to_string(&file).unwrap();
    let rules: Vec<Vec<&str>> = text.lines().filter(|line| !line.starts_with('#')).map(|line| line.split(',').collect()).collect();
    // From nothing to everything without a gap, for this job.
    assert_eq!((rules[0][1], rules.last().unwrap()[2]), ("0", "18446744073709551615"), "{text}");
    for pair in rules.windows(2) {
        assert_eq!(pair[0][2].parse::<u64>().unwrap() + 1, pair[1][1].parse::<u64>().unwrap(), "{text}");
    }
    assert!(rules.iter().all(|rule| rule[0] == "allreduce" && rule[6..] == ["1", "8", "-1", "-1"]), "{text}");
    let variable = format!("NCCL_TUNER_CONFIG_FILE={path}");
    let bench = ["bench", "all_reduce_perf", "--on", "azure-nda100v4", "-b", "4K", "-e", "256K", "-f", "4", "-n", "2"];
    let taken = choices(&[&bench[..], &["--env", &variable]].concat());
    let rows = found["choices"].as_array().unwrap();
    assert_eq!(taken.len(), rows.len());
    for (taken, row) in taken.iter().zip(rows) {
        let expected = format!("{} bytes: {}, {} channels", row["bytes"], row["fastest"].as_str().unwrap(), row["channels"]);
        assert!(taken.contains(&expected), "{taken}, not {expected}");
        // Nothing that the library would take is faster.
        assert!(row["own_us"].as_f64().is_none_or(|own| own >= row["us"].as_f64().unwrap()), "{row}");
    }
    // Training takes it, too.
    let train = ["train", "--model", "llama3-8b", "--on", "azure-nda100v4:1", "--tp", "8", "--estimates", "--tuner"];
    let text = prints(&[&train[..], &[path]].concat());
    assert!(text.contains("the library expects us"), "{text}");
    std::fs::write(&file, "# mine\nallreduce,0,99,star,ll,-1,-1,-1\n").unwrap();
    for args in [[&bench[..], &["--env", &variable]].concat(), [&train[..], &[path]].concat()] {
        let output = Command::cargo_bin("fabriscope").unwrap().args(&args).output().unwrap();
        let message = String::from_utf8_lossy(&output.stderr).replace('\n', " ");
        assert!(!output.status.success() && message.contains(":2: algorithm is `star`"), "{message}");
    }
}

#[test]
fn a_line_decides_and_the_library_says_what_it_expects() {
    let bench = ["bench", "all_reduce_perf", "--on", "azure-nda100v4", "-b", "1M", "-e", "1M", "-n", "2", "--json"];
    let line = ["--tuner-line", "allreduce,0,2097152,tree,ll,3,1,8", "--estimate"];
    let found: serde_json::Value = serde_json::from_str(&prints(&[&bench[..], &line[..]].concat())).unwrap();
    assert!(found["remarks"][0].as_str().unwrap().starts_with("1048576 bytes: Tree LL, 3 channels"), "{found}");
    let points = found["points"].as_array().unwrap();
    assert!(points.iter().any(|point| point["metric"] == "estimate" && point["unit"] == "us"), "{found}");
}
