//! Reliable messages over unreliable datagrams, in software: one end of the traffic between two processes.
//!
//! Source: the UD channel of MVAPICH2 (Koop, Sur, Gao, Panda, "High Performance MPI Design using Unreliable Datagram for
//! Ultra-Scale InfiniBand Clusters", ICS 2007; constants of the library in the catalogue's software part).
//! Modelled: sequence numbers, a window of packets that are not acknowledged, cumulative acknowledgements on the back of every
//! packet, acknowledgements of their own when too many packets wait for one, duplicates, gaps, a timeout per packet.
//! Not modelled: numbers that wrap (2³¹ packets between two processes), timeouts that adapt.

use std::collections::VecDeque;

use fabriscope_units::{Span, Time};

/// Limits of a channel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Window {
    /// Packets in flight that are not acknowledged.
    pub most: u32,
    /// Packets that may wait for an acknowledgement before it is sent by itself.
    pub ack_interval: u32,
    /// Until a packet is sent again.
    pub retry: Span,
    /// How often it is.
    pub retries: u32,
}

/// What an arrived packet is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Arrival {
    /// The next one: so many can be taken now, in order, itself the first.
    Next(u32),
    /// There is a gap before it; it is kept.
    Ahead,
    /// It was here before; its sender wants to know.
    Repeated,
}

/// A packet was sent as often as it may be.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error, miette::Diagnostic)]
#[error("packet {number} was sent {tries} times without an answer")]
#[diagnostic(help("lower the loss or post more receives"))]
pub struct GaveUp {
    /// Its number.
    pub number: u32,
    /// How often it was sent.
    pub tries: u32,
}

/// One end: packets of kind `P` towards the other, numbered from zero, and what came from there.
#[derive(Debug, Clone)]
pub struct Channel<P> {
    /// Packets that are not acknowledged, from number `base` on; those from number `fresh` on were never sent.
    queue: VecDeque<Entry<P>>,
    base: u32,
    fresh: u32,
    /// Packets that came in order.
    expected: u32,
    /// Numbers of those that came beyond a gap, in order.
    ahead: Vec<u32>,
    /// Packets that came since the last acknowledgement.
    owed: u32,
}

#[derive(Debug, Clone, Copy)]
struct Entry<P> {
    packet: P,
    sent: Time,
    tries: u32,
    /// Packets of the other end that it acknowledges.
    says: u32,
}

impl<P> Default for Channel<P> {
    fn default() -> Channel<P> {
        Channel { queue: VecDeque::new(), base: 0, fresh: 0, expected: 0, ahead: Vec::new(), owed: 0 }
    }
}

impl<P: Copy> Channel<P> {
    /// Adds a packet to those that are to be sent.
    pub fn post(&mut self, packet: P) {
        self.queue.push_back(Entry { packet, sent: Time::ZERO, tries: 0, says: 0 });
    }

    /// The number of the next packet to send for the first time, if the window allows one.
    #[must_use]
    pub fn poll_transmit(&mut self, now: Time, window: &Window) -> Option<(u32, P)> {
        let number = self.fresh;
        if number - self.base >= window.most {
            return None;
        }
        let entry = self.queue.get_mut((number - self.base) as usize)?;
        (entry.sent, entry.tries, entry.says) = (now, 1, self.expected);
        (self.fresh, self.owed) = (number + 1, 0);
        Some((number, entry.packet))
    }

    /// Whether `poll_transmit` would give a packet.
    #[must_use]
    pub fn is_ready(&self, window: &Window) -> bool {
        let under_way = self.fresh - self.base;
        under_way < window.most && (under_way as usize) < self.queue.len()
    }

    /// What packet `number` holds, and what it acknowledges: for its receiver. `None` once its arrival is acknowledged.
    #[must_use]
    pub fn packet(&self, number: u32) -> Option<(P, u32)> {
        let place = number.checked_sub(self.base)?;
        (number < self.fresh).then(|| self.queue.get(place as usize).map(|entry| (entry.packet, entry.says))).flatten()
    }

    /// The other end has the first `received` packets. True if that opens the window for packets that wait.
    pub fn handle_ack(&mut self, received: u32) -> bool {
        let news = received.min(self.fresh).saturating_sub(self.base);
        self.queue.drain(..news as usize);
        self.base += news;
        news > 0 && (self.fresh - self.base) < self.queue.len() as u32
    }

    /// Packet `number` of the other end came.
    pub fn handle_packet(&mut self, number: u32) -> Arrival {
        if number < self.expected || self.ahead.binary_search(&number).is_ok() {
            return Arrival::Repeated;
        }
        self.owed += 1;
        if number > self.expected {
            let place = self.ahead.partition_point(|&other| other < number);
            self.ahead.insert(place, number);
            return Arrival::Ahead;
        }
        let run = self.ahead.iter().zip(number + 1..).take_while(|(other, next)| **other == *next).count();
        self.ahead.drain(..run);
        self.expected += 1 + run as u32;
        Arrival::Next(1 + run as u32)
    }

    /// Whether an acknowledgement is to be sent by itself.
    #[must_use]
    pub fn owes(&self, window: &Window) -> bool {
        self.owed > window.ack_interval
    }
    /// Whether the other end has yet to hear of anything, or this one.
    #[must_use]
    pub fn is_idle(&self) -> bool {
        self.owed == 0 && self.fresh == self.base
    }
    /// Whether packets came of which the other end does not know.
    #[must_use]
    pub fn is_owing(&self) -> bool {
        self.owed > 0
    }
    /// Packets that came in order: what an acknowledgement says. Nothing is owed after that.
    pub fn acknowledge(&mut self) -> u32 {
        self.owed = 0;
        self.expected
    }

    /// Adds packets that were sent `retry` ago or earlier to `again`.
    ///
    /// # Errors
    /// One of them has been sent as often as it may be.
    pub fn handle_timeout(&mut self, now: Time, window: &Window, again: &mut Vec<(u32, P)>) -> Result<(), GaveUp> {
        for (entry, number) in self.queue.iter_mut().zip(self.base..self.fresh) {
            if entry.sent + window.retry <= now {
                if entry.tries > window.retries {
                    return Err(GaveUp { number, tries: entry.tries });
                }
                (entry.sent, entry.tries, entry.says) = (now, entry.tries + 1, self.expected);
                again.push((number, entry.packet));
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const WINDOW: Window = Window { most: 4, ack_interval: 2, retry: Span::from_us(10), retries: 2 };

    fn at(us: u64) -> Time {
        Time::ZERO + Span::from_us(us)
    }

    fn sent(channel: &mut Channel<char>, now: Time) -> String {
        std::iter::from_fn(|| channel.poll_transmit(now, &WINDOW)).map(|(_, packet)| packet).collect()
    }

    #[test]
    fn the_window_holds_packets_back_until_they_are_acknowledged() {
        let mut channel = Channel::default();
        "abcdef".chars().for_each(|packet| channel.post(packet));
        assert_eq!(sent(&mut channel, at(0)), "abcd");
        assert!(channel.handle_ack(1));
        assert_eq!(sent(&mut channel, at(1)), "e");
        assert_eq!((channel.packet(0), channel.packet(4), channel.packet(5)), (None, Some(('e', 0)), None));
        assert!(channel.handle_ack(5));
        assert_eq!(sent(&mut channel, at(2)), "f");
        // More than was sent cannot have come; what was said before changes nothing.
        assert!(!channel.handle_ack(99) && !channel.handle_ack(3));
        assert!(channel.is_idle());
    }

    #[test]
    fn packets_are_taken_once_and_in_order() {
        let mut channel = Channel::<char>::default();
        let arrivals = [0, 2, 2, 3, 1, 1, 4].map(|number| channel.handle_packet(number));
        use Arrival::{Ahead, Next, Repeated};
        assert_eq!(arrivals, [Next(1), Ahead, Repeated, Ahead, Next(3), Repeated, Next(1)]);
        assert!(channel.owes(&WINDOW) && channel.is_owing());
        assert_eq!(channel.acknowledge(), 5);
        assert!(!channel.owes(&WINDOW) && !channel.is_owing());
    }

    #[test]
    fn a_packet_without_an_answer_is_sent_again_and_given_up_in_the_end() {
        let mut channel = Channel::default();
        "ab".chars().for_each(|packet| channel.post(packet));
        assert_eq!(channel.poll_transmit(at(0), &WINDOW), Some((0, 'a')));
        assert_eq!(channel.poll_transmit(at(5), &WINDOW), Some((1, 'b')));
        let mut again = Vec::new();
        channel.handle_timeout(at(9), &WINDOW, &mut again).unwrap();
        assert_eq!(again, []);
        channel.handle_timeout(at(12), &WINDOW, &mut again).unwrap();
        assert_eq!(again, [(0, 'a')]);
        channel.handle_ack(2);
        channel.handle_timeout(at(100), &WINDOW, &mut again).unwrap();
        assert_eq!(again.len(), 1);
        channel.post('c');
        assert_eq!(sent(&mut channel, at(100)), "c");
        channel.handle_timeout(at(110), &WINDOW, &mut again).unwrap();
        channel.handle_timeout(at(120), &WINDOW, &mut again).unwrap();
        assert_eq!(channel.handle_timeout(at(130), &WINDOW, &mut again), Err(GaveUp { number: 2, tries: 3 }));
    }
}
