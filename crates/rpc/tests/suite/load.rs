//! Calls at a rate: queues, knees and tails against formulas.

use crate::table::run;

/// Erlang's C for `c` servers with `a` erlangs, by the recursion of Erlang's B.
fn erlang_c(c: u32, a: f64) -> f64 {
    let b = (1..=c).fold(1.0, |b, k| a * b / (f64::from(k) + a * b));
    b / (1.0 - a / f64::from(c) * (1.0 - b))
}

#[test]
fn queues_are_those_of_erlang() {
    // Four workers, each 200 us and what the library takes a call; RDMA, so that the loops are idle.
    let (workers, service) = (4, 200.0);
    for share in [0.5, 0.8] {
        let rate = share * f64::from(workers) / (service * 1e-6);
        let line =
            format!("--over rdma-send -t 8 -w {workers} --service exponential --service-time {service} -r {rate} -c 6000 --warm-up 500");
        let row = run("ri2", 2, &line)[0].clone();
        assert!((row.of("calls_per_s") / rate - 1.0).abs() < 0.05, "{row:?}");
        // Not quite exponential: the library's 0.9 us are always the same.
        let busy = share * (1.0 + row.of("serialise_us").min(1.0) / service);
        let expected = erlang_c(workers, busy * f64::from(workers)) * service / f64::from(workers) / (1.0 - busy);
        let found = row.of("queue_us");
        assert!((found / expected - 1.0).abs() < 0.15, "at {share}: {found} us against {expected} us");
    }
}

#[test]
fn closed_loops_stop_at_the_capacity_of_the_workers() {
    let line = "--over rdma-send -w 2 --service-time 50 -n 1,2,8,32 -c 1500";
    let rows = run("ri2", 2, line);
    // Two workers with 50 us and the library's time for each call.
    let capacity = 2.0 / 51e-6;
    let rates: Vec<f64> = rows.iter().map(|row| row.of("calls_per_s")).collect();
    assert!(rates[1] > 1.9 * rates[0], "{rates:?}");
    for rate in &rates[2..] {
        assert!((0.96..1.01).contains(&(rate / capacity)), "{rates:?} against {capacity}");
    }
    // Little's law: 32 outstanding over the rate.
    let expected = 32.0 / rates[3] * 1e6;
    assert!((rows[3].of("mean_us") / expected - 1.0).abs() < 0.03, "{:?}", rows[3]);
}

#[test]
fn one_thread_of_a_server_is_the_limit_of_small_calls_over_tcp() {
    // Many workers and clients: the event loop has its system calls, segments and interrupts for every call.
    let rate = |io_threads: u32| {
        let line = format!("-t 8 -w 16 --service-time 0 -n 4 -c 400 --io-threads {io_threads}");
        run("alaska-roce25", 3, &format!("{line} --servers 1"))[0].of("calls_per_s")
    };
    let (one, four) = (rate(1), rate(4));
    assert!((40e3..400e3).contains(&one), "{one}");
    assert!(four > 2.0 * one, "{one} and {four}");
}

#[test]
fn the_median_of_many_is_a_high_quantile_of_one() {
    let row = |fan_out: u32| {
        let line = format!("--over rdma-send --servers 8 -k {fan_out} -w 8 --service exponential --service-time 200 -c 3000");
        run("ri2", 9, &line)[0].clone()
    };
    let (one, two, eight) = (row(1), row(2), row(8));
    // P(max of k <= t) = P(one <= t)^k: the median of the largest of k exponentials is at -ln(1 - 2^(-1/k)) means: 0.693, 1.228, 2.488.
    let overhead = one.of("p50_us") - std::f64::consts::LN_2 * 200.0;
    assert!((0.0..20.0).contains(&overhead), "{one:?}");
    for (row, means) in [(&two, 1.228), (&eight, 2.488)] {
        let median = row.of("p50_us") - overhead;
        assert!((median / (means * 200.0) - 1.0).abs() < 0.06, "{median} against {means} means: {row:?}");
    }
    assert!(one.of("p99_us") < eight.of("p99_us") && one.of("p90_us") < eight.of("p50_us"), "{one:?} {eight:?}");
}

#[test]
fn the_same_seed_gives_the_same_calls() {
    let line = |seed: u32| format!("--over tcp -t 2 -r 40000 --service exponential -c 300 --seed {seed}");
    let mean = |seed| run("thor-roce-100g", 2, &line(seed))[0].of("mean_us");
    assert_eq!(mean(3).to_bits(), mean(3).to_bits());
    assert!((mean(3) - mean(4)).abs() > 1e-6);
}
