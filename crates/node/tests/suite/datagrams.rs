//! Reliable messages over datagrams: whatever a line loses, repeats or delays, every packet is taken once and in order, within the window.

use fabriscope_node::datagram::{Arrival, Channel, GaveUp, Window};
use fabriscope_units::{Span, Time};
use proptest::prelude::*;

const WINDOW: Window = Window { most: 8, ack_interval: 4, retry: Span::from_us(50), retries: 40 };

fn at(us: u64) -> Time {
    Time::ZERO + Span::from_us(us)
}

#[test]
fn acknowledgements_travel_on_packets() {
    // What a packet says of the other direction is what had come when it was sent.
    let (mut a, mut b) = (Channel::default(), Channel::default());
    (0..3).for_each(|packet| a.post(packet));
    for number in 0..3 {
        assert_eq!(a.poll_transmit(at(0), &WINDOW), Some((number, number)));
        assert_eq!(b.handle_packet(number), Arrival::Next(1));
    }
    assert!(b.is_owing() && !b.owes(&WINDOW), "three of four may wait");
    b.post(9);
    let (number, _) = b.poll_transmit(at(1), &WINDOW).unwrap();
    assert!(!b.is_owing(), "the packet told");
    let (_, says) = b.packet(number).unwrap();
    assert_eq!(says, 3);
    assert!(!a.handle_ack(says), "nothing waited for the window");
    assert!(a.is_idle() && a.packet(2).is_none());
}

#[test]
fn an_acknowledgement_goes_by_itself_when_too_many_wait() {
    let mut channel = Channel::<u8>::default();
    for number in 0..5 {
        assert!(!channel.owes(&WINDOW), "{number} packets wait");
        let _ = channel.handle_packet(number);
    }
    assert!(channel.owes(&WINDOW), "five are more than four");
    assert_eq!(channel.acknowledge(), 5);
    assert!(channel.is_idle());
}

#[test]
fn the_window_is_full_at_its_size() {
    let mut channel = Channel::default();
    (0..20u32).for_each(|packet| channel.post(packet));
    let sent = |channel: &mut Channel<u32>| {
        std::iter::from_fn(|| channel.poll_transmit(at(0), &WINDOW)).map(|(number, _)| number).collect::<Vec<_>>()
    };
    assert_eq!(sent(&mut channel), (0..8).collect::<Vec<_>>());
    assert!(!channel.is_ready(&WINDOW));
    // Each acknowledgement lets as many go as it covers; one of the past none.
    assert!(channel.handle_ack(3) && channel.is_ready(&WINDOW));
    assert_eq!(sent(&mut channel), [8, 9, 10]);
    assert!(!channel.handle_ack(2));
    assert_eq!(sent(&mut channel), [] as [u32; 0]);
}

#[test]
fn a_dead_line_is_given_up() {
    // The first time and as many more as there are retries.
    let window = Window { retries: 3, ..WINDOW };
    let mut channel = Channel::default();
    channel.post('x');
    let _ = channel.poll_transmit(at(0), &window);
    let mut tries = 1;
    for round in 1..10 {
        let mut again = Vec::new();
        match channel.handle_timeout(at(50 * round), &window, &mut again) {
            Ok(()) => tries += again.len() as u32,
            Err(gave_up) => {
                assert_eq!((gave_up, tries), (GaveUp { number: 0, tries: 4 }, 4));
                assert!(gave_up.to_string().contains("packet 0 was sent 4 times"));
                return;
            }
        }
    }
    panic!("never given up");
}

/// What a line does with a packet or an acknowledgement.
#[derive(Clone, Copy, Debug)]
enum Fate {
    Pass,
    Lose,
    Twice,
    Late,
}

fn fates() -> impl Strategy<Value = Vec<Fate>> {
    prop::collection::vec(prop_oneof![6 => Just(Fate::Pass), 2 => Just(Fate::Lose), 1 => Just(Fate::Twice), 2 => Just(Fate::Late)], 1..150)
}

proptest! {
    /// One way of packets with acknowledgements back: all arrive once, in order; never more than the window in flight.
    #[test]
    fn once_and_in_order(packets in 1u32..60, fates in fates(), most in 1u32..12) {
        let window = Window { most, ..WINDOW };
        let (mut sender, mut receiver) = (Channel::default(), Channel::<u32>::default());
        (0..packets).for_each(|packet| sender.post(packet));
        let mut fates = fates.into_iter();
        let mut fate = move || fates.next().unwrap_or(Fate::Pass);
        // What is on the line, packets and acknowledgements, and when it arrives.
        let (mut line, mut taken, mut acked) = (Vec::<(u64, Result<u32, u32>)>::new(), 0, 0);
        for now in 0..10_000u64 {
            let mut leaving = Vec::new();
            while let Some((number, packet)) = sender.poll_transmit(at(now), &window) {
                prop_assert_eq!(number, packet);
                leaving.push(number);
            }
            let mut again = Vec::new();
            sender.handle_timeout(at(now), &window, &mut again).unwrap();
            leaving.extend(again.iter().map(|(number, _)| *number));
            let highest = leaving.iter().max().copied();
            prop_assert!(highest.is_none_or(|number| number < acked + most), "{:?} with {} acknowledged", highest, acked);
            let mut send = |line: &mut Vec<(u64, Result<u32, u32>)>, what| match fate() {
                Fate::Pass => line.push((now + 5, what)),
                Fate::Lose => {}
                Fate::Twice => line.extend([(now + 5, what), (now + 9, what)]),
                Fate::Late => line.push((now + 70, what)),
            };
            leaving.into_iter().for_each(|number| send(&mut line, Ok(number)));
            let due: Vec<Result<u32, u32>> = line.iter().filter(|(when, _)| *when == now).map(|(_, what)| *what).collect();
            line.retain(|(when, _)| *when > now);
            for what in due {
                match what {
                    Ok(number) => {
                        match receiver.handle_packet(number) {
                            Arrival::Next(run) => {
                                prop_assert_eq!(number, taken, "the next in order");
                                taken += run;
                            }
                            Arrival::Ahead => prop_assert!(number > taken),
                            Arrival::Repeated => {}
                        }
                        let told = receiver.acknowledge();
                        prop_assert_eq!(told, taken);
                        send(&mut line, Err(told));
                    }
                    Err(told) => {
                        let _ = sender.handle_ack(told);
                        acked = acked.max(told);
                    }
                }
            }
            if acked == packets {
                break;
            }
        }
        prop_assert_eq!((taken, acked), (packets, packets));
        prop_assert!(sender.is_idle());
    }
}
