//! Schedules in LogGP against closed forms.

use std::fmt::Write as _;

use fabriscope_traces::{LogGp, LogGpError, Part, loggp, read_parts};
use fabriscope_units::{Bytes, Span, Time};

const BY: LogGp = LogGp {
    latency: Span::from_ns(2500),
    overhead: Span::from_ns(1500),
    gap: Span::from_ns(1000),
    per_byte: Span::from_ps(6_000),
    eager: None,
};

fn end(goal: &str, by: &LogGp) -> Span {
    let traces = read_parts(vec![Part::new("own.goal", goal.as_bytes().to_vec())]).unwrap();
    loggp(&traces[0], by).unwrap().end().since(Time::ZERO)
}

/// A message: 2 o + L + (s − 1) G.
fn message(by: &LogGp, bytes: u64) -> Span {
    by.overhead * 2 + by.latency + by.per_byte * (bytes - 1)
}

#[test]
fn a_ping_pong_is_twice_a_message() {
    for bytes in [1, 8, 65_536] {
        let goal = format!(
            "num_ranks 2\nrank 0 {{\na: send {bytes}b to 1 tag 3\nb: recv {bytes}b from 1 tag 4\nb requires a\n}}\n\
             rank 1 {{\na: recv {bytes}b from 0 tag 3\nb: send {bytes}b to 0 tag 4\nb requires a\n}}\n"
        );
        assert_eq!(end(&goal, &BY), message(&BY, bytes) * 2, "{bytes} B");
    }
}

/// 2 (p − 1) steps, each of a message of a p-th.
#[test]
fn a_ring_all_reduce_is_its_steps() {
    for ranks in [2u32, 5, 8] {
        let bytes = 4096u64;
        let mut goal = format!("num_ranks {ranks}\n");
        for rank in 0..ranks {
            let (next, previous) = ((rank + 1) % ranks, (rank + ranks - 1) % ranks);
            writeln!(goal, "rank {rank} {{").unwrap();
            for step in 0..2 * (ranks - 1) {
                writeln!(goal, "s{step}: send {bytes}b to {next} tag {step}\nr{step}: recv {bytes}b from {previous} tag {step}").unwrap();
                if step > 0 {
                    writeln!(goal, "s{step} requires r{}", step - 1).unwrap();
                }
            }
            writeln!(goal, "}}").unwrap();
        }
        assert_eq!(end(&goal, &BY), message(&BY, bytes) * u64::from(2 * (ranks - 1)), "{ranks} ranks");
    }
}

/// Of 2^k ranks: k messages one behind the other where a message c takes longer than the gap g' = max(o, g + (s − 1) G) between two sends
/// of a rank; else the last of the root's k sends, (k − 1) g' + c.
#[test]
fn a_binomial_broadcast_is_its_longest_way() {
    let slow = LogGp { gap: Span::from_us(20), ..BY };
    for (by, bytes) in [(BY, 1u64), (slow, 512)] {
        for rounds in [1u32, 3, 4] {
            let ranks = 1u32 << rounds;
            let mut goal = format!("num_ranks {ranks}\n");
            for rank in 0..ranks {
                writeln!(goal, "rank {rank} {{").unwrap();
                let lowest = if rank == 0 { rounds } else { rank.trailing_zeros() };
                if rank > 0 {
                    writeln!(goal, "r: recv {bytes}b from {} tag 0", rank - (1 << lowest)).unwrap();
                }
                let mut before = String::from("r");
                for bit in (0..lowest).rev() {
                    writeln!(goal, "s{bit}: send {bytes}b to {} tag 0", rank + (1 << bit)).unwrap();
                    if rank > 0 || before != "r" {
                        writeln!(goal, "s{bit} requires {before}").unwrap();
                    }
                    before = format!("s{bit}");
                }
                writeln!(goal, "}}").unwrap();
            }
            let (c, between) = (message(&by, bytes), by.overhead.max(by.gap + by.per_byte * (bytes - 1)));
            let expected = if c >= between { c * u64::from(rounds) } else { between * u64::from(rounds - 1) + c };
            assert_eq!(end(&goal, &by), expected, "{ranks} ranks, {bytes} B");
        }
    }
}

/// A long message frees its sender when the receive is posted, which is after 100 us of computation; a short one at o.
#[test]
fn senders_of_long_messages_wait() {
    let goal = "num_ranks 2\nrank 0 {\na: send 100b to 1 tag 0\nb: calc 1000\nb requires a\n}\n\
                rank 1 {\na: calc 100000\nb: recv 100b from 0 tag 0\nb requires a\n}\n";
    let traces = read_parts(vec![Part::new("own.goal", goal.as_bytes().to_vec())]).unwrap();
    let of = |eager| loggp(&traces[0], &LogGp { eager, ..BY }).unwrap().ranks[0].since(Time::ZERO);
    assert_eq!(of(Some(Bytes(100))), BY.overhead + Span::from_us(1));
    // The message is there at o + L, but the core computes until 100 us; then the receive takes it.
    assert_eq!(of(Some(Bytes(99))), Span::from_us(100 + 1));
}

#[test]
fn what_never_comes_is_said() {
    let goal = "num_ranks 2\nrank 0 {\na: calc 1\n}\nrank 1 {\na: recv 8b from 0 tag 0\n}\n";
    let traces = read_parts(vec![Part::new("own.goal", goal.as_bytes().to_vec())]).unwrap();
    assert!(matches!(loggp(&traces[0], &BY), Err(LogGpError::Stuck { rank: 1, id: 0, open: 1, .. })));
}
