//! Single calls: where their time goes, and that it all goes somewhere.

use crate::machine::{Row, parts};
use crate::table::run;

const STAGES: [&str; 7] = ["client_us", "serialise_us", "transport_us", "network_us", "loop_us", "queue_us", "service_us"];

#[test]
fn stages_add_up_to_the_mean_on_every_transport() {
    let line = "--over tcp,rdma-send,rdma-write -c 200 --request 100 --reply 20000 -n 1,8 -w 2";
    for row in run("ri2", 2, line) {
        let sum: f64 = STAGES.iter().map(|stage| row.of(stage)).sum();
        assert!((sum / row.of("mean_us") - 1.0).abs() < 1e-6, "{sum}: {row:?}");
        assert!((row.of("service_us") - 10.0).abs() < 1e-6, "{row:?}");
        assert!(row.of("calls") == 200.0 && row.of("network_us") > 0.5, "{row:?}");
    }
}

#[test]
fn a_call_over_tcp_costs_the_kernel_both_ways() {
    let kernel = parts("ri2").ip.kernel;
    let rows = run("ri2", 2, "--over tcp,rdma-send,rdma-write -c 100 --service-time 0");
    let [tcp, send, write] = [0, 1, 2].map(|at: usize| &rows[at]);
    // Each way: three calls of the kernel (wait, read, write), a segment, an interrupt, two wake-ups of loops. The worker's is a third one.
    let least = 2.0 * (3.0 * kernel.syscall.as_us_f64() + kernel.send_segment.as_us_f64() + kernel.receive_segment.as_us_f64())
        + 2.0 * (kernel.interrupt.as_us_f64() + kernel.wake_up.as_us_f64());
    assert!(tcp.of("mean_us") > least && tcp.of("mean_us") < least + 30.0, "{tcp:?} against {least}");
    // Over RDMA no kernel is on the way: a few microseconds, of which the wire and adapters take about two.
    for row in [send, write] {
        assert!((3.0..8.0).contains(&row.of("mean_us")), "{row:?}");
    }
    // A WRITE is seen in memory: the receiver posts no receives.
    assert!(write.of("mean_us") < send.of("mean_us"), "{write:?} and {send:?}");
}

#[test]
fn long_messages_are_read_and_not_copied() {
    let mean = |reply: u64| {
        let line = format!("--over rdma-send -c 50 --service-time 0 --reply {reply}");
        run("ri2", 2, &line)[0].clone()
    };
    // Just below 4 KiB with its header it is eager; from there on a READ costs a round trip more.
    let (eager, read, long) = (mean(4000), mean(4100), mean(1 << 20));
    let further = read.of("network_us") + read.of("transport_us") - eager.of("network_us") - eager.of("transport_us");
    assert!((1.0..5.0).contains(&further), "{further}: {eager:?} {read:?}");
    // 1 MiB over 100 Gb/s takes 84 us.
    let wire = (1u64 << 20) as f64 * 8.0 / 100e3;
    let moved = long.of("network_us") + long.of("transport_us");
    assert!(moved > wire && moved < 1.2 * wire + 6.0, "{moved} against {wire}: {long:?}");
}

#[test]
fn the_first_answers_are_sooner_than_all() {
    let mean = |first: u32| -> Row {
        run("ri2", 5, &format!("--servers 4 -k 4 --first {first} -w 64 -c 2000 --service exponential --service-time 1000"))[0].clone()
    };
    // Of four exponentials of mean m the first is at m / 4, the second at m (1/4 + 1/3), the last at m (1/4 + 1/3 + 1/2 + 1).
    for (first, expected) in [(1, 250.0), (2, 583.3), (4, 2083.3)] {
        let row = mean(first);
        let served = row.of("service_us") + row.of("client_us");
        assert!((served / expected - 1.0).abs() < 0.08, "{first}: {served} against {expected}: {row:?}");
    }
}
