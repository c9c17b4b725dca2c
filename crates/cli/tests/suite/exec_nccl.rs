//! Programs of NCCL where no GPU is: `examples/nccl`, linked with libraries that have the names of NCCL's and the CUDA runtime's.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::exec::{exec, root, stdout, text};

/// Compiles an example in a folder, as where NCCL is installed: its libraries are needed by name, and not there when it runs.
fn program(folder: &Path, name: &str) -> PathBuf {
    let include = root().join("crates/live/include");
    let names = |header: &str, prefix: &str| {
        let text = std::fs::read_to_string(include.join(header)).unwrap();
        let words = text
            .split(|c: char| !c.is_alphanumeric() && c != '_' && c != '(')
            .filter_map(|word| word.split_once('('))
            .map(|(name, _)| name.to_owned());
        let mut names: Vec<String> = words.filter(|name| name.starts_with(prefix)).collect();
        names.sort();
        names.dedup();
        names
    };
    let compile =
        |words: &[&str]| assert!(Command::new("cc").current_dir(folder).args(words).status().expect("apt-get install gcc").success());
    for (library, version, functions) in
        [("nccl", "libnccl.so.2", names("nccl.h", "nccl")), ("cudart", "libcudart.so.12", names("cuda_runtime.h", "cuda"))]
    {
        let source: String = functions.iter().map(|name| format!("int {name}(void) {{ return 999; }}\n")).collect();
        std::fs::write(folder.join("stub.c"), source).unwrap();
        // The runtime's symbols have the version of its file.
        std::fs::write(
            folder.join("stub.map"),
            if library == "cudart" { format!("{version} {{ global: *; }};") } else { "{ global: *; };".to_owned() },
        )
        .unwrap();
        let (soname, out) = (format!("-Wl,-soname,{version}"), format!("lib{library}.so"));
        compile(&["-shared", "-fPIC", "-Wl,--version-script=stub.map", &soname, "-o", &out, "stub.c"]);
    }
    let (example, headers) = (root().join(format!("examples/nccl/{name}.c")), format!("-I{}", include.display()));
    compile(&["-O1", "-Wall", "-Wextra", "-Werror", &headers, "-o", name, example.to_str().unwrap(), "-L.", "-lnccl", "-lcudart"]);
    folder.join(name)
}

/// Size, time and wrong elements of each row.
fn rows(text: &str) -> Vec<(u64, f64, u64)> {
    let row = |line: &str| {
        let words: Vec<&str> = line.split_whitespace().collect();
        Some((words.first()?.parse().ok()?, words.get(1)?.parse().ok()?, words.get(4)?.parse().ok()?))
    };
    text.lines().filter_map(row).collect()
}

/// Size and time out of place, as `bench` prints them.
fn predicted(words: &[&str]) -> Vec<(u64, f64)> {
    let output = Command::new(env!("CARGO_BIN_EXE_fabriscope")).arg("bench").args(words).output().unwrap();
    let row = |line: &str| {
        let words: Vec<&str> = line.split_whitespace().collect();
        Some((words.first()?.parse().ok()?, words.get(5)?.parse().ok()?))
    };
    stdout(&output).lines().filter_map(row).collect()
}

#[test]
fn all_reduces_take_what_bench_predicts() {
    all_reduces(("65536", "64K"), 7, 1);
}

#[test]
#[ignore = "two minutes: every size, and a second run that prints the same"]
fn all_reduces_of_every_size_take_what_bench_predicts() {
    all_reduces(("1048576", "1M"), 11, 2);
}

/// All-reduces of eight ranks in one process, and of sixteen on two hosts in one each, from 1 KiB up to `largest` as the example and as `bench`
/// write it: the contents are right, and the times those of `bench`.
fn all_reduces(largest: (&str, &str), sizes: usize, runs: usize) {
    let folder = tempfile::tempdir().unwrap();
    let program = program(folder.path(), "all_reduce");
    let program = program.to_str().unwrap();
    let range = ["-b", "1024", "-e", largest.0];
    let one = stdout(&exec(&[&["--on", "azure-ndh100v5", "--", program, "-g", "8"], &range[..]].concat()));
    let ranks: Vec<String> = (0..16).map(|rank: u32| rank.to_string()).collect();
    let mut words = vec!["--on", "azure-ndh100v5"];
    for (number, rank) in ranks.iter().enumerate() {
        words.extend(["--host", if number < 8 { "a:" } else { "b:" }, program, "-n", "16", "-r", rank, "-s", "a", "-i", "100"]);
        words.extend(range);
    }
    let many = stdout(&exec(&words));
    for _ in 1..runs {
        assert_eq!(many, stdout(&exec(&words)), "all runs print the same");
    }
    let job = ["all_reduce_perf", "--on", "azure-ndh100v5", "-b", "1K", "-e", largest.1, "-f", "2"];
    for (measured, shape) in [(one, ["--nodes", "1", "-g", "8"]), (many, ["--nodes", "2", "--ppn", "8"])] {
        let (measured, predicted) = (rows(&measured), predicted(&[&job[..], &shape].concat()));
        assert_eq!(measured.len(), sizes);
        for ((size, us, wrong), (of, expected)) in measured.into_iter().zip(predicted) {
            assert!(
                size == of && wrong == 0 && (us / expected - 1.0).abs() < 0.01,
                "{shape:?}, {size} B: {us} us, {expected} expected, {wrong} wrong"
            );
        }
    }
}

#[test]
fn all_operations_leave_what_they_should() {
    let folder = tempfile::tempdir().unwrap();
    let program = program(folder.path(), "all_reduce");
    for operation in ["all_gather", "reduce_scatter", "broadcast", "reduce", "sendrecv"] {
        let printed = stdout(&exec(&[
            "--on",
            "azure-ndh100v5",
            "--",
            program.to_str().unwrap(),
            "-g",
            "8",
            "-o",
            operation,
            "-b",
            "4096",
            "-e",
            "65536",
        ]));
        let rows = rows(&printed);
        assert!(rows.len() == 5 && rows.iter().all(|(_, us, wrong)| *us > 1.0 && *wrong == 0), "{operation}\n{printed}");
    }
}

/// Rank 0 is on the second host.
#[test]
fn ranks_come_in_any_order() {
    let folder = tempfile::tempdir().unwrap();
    let program = program(folder.path(), "all_reduce");
    let program = program.to_str().unwrap();
    let words = ["--host", "a:", program, "-n", "2", "-r", "1", "-s", "b", "--host", "b:", program, "-n", "2", "-r", "0", "-s", "b"];
    let printed = stdout(&exec(&[&["--on", "azure-ndh100v5"], &words[..]].concat()));
    let rows = rows(&printed);
    assert!(rows.len() == 11 && rows.iter().all(|(_, us, wrong)| *us > 1.0 && *wrong == 0), "{printed}");
}

/// What `split.c` prints in each of so many runs: the time of each kind of all-reduce; nothing is wrong.
fn grid(words: &[&str], runs: usize) -> BTreeMap<String, f64> {
    let printed = stdout(&exec(words));
    for _ in 1..runs {
        assert_eq!(printed, stdout(&exec(words)), "all runs print the same");
    }
    assert!(printed.contains("# 0 failures"), "{printed}");
    let row = |line: &str| {
        let [kind, us, "0"] = line.split_whitespace().collect::<Vec<_>>()[..] else { return None };
        Some((kind.to_owned(), us.parse().ok()?))
    };
    let times: BTreeMap<String, f64> = printed.lines().filter_map(row).collect();
    assert_eq!(times.len(), 7, "{printed}");
    times
}

/// Rows and columns of a grid of ranks, in one process with all GPUs and in one for each: all-reduces over some ranks take what `bench` predicts
/// for as many, those that share nothing do not slow each other down, and those that share links or streams do.
fn communicators(runs: usize) {
    let folder = tempfile::tempdir().unwrap();
    let program = program(folder.path(), "split");
    let program = program.to_str().unwrap();
    let bench = |shape: &[&str]| {
        let job = ["all_reduce_perf", "--on", "azure-ndh100v5", "-b", "1M", "-e", "1M"];
        predicted(&[&job[..], shape].concat())[0].1
    };
    let near = |measured: f64, expected: f64, share: f64| {
        assert!((measured / expected - 1.0).abs() < share, "{measured} us, {expected} expected");
    };
    let one = grid(&["--on", "azure-ndh100v5", "--", program, "-g", "8", "-c", "4", "-b", "1048576"], 2);
    near(one["all"], bench(&["--nodes", "1", "-g", "8"]), 0.01);
    near(one["row"], bench(&["--nodes", "1", "-g", "4"]), 0.01);
    let ranks: Vec<String> = (0..8).map(|rank: u32| rank.to_string()).collect();
    let in_processes = |hosts: [&'static str; 8]| {
        let mut words = vec!["--on", "azure-ndh100v5"];
        for (host, rank) in hosts.iter().zip(&ranks) {
            words.extend(["--host", host, program, "-n", "8", "-r", rank, "-s", "a", "-c", "4", "-b", "1048576"]);
        }
        grid(&words, runs)
    };
    let here = in_processes(["a:"; 8]);
    near(here["all"], bench(&["--nodes", "1", "--ppn", "8"]), 0.01);
    near(here["row"], bench(&["--nodes", "1", "--ppn", "4"]), 0.01);
    near(here["reversed"], here["all"], 0.01);
    near(here["rows"], here["row"], 0.01);
    assert!(here["both"] > here["columns"] && here["behind"] > here["rows"] + 0.8 * here["columns"], "{here:?}");
    // Rows within hosts, columns between them, each by an adapter of its own.
    let across = in_processes(["a:", "a:", "a:", "a:", "b:", "b:", "b:", "b:"]);
    near(across["all"], bench(&["--nodes", "2", "--ppn", "4"]), 0.03);
    near(across["columns"], bench(&["--nodes", "2", "--ppn", "1"]), 0.03);
    near(across["both"], across["columns"], 0.03);
}

#[test]
fn communicators_work_side_by_side() {
    communicators(1);
}

#[test]
#[ignore = "a minute: each of them twice"]
fn communicators_print_the_same_twice() {
    communicators(2);
}

#[test]
fn what_nccl_cannot_do_here_is_told() {
    let folder = tempfile::tempdir().unwrap();
    let program = program(folder.path(), "all_reduce");
    let program = program.to_str().unwrap();
    let without = exec(&["--on", "ri2", "--", program]);
    assert!(!without.status.success() && text(&without.stderr).contains("no CUDA-capable device is detected"), "{}", text(&without.stderr));
    let shared = exec(&["--on", "azure-ndh100v5", "--", program, "-g", "9"]);
    assert!(text(&shared.stderr).contains("ranks 0 and 8 share gpu0 of host 0"), "{}", text(&shared.stderr));
}
