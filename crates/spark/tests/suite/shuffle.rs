//! Shuffles on simulated clusters against what follows from bytes, rates and limits.

use crate::stages::run;

const FAST: &str = "--map-rate 1000000 --reduce-rate 1000000";

#[test]
fn every_byte_is_read_once_and_most_are_remote() {
    for over in ["tcp", "rdma-get", "rdma-am"] {
        let output = run("ri2", 3, &format!("--over {over} -d 192M --cores 2"));
        let stage = &output.stages[0];
        let (remote, local) = (stage.of("remote_bytes_read"), stage.of("local_bytes_read"));
        // A block for each of 6 maps and 6 reducers; the maps of other executors are two thirds.
        assert_eq!((remote, local), ((128u64 << 20) as f64, (64u64 << 20) as f64), "{over}");
        let reduces: Vec<_> = output.tasks.iter().filter(|task| task.of("stage_id") == 1.0).collect();
        assert_eq!((output.tasks.len(), reduces.len()), (12, 6));
        assert!(reduces.iter().all(|task| task.of("remote_blocks_fetched") == 4.0 && task.of("local_blocks_fetched") == 2.0));
    }
}

#[test]
fn tasks_take_what_their_cores_and_drives_take() {
    // Two waves of maps: 4 ms and 32 MiB at 150 MB/s; reduces that wait for little: 64 MiB at 200 MB/s.
    let output = run("ri2", 2, "--over rdma-get -d 256M --cores 2 -m 8 --reducers 4");
    let stage = &output.stages[0];
    let map = 2.0 * (0.004 + 33_554_432.0 / 150e6);
    assert!((stage.of("map_s") - map).abs() < 1e-6, "{stage:?}");
    let reduce = 0.004 + 67_108_864.0 / 200e6;
    assert!(stage.of("reduce_s") > reduce - 1e-6 && stage.of("reduce_s") < 1.05 * reduce, "{stage:?} against {reduce}");
    // A disk of 196 MB/s has to read half of the blocks for each node, and 128 MiB were written to it.
    let slow = run("ri2", 2, "--over tcp -d 256M --cores 2 --drive hdd-7200");
    let read = (128u64 << 20) as f64 / 196e6;
    assert!(slow.stages[0].of("reduce_s") > read && slow.stages[0].of("map_s") > read, "{:?}", slow.stages[0]);
}

#[test]
fn fetching_alone_goes_at_the_rate_of_the_transport() {
    let rate = |over: &str| {
        let stage = run("ri2", 2, &format!("--over {over} -d 1G --cores 4 {FAST}")).stages[0].clone();
        stage.of("remote_bytes_read") / stage.of("reduce_s") / 2.0 * 8e-9
    };
    let (tcp, get, am) = (rate("tcp"), rate("rdma-get"), rate("rdma-am"));
    // Each node gets 256 MiB over 100 Gb/s; starting tasks takes 4 ms of the 26.
    assert!((60.0..100.0).contains(&get), "{get} Gb/s");
    assert!((am / get - 1.0).abs() < 0.25, "{am} and {get} Gb/s");
    // A TCP connection in each direction, one core at each end.
    assert!((5.0..45.0).contains(&tcp), "{tcp} Gb/s");
}

#[test]
fn small_windows_make_tasks_wait() {
    let wait = |size: &str| {
        let line = format!("--over tcp -d 512M --cores 2 -m 64 --reducers 4 --max-size-in-flight {size} --reduce-rate 2000");
        let stage = run("ri2", 2, &line).stages[0].clone();
        (stage.of("fetch_wait_s"), stage.of("requests"))
    };
    let (wide, narrow) = (wait("48M"), wait("1M"));
    assert!(narrow.0 > wide.0, "{narrow:?} and {wide:?}");
    // Blocks of 2 MiB: with 48 MiB in flight five of them are a request of the 32 that each reducer asks for, with 1 MiB each is one.
    assert_eq!((wide.1, narrow.1), (4.0 * 7.0, 4.0 * 32.0));
}

#[test]
fn skewed_partitions_have_stragglers() {
    let span = |skew: &str| {
        let output = run("ri2", 2, &format!("--over rdma-get -d 256M --cores 4 --skew {skew}"));
        let mut spans: Vec<f64> =
            output.tasks.iter().filter(|task| task.of("stage_id") == 1.0).map(|task| task.of("duration_ms")).collect();
        spans.sort_by(f64::total_cmp);
        (spans[spans.len() / 2], spans[spans.len() - 1])
    };
    let (even, skewed) = (span("even"), span("zipf-1"));
    assert!(even.1 / even.0 < 1.1, "{even:?}");
    // 1 / (1 + 1/2 + … + 1/8) = 0.368 of the bytes instead of 1/8.
    assert!((skewed.1 / even.1 / (0.368 * 8.0) - 1.0).abs() < 0.1, "{skewed:?} and {even:?}");
}
