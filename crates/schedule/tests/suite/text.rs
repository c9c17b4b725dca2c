//! The text form: what is read, what is refused and where, and that nothing makes the reader panic.

use fabriscope_schedule::{After, Builder, OpId, OpKind, Schedule, TextProblem};
use fabriscope_units::Remedy;
use fabriscope_units::{Bytes, Span};
use proptest::prelude::*;

const EXAMPLE: &str = "\
num_ranks 3   // two of them work

rank 0 {
  work: compute 1.5 us
  out: send 4KiB to 1 tag 7   /* a space before the unit
                                 is not needed */
  out requires work
  back: recv 8 B from 1
  back irequires out
}
rank 1 { in: recv 4096 B from 0 tag 7
  answer: send 8 B to 0
  answer requires in
  get 1 MiB from 2
  put 64 B to 1 }
";

#[test]
fn the_example_reads_as_meant() {
    let schedule = Schedule::parse(EXAMPLE).unwrap();
    let mut builder = Builder::new(3);
    let work = builder.compute(0, Span::from_ns(1500));
    let out = builder.send(0, 1, Bytes(4096), 7);
    builder.requires(0, out, work);
    let back = builder.recv(0, 1, Bytes(8), 0);
    builder.requires_start(0, back, out);
    let arrived = builder.recv(1, 0, Bytes(4096), 7);
    builder.op_after(1, OpKind::Send { to: 0, bytes: Bytes(8), tag: 0 }, &[After::End(arrived)]);
    builder.get(1, 2, Bytes::from_mib(1));
    builder.put(1, 1, Bytes(64));
    assert_eq!(schedule, builder.build().unwrap());
    let written = "\
num_ranks 3

rank 0 {
  o0: compute 1.5 us
  o1: send 4 KiB to 1 tag 7
  o1 requires o0
  o2: recv 8 B from 1 tag 0
  o2 irequires o1
}

rank 1 {
  o0: recv 4 KiB from 0 tag 7
  o1: send 8 B to 0 tag 0
  o1 requires o0
  o2: get 1 MiB from 2
  o3: put 64 B to 1
}
";
    assert_eq!(schedule.to_string(), written);
}

#[test]
fn errors_have_a_place_and_a_remedy() {
    for (text, message) in [
        ("", "line 1, column 1: found the end of the text; expected `num_ranks` with the number of ranks"),
        ("num_ranks\n", "line 1, column 10: found the end of the line; expected the number of ranks"),
        ("num_ranks -1", "line 1, column 11: found `-1`; expected the number of ranks"),
        ("num_ranks 0", "line 1, column 11: 0 ranks are not a schedule; use 1 to 16777216"),
        ("num_ranks 4294967295", "line 1, column 11: 4294967295 ranks are not a schedule; use 1 to 16777216"),
        (
            "num_ranks 2\nrank 2 {\n}",
            "line 2, column 6: there is no rank 2 among 2; ranks count from 0, raise `num_ranks` or drop the block",
        ),
        ("num_ranks 2\nrank 1 {\n}\nrank 1 {\n}", "line 4, column 6: rank 1 already has a block in line 2; write all its operations there"),
        (
            "num_ranks 1\nrank 0 {",
            "line 2, column 9: found the end of the text; expected a statement (send, recv, put, get, compute, a label) or `}`",
        ),
        ("num_ranks 1\nrank 0 {\n  a: fly 3 ns\n}", "line 3, column 6: found `fly`; expected send, recv, put, get or compute"),
        (
            "num_ranks 1\nrank 0 {\n  calc 1000\n}",
            "line 3, column 8: `1000` has no unit; write a time with its unit, for example \"1000 ns\"",
        ),
        (
            "num_ranks 1\nrank 0 {\n  put 4096 to 0\n}",
            "line 3, column 7: `4096` has no unit; write an amount of data with its unit, for example \"4096 B\"",
        ),
        (
            "num_ranks 1\nrank 0 {\n  put 4096b to 0\n}",
            "line 3, column 7: `b` is not a unit of an amount of data; use one of B, kB, KiB, MB, MiB, GB, GiB, TB, TiB",
        ),
        ("num_ranks 1\nrank 0 {\n  put 8 B to 0 tag 1\n}", "line 3, column 16: found `tag`; expected the end of the line"),
        (
            "num_ranks 1\nrank 0 {\n  a: put 8 B to 0\n  a requires é\n}",
            "line 4, column 14: no operation of rank 0 is labelled `é`; label one with `é: …` within the same rank",
        ),
        (
            "num_ranks 1\nrank 0 {\n a: put 8 B to 0\n a: put 8 B to 0\n}",
            "line 4, column 2: `a` already labels the operation in line 3; choose another label",
        ),
        ("num_ranks 1 /* é\n", "line 1, column 13: this comment never ends; close it with `*/`"),
        (
            "num_ranks 2\nrank 1 {\n put 8 B to 0\n é: put 8 B to 5\n}",
            "line 4, column 2: rank 1 operation o1, `put 8 B to 5`: there is no rank 5; use 0 to 1 or make a schedule of more ranks",
        ),
    ] {
        assert_eq!(Schedule::parse(text).unwrap_err().in_full(), message, "{text}");
    }
}

#[test]
fn a_cycle_is_reported_where_it_starts() {
    let error = Schedule::parse("num_ranks 1\nrank 0 {\n compute 1 ns\n a: compute 1 ns\n a requires a\n}").unwrap_err();
    assert_eq!((error.line, error.column), (4, 2));
    assert!(matches!(error.problem, TextProblem::Schedule(_)));
}

/// Schedules that make sense: messages in both directions and dependencies on earlier operations.
fn schedules() -> impl Strategy<Value = Schedule> {
    let op = (0u32..4, 0u32..4, 0u8..5, prop_oneof![Just(0), 1u64..10_000, any::<u64>()], 0u32..3);
    let edge = (0u32..4, any::<u32>(), any::<u32>(), any::<bool>());
    (4u32..6, prop::collection::vec(op, 0..30), prop::collection::vec(edge, 0..20)).prop_map(|(ranks, ops, edges)| {
        let mut builder = Builder::new(ranks);
        let mut counts = [0u32; 4];
        for (rank, peer, kind, amount, tag) in ops {
            counts[rank as usize] += 1;
            match kind {
                0 => _ = builder.compute(rank, Span::from_ps(amount)),
                1 => _ = builder.put(rank, peer, Bytes(amount)),
                2 => _ = builder.get(rank, peer, Bytes(amount)),
                _ => {
                    builder.send(rank, peer, Bytes(amount), tag);
                    builder.recv(peer, rank, Bytes(amount), tag);
                    counts[peer as usize] += 1;
                }
            }
        }
        for (rank, one, other, end) in edges {
            let count = counts[rank as usize];
            if count >= 2 {
                let (one, other) = (one % count, other % count);
                // Towards earlier operations of the same rank there is no cycle: sends stand before their receives.
                let (op, earlier) = (OpId(one.max(other)), OpId(one.min(other)));
                match (op == earlier, end) {
                    (true, _) => {}
                    (_, true) => builder.requires(rank, op, earlier),
                    (_, false) => builder.requires_start(rank, op, earlier),
                }
            }
        }
        builder.build().unwrap()
    })
}

/// Text that looks like a schedule from a distance.
fn almost() -> impl Strategy<Value = String> {
    let words = prop::sample::select(vec![
        "num_ranks",
        "rank",
        "0",
        "1",
        "2",
        "99999999999",
        "{",
        "}",
        "\n",
        "\n",
        ":",
        "send",
        "recv",
        "put",
        "get",
        "compute",
        "calc",
        "8",
        "4 KiB",
        "1 ns",
        "64B",
        "to",
        "from",
        "tag",
        "requires",
        "irequires",
        "a",
        "b",
        "//",
        "/*",
        "*/",
        "µs",
        "3 µs",
        "é",
        "\u{0}",
        "-1",
        "1.5",
    ]);
    (any::<bool>(), prop::collection::vec(words, 0..60)).prop_map(|(head, words)| {
        let text = words.join(" ");
        if head { format!("num_ranks 2\nrank 0 {{\n{text}") } else { text }
    })
}

/// Where to cut and what to put there.
fn mutations() -> impl Strategy<Value = Vec<(usize, usize, String)>> {
    prop::collection::vec((any::<usize>(), 0usize..4, ".{0,3}"), 1..6)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn round_trip(schedule in schedules()) {
        let read = Schedule::parse(&schedule.to_string()).unwrap();
        prop_assert_eq!(&read, &schedule);
        prop_assert_eq!(read.stable_hash(), schedule.stable_hash());
        prop_assert_eq!(&serde_json::from_str::<Schedule>(&serde_json::to_string(&schedule).unwrap()).unwrap(), &schedule);
        prop_assert_eq!(schedule.matches().unwrap().len() as u64, schedule.stats().sends);
    }

    #[test]
    fn no_text_crashes_the_reader(text in "\\PC{0,80}") {
        prop_assert!(Schedule::parse(&text).is_err());
    }

    #[test]
    fn nearly_right_text_does_not_crash_the_reader(text in almost()) {
        match Schedule::parse(&text) {
            Ok(schedule) => prop_assert_eq!(Schedule::parse(&schedule.to_string()), Ok(schedule)),
            Err(error) => prop_assert!(error.line >= 1 && error.line as usize <= text.matches('\n').count() + 1 && error.column >= 1, "{}", error),
        }
    }

    #[test]
    fn damaged_text_does_not_crash_the_reader(schedule in schedules(), mutations in mutations()) {
        let mut text: Vec<char> = schedule.to_string().chars().collect();
        for (at, length, new) in mutations {
            let at = at % (text.len() + 1);
            let end = (at + length).min(text.len());
            text.splice(at..end, new.chars());
        }
        // A number of ranks near the limit is legal, and slow to try thousands of times.
        let text: String = text.into_iter().collect();
        prop_assume!(!text.starts_with("num_ranks 4") || text.find('\n').is_some_and(|end| end < 14));
        if let Ok(schedule) = Schedule::parse(&text) {
            prop_assert_eq!(Schedule::parse(&schedule.to_string()), Ok(schedule));
        }
    }
}
