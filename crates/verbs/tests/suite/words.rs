//! Words travel with their messages: lost with them, repeated with their packets, read once.

use crate::fleet;
use crate::pair;
use fabriscope_verbs::*;
use fleet::{Faults, Fleet};
use pair::Pair;
use proptest::prelude::*;

/// The sending end of every service.
fn kinds() -> impl Iterator<Item = QpType> {
    Service::ALL.into_iter().map(QpType::sender_of)
}

/// Those of message `n`, of so many bytes.
fn words(n: u64, length: u32) -> AppWords {
    AppWords([n, !n, n << 40, length.into()])
}

/// SENDs of SRD are one packet.
fn fitted(kind: QpType, length: u32) -> u32 {
    if kind.message_is_packet(WrOpcode::Send) { length % 256 } else { length }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    /// Over every transport that has them, on a channel that loses, repeats, cuts off and reorders.
    #[test]
    fn words_come_with_their_message(
        (lose, duplicate, reorder, trim, seed) in (0u32..60, 0u32..80, 0u32..300, 0u32..40, any::<u64>()),
        lengths in prop::collection::vec((0u32..900, any::<bool>()), 1..24),
    ) {
        for kind in kinds().filter(|kind| kind.carries_words()) {
            let mut fleet = Fleet::new(kind, 2, Mtu::B256, Faults { lose, duplicate, reorder, trim, seed }, cc::Settings::default());
            for (n, (length, imm)) in (0u64..).zip(&lengths) {
                let length = fitted(kind, *length);
                let into = fleet.sge(1, 0x10000, 4096);
                fleet.post_recv(0, 1, n, into).unwrap();
                let mut wr = SendWr::send(n, fleet.sge(0, 0, length)).signaled();
                if *imm && kind.has(WrOpcode::SendWithImm) {
                    wr = wr.with_imm(n as u32);
                }
                // Every fifth says nothing.
                fleet.post(0, 1, if n % 5 == 4 { wr } else { wr.saying(words(n, length)) }).unwrap();
            }
            prop_assert!(fleet.run(200_000), "{:?}", kind);
            let receiver = &fleet.nodes[1];
            let got: Vec<Option<AppWords>> =
                receiver.done.iter().zip(&receiver.said).filter(|(wc, _)| wc.status == WcStatus::Success).map(|(_, said)| *said).collect();
            let said = |(n, (length, _)): (u64, &(u32, bool))| (n % 5 != 4).then(|| words(n, fitted(kind, *length)));
            let sent: Vec<Option<AppWords>> = (0u64..).zip(&lengths).map(said).collect();
            let count = |list: &[Option<AppWords>], one| list.iter().filter(|other| **other == one).count();
            for said in sent.iter().filter(|_| kind.is_reliable()) {
                prop_assert_eq!(count(&got, *said), count(&sent, *said), "{:?}: {:?}", kind, said);
            }
            // What is unreliable may lose messages and deliver some twice, but none with the words of another.
            for (wc, said) in receiver.done.iter().zip(&receiver.said).filter(|(wc, _)| wc.status == WcStatus::Success) {
                prop_assert!(sent.contains(said) && said.is_none_or(|words| words.0[3] == u64::from(wc.byte_len - if wc.grh { 40 } else { 0 })), "{:?}: {:?}", kind, wc);
            }
            if matches!(kind, QpType::Rc | QpType::Iwarp) {
                prop_assert_eq!(got, sent);
            }
        }
    }
}

#[test]
fn requests_without_words_are_refused() {
    for kind in kinds() {
        let mut fleet = Fleet::new(kind, 2, Mtu::B256, Faults::default(), cc::Settings::default());
        let (sge, remote) = (fleet.sge(0, 0, 8), fleet.remote(1, 0));
        let says = |wr: SendWr| wr.saying(words(1, 8));
        if kind.has(WrOpcode::Send) {
            assert_eq!(fleet.post(0, 1, says(SendWr::send(1, sge))).is_ok(), kind.carries_words(), "{kind:?}");
        }
        if kind.has(WrOpcode::RdmaRead) {
            let error = fleet.post(0, 1, says(SendWr::read(1, sge, remote))).unwrap_err();
            assert_eq!((error.errno_name(), error), ("EINVAL", PostError::NoWords { opcode: WrOpcode::RdmaRead, qp_type: kind }));
        }
    }
}

/// What was said is there until the queue is polled again, and only then.
#[test]
fn words_are_kept_until_the_next_poll() {
    let mut pair = Pair::rc();
    for n in 0..3 {
        let into = pair.sge(1, 0x1000, 64);
        pair.post_recv(1, n, into).unwrap();
        let wr = SendWr::send(n, pair.sge(0, 0, 8)).saying(words(n, 8));
        pair.post(0, &wr).unwrap();
    }
    assert!(pair.run(1000));
    assert_eq!(pair.ends[1].said, [0, 1, 2].map(|n| Some(words(n, 8))));
    pair.poll(1);
    let end = &pair.ends[1];
    assert_eq!(end.done.iter().map(|wc| end.nic.words(wc)).collect::<Vec<_>>(), [None; 3]);
}

/// A WRITE with immediate data says its words with the completion, one without behind the watch.
#[test]
fn writes_say_their_words_where_they_are_noticed() {
    let mut pair = Pair::rc();
    let into = pair.sge(1, 0x1000, 64);
    pair.post_recv(1, 9, into).unwrap();
    for n in 0..3u64 {
        let wr = SendWr::write(n, pair.sge(0, 0, 600), pair.remote(1, 0x2000 * n)).saying(words(n, 600));
        let wr = if n == 1 { wr.with_imm(1) } else { wr };
        pair.post(0, &wr).unwrap();
    }
    assert!(pair.run(1000));
    let end = &pair.ends[1];
    assert_eq!(end.said, [Some(words(1, 600))]);
    assert_eq!(end.written, [words(0, 600), words(2, 600)]);
}
