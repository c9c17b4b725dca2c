//! The sending half: what is in flight, what was lost, what may go next.
//!
//! Source: RFC 6675 §4 and §5 (loss by selective acknowledgements; pipe), RFC 6582 §3.2 (without them), RFC 6298 §5 (timer),
//! RFC 9293 §3.8.6.1 (probes of a closed window), §3.8.6.2.1 and RFC 1122 §4.2.3.4 (silly windows, Nagle).

use std::collections::VecDeque;

use fabriscope_units::Time;

use crate::config::Config;
use crate::control::{self, Acked, Control};
use crate::rtt::Rtt;
use crate::seq::Seq;

/// A range that is in flight.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Piece {
    start: u64,
    end: u64,
    sent: Time,
    fate: Fate,
    /// It was on the wire more than once.
    again: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fate {
    UnderWay,
    Arrived,
    Lost,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Recovery {
    None,
    /// Until everything sent before it began is acknowledged.
    Fast(u64),
    /// The same after a timeout.
    Timeout(u64),
}

/// Whether the next segment that goes again heeds the window.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum NextAgain {
    #[default]
    InWindow,
    /// The first one found lost does not (RFC 6675 §5, step 4.3; RFC 6582 §3.2, steps 2 and 3).
    AtOnce,
}

/// What to put on the wire.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Outgoing {
    pub start: u64,
    pub end: u64,
    pub again: bool,
}

/// The sending half. Positions count from our SYN.
#[derive(Debug)]
pub(crate) struct Sender {
    pub initial: Seq,
    /// Oldest position not acknowledged, next one to send, and behind the last byte posted.
    pub una: u64,
    pub next: u64,
    pub end: u64,
    /// The position of our FIN.
    pub fin: Option<u64>,
    /// Ends of records, where posts are records.
    records: VecDeque<u64>,
    pieces: VecDeque<Piece>,
    /// Bytes on their way: neither acknowledged nor lost (the pipe of RFC 6675).
    in_flight: u64,
    /// Up to where the peer takes bytes.
    pub edge: u64,
    widest: u64,
    duplicates: u32,
    recovery: Recovery,
    next_again: NextAgain,
    pub rtt: Rtt,
    pub control: Box<dyn Control>,
    pub timer: Option<Time>,
    /// Timeouts in a row.
    pub retries: u32,
    probe: bool,
    /// No second answer to marks before this is acknowledged.
    calm: u64,
    pub reduced: bool,
    mss: u64,
    no_delay: bool,
    as_records: bool,
    sack: bool,
    /// Segments sent again.
    pub retransmissions: u64,
}

/// What an acknowledgement says, in positions of the stream.
pub struct AckFields<'a> {
    /// All before this one has arrived.
    pub ack: u64,
    /// The bytes from there on that there is room for.
    pub window: u64,
    /// It carries neither data nor SYN nor FIN.
    pub bare: bool,
    /// What arrived beyond it: first, and one behind the last.
    pub sacked: &'a [(u64, u64)],
    /// A mark was seen (ECE).
    pub echo: bool,
}

impl Sender {
    pub fn new(config: &Config, initial: Seq) -> Sender {
        Sender {
            initial,
            una: 0,
            next: 0,
            end: 1,
            fin: None,
            records: VecDeque::new(),
            pieces: VecDeque::new(),
            in_flight: 0,
            edge: 1,
            widest: 0,
            duplicates: 0,
            recovery: Recovery::None,
            next_again: NextAgain::InWindow,
            rtt: Rtt::new(config.min_rto),
            control: control::control(config),
            timer: None,
            retries: 0,
            probe: false,
            calm: 0,
            reduced: false,
            mss: u64::from(config.mss),
            no_delay: config.no_delay,
            as_records: config.records,
            sack: config.sack,
            retransmissions: 0,
        }
    }

    /// Both SYNs were exchanged before; the peer takes `window` bytes.
    pub fn begin(&mut self, window: u64) {
        (self.una, self.next, self.edge, self.widest) = (1, 1, 1 + window, window);
        self.rtt.answered();
    }
    /// The peer's SYN said what it understands.
    pub fn agree(&mut self, mss: u64, sack: bool) {
        self.mss = self.mss.min(mss).max(1);
        self.sack &= sack;
    }
    /// Takes `bytes` more.
    pub fn post(&mut self, bytes: u64) {
        self.end += bytes;
        if self.as_records && bytes > 0 {
            self.records.push_back(self.end);
        }
    }
    /// Bytes posted and not acknowledged.
    pub fn held(&self) -> u64 {
        self.end - self.una.max(1).min(self.end)
    }
    /// Whether everything, the FIN included, is acknowledged.
    pub fn is_done(&self) -> bool {
        self.una > self.fin.unwrap_or(self.end - 1)
    }
    /// Bytes on their way.
    pub fn in_flight(&self) -> u64 {
        self.in_flight
    }

    /// The next range to send, at most `limit` bytes of it.
    pub fn poll(&mut self, now: Time, limit: u64) -> Option<Outgoing> {
        let found = self.poll_lost(now).or_else(|| self.poll_new(now, limit));
        if found.is_some() {
            self.timer.get_or_insert(now + self.rtt.timeout());
        } else if self.pieces.is_empty() && self.next < self.end && self.timer.is_none() {
            // The window is closed: the peer is asked when nothing else happens.
            self.timer = Some(now + self.rtt.timeout());
        }
        found
    }

    fn poll_lost(&mut self, now: Time) -> Option<Outgoing> {
        if self.recovery == Recovery::None {
            return None;
        }
        let at = self.pieces.iter().position(|piece| piece.fate == Fate::Lost)?;
        let length = (self.pieces[at].end - self.pieces[at].start).min(self.mss);
        if std::mem::take(&mut self.next_again) == NextAgain::InWindow && self.pipe() > 0 && self.pipe() + length > self.control.window() {
            return None;
        }
        self.split(at, self.pieces[at].start + length);
        let piece = &mut self.pieces[at];
        (piece.fate, piece.again, piece.sent) = (Fate::UnderWay, true, now);
        let outgoing = Outgoing { start: piece.start, end: piece.end, again: true };
        self.in_flight += length;
        self.retransmissions += 1;
        Some(outgoing)
    }

    fn poll_new(&mut self, now: Time, limit: u64) -> Option<Outgoing> {
        let last = self.fin.map_or(self.end, |fin| fin + 1);
        let waiting = last - self.next;
        if waiting == 0 {
            return None;
        }
        let probe = std::mem::take(&mut self.probe);
        let take = if self.next == 0 || probe { 1 } else { self.allowance(self.end - self.next, limit)? };
        // The FIN goes with the last byte, or alone.
        let mut end = self.next + take;
        if self.fin == Some(end) {
            end += 1;
        }
        if end == self.next {
            return None;
        }
        let outgoing = Outgoing { start: self.next, end, again: false };
        while self.records.front().is_some_and(|&record| record <= end) {
            self.records.pop_front();
        }
        self.pieces.push_back(Piece { start: self.next, end, sent: now, fate: Fate::UnderWay, again: false });
        self.in_flight += end - self.next;
        self.next = end;
        Some(outgoing)
    }

    /// How many of `waiting` bytes may go in one segment now.
    fn allowance(&self, waiting: u64, limit: u64) -> Option<u64> {
        let limit = limit.max(self.mss);
        let offered = self.edge.saturating_sub(self.next);
        let congestion = self.control.window().saturating_sub(self.pipe());
        if waiting == 0 {
            return Some(0); // the FIN alone
        }
        if self.as_records {
            let record = self.records.front().map_or(waiting, |&end| end - self.next);
            let take = record.min(self.mss);
            return (take <= offered && take <= congestion).then_some(take);
        }
        let mut take = waiting.min(limit).min(offered).min(congestion);
        if take == 0 {
            return None;
        }
        if take < waiting && take > self.mss {
            take -= take % self.mss;
        }
        // Where the window and not the program sets the size, a long segment waits for more of it (as Linux: a third).
        let deferred = take < waiting.min(limit) && self.pipe() > 0 && take < limit.min(self.control.window().min(offered) / 3);
        // Silly windows: a full segment, all there is, or half of what the peer ever offered.
        let silly = take < self.mss && take < waiting && take < self.widest / 2;
        let nagle = take < self.mss && take == waiting && !self.no_delay && self.next > self.una && self.fin.is_none();
        (!deferred && !silly && !nagle).then_some(take)
    }

    /// Sent and not acknowledged, whatever became of it (FlightSize of RFC 5681 §2): what a loss halves.
    fn flight_size(&self) -> u64 {
        self.next - self.una
    }

    /// Bytes that count against the congestion window.
    fn pipe(&self) -> u64 {
        // Without selective acknowledgements every duplicate says that a segment left the network (RFC 6582).
        let left = if self.sack { 0 } else { u64::from(self.duplicates) * self.mss };
        self.in_flight.saturating_sub(left)
    }

    /// An acknowledgement; returns how much is new, or nothing if it makes no sense.
    pub fn acknowledge(&mut self, now: Time, fields: &AckFields<'_>) -> Option<u64> {
        let AckFields { ack, window, bare, sacked, echo } = *fields;
        if ack > self.next || ack < self.una {
            return (ack < self.una).then_some(0);
        }
        let opened = ack + window > self.edge;
        let reopened = opened && self.edge <= self.una;
        self.edge = self.edge.max(ack + window);
        self.widest = self.widest.max(window);
        let before = self.in_flight;
        let fresh = ack - self.una;
        let mut sample = None;
        if fresh > 0 {
            self.una = ack;
            sample = self.forget(now, ack);
            self.rtt.forward();
            self.retries = 0;
        }
        let grown = self.mark_arrived(sacked);
        if fresh == 0 && bare && !opened && !self.pieces.is_empty() {
            self.duplicates += 1;
        }
        if let Some(rtt) = sample {
            self.rtt.measured(rtt);
        }
        self.find_losses(now, grown, fresh);
        if fresh > 0 {
            self.advance(now, ack, fresh, before, echo);
            self.timer = (!self.pieces.is_empty()).then(|| now + self.rtt.timeout());
        }
        if echo && self.una > self.calm && self.recovery == Recovery::None {
            self.control.marked(now, before);
            self.calm = self.next;
            self.reduced = true;
        }
        if reopened && fresh == 0 {
            // What asked in vain goes again with the rest.
            self.lose_all();
        }
        if opened && self.pieces.is_empty() {
            self.timer = None;
        }
        Some(fresh)
    }

    /// Drops what is acknowledged; the round trip of its last piece, if that was sent once.
    fn forget(&mut self, now: Time, ack: u64) -> Option<fabriscope_units::Span> {
        let mut sample = None;
        while let Some(piece) = self.pieces.front().copied().filter(|piece| piece.start < ack) {
            if piece.end > ack {
                self.split(0, ack);
                continue;
            }
            self.pieces.pop_front();
            if piece.fate == Fate::UnderWay {
                self.in_flight -= piece.end - piece.start;
            }
            sample = (!piece.again && piece.fate == Fate::UnderWay).then(|| now.since(piece.sent));
        }
        sample
    }

    /// Marks what the peer has; true if any of it is news.
    fn mark_arrived(&mut self, sacked: &[(u64, u64)]) -> bool {
        let mut news = false;
        if !self.sack {
            return false;
        }
        for &(from, to) in sacked {
            let mut at = self.pieces.partition_point(|piece| piece.end <= from);
            while at < self.pieces.len() && self.pieces[at].start < to {
                if self.pieces[at].start < from {
                    self.split(at, from);
                    at += 1;
                    continue;
                }
                if self.pieces[at].end > to {
                    self.split(at, to);
                }
                let piece = &mut self.pieces[at];
                if piece.fate == Fate::UnderWay {
                    self.in_flight -= piece.end - piece.start;
                }
                news |= piece.fate != Fate::Arrived;
                piece.fate = Fate::Arrived;
                at += 1;
            }
        }
        news
    }

    /// Finds out what is lost, and begins a recovery if anything is.
    fn find_losses(&mut self, now: Time, news: bool, fresh: u64) {
        let mut lost = false;
        if news {
            // RFC 6675 §4, IsLost: three pieces or more than two full segments arrived beyond it.
            let (mut bytes, mut pieces) = (0, 0);
            for piece in self.pieces.iter_mut().rev() {
                match piece.fate {
                    Fate::Arrived => {
                        bytes += piece.end - piece.start;
                        pieces += 1;
                    }
                    Fate::UnderWay if !piece.again && (pieces >= THRESHOLD || bytes > u64::from(THRESHOLD - 1) * self.mss) => {
                        piece.fate = Fate::Lost;
                        self.in_flight -= piece.end - piece.start;
                        lost = true;
                    }
                    _ => {}
                }
            }
        }
        if !self.sack {
            let partial = fresh > 0 && matches!(self.recovery, Recovery::Fast(until) if self.una < until);
            let third = self.duplicates == THRESHOLD && self.recovery == Recovery::None;
            if (partial || third) && self.lose_first() {
                (lost, self.next_again) = (true, NextAgain::AtOnce);
            }
            if fresh > 0 {
                self.duplicates = 0;
            }
        }
        if lost && self.recovery == Recovery::None {
            self.control.lost(now, self.flight_size());
            (self.recovery, self.next_again) = (Recovery::Fast(self.next), NextAgain::AtOnce);
            if self.control.goes_back() {
                self.lose_all();
            }
            self.calm = self.next;
            self.reduced = true;
        }
    }

    /// RFC 6582: the first segment not acknowledged is lost.
    fn lose_first(&mut self) -> bool {
        let Some(first) = self.pieces.front().map(|piece| piece.start) else { return false };
        self.split(0, first + self.mss);
        let piece = &mut self.pieces[0];
        if piece.fate == Fate::UnderWay {
            piece.fate = Fate::Lost;
            self.in_flight -= piece.end - piece.start;
        }
        true
    }

    /// The window slides.
    fn advance(&mut self, now: Time, ack: u64, fresh: u64, before: u64, marked: bool) {
        match self.recovery {
            Recovery::Fast(until) if ack < until => return,
            Recovery::Fast(until) | Recovery::Timeout(until) if ack >= until => {
                (self.recovery, self.next_again) = (Recovery::None, NextAgain::InWindow)
            }
            _ => {}
        }
        let window = self.control.window();
        let slow = window < self.control.threshold();
        let limited = if slow { 2 * before >= window } else { 3 * before >= 2 * window };
        let rtt = self.rtt.smoothed();
        self.control.acked(&Acked { now, bytes: fresh, in_flight: self.in_flight, limited, rtt, marked });
    }

    /// The timer is due.
    pub fn time_out(&mut self, now: Time) {
        self.rtt.back_off();
        self.timer = Some(now + self.rtt.timeout());
        if self.pieces.is_empty() {
            self.probe = self.next < self.end;
            if !self.probe {
                self.timer = None;
            }
            return;
        }
        // A probe of a closed window that is not answered says nothing of the network.
        if self.edge > self.una {
            self.retries += 1;
            if !matches!(self.recovery, Recovery::Timeout(_)) {
                self.control.timed_out(now, self.flight_size());
            }
        }
        // RFC 2018 §8: the receiver may have thrown away what it had.
        self.lose_all();
    }

    fn lose_all(&mut self) {
        for piece in &mut self.pieces {
            piece.fate = Fate::Lost;
        }
        (self.in_flight, self.duplicates) = (0, 0);
        self.next_again = NextAgain::InWindow;
        self.recovery = if self.pieces.is_empty() { Recovery::None } else { Recovery::Timeout(self.next) };
    }

    /// Cuts a piece in two at `position`, if that lies inside.
    fn split(&mut self, at: usize, position: u64) {
        let piece = self.pieces[at];
        if position > piece.start && position < piece.end {
            self.pieces[at].end = position;
            self.pieces.insert(at + 1, Piece { start: position, ..piece });
        }
    }
}

/// Duplicate acknowledgements that mean a loss. Basis: standard, RFC 5681 §3.2.
const THRESHOLD: u32 = 3;
