//! Unmodified programs: the tools of Debian's packages, and the ten programs of `examples/verbs`, on virtual hosts.
//!
//! What they print is judged by what `bench` prints of the same tool, by what the documentation says, or by what the tools print on hardware.

use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::Duration;

pub const INSTALL: &str = "apt-get install gcc make libibverbs-dev ibverbs-utils rdmacm-utils libfabric-bin perftest";

pub fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap()
}

/// Programs that hang are ended: a test that waits for ever says nothing. Many times what the slowest of them takes on a busy machine.
const HANGS: Duration = Duration::from_secs(600);

pub fn exec(words: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_fabriscope"));
    command.args(["exec", "--quiet"]).args(words).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let run = command.spawn().expect("the program starts");
    let pid = run.id();
    let (ended, end) = channel::<()>();
    let watch = std::thread::spawn(move || {
        let hangs = end.recv_timeout(HANGS) == Err(RecvTimeoutError::Timeout);
        if hangs {
            let _ = Command::new("kill").arg(pid.to_string()).status();
        }
        hangs
    });
    let output = run.wait_with_output().unwrap();
    drop(ended);
    assert!(!watch.join().unwrap(), "{words:?} hung:\n{}\n{}", text(&output.stdout), text(&output.stderr));
    output
}

/// The same program on two hosts; the second gets the name of the first.
pub fn pair(cluster: &str, words: &[&str]) -> Output {
    let client: Vec<&str> = words.iter().copied().chain(["a"]).collect();
    exec(&[&["--on", cluster, "--host", "a:"], words, &["--host", "b:"], &client].concat())
}

pub fn stdout(output: &Output) -> String {
    assert!(output.status.success(), "{}\n{}", text(&output.stdout), text(&output.stderr));
    text(&output.stdout)
}
pub fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// The lines of a perftest table: those that begin with a number of bytes.
pub fn rows(text: &str) -> Vec<String> {
    let is_row = |line: &&str| line.trim_start().starts_with(|c: char| c.is_ascii_digit()) && line.split_whitespace().count() > 3;
    text.lines().filter(is_row).map(|line| line.split_whitespace().collect::<Vec<_>>().join(" ")).collect()
}

pub fn is_installed(program: &str) {
    let found = Command::new("sh").args(["-c", &format!("command -v {program}")]).output().unwrap();
    assert!(found.status.success(), "`{program}` is not there: {INSTALL}");
}

#[test]
fn programs_find_the_adapters_of_the_cluster() {
    is_installed("ibv_devinfo");
    let golden = "    device          \t   node GUID\n    ------          \t----------------\n    mlx5_0          \tb83fd20300000001\n";
    assert_eq!(stdout(&exec(&["--on", "ri2", "--", "ibv_devices"])), golden);
    let info = stdout(&exec(&["--on", "ri2", "--", "ibv_devinfo"]));
    let ethernet = stdout(&exec(&["--on", "alaska-roce25", "--", "ibv_devinfo"]));
    for (text, line) in [(&info, "link_layer:\t\tInfiniBand"), (&info, "active_mtu:\t\t4096 (5)"), (&ethernet, "link_layer:\t\tEthernet")] {
        assert!(text.contains(line), "{line}\n{text}");
    }
}

/// `ib_{send,write,read,atomic}_lat` measure what `bench` says that they do, within 1 %, and without any deviation.
#[test]
fn perftest_measures_what_bench_predicts() {
    is_installed("ib_send_lat");
    let tools = [
        ("ib_send_lat", &["-s", "2"][..]),
        ("ib_send_lat", &["-s", "65536"]),
        ("ib_send_lat", &["-c", "UD"]),
        ("ib_write_lat", &["-s", "8"]),
        ("ib_write_lat", &["-s", "4096"]),
        ("ib_read_lat", &["-s", "4096"]),
        ("ib_atomic_lat", &[]),
    ];
    for (tool, options) in tools {
        let words: Vec<&str> = [tool, "-F"].into_iter().chain(options.iter().copied()).collect();
        // Both ends of a test of two sides print the table.
        let mut measured = rows(&stdout(&pair("ri2", &words)));
        measured.dedup();
        let predicted = Command::new(env!("CARGO_BIN_EXE_fabriscope")).args(["bench", tool, "--on", "ri2"]).args(options).output().unwrap();
        let predicted = rows(&stdout(&predicted));
        assert_eq!((measured.len(), predicted.len()), (1, 1), "{tool} {options:?}");
        let numbers = |row: &str| row.split(' ').map(|number| number.parse::<f64>().unwrap()).collect::<Vec<f64>>();
        let (measured, predicted) = (numbers(&measured[0]), numbers(&predicted[0]));
        // A read of the clock takes a nanosecond here; nothing else is different.
        let is_same = measured.iter().zip(&predicted).all(|(one, other)| (one - other).abs() <= other.abs() * 0.01);
        assert!(is_same && measured[6] < 0.005, "{tool} {options:?}: {measured:?}, {predicted:?}");
    }
}

#[test]
fn perftest_runs_with_all_that_it_is_used_with() {
    is_installed("ib_send_bw");
    for words in [
        &["ib_send_bw", "-n", "200", "-b"][..],
        &["ib_write_bw", "-n", "200", "-q", "8"],
        &["ib_read_bw", "-n", "200"],
        &["ib_atomic_bw", "-n", "200"],
        &["ib_send_lat", "-n", "100", "-e"],
        &["ib_send_lat", "-n", "100", "-I", "64", "-m", "1024"],
        &["ib_write_lat", "-n", "100", "-c", "UC"],
        &["ib_send_lat", "-n", "100", "-c", "UD", "-g"],
        &["ib_send_bw", "-D", "1", "-s", "1048576"],
    ] {
        let printed = stdout(&pair("ri2", words));
        assert!(!rows(&printed).is_empty(), "{words:?}\n{printed}");
    }
}

#[test]
fn the_pingpongs_of_libibverbs_run() {
    is_installed("ibv_rc_pingpong");
    for tool in ["ibv_rc_pingpong", "ibv_uc_pingpong", "ibv_ud_pingpong", "ibv_srq_pingpong"] {
        for events in [&[][..], &["-e"]] {
            let words: Vec<&str> = [tool, "-n", "100"].into_iter().chain(events.iter().copied()).collect();
            let printed = stdout(&pair("ri2", &words));
            assert_eq!(printed.lines().filter(|line| line.starts_with("100 iters in ")).count(), 2, "{words:?}\n{printed}");
        }
    }
    assert!(stdout(&pair("ri2", &["ibv_xsrq_pingpong", "-n", "100"])).contains("success"));
}

/// The same bytes in every run, also where the machine does something else.
#[test]
fn real_time_decides_nothing() {
    is_installed("ib_write_lat");
    let run = || stdout(&pair("ri2", &["ib_write_lat", "-n", "300", "-s", "64"]));
    let alone = run();
    let mut busy: Vec<_> = (0..4).map(|_| Command::new("sh").args(["-c", "while :; do :; done"]).spawn().unwrap()).collect();
    let loaded = run();
    for load in &mut busy {
        load.kill().unwrap();
        load.wait().unwrap();
    }
    assert_eq!(alone, loaded);
}

/// The programs of examples/verbs, built in a folder, and the lines that its README.md says that each prints, sorted.
fn chapters() -> (tempfile::TempDir, Vec<(String, Vec<String>)>) {
    let folder = tempfile::tempdir().unwrap();
    let examples = root().join("examples/verbs");
    let built = Command::new("make").arg("-s").arg("-C").arg(&examples).arg(format!("BUILD={}", folder.path().display())).output();
    let built = built.unwrap_or_else(|error| panic!("make: {error}; {INSTALL}"));
    assert!(built.status.success(), "{}; {INSTALL}", text(&built.stderr));
    let chapters = std::fs::read_to_string(examples.join("README.md")).unwrap();
    let chapter = |text: &str| {
        let (name, rest) = text.split_once(" -->\n```console\n").expect("a block follows each mark");
        let block = rest.split("```").next().unwrap();
        // A line for each end in turn: the block has one end after the other.
        let said = block.lines().filter(|line| !line.is_empty() && !line.starts_with("$ "));
        (name.to_owned(), sorted(said))
    };
    let chapters: Vec<_> = chapters.split("<!-- output: ").skip(1).map(chapter).collect();
    assert_eq!(chapters.len(), 10);
    (folder, chapters)
}
fn sorted<'a>(lines: impl Iterator<Item = &'a str>) -> Vec<String> {
    let mut lines: Vec<String> = lines.map(str::to_owned).collect();
    lines.sort_unstable();
    lines
}

/// Each prints what examples/verbs/README.md says, in the order of virtual time.
#[test]
fn the_examples_show_what_their_chapters_say() {
    examples_print(|program| stdout(&pair("ri2", &[program])));
}

/// `run` gives what an example prints, which is what its chapter says.
pub fn examples_print(run: impl Fn(&str) -> String) {
    let (folder, chapters) = chapters();
    for (name, said) in chapters {
        let program = folder.path().join(&name);
        assert_eq!(sorted(run(program.to_str().unwrap()).lines()), said, "{name}");
    }
}

#[test]
fn what_cannot_be_run_is_told() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("main.c");
    std::fs::write(&file, "int main(void) { return 0; }\n").unwrap();
    let fixed = folder.path().join("fixed");
    assert!(Command::new("cc").arg("-static").arg("-o").arg(&fixed).arg(&file).status().expect(INSTALL).success());
    let fixed = fixed.to_str().unwrap();
    for (words, part) in [
        (&["--on", "ri2", "--", fixed][..], "is linked statically"),
        (&["--on", "ri2", "--", "no-such-program"], "`no-such-program` is not there"),
        (&["--on", "ri2:2", "--host", "a:", "true", "--host", "b:", "true", "--host", "c:", "true"], "3 hosts are named"),
        (&["--on", "ri2", "--host", "a", "true"], "--host takes a name with a colon"),
        (&["--on", "ri2", "--host", "a:", "ibv_rc_pingpong"], "waits for a connection"),
    ] {
        let output = exec(words);
        let (status, told) = (output.status.code(), text(&output.stderr));
        assert!(status == Some(2) && told.contains(part), "{words:?}: {status:?}\n{told}");
    }
    // The tool itself says it, and its status is that of the command.
    let output = exec(&["--on", "ri2", "--", "ib_send_lat", "-d", "mlx5_9"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(text(&output.stderr).contains("mlx5_9 not found"));
}

/// A server that is killed in the middle: its peer's requests are repeated in vain, as on hardware, and nothing stays behind.
#[test]
fn a_killed_process_is_seen_by_its_peer() {
    is_installed("ib_send_lat");
    let server = "echo $FABRISCOPE_LIVE; ib_send_lat -n 100000 & sleep 0.3; kill -9 $!; wait $!; echo killed with $?";
    let output = exec(&["--on", "ri2", "--host", "a:", "sh", "-c", server, "--host", "b:", "ib_send_lat", "-n", "100000", "a"]);
    let (printed, told) = (text(&output.stdout), text(&output.stderr));
    assert!(printed.contains("killed with 137"), "{printed}{told}");
    assert!(told.contains("Completion with error") || printed.contains("Failed status 12"), "{printed}{told}");
    assert_ne!(output.status.code(), Some(0));
    let arena = PathBuf::from(printed.lines().next().unwrap());
    assert!(!arena.parent().unwrap().exists(), "{}", arena.display());
}

/// Packets and moments of a run go to files, as those of `bench` do; watching changes nothing that a program prints.
/// A cable goes during a transfer: the requests end as on hardware, its port says so, and what waits until it is back is done.
#[test]
fn a_link_that_goes_down_is_seen() {
    is_installed("ibv_asyncwatch");
    let folder = tempfile::tempdir().unwrap();
    let (for_ever, a_while) = (folder.path().join("ever.toml"), folder.path().join("while.toml"));
    std::fs::write(&for_ever, "[[fault]]\nat = \"2 ms\"\nkind.link_down = { link = \"node 1\" }\n").unwrap();
    std::fs::write(&a_while, "[[fault]]\nat = \"2 ms\"\nkind.link_down = { link = \"node 1\", lasts = \"20 ms\" }\n").unwrap();
    let under = |faults: &Path, words: &[&str]| exec(&[&["--on", "ri2", "--faults", faults.to_str().unwrap()], words].concat());
    let transfer = ["--host", "a:", "ib_write_bw", "-n", "5000", "--host", "b:", "ib_write_bw", "-n", "5000", "a"];
    let cut = under(&for_ever, &transfer);
    assert!(!cut.status.success(), "{}", text(&cut.stdout));
    assert!(text(&cut.stderr).contains("Failed status 12"), "{}", text(&cut.stderr));
    assert_eq!(rows(&stdout(&under(&a_while, &transfer))).len(), 2);
    let watched = under(&a_while, &["--host", "a:", "ibv_asyncwatch", "--host", "b:", "ibv_asyncwatch"]);
    let printed = text(&watched.stdout);
    for event in ["IBV_EVENT_PORT_ERR (10), port 1", "IBV_EVENT_PORT_ACTIVE (9), port 1"] {
        assert_eq!(printed.matches(event).count(), 1, "{printed}");
    }
}

#[test]
fn a_run_is_captured_and_drawn() {
    is_installed("ibv_rc_pingpong");
    let folder = tempfile::tempdir().unwrap();
    let [packets, moments] = ["run.pcap", "run.pftrace"].map(|name| folder.path().join(name));
    let watched = ["--pcap", packets.to_str().unwrap(), "--trace", moments.to_str().unwrap()];
    let programs = ["--host", "a:", "ibv_rc_pingpong", "-n", "10", "--host", "b:", "ibv_rc_pingpong", "-n", "10", "a"];
    let printed = stdout(&exec(&[&["--on", "ri2"], &watched[..], &programs].concat()));
    assert_eq!(printed, stdout(&exec(&[&["--on", "ri2"], &programs[..]].concat())));
    let captured = std::fs::read(&packets).unwrap();
    let frames = fabriscope_capture::records(&captured).unwrap().len();
    // Ten messages of 4 KiB each way in packets of 1 KiB, and their acknowledgements.
    assert!(frames >= 2 * 10 * 4, "{frames}");
    assert!(std::fs::metadata(&moments).unwrap().len() > 10_000);
}

#[test]
fn the_status_of_a_program_is_that_of_the_command() {
    for (script, status) in [("exit 0", 0), ("exit 7", 7), ("kill -SEGV $$", 139)] {
        assert_eq!(exec(&["--on", "ri2", "--", "sh", "-c", script]).status.code(), Some(status), "{script}");
    }
}

/// Clocks start at the same moment in every run, and pass as fast as programs wait.
#[test]
fn clocks_are_virtual() {
    let printed = stdout(&exec(&["--on", "ri2", "--", "sh", "-c", "date -u +%F; hostname; sleep 86400; date -u +%F"]));
    assert_eq!(printed, "2026-01-01\nnode0\n2026-01-02\n");
}

/// A thread is waited for by what it is, not by where it was, and one that begins may be where one has just ended; what could not be started
/// leaves nothing that others wait for.
#[test]
fn threads_and_processes_begin_and_end() {
    const PROGRAM: &str = r#"
#include <pthread.h>
#include <spawn.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>
extern char **environ;
static void *quick(void *argument) { return argument; }
static void *slow(void *argument) { sleep(5); return argument; }
int main(void)
{
	pthread_t one, other;
	pthread_attr_t large;
	pid_t child;
	char *words[] = { "none", NULL };
	pthread_create(&one, NULL, quick, NULL);
	usleep(1000);
	pthread_create(&other, NULL, slow, NULL);
	pthread_join(one, NULL);
	puts("quick");
	pthread_join(other, NULL);
	puts("slow");
	for (int i = 0; i < 500; i++) {
		pthread_create(&one, NULL, quick, NULL);
		usleep(100);
		pthread_create(&other, NULL, quick, NULL);
		pthread_join(one, NULL);
		pthread_join(other, NULL);
	}
	puts("many");
	puts(strerror(posix_spawn(&child, "/no/such", NULL, NULL, words, environ)));
	pthread_attr_init(&large);
	pthread_attr_setstacksize(&large, (size_t)1 << 50);
	puts(strerror(pthread_create(&one, &large, quick, NULL)));
	return 0;
}
"#;
    let printed = compiled(PROGRAM, &["-lpthread"], &["--on", "ri2", "--"]);
    assert_eq!(printed, "quick\nslow\nmany\nNo such file or directory\nResource temporarily unavailable\n");
}

/// Memory stays the program's, whatever it is and becomes; what the adapter writes is there.
#[test]
fn memory_of_all_kinds_is_reached() {
    is_installed("ibv_devices");
    let printed = compiled(include_str!("../programs/exec_memory.c"), &["-libverbs"], &["--on", "ri2", "--"]);
    assert_eq!(printed, "all right\n");
}

#[test]
fn who_never_receives_is_not_waited_for_for_ever() {
    is_installed("ibv_devices");
    let printed = compiled(include_str!("../programs/exec_no_receive.c"), &["-libverbs"], &["--on", "ri2", "--"]);
    assert_eq!(printed, "RNR retry counter exceeded\n");
}

/// Regions by other addresses than their own: what is in them is reached by those alone, from afar and by local pieces.
#[test]
fn regions_have_the_address_that_they_were_given() {
    is_installed("ibv_devices");
    let printed = compiled(include_str!("../programs/exec_iova.c"), &["-libverbs"], &["--on", "ri2", "--"]);
    let refused =
        ["byte behind", "byte before", "own address", "as before", "read from nowhere"].map(|case| format!("{case}: remote access error"));
    let unprotected = ["piece behind", "piece by own address"].map(|case| format!("{case}: local protection error"));
    let wrong: Vec<&str> = printed.lines().filter(|line| !line.ends_with(": success") && !line.ends_with(": right")).collect();
    assert_eq!(sorted(wrong.into_iter()), sorted(refused.iter().chain(&unprotected).map(String::as_str)), "{printed}");
    assert_eq!(printed.lines().count(), 26, "{printed}");
}

/// A connection to a host whose processes share an XRC domain, by the file that they open.
#[test]
fn processes_share_a_domain_of_xrc() {
    is_installed("ibv_devices");
    let folder = tempfile::tempdir().unwrap();
    let (source, program, file) = (folder.path().join("main.c"), folder.path().join("main"), folder.path().join("domain"));
    std::fs::write(&source, include_str!("../programs/exec_xrc.c")).unwrap();
    assert!(Command::new("cc").arg("-o").arg(&program).arg(&source).arg("-libverbs").status().expect(INSTALL).success());
    let printed = stdout(&pair("ri2", &[program.to_str().unwrap(), file.to_str().unwrap()]));
    let said = ["first: success \"to the first\"", "second: success \"to the second\"", "second: success \"once more\""];
    let said = said.into_iter().chain(["sent: success"; 3]);
    assert_eq!(sorted(printed.lines()), sorted(said));
}

/// Programs find the partitions of their host; messages reach a peer with the same key, unless both ends are limited members.
#[test]
fn partitions_keep_programs_apart() {
    is_installed("smpquery");
    let folder = tempfile::tempdir().unwrap();
    let [source, program, cluster] = ["main.c", "main", "cluster.toml"].map(|name| folder.path().join(name));
    let text = "base = \"ri2\"\n[partitions.storage]\npkey = 0x0010\nfull = \"0\"\nlimited = \"1\"\n\
                [partitions.guests]\npkey = 0x0020\nlimited = \"0-1\"\n";
    std::fs::write(&cluster, text).unwrap();
    std::fs::write(&source, include_str!("../programs/exec_pkeys.c")).unwrap();
    assert!(Command::new("cc").arg("-o").arg(&program).arg(&source).arg("-libverbs").status().expect(INSTALL).success());
    let (cluster, program) = (cluster.to_str().unwrap(), program.to_str().unwrap());
    for (keys, status) in [
        (["7fff", "7fff"], "success"),
        (["10", "10"], "success"),
        (["10", "7fff"], "transport retry counter exceeded"),
        (["20", "20"], "transport retry counter exceeded"),
    ] {
        let printed = stdout(&pair(cluster, &[program, keys[0], keys[1]]));
        assert_eq!(printed, format!("ffff 0020 0010 {status}\n"), "{keys:?}");
    }
    let told = stdout(&exec(&["--on", cluster, "--", "smpquery", "pkeys", "1"]));
    assert!(told.contains("0xffff 0x0020 0x8010 0x0000"), "{told}");
}

/// What a program in C prints, where `words` run it.
pub fn compiled(text: &str, libraries: &[&str], words: &[&str]) -> String {
    let folder = tempfile::tempdir().unwrap();
    let (source, program) = (folder.path().join("main.c"), folder.path().join("main"));
    std::fs::write(&source, text).unwrap();
    let mut compiler = Command::new("cc");
    assert!(compiler.arg("-o").arg(&program).arg(&source).args(libraries).status().expect(INSTALL).success());
    stdout(&exec(&[words, &[program.to_str().unwrap()]].concat()))
}

/// perftest from 24.10 on asks adapters of this vendor what their direct verbs have, and gives up where they do not answer: they have none.
#[test]
fn direct_verbs_are_told_not_to_be_there() {
    let program = r#"#include <infiniband/mlx5dv.h>
#include <stdio.h>
int main(void) {
    struct ibv_context *context = ibv_open_device(*ibv_get_device_list(NULL));
    struct mlx5dv_context verbs = { .comp_mask = ~0ull };
    int failed = mlx5dv_query_device(context, &verbs);
    printf("%d %d\n", failed, verbs.comp_mask != 0);
}
"#;
    assert_eq!(compiled(program, &["-libverbs", "-lmlx5"], &["--on", "ri2", "--"]), "0 0\n");
}

/// Numbers of processes and threads, and what is random, are the same in every run: programs decide by them who begins.
#[test]
fn lots_are_drawn_alike() {
    let script = "import os, threading; print(os.getpid(), threading.get_native_id(), os.urandom(8).hex())";
    let draw = || stdout(&exec(&["--on", "ri2", "--", "python3", "-c", script]));
    let drawn = draw();
    assert!(drawn.starts_with("1000 1000 "), "{drawn}");
    assert_eq!(drawn, draw());
}

/// Our layout of the public structures is that of the installed header.
#[test]
fn structures_are_those_of_libibverbs_and_the_kernel() {
    let live = root().join("crates/live");
    let mut compiler = Command::new("cc");
    compiler
        .arg("-fsyntax-only")
        .arg("-I")
        .arg(live.join("shim"))
        .args(["libibverbs.c", "rdma_user_cm.c"].map(|file| live.join("abi").join(file)));
    let checked = compiler.output().unwrap_or_else(|error| panic!("cc: {error}; {INSTALL}"));
    assert!(checked.status.success(), "{}; {INSTALL}", text(&checked.stderr));
}

/// The test-suite of rdma-core for Python's verbs: what the adapters have passes, what they lack is skipped, nothing fails.
#[test]
#[ignore = "long: needs python3-pyverbs with its documentation (apt-get install python3-pyverbs)"]
fn the_suite_of_pyverbs_passes() {
    let folder = tempfile::tempdir().unwrap();
    let script = format!(
        "cp -r /usr/share/doc/rdma-core/tests {0} && gunzip -f {0}/tests/*.gz && rm {0}/tests/test_mlx5* {0}/tests/test_efa*",
        folder.path().display()
    );
    assert!(
        Command::new("sh").args(["-c", &script]).status().unwrap().success(),
        "the suite is not there: apt-get install python3-pyverbs"
    );
    let suite = folder.path().join("tests/run_tests.py");
    for (cluster, passed) in [("ri2", 86), ("alaska-roce25", 86)] {
        let output = exec(&["--on", cluster, "--", "/usr/bin/python3", suite.to_str().unwrap(), "-v", "--dev", "mlx5_0"]);
        let told = text(&output.stderr);
        let last = |of: &str| told.lines().rev().find(|line| line.starts_with(of)).unwrap_or_default().to_owned();
        assert!(output.status.success(), "{told}");
        let number = |of: &str, after: &str| {
            of.split_once(after).and_then(|(_, rest)| rest.split(|c: char| !c.is_ascii_digit()).next()?.parse::<u32>().ok())
        };
        let (ran, skipped) = (number(&last("Ran "), "Ran ").unwrap(), number(&last("OK"), "skipped=").unwrap());
        assert_eq!(ran - skipped, passed, "{cluster}: {ran} ran, {skipped} were skipped");
    }
}

/// A program of MPI that passes a byte between two ranks and adds the numbers of all; in the folder.
pub fn ring() -> (tempfile::TempDir, PathBuf) {
    const PROGRAM: &str = r#"
#include <mpi.h>
#include <stdio.h>
int main(int argc, char **argv)
{
	int rank, ranks, sum, length;
	char host[MPI_MAX_PROCESSOR_NAME], byte = 0;
	MPI_Init(&argc, &argv);
	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	MPI_Comm_size(MPI_COMM_WORLD, &ranks);
	MPI_Get_processor_name(host, &length);
	MPI_Barrier(MPI_COMM_WORLD);
	double begun = MPI_Wtime();
	for (int i = 0; i < 100; i++)
		if (rank == 0) {
			MPI_Send(&byte, 1, MPI_CHAR, 1, 0, MPI_COMM_WORLD);
			MPI_Recv(&byte, 1, MPI_CHAR, 1, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
		} else if (rank == 1) {
			MPI_Recv(&byte, 1, MPI_CHAR, 0, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
			MPI_Send(&byte, 1, MPI_CHAR, 0, 0, MPI_COMM_WORLD);
		}
	double took = (MPI_Wtime() - begun) / 200;
	int own = rank + 1;
	MPI_Allreduce(&own, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
	if (rank == 0)
		printf("%s: sum %d of %d ranks, a byte takes %.3f us\n", host, sum, ranks, took * 1e6);
	MPI_Finalize();
	return 0;
}
"#;
    let folder = tempfile::tempdir().unwrap();
    let (source, program) = (folder.path().join("ring.c"), folder.path().join("ring"));
    std::fs::write(&source, PROGRAM).unwrap();
    assert!(Command::new("mpicc.openmpi").arg("-o").arg(&program).arg(&source).status().unwrap().success());
    (folder, program)
}

/// Two ranks of Open MPI over UCX, on a host each: the program's own messages, and the sum of an MPI_Allreduce; the same in two runs.
#[test]
#[ignore = "long: needs Open MPI and UCX (apt-get install openmpi-bin libopenmpi-dev ucx-utils)"]
fn open_mpi_runs_over_ucx() {
    is_installed("mpicc.openmpi");
    let (_folder, program) = ring();
    let run = |ranks: &str, cluster: &str| {
        let mpirun = ["mpirun.openmpi", "--allow-run-as-root", "--oversubscribe", "--mca", "pml", "ucx", "--mca", "btl", "^openib,ofi"];
        let words = ["--on", cluster, "--ranks-per-node", "1", "--", "env", "UCX_TLS=rc_verbs,ud_verbs:aux,self"];
        stdout(&exec(&[&words[..], &mpirun, &["-np", ranks, program.to_str().unwrap()]].concat()))
    };
    let two = run("2", "ri2:2");
    assert!(two.starts_with("node0: sum 3 of 2 ranks, a byte takes "), "{two}");
    assert_eq!(two, run("2", "ri2:2"));
    assert!(run("4", "ri2:4").starts_with("node0: sum 10 of 4 ranks"));
}
