//! `krylov` on the command line: what its document shows, and what is refused.

use assert_cmd::Command;

fn fabriscope(line: &str) -> (Option<i32>, String, String) {
    let output = Command::cargo_bin("fabriscope").unwrap().args(line.split_whitespace()).output().unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    (output.status.code(), text(output.stdout), text(output.stderr))
}

/// The commands of the document run, and what they print of an iteration stands in its tables: what is saved, of all by the host alone.
#[test]
fn the_document_is_as_the_program() {
    let text = std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/models/krylov.md")).unwrap();
    let commands: Vec<&str> = text.lines().filter_map(|line| line.strip_prefix("$ fabriscope ")).collect();
    assert_eq!(commands.len(), 2, "{commands:?}");
    for command in commands {
        assert_eq!(fabriscope(command).0, Some(0), "{command}");
    }
    for (cluster, row) in [("lab-bluefield-3-broadwell", "| two Broadwell,"), ("lab-bluefield-3-spr", "| two Sapphire Rapids,")] {
        let row: Vec<&str> = text.lines().find(|line| line.starts_with(row)).unwrap().split('|').map(str::trim).collect();
        for (mode, column) in [("hybrid-onload", 4), ("hybrid", 5)] {
            let (_, table, _) = fabriscope(&format!("bench krylov --on {cluster} --offload {mode} -i 2"));
            let iteration = table.lines().find(|line| line.starts_with("Iteration")).unwrap();
            let saved = iteration.split_whitespace().last().unwrap();
            assert_eq!(format!("{saved} %"), row[column], "{cluster}, {mode}\n{table}");
        }
    }
}

#[test]
fn wrong_requests_end_with_status_2() {
    for (line, words) in [
        ("bench krylov --on ri2 --grid 64,64,1", "1 points in direction Z for 2 blocks"),
        ("bench krylov --on ri2 --offload hybrid", "use a cluster with DPUs"),
        ("bench krylov --on lab-bluefield-3-spr --offload hybrid --ppn 20", "--ppn of at most 16"),
        ("bench krylov --on lab-bluefield-3-spr --nodes 9", "lab-bluefield-3-spr has 8"),
        ("bench krylov --on ri2 --points 0", "out of range"),
    ] {
        let (status, _, message) = fabriscope(line);
        // Lines are wrapped.
        let message = message.split_whitespace().filter(|word| *word != "│").collect::<Vec<_>>().join(" ");
        assert!(status == Some(2) && message.contains(words), "{line}: {status:?} {message}");
    }
}
