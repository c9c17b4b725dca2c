//! What is refused, and whether the message says what to do.

use fabriscope_schedule::{After, At, Builder, Match, OpId, OpKind, Schedule, ScheduleError};
use fabriscope_units::Remedy;
use fabriscope_units::{Bytes, Span};

fn refused(builder: Builder) -> (ScheduleError, String) {
    let error = builder.build().unwrap_err();
    let message = error.in_full();
    (error, message)
}

#[test]
fn ranks_have_to_exist() {
    assert!(matches!(refused(Builder::new(0)).0, ScheduleError::Ranks { ranks: 0, .. }));
    assert!(matches!(refused(Builder::new(u32::MAX)).0, ScheduleError::Ranks { .. }));
    let mut builder = Builder::new(4);
    builder.put(4, 0, Bytes(8));
    assert!(matches!(refused(builder).0, ScheduleError::NoSuchRank { rank: 4, last: 3, .. }));
    let mut builder = Builder::new(4);
    builder.compute(2, Span::ZERO);
    builder.get(2, 9, Bytes(8));
    let message = refused(builder).1;
    assert_eq!(message, "rank 2 operation o1, `get 8 B from 9`: there is no rank 9; use 0 to 3 or make a schedule of more ranks");
}

#[test]
fn dependencies_have_to_exist() {
    for (op, earlier) in [(0, 5), (5, 0)] {
        let mut builder = Builder::new(1);
        builder.compute(0, Span::ZERO);
        builder.requires(0, OpId(op), OpId(earlier));
        assert!(matches!(refused(builder).0, ScheduleError::NoSuchOp { after: OpId(5), count: 1, .. }));
    }
    let mut builder = Builder::new(1);
    builder.requires_start(7, OpId(0), OpId(0));
    assert!(matches!(refused(builder).0, ScheduleError::NoSuchOp { count: 0, .. }));
}

#[test]
fn messages_need_two_sides() {
    let mut builder = Builder::new(2);
    builder.send(0, 1, Bytes(8), 3);
    builder.send(0, 1, Bytes(8), 4);
    builder.recv(1, 0, Bytes(8), 3);
    let message = refused(builder).1;
    assert!(message.contains("rank 0 operation o1") && message.contains("add `recv 8 B from 0 tag 4` to rank 1"), "{message}");

    let mut builder = Builder::new(3);
    builder.recv(2, 1, Bytes(8), 3);
    builder.send(0, 1, Bytes(8), 3);
    builder.recv(1, 0, Bytes(8), 3);
    let message = refused(builder).1;
    assert!(message.contains("add `send 8 B to 2 tag 3` to rank 1"), "{message}");

    // One receive too many with the same key.
    let mut builder = Builder::new(2);
    builder.send(0, 1, Bytes(8), 3);
    builder.recv(1, 0, Bytes(8), 3);
    builder.recv(1, 0, Bytes(8), 3);
    assert!(matches!(refused(builder).0, ScheduleError::Unmatched { at: At { rank: 1, op: OpId(1) }, .. }));
}

#[test]
fn messages_meet_in_order() {
    let mut builder = Builder::new(2);
    builder.send(0, 1, Bytes(8), 0);
    builder.send(0, 1, Bytes(16), 0);
    builder.recv(1, 0, Bytes(16), 0);
    builder.recv(1, 0, Bytes(8), 0);
    let (error, message) = refused(builder);
    assert!(matches!(error, ScheduleError::Length { sent: Bytes(8), expected: Bytes(16), .. }));
    assert!(message.contains("rank 0 operation o0 sends 8 B to rank 1 operation o0"), "{message}");

    // With two tags the order of the receives is free.
    let mut builder = Builder::new(2);
    builder.send(0, 1, Bytes(8), 0);
    builder.send(0, 1, Bytes(16), 1);
    builder.recv(1, 0, Bytes(16), 1);
    builder.recv(1, 0, Bytes(8), 0);
    let at = |rank, op| At { rank, op: OpId(op) };
    let expected = vec![Match { send: at(0, 0), recv: at(1, 1) }, Match { send: at(0, 1), recv: at(1, 0) }];
    assert_eq!(builder.build().unwrap().matches(), Ok(expected));
}

#[test]
fn cycles_are_found() {
    // Within a rank: o0 after o2 after o1 after o0.
    let mut builder = Builder::new(2);
    for _ in 0..3 {
        builder.compute(1, Span::ZERO);
    }
    builder.requires(1, OpId(0), OpId(2));
    builder.requires_start(1, OpId(2), OpId(1));
    builder.requires(1, OpId(1), OpId(0));
    let (error, message) = refused(builder);
    assert!(matches!(error, ScheduleError::Cycle { ref path } if path.len() == 3), "{error:?}");
    assert!(message.contains("rank 1 operation o0 (`compute 0 ps`) waits for rank 1 operation o2"), "{message}");

    // An operation that waits for itself.
    let mut builder = Builder::new(1);
    let op = builder.compute(0, Span::ZERO);
    builder.requires_start(0, op, op);
    assert!(matches!(refused(builder).0, ScheduleError::Cycle { ref path } if path.len() == 1));
}

/// Both ranks exchange a message; `send_first` tells who sends before it receives.
fn exchange(send_first: [bool; 2]) -> Builder {
    let mut builder = Builder::new(2);
    for rank in 0..2 {
        let (send, recv) =
            (OpKind::Send { to: 1 - rank, bytes: Bytes(8), tag: 0 }, OpKind::Recv { from: 1 - rank, bytes: Bytes(8), tag: 0 });
        let [first, second] = if send_first[rank as usize] { [send, recv] } else { [recv, send] };
        let first = builder.op(rank, first);
        builder.op_after(rank, second, &[After::End(first)]);
    }
    builder
}

#[test]
fn cycles_between_ranks_are_found() {
    let (error, message) = refused(exchange([false, false]));
    assert!(matches!(error, ScheduleError::Cycle { ref path } if path.len() == 4), "{message}");
    assert!(message.contains("receive without waiting"), "{message}");
    // Where one side sends first it works; where both do, it depends on the protocol and is allowed.
    for send_first in [[true, false], [false, true], [true, true]] {
        assert!(exchange(send_first).build().is_ok(), "{send_first:?}");
    }
}

#[test]
fn a_long_chain_does_not_exhaust_the_stack() {
    let mut builder = Builder::new(1);
    let mut last = builder.compute(0, Span::ZERO);
    for _ in 0..200_000 {
        last = builder.op_after(0, OpKind::Compute { span: Span::ZERO }, &[After::End(last)]);
    }
    builder.requires(0, OpId(0), last);
    let message = refused(builder).1;
    assert!(message.contains("199995 more") && message.len() < 1000, "{message}");
}

#[test]
fn totals() {
    let mut builder = Builder::new(2);
    builder.put(0, 1, Bytes(100));
    builder.get(0, 1, Bytes(10));
    builder.send(1, 0, Bytes(1), 0);
    builder.recv(0, 1, Bytes(1), 0);
    builder.compute(1, Span::from_ns(5));
    let ends = builder.join(1, &[OpId(0), OpId(1)]);
    let schedule = builder.build().unwrap();
    let stats = schedule.stats();
    assert_eq!((stats.ops, stats.messages, stats.bytes, stats.longest), (6, 3, Bytes(111), Bytes(100)));
    assert_eq!((stats.ranks, stats.dependencies, stats.computes, stats.computed), (2, 2, 2, Span::from_ns(5)));
    assert_eq!(schedule.op(1, ends).unwrap().after, [After::End(OpId(0)), After::End(OpId(1))]);
    assert_eq!((schedule.ops(0).len(), schedule.ops(2).len(), schedule.op(1, OpId(9))), (3, 0, None));
}

#[test]
fn the_hash_sees_everything() {
    let base = || exchange([true, false]);
    let changed: [fn(&mut Builder); 5] = [
        |_| {},
        |builder| builder.requires(0, OpId(1), OpId(0)),
        |builder| builder.requires_start(0, OpId(1), OpId(0)),
        |builder| _ = builder.put(0, 1, Bytes(8)),
        |builder| _ = builder.put(0, 1, Bytes(9)),
    ];
    let mut hashes: Vec<_> = changed
        .map(|change| {
            let mut builder = base();
            change(&mut builder);
            builder.build().unwrap().stable_hash()
        })
        .to_vec();
    assert_eq!(hashes[0], base().build().unwrap().stable_hash());
    hashes.push(Builder::new(2).build().unwrap().stable_hash());
    hashes.push(Builder::new(3).build().unwrap().stable_hash());
    hashes.sort_unstable();
    hashes.dedup();
    assert_eq!(hashes.len(), 7);
    // For ever: results are filed under this name.
    assert_eq!(base().build().unwrap().stable_hash().to_string(), "b4f87a62e966b2cda434a5467fefa86a");
}

#[test]
fn serde_round_trip_and_refusal() {
    let schedule = exchange([true, false]).build().unwrap();
    let json = serde_json::to_string(&schedule).unwrap();
    assert!(json.starts_with(r#"{"ranks":[[{"op":{"send":{"to":1,"bytes":"8 B","tag":0}}},{"op":{"recv""#), "{json}");
    assert!(json.contains(r#""after":[{"end":0}]"#), "{json}");
    assert_eq!(serde_json::from_str::<Schedule>(&json).unwrap(), schedule);
    let nonsense = json.replace(r#""end":0"#, r#""end":1"#);
    assert!(serde_json::from_str::<Schedule>(&nonsense).unwrap_err().to_string().contains("waits for"));
    assert!(serde_json::from_str::<Schedule>(r#"{"ranks":[]}"#).is_err());
    assert!(serde_json::from_str::<Schedule>(r#"{"ranks":[[]],"more":1}"#).is_err());
}
