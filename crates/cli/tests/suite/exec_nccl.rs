//! Programs of NCCL where no GPU is: `examples/nccl/all_reduce.c`, linked with libraries that have the names of NCCL's and the CUDA runtime's.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::exec::{exec, root, stdout, text};

/// Compiles the example in a folder, as where NCCL is installed: its libraries are needed by name, and not there when it runs.
fn program(folder: &Path) -> PathBuf {
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
    let (example, headers) = (root().join("examples/nccl/all_reduce.c"), format!("-I{}", include.display()));
    compile(&["-O1", "-Wall", "-Wextra", "-Werror", &headers, "-o", "all_reduce", example.to_str().unwrap(), "-L.", "-lnccl", "-lcudart"]);
    folder.join("all_reduce")
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

/// All-reduces of eight ranks in one process, and of sixteen on two hosts in one each: the contents are right, and the times those of `bench`.
#[test]
fn all_reduces_take_what_bench_predicts() {
    let folder = tempfile::tempdir().unwrap();
    let program = program(folder.path());
    let program = program.to_str().unwrap();
    let sizes = ["-b", "1024", "-e", "1048576"];
    let one = stdout(&exec(&[&["--on", "azure-ndh100v5", "--", program, "-g", "8"], &sizes[..]].concat()));
    let ranks: Vec<String> = (0..16).map(|rank: u32| rank.to_string()).collect();
    let mut words = vec!["--on", "azure-ndh100v5"];
    for (number, rank) in ranks.iter().enumerate() {
        words.extend(["--host", if number < 8 { "a:" } else { "b:" }, program, "-n", "16", "-r", rank, "-s", "a", "-i", "100"]);
        words.extend(sizes);
    }
    let many = stdout(&exec(&words));
    assert_eq!(many, stdout(&exec(&words)), "two runs print the same");
    let job = ["all_reduce_perf", "--on", "azure-ndh100v5", "-b", "1K", "-e", "1M", "-f", "2"];
    for (measured, shape) in [(one, ["--nodes", "1", "-g", "8"]), (many, ["--nodes", "2", "--ppn", "8"])] {
        let (measured, predicted) = (rows(&measured), predicted(&[&job[..], &shape].concat()));
        assert_eq!(measured.len(), 11);
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
    let program = program(folder.path());
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

#[test]
fn what_nccl_cannot_do_here_is_told() {
    let folder = tempfile::tempdir().unwrap();
    let program = program(folder.path());
    let program = program.to_str().unwrap();
    let without = exec(&["--on", "ri2", "--", program]);
    assert!(!without.status.success() && text(&without.stderr).contains("no CUDA-capable device is detected"), "{}", text(&without.stderr));
    // Rank 0 on the second host: ranks go by hosts and GPUs.
    let words = ["--host", "a:", program, "-n", "2", "-r", "1", "-s", "b", "--host", "b:", program, "-n", "2", "-r", "0", "-s", "b"];
    let order = exec(&[&["--on", "azure-ndh100v5"], &words[..]].concat());
    assert!(text(&order.stderr).contains("ranks are to be in the order of hosts and of their 8 GPUs"), "{}", text(&order.stderr));
}
