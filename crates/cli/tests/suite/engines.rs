//! `bench --engine`: what each engine takes, what it refuses, and that the two are close.

use assert_cmd::Command;

fn fabriscope(line: &str) -> (Option<i32>, String, String) {
    let output = Command::cargo_bin("fabriscope").unwrap().args(line.split_whitespace()).output().unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    (output.status.code(), text(output.stdout), text(output.stderr))
}

/// The latency of each row.
fn rows(table: &str) -> Vec<f64> {
    let row = |line: &str| line.split_whitespace().nth(1)?.parse().ok();
    table.lines().filter(|line| !line.starts_with('#')).filter_map(row).collect()
}

#[test]
fn flow_is_close_to_packets_and_says_how_close() {
    for job in ["osu_allreduce --on lab-1024 --nodes 4 --ppn 4 -m 8:2048", "osu_alltoall --on athena-edr --nodes 2 --ppn 4 -m 8:64"] {
        let (status, flow, remarks) = fabriscope(&format!("bench {job} --engine flow"));
        assert_eq!(status, Some(0), "{remarks}");
        assert!(remarks.contains("against packets on"), "{remarks}");
        let again = fabriscope(&format!("bench {job} --engine flow"));
        assert_eq!((status, flow.clone(), remarks), again, "{job}: the same input gives the same bytes");
        let (_, packets, _) = fabriscope(&format!("bench {job} --engine packet"));
        let (flow, packets) = (rows(&flow), rows(&packets));
        assert_eq!((flow.len(), packets.is_empty()), (packets.len(), false));
        for (flow, packets) in flow.iter().zip(&packets) {
            assert!((flow / packets - 1.0).abs() < 0.1, "{job}: {flow} us, and {packets} us by packets");
        }
    }
}

#[test]
fn small_jobs_stay_with_packets() {
    let job = "bench osu_bcast --on lab-1024 --nodes 2 --ppn 2 -m 8:8";
    assert_eq!(fabriscope(job), fabriscope(&format!("{job} --engine packet")));
    assert_eq!(fabriscope(job), fabriscope(&format!("{job} --engine auto")));
}

#[test]
fn what_flow_cannot_do_is_refused_with_what_to_do() {
    for (line, words) in [
        ("bench osu_latency --on ri2 --engine flow", "not osu_latency"),
        ("bench ib_write_bw --on ri2 --engine flow", "not ib_write_bw"),
        ("bench osu_iallreduce --on lab-1024 --ppn 2 --engine flow", "no model of computation beside operations"),
        ("bench osu_allreduce --on lab-1024 --ppn 2 --algorithm sharp --engine flow", "no model of switches that reduce"),
        ("bench osu_allreduce --on lab-1024 --ppn 2 --engine flow --counters", "no packets to capture, to count or to draw"),
        ("bench osu_allreduce --on lab-1024 --ppn 2 --engine fluid", "there is no engine `fluid`"),
    ] {
        let (status, _, message) = fabriscope(line);
        assert_eq!(status, Some(2), "{line}: {message}");
        assert!(message.contains(words), "{line}: {message}");
        assert!(message.contains("help:"), "{line}: {message}");
    }
}
