//! The states of a connection, edge by edge of RFC 9293 figure 5, with the segments of §3.5 and §3.6 made by hand.

use crate::ends;
use ends::{OURS, PEERS, at, bare, config, open, say, segment};
use fabriscope_tcp::{Config, Connection, Segment, Seq, State, TcpError};
use fabriscope_wire::TcpFlags;

const SYN: TcpFlags = TcpFlags::SYN;
const ACK: TcpFlags = TcpFlags::ACK;
const FIN_ACK: TcpFlags = TcpFlags::FIN.with(TcpFlags::ACK);
const SYN_ACK: TcpFlags = TcpFlags::SYN.with(TcpFlags::ACK);
const RST_ACK: TcpFlags = TcpFlags::RST.with(TcpFlags::ACK);

/// Number, acknowledgement and flags of each.
fn told(segments: &[Segment]) -> Vec<(u32, u32, TcpFlags)> {
    segments.iter().map(|segment| (segment.header.seq, segment.header.ack, segment.header.flags)).collect()
}

fn connecting() -> Connection {
    Connection::connect(config(), Seq(OURS)).unwrap()
}
fn listening() -> Connection {
    Connection::listen(config(), Seq(OURS)).unwrap()
}

#[test]
fn active_open() {
    // Figure 6: <SEQ=99><CTL=SYN>, <SEQ=4999><ACK=100><CTL=SYN,ACK>, <SEQ=100><ACK=5000><CTL=ACK>.
    let mut end = connecting();
    assert_eq!(end.state(), State::SynSent);
    assert_eq!(told(&say(&mut end, at(0))), [(OURS, 0, SYN)]);
    let arrival = end.handle_segment(at(10), &bare(PEERS, OURS + 1, SYN_ACK), false);
    assert!(arrival.established && end.is_established());
    assert_eq!((end.state(), arrival.acked), (State::Established, 0), "a SYN is no byte of the stream");
    assert_eq!(told(&say(&mut end, at(10))), [(OURS + 1, PEERS + 1, ACK)]);
    assert_eq!(end.poll_timeout(), None, "nothing is outstanding");
}

#[test]
fn passive_open() {
    let mut end = listening();
    // What is no SYN means nothing to one who listens.
    let _ = end.handle_segment(at(0), &segment(PEERS, 1, 10), false);
    assert_eq!((end.state(), say(&mut end, at(0)).len()), (State::Listen, 0));
    let _ = end.handle_segment(at(5), &bare(PEERS, 0, SYN), false);
    assert_eq!(end.state(), State::SynReceived);
    assert_eq!(told(&say(&mut end, at(5))), [(OURS, PEERS + 1, SYN_ACK)]);
    let arrival = end.handle_segment(at(15), &bare(PEERS + 1, OURS + 1, ACK), false);
    assert_eq!((end.state(), arrival.established), (State::Established, true));
    assert_eq!(end.round_trip(), Some(ends::us(10)), "the SYN was measured");
}

#[test]
fn a_lost_handshake_is_repeated() {
    // RFC 6298 §2.1: the first timeout is a second; §5.5: it doubles.
    let mut end = connecting();
    let mut sent = Vec::new();
    for second in [0, 1, 3, 7] {
        let now = at(second * 1_000_000);
        end.handle_timeout(now);
        sent.extend(say(&mut end, now));
        assert_eq!(end.poll_timeout(), Some(at((2 * second + 1) * 1_000_000)));
    }
    assert_eq!(told(&sent), [(OURS, 0, SYN); 4]);
    assert_eq!(end.retransmissions(), 3);
    // The other side: a SYN that comes again, since the answer was lost, is answered once the connection stands (§3.10.7.4).
    let mut end = listening();
    let _ = end.handle_segment(at(0), &bare(PEERS, 0, SYN), false);
    say(&mut end, at(0));
    let _ = end.handle_segment(at(10), &bare(PEERS + 1, OURS + 1, ACK), false);
    say(&mut end, at(10));
    let _ = end.handle_segment(at(20), &bare(PEERS, OURS + 1, SYN_ACK), false);
    assert_eq!((end.state(), told(&say(&mut end, at(20)))), (State::Established, vec![(OURS + 1, PEERS + 1, ACK)]));
}

#[test]
fn the_one_who_closes_first() {
    // §3.6, figure 12: FIN-WAIT-1, its acknowledgement FIN-WAIT-2, the peer's FIN TIME-WAIT, twice the lifetime later CLOSED.
    let mut end = open(config());
    end.post_send(10);
    end.close();
    assert_eq!((end.state(), end.post_send(1)), (State::FinWait1, 0));
    let last = say(&mut end, at(0));
    assert_eq!((last.len(), last[0].payload, last[0].has(FIN_ACK)), (1, 10, true), "the FIN goes with the last byte");
    // Ten bytes and the FIN: 100 + 11.
    let arrival = end.handle_segment(at(10), &bare(PEERS + 1, OURS + 12, ACK), false);
    assert_eq!((end.state(), arrival.acked), (State::FinWait2, 10));
    // The peer still sends, and is heard.
    let arrival = end.handle_segment(at(20), &segment(PEERS + 1, OURS + 12, 300), false);
    assert_eq!((end.state(), arrival.in_order, end.readable()), (State::FinWait2, 300, 300));
    let arrival = end.handle_segment(at(30), &bare(PEERS + 301, OURS + 12, FIN_ACK), false);
    assert!(arrival.ended && end.ended());
    assert_eq!(end.state(), State::TimeWait);
    // 300 bytes and the FIN: 5000 + 301.
    assert_eq!(told(&say(&mut end, at(30))), [(OURS + 12, PEERS + 302, ACK)]);
    // The acknowledgement was lost, and the FIN comes again: so does the answer.
    let _ = end.handle_segment(at(40), &bare(PEERS + 301, OURS + 12, FIN_ACK), false);
    assert_eq!(told(&say(&mut end, at(40))), [(OURS + 12, PEERS + 302, ACK)]);
    let gone = end.poll_timeout().unwrap();
    end.handle_timeout(gone);
    assert_eq!((end.state(), end.poll_timeout(), end.error()), (State::Closed, None, None));
}

#[test]
fn the_one_who_closes_second() {
    let mut end = open(config());
    let arrival = end.handle_segment(at(0), &bare(PEERS + 1, OURS + 1, FIN_ACK), false);
    assert!(arrival.ended);
    assert_eq!((end.state(), end.is_established()), (State::CloseWait, true));
    assert_eq!(told(&say(&mut end, at(0))), [(OURS + 1, PEERS + 2, ACK)]);
    // Half open: data may still go.
    assert_eq!(end.post_send(500), 500);
    assert_eq!(say(&mut end, at(1)).len(), 1);
    end.close();
    assert_eq!(end.state(), State::LastAck);
    assert_eq!(told(&say(&mut end, at(2))), [(OURS + 501, PEERS + 2, FIN_ACK)]);
    let _ = end.handle_segment(at(10), &bare(PEERS + 2, OURS + 501, ACK), false);
    assert_eq!(end.state(), State::LastAck, "the data is acknowledged, the FIN is not");
    let _ = end.handle_segment(at(11), &bare(PEERS + 2, OURS + 502, ACK), false);
    assert_eq!((end.state(), end.poll_timeout()), (State::Closed, None), "no TIME-WAIT for the one who closes second");
}

#[test]
fn both_close_at_once() {
    // Figure 13: both FINs cross. CLOSING until ours is acknowledged, then TIME-WAIT.
    let mut end = open(config());
    end.close();
    assert_eq!(told(&say(&mut end, at(0))), [(OURS + 1, PEERS + 1, FIN_ACK)]);
    let _ = end.handle_segment(at(5), &bare(PEERS + 1, OURS + 1, FIN_ACK), false);
    assert_eq!(end.state(), State::Closing);
    assert_eq!(told(&say(&mut end, at(5))), [(OURS + 2, PEERS + 2, ACK)]);
    let _ = end.handle_segment(at(10), &bare(PEERS + 2, OURS + 2, ACK), false);
    assert_eq!(end.state(), State::TimeWait);
}

#[test]
fn a_fin_with_the_acknowledgement_of_ours() {
    // From FIN-WAIT-1 straight to TIME-WAIT (§3.10.7.4, eighth: "If our FIN has been ACKed … then enter TIME-WAIT").
    let mut end = open(config());
    end.close();
    say(&mut end, at(0));
    let _ = end.handle_segment(at(5), &bare(PEERS + 1, OURS + 2, FIN_ACK), false);
    assert_eq!(end.state(), State::TimeWait);
}

#[test]
fn a_fin_before_its_data_waits() {
    // The FIN behind a hole ends nothing; the state changes when the stream is whole.
    let mut end = open(config());
    let mut late = segment(PEERS + 101, OURS + 1, 50);
    late.header.flags = FIN_ACK;
    let arrival = end.handle_segment(at(0), &late, false);
    assert_eq!((end.state(), arrival.ended, arrival.fresh, arrival.in_order), (State::Established, false, 50, 0));
    let arrival = end.handle_segment(at(1), &segment(PEERS + 1, OURS + 1, 100), false);
    assert_eq!((end.state(), arrival.ended, arrival.fresh, arrival.in_order), (State::CloseWait, true, 100, 150));
    assert_eq!(told(&say(&mut end, at(1))).last(), Some(&(OURS + 1, PEERS + 152, ACK)), "150 bytes and the FIN");
}

#[test]
fn resets() {
    // Of an open connection: it is over, and the program is told why (§3.10.7.4, second).
    for close in [false, true] {
        let mut end = open(config());
        if close {
            end.close();
        }
        let arrival = end.handle_segment(at(0), &bare(PEERS + 1, OURS + 1, RST_ACK), false);
        assert!(arrival.reset);
        assert_eq!((end.state(), end.error(), end.poll_timeout()), (State::Closed, Some(TcpError::Reset), None));
        assert_eq!((end.post_send(5), say(&mut end, at(0)).len()), (0, 0));
    }
    // Ours: the peer is told once, and nothing else goes.
    let mut end = open(config());
    end.post_send(5000);
    end.abort();
    assert_eq!(told(&say(&mut end, at(0))), [(OURS + 1, PEERS + 1, RST_ACK)]);
    assert_eq!((end.state(), end.error()), (State::Closed, None));
    // Before anybody knows of the connection there is nobody to tell.
    for mut end in [connecting(), listening()] {
        end.abort();
        assert_eq!((end.state(), say(&mut end, at(0)).len()), (State::Closed, 0));
    }
}

#[test]
fn closing_what_never_opened() {
    for mut end in [connecting(), listening()] {
        end.close();
        assert_eq!((end.state(), end.poll_timeout(), say(&mut end, at(0)).len()), (State::Closed, None, 0));
    }
}

#[test]
fn options_are_those_of_both() {
    // RFC 9293 §3.7.1: the smaller maximum. RFC 7323 §2.2: no shift where one end has none. RFC 2018 §2: permission by both.
    let mut end = Connection::connect(Config { timestamps: true, ..config() }, Seq(OURS)).unwrap();
    let syn = say(&mut end, at(0))[0].header;
    // What is told is the segment with the options of every data segment: 1000 and 12.
    assert_eq!((syn.mss, syn.sack_permitted, syn.timestamps.is_some()), (Some(1012), true, true));
    // A mebibyte needs a shift of 5: 65535 · 2⁴ = 1048560 is 16 too few.
    assert_eq!(syn.window_scale, Some(5));
    let mut answer = bare(PEERS, OURS + 1, SYN_ACK);
    answer.header.mss = Some(600);
    let _ = end.handle_segment(at(10), &answer, false);
    end.post_send(1500);
    let sent = say(&mut end, at(10));
    // The peer has no timestamps: 600 bytes of payload, no options.
    assert_eq!(sent.iter().map(|segment| segment.payload).collect::<Vec<_>>(), [600, 600, 300]);
    assert!(sent.iter().all(|segment| segment.header.header_bytes() == 20));
    // Nor a shift: what we offer is not shifted either.
    assert_eq!(sent[0].header.window, u16::MAX);
    // RFC 9293 §3.7.1: 536 where the peer says nothing.
    let mut end = connecting();
    say(&mut end, at(0));
    let _ = end.handle_segment(at(10), &bare(PEERS, OURS + 1, SYN_ACK), false);
    end.post_send(1000);
    assert_eq!(say(&mut end, at(10)).iter().map(|segment| segment.payload).collect::<Vec<_>>(), [536, 464]);
}

#[test]
fn acknowledgements_of_what_was_never_sent() {
    // §3.10.7.4, fifth: an acknowledgement of something not yet sent is answered and changes nothing; an old one is nothing at all.
    let mut end = open(config());
    end.post_send(1000);
    say(&mut end, at(0));
    let arrival = end.handle_segment(at(5), &bare(PEERS + 1, OURS + 5000, ACK), false);
    assert_eq!((arrival.acked, end.unacknowledged()), (0, 1000));
    assert_eq!(told(&say(&mut end, at(5))), [(OURS + 1001, PEERS + 1, ACK)]);
    let _ = end.handle_segment(at(6), &bare(PEERS + 1, OURS + 1001, ACK), false);
    assert_eq!(end.unacknowledged(), 0);
    let arrival = end.handle_segment(at(7), &bare(PEERS + 1, OURS + 501, ACK), false);
    assert_eq!((arrival.acked, end.unacknowledged(), say(&mut end, at(7)).len()), (0, 0, 0));
}
