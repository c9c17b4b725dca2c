//! Unmodified programs in real time: what they print is right, whatever it takes.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Output, Stdio};

use crate::exec::{compiled, examples_print, exec, is_installed, rows, stdout, text};

const REAL: [&str; 3] = ["--time", "real", "--on"];

/// The same program on two hosts; the second gets the name of the first.
fn pair(cluster: &str, words: &[&str]) -> Output {
    let client: Vec<&str> = words.iter().copied().chain(["a"]).collect();
    exec(&[&REAL, &[cluster, "--host", "a:"], words, &["--host", "b:"], &client].concat())
}

#[test]
fn programs_find_adapters_and_hosts() {
    is_installed("ibv_devinfo");
    let virtual_time = stdout(&exec(&["--on", "ri2", "--", "ibv_devinfo", "-v"]));
    assert_eq!(stdout(&exec(&[&REAL[..], &["ri2", "--", "ibv_devinfo", "-v"]].concat())), virtual_time);
    let script = "hostname; getent ahosts a | head -n 1 | cut -d. -f1; date +%Y";
    let printed = stdout(&exec(&[&REAL[..], &["ri2", "--host", "a:", "sh", "-c", script]].concat()));
    let [host, network, year] = printed.lines().collect::<Vec<_>>()[..] else { panic!("{printed}") };
    assert!(host == "a" && network == "127" && year.parse::<u32>().unwrap() >= 2026, "{printed}");
}

#[test]
fn the_pingpongs_of_libibverbs_run() {
    is_installed("ibv_rc_pingpong");
    for tool in ["ibv_rc_pingpong", "ibv_uc_pingpong", "ibv_ud_pingpong", "ibv_srq_pingpong"] {
        for events in [&[][..], &["-e"]] {
            // Its check of what came is on.
            let words: Vec<&str> = [tool, "-n", "100", "-c"].into_iter().chain(events.iter().copied()).collect();
            let printed = stdout(&pair("ri2", &words));
            assert_eq!(printed.lines().filter(|line| line.starts_with("100 iters in ")).count(), 2, "{words:?}\n{printed}");
            assert!(!printed.contains("invalid data"), "{words:?}\n{printed}");
        }
    }
    let printed = stdout(&pair("alaska-roce25", &["ibv_rc_pingpong", "-n", "100", "-g", "3"]));
    assert_eq!(printed.matches("100 iters in ").count(), 2, "{printed}");
}

#[test]
fn perftest_runs_with_all_that_it_is_used_with() {
    is_installed("ib_send_lat");
    for words in [
        &["ib_send_lat", "-n", "100"][..],
        &["ib_send_bw", "-n", "100", "-b"],
        &["ib_write_lat", "-n", "20"],
        &["ib_write_bw", "-n", "100", "-q", "8"],
        &["ib_read_lat", "-n", "100"],
        &["ib_read_bw", "-n", "100", "-q", "8"],
        &["ib_atomic_lat", "-n", "100"],
        &["ib_atomic_bw", "-n", "100"],
        &["ib_send_lat", "-n", "50", "-e"],
        &["ib_send_bw", "-n", "100", "-e"],
        &["ib_send_lat", "-n", "100", "-I", "64", "-m", "1024"],
        &["ib_send_bw", "-n", "100", "-s", "1048576"],
        &["ib_send_lat", "-n", "100", "-c", "UC"],
        &["ib_write_bw", "-n", "100", "-c", "UC"],
        &["ib_send_lat", "-n", "100", "-c", "UD"],
        &["ib_send_bw", "-n", "100", "-c", "UD"],
        &["ib_send_bw", "-n", "100", "--use-srq"],
    ] {
        let printed = stdout(&pair("ri2", words));
        assert!(!rows(&printed).is_empty(), "{words:?}\n{printed}");
    }
}

#[test]
fn the_examples_show_what_their_chapters_say() {
    // Numbers of queue pairs are those of the run: whoever comes first has the first.
    examples_print(|program| stdout(&pair("ri2", &[program])).replace("from QP 3,", "from QP 2,"));
}

/// Whatever is wrong, programs are told the same on either clock.
#[test]
fn errors_are_those_of_virtual_time() {
    is_installed("ibv_devices");
    const RULES: &str = include_str!("../programs/exec_rules.c");
    let virtual_time = compiled(RULES, &["-libverbs"], &["--on", "ri2", "--"]);
    assert!(virtual_time.contains("nobody there: 1 transport retry counter exceeded"), "{virtual_time}");
    let real_words = [&REAL[..], &["ri2", "--"]].concat();
    assert_eq!(compiled(RULES, &["-libverbs"], &real_words), virtual_time);
    let other = [
        (include_str!("../programs/exec_memory.c"), "all right\n"),
        (include_str!("../programs/exec_no_receive.c"), "RNR retry counter exceeded\n"),
    ];
    for (program, said) in other {
        assert_eq!(compiled(program, &["-libverbs"], &real_words), said);
    }
}

/// Two servers at the same port, each on its host.
#[test]
fn hosts_have_ports_of_their_own() {
    is_installed("ibv_rc_pingpong");
    let tool = ["ibv_rc_pingpong", "-n", "10"];
    let hosts: [(&str, &[&str]); 4] = [("a:", &[]), ("b:", &[]), ("c:", &["a"]), ("d:", &["b"])];
    let words: Vec<&str> = hosts.iter().flat_map(|(host, server)| [&["--host", *host], &tool[..], server].concat()).collect();
    let printed = stdout(&exec(&[&REAL[..], &["ri2:4"], &words].concat()));
    assert_eq!(printed.matches("10 iters in ").count(), 4, "{printed}");
}

/// A server that is killed in the middle: its peer's requests are repeated in vain, as on hardware, and nothing stays behind.
///
/// Only who has requests outstanding hears of it, on hardware, too: `ib_send_lat` may be waiting for an answer to what was acknowledged, and waits for
/// ever then; `ib_send_bw` always has more to send. That a server has used its core for a while says that it polls, and so that both talk.
#[test]
fn a_killed_process_is_seen_by_its_peer() {
    is_installed("ib_send_bw");
    let used = "! kill -0 $! || { read -r _ _ _ _ _ _ _ _ _ _ _ _ _ user _ < /proc/$!/stat && [ $user -gt 20 ]; }";
    let killed = "kill -9 $!; wait $!; echo killed with $?";
    let server = format!("echo $FABRISCOPE_LIVE_REAL; ib_send_bw -n 10000000 & until {used}; do sleep 0.05; done; {killed}");
    let hosts = ["ri2", "--host", "a:", "sh", "-c", &server, "--host", "b:", "ib_send_bw", "-n", "10000000", "a"];
    let output = exec(&[&REAL[..], &hosts].concat());
    let (printed, told) = (text(&output.stdout), text(&output.stderr));
    assert!(printed.contains("killed with 137"), "{printed}{told}");
    assert!(told.contains("Failed status 12") || printed.contains("Failed status 12"), "{printed}{told}");
    assert_ne!(output.status.code(), Some(0));
    let folder = Path::new(printed.lines().next().unwrap());
    assert!(!folder.exists(), "{}", folder.display());
}

/// Whoever ends the command ends its programs.
#[test]
fn nothing_is_left_of_a_run_that_is_ended() {
    is_installed("ib_send_lat");
    let script = "echo $FABRISCOPE_LIVE_REAL; ib_send_lat & echo $!; wait";
    let mut command = Command::new(env!("CARGO_BIN_EXE_fabriscope"));
    command
        .args(["exec", "--quiet", "--time", "real", "--on", "ri2", "--", "sh", "-c", script])
        .stdin(Stdio::null())
        .stdout(Stdio::piped());
    let mut run = command.spawn().unwrap();
    let mut lines = BufReader::new(run.stdout.take().unwrap()).lines();
    let [folder, process] = [(); 2].map(|()| lines.next().unwrap().unwrap());
    assert!(Path::new(&folder).exists());
    assert!(Command::new("kill").arg(run.id().to_string()).status().unwrap().success());
    assert!(!run.wait().unwrap().success());
    // What the programs print has an end when the last of them has one.
    assert_eq!(lines.filter(|line| line.as_ref().is_ok_and(|line| line.contains("Failed"))).count(), 0);
    assert!(!Path::new(&folder).exists());
    // One that nobody asked for its status yet has ended all the same.
    let state = || std::fs::read_to_string(Path::new("/proc").join(&process).join("stat")).unwrap_or_default();
    let is_gone = || state().is_empty() || state().contains(") Z ");
    // It takes a moment.
    (0..100_000).take_while(|_| !is_gone()).for_each(|_| std::thread::yield_now());
    assert!(is_gone(), "{}", state());
}

#[test]
fn what_needs_the_simulated_fabric_is_told() {
    for (words, part) in [
        (&["--pcap", "t.pcap"][..], "--pcap needs the simulated fabric"),
        (&["--trace", "t.pftrace"], "--trace needs the simulated fabric"),
        (&["--faults", "f.toml"], "--faults needs the simulated fabric"),
    ] {
        let output = exec(&[words, &REAL, &["ri2", "--", "true"]].concat());
        let (status, told) = (output.status.code(), text(&output.stderr));
        assert!(status == Some(2) && told.contains(part) && told.contains("--time virtual"), "{words:?}: {status:?}\n{told}");
    }
    let output = exec(&[&REAL[..], &["ri2", "--", "sh", "-c", "exit 7"]].concat());
    assert_eq!(output.status.code(), Some(7));
}

/// Ranks of Open MPI over UCX, on the hosts that their numbers say.
#[test]
#[ignore = "long: needs Open MPI and UCX (apt-get install openmpi-bin libopenmpi-dev ucx-utils)"]
fn open_mpi_runs_over_ucx() {
    is_installed("mpicc.openmpi");
    let (folder, program) = crate::exec::ring();
    let mpirun = ["mpirun.openmpi", "--allow-run-as-root", "--oversubscribe", "--mca", "pml", "ucx", "--mca", "btl", "^openib,ofi"];
    let words = ["ri2:4", "--ranks-per-node", "1", "--", "env", "UCX_TLS=rc_verbs,ud_verbs:aux,self"];
    let printed = stdout(&exec(&[&REAL[..], &words, &mpirun, &["-np", "4", program.to_str().unwrap()]].concat()));
    drop(folder);
    assert!(printed.starts_with("node0: sum 10 of 4 ranks"), "{printed}");
}
