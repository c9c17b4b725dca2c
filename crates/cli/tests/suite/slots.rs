//! Collective operations through slots of memory that the ranks of a node share.

use std::process::Output;

use assert_cmd::Command;

fn run(line: &str) -> Output {
    Command::cargo_bin("fabriscope").unwrap().args(line.split(' ').filter(|word| !word.is_empty())).output().unwrap()
}

/// The numbers of the last line.
fn last(line: &str) -> Vec<f64> {
    let output = run(line);
    assert!(output.status.success(), "{line}: {}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8(output.stdout).unwrap();
    text.lines().last().unwrap().split_whitespace().map(|word| word.parse().unwrap()).collect()
}

/// All write at the same time. Rank 0 fetches a line of each other rank, one after the other, and writes one that all of them fetch: n
/// lines of 60 ns (`detect` of the processor) for n ranks of one socket.
#[test]
fn a_flat_barrier_takes_a_line_for_each_rank() {
    for ranks in [2, 3, 8, 14] {
        let most = last(&format!("bench osu_barrier --on ri2 --nodes 1 --ppn {ranks} --algorithm slots -f -i 1 -x 0"))[2];
        assert!((most - 0.06 * f64::from(ranks)).abs() < 0.006, "{ranks} ranks: {most} us");
    }
}

/// Up a tree of 4 and down again, 14 ranks wait for at most 3 + 3 lines and 2: fewer than the 14 of a flat one.
#[test]
fn a_tree_takes_a_line_for_each_child() {
    let most = last("bench osu_barrier --on ri2 --nodes 1 --ppn 14 --algorithm slots(4) -f -i 1 -x 0")[2];
    assert!((0.06 * 5.0..=0.06 * 8.0 + 0.006).contains(&most), "{most} us");
}

/// A slot is written once however many read it; messages are sent to each.
#[test]
fn slots_beat_messages_within_a_node() {
    let time = |algorithm: &str| last(&format!("bench osu_bcast --on ri2 --nodes 1 --ppn 14 -m 1024:1024 --algorithm {algorithm}"))[1];
    let (slots, messages) = (time("slots"), time("linear"));
    assert!(3.0 * slots < messages, "{slots} and {messages} us");
}

/// What arrives is what was sent: every byte is followed through the slots.
#[test]
fn contents_are_right() {
    for tool in ["osu_allreduce", "osu_reduce", "osu_bcast"] {
        let line = format!("bench {tool} --on ri2 --nodes 2 --ppn 5 -m 4:16384 -c");
        let output = run(&line);
        let [text, choice] = [output.stdout, output.stderr].map(|text| String::from_utf8(text).unwrap());
        assert!(text.lines().filter(|line| line.ends_with("Pass")).count() >= 12 && !text.contains("Fail"), "{text}");
        assert!(choice.contains("slots"), "{choice}");
    }
}

#[test]
fn bad_input() {
    for (line, what) in [
        ("bench osu_reduce --on ri2 --nodes 2 --ppn 2 --algorithm slots", "another node"),
        ("bench osu_allreduce --on alaska-roce25 --nodes 2 --ppn 2 --algorithm two_level(slots)", "needs slots"),
        ("bench osu_bcast --on ri2 --nodes 1 --ppn 4 --algorithm slots(1)", "slots(1)"),
        ("bench osu_bcast --on ri2-gpu --nodes 2 --ppn 2 -d cuda --algorithm two_level(slots)", "data of hosts"),
    ] {
        let output = run(line);
        let told = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(2), "{line}: {told}");
        assert!(told.contains(what), "{line}: {told}");
    }
}
