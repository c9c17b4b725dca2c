//! Columns of one table and tables of several tools against each other: statistics are in order, rates and sizes give bandwidths, and
//! programs that do the same measure the same.

use crate::machine;
use fabriscope_tools::ToolOutput;
use machine::{column, parts, run, run_on};

/// The only value of a metric.
fn value(output: &ToolOutput, metric: &str) -> f64 {
    let values = column(output, metric);
    assert_eq!(values.len(), 1, "{metric}: {}", output.text);
    values[0].1
}

/// Rows of numbers as printed.
fn printed(output: &ToolOutput) -> Vec<Vec<f64>> {
    let row = |line: &str| -> Option<Vec<f64>> { line.split_whitespace().map(|word| word.parse().ok()).collect() };
    output.text.lines().filter_map(row).filter(|row| row.len() > 1).collect()
}

#[test]
fn statistics_of_perftest_are_in_order() {
    // Least ≤ typical (the median) ≤ 99 % ≤ 99.9 % ≤ most; the mean lies between least and most, and no value is farther from it than a
    // deviation times the root of their number.
    for tool in ["ib_write_lat", "ib_send_lat", "ib_read_lat"] {
        for size in [2, 4096, 65_536] {
            let output = run(&format!("{tool} -n 64 -s {size}"));
            let of = |metric: &str| value(&output, metric);
            let order = [of("latency_min"), of("latency"), of("latency_p99"), of("latency_p99.9"), of("latency_max")];
            assert!(order.windows(2).all(|pair| pair[0] <= pair[1]), "{tool}, {size} B: {order:?}");
            let (mean, deviation) = (of("latency_avg"), of("latency_stdev"));
            // The mean is a sum of numbers with fractions: the last bits are not exact.
            assert!(order[0] - 1e-9 <= mean && mean <= order[4] + 1e-9, "{tool}, {size} B: {mean} in {order:?}");
            assert!(order[4] - mean <= deviation * 8.0 + 1e-9, "{tool}, {size} B: {deviation} and {order:?}");
        }
    }
}

#[test]
fn sizes_are_the_powers_of_two_of_the_range() {
    // perftest -a: 2 B to 8 MiB; OSU -m a:b: from a, doubling, up to b.
    let sizes = |output: &ToolOutput, metric: &str| column(output, metric).into_iter().map(|(size, _)| size).collect::<Vec<u64>>();
    let all: Vec<u64> = (1..=23).map(|power| 1 << power).collect();
    assert_eq!(sizes(&run("ib_write_lat -n 5 -a"), "latency"), all);
    assert_eq!(sizes(&run("osu_latency -i 2 -x 0 -m 4:64"), "latency"), [4, 8, 16, 32, 64]);
    assert_eq!(sizes(&run("osu_bw -i 2 -x 0 -m 8:8"), "bandwidth"), [8]);
    assert_eq!(sizes(&run("osu_latency -i 2 -x 0 -m 3:20"), "latency"), [3, 6, 12]);
}

#[test]
fn a_rate_times_its_size_is_a_bandwidth() {
    // osu_mbw_mr prints MB/s and messages/s: their quotient is the size, to the last printed digits.
    let output = run("osu_mbw_mr -i 8 -x 1 -m 1:16384");
    for row in printed(&output) {
        let [size, megabytes, rate] = row[..] else { panic!("{row:?}") };
        assert!((megabytes * 1e6 / rate / size - 1.0).abs() < 0.005 + 0.006 / megabytes, "{row:?}");
    }
    // perftest: Gb/s and Mpps; 8 bits a byte.
    for size in [64u32, 4096, 65_536] {
        let row = printed(&run(&format!("ib_write_bw -n 300 -s {size} --report_gbits"))).pop().unwrap();
        let [bytes, iterations, peak, average, rate] = row[..] else { panic!("{row:?}") };
        assert_eq!((bytes, iterations), (f64::from(size), 300.0));
        assert!(peak >= average, "{row:?}");
        assert!((average * 1e3 / (rate * 8.0 * bytes) - 1.0).abs() < 0.01 + 0.005 / average, "{row:?}");
    }
}

#[test]
fn units_of_bandwidth_agree() {
    // The same run in MiB/s and in Gb/s: 1 MiB/s is 8 · 1,048,576 b/s.
    let mib = value(&run("ib_write_bw -n 200 -s 65536"), "bandwidth");
    let gbits = value(&run("ib_write_bw -n 200 -s 65536 --report_gbits"), "bandwidth");
    assert!((mib * 8.0 * 1_048_576.0 / 1e9 / gbits - 1.0).abs() < 1e-6, "{mib} MiB/s and {gbits} Gb/s");
}

#[test]
fn long_and_short_options_mean_the_same() {
    let same = [
        ("ib_write_lat -s 64 -n 20", "ib_write_lat --size=64 --iters=20"),
        ("ib_write_lat -s 64 -n 20", "ib_write_lat -n 20 -s 64"),
        ("osu_latency -m 8:64 -i 4 -x 1", "osu_latency --message-size 8:64 --iterations 4 --warmup 1"),
        ("osu_bw -m 1K:1K -i 4 -x 1 -W 16", "osu_bw --message-size 1024:1024 -i 4 -x 1 --window-size 16"),
    ];
    for (short, long) in same {
        let (short_output, long_output) = (run(short), run(long));
        assert_eq!(printed(&short_output), printed(&long_output), "{short} and {long}");
    }
}

#[test]
fn a_put_is_a_write_and_a_get_is_a_read() {
    // MPI_Put with a flush is a write and its completion; MPI_Get a read. Two tools on one machine differ by the library's call and a turn of
    // its progress loop: less than half a microsecond, and the library is never faster than the verbs alone.
    let (get, read) = (value(&run("osu_get_latency -m 8:8 -s flush"), "latency"), value(&run("ib_read_lat -s 8 -n 50"), "latency"));
    assert!(get > read - 0.05 && get < read + 0.5, "{get} and {read}");
    let long = |line: &str| value(&run(line), "latency");
    let (get, read) = (long("osu_get_latency -m 64K:64K -s flush -i 8 -x 2"), long("ib_read_lat -s 65536 -n 20"));
    assert!(get > read - 0.05 && get < read + 1.0, "{get} and {read}");
}

#[test]
fn an_average_of_ranks_lies_between_the_first_and_the_last() {
    // -f prints mean, least and most of all ranks.
    let parts = machine::ri2(4, 1);
    for tool in ["osu_allreduce", "osu_bcast", "osu_barrier"] {
        let sizes = if tool == "osu_barrier" { "" } else { "-m 8:4096" };
        let (output, _) = run_on(&parts, &format!("{tool} -f -i 5 -x 1 {sizes}"));
        let rows = printed(&output);
        assert!(!rows.is_empty(), "{}", output.text);
        for row in rows {
            let at = usize::from(tool != "osu_barrier");
            let [mean, least, most] = row[at..at + 3] else { panic!("{row:?}") };
            assert!(least <= mean && mean <= most && least > 0.0, "{tool}: {row:?}");
        }
    }
}

#[test]
fn windows_fill_the_link_more_and_more() {
    // More messages outstanding never bring less; 64 bring what one cannot: 16 KiB a round trip of three crossings against a stream.
    let bandwidth = |window: u32| value(&run(&format!("osu_bw -m 32K:32K -W {window} -i 8 -x 2")), "bandwidth");
    let table = [1, 2, 4, 16, 64].map(bandwidth);
    assert!(table.windows(2).all(|pair| pair[0] <= pair[1] * 1.001), "{table:?}");
    assert!(table[4] > 2.0 * table[0], "{table:?}");
    // No window is more than the link: EDR with 4096 B in 4122 B, 12.42 GB/s.
    assert!(table[4] < 12_500.0 * 4096.0 / 4122.0, "{table:?}");
}

#[test]
fn two_directions_are_two_streams() {
    // osu_bibw adds both; the links are duplex. No more than twice, and well more than once.
    for cluster in ["ri2", "betzy-hdr", "lumi-c"] {
        let machine = parts(cluster);
        let of = |line: &str| value(&run_on(&machine, line).0, "bandwidth");
        let (one, both) = (of("osu_bw -m 1M:1M -i 4 -x 1 -W 16"), of("osu_bibw -m 1M:1M -i 4 -x 1 -W 16"));
        assert!(both <= 2.0 * one * 1.01 && both > 1.5 * one, "{cluster}: {one} and {both}");
    }
}
