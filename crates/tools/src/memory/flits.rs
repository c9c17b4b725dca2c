//! How messages of CXL.mem fill the flits of one direction of a link.
//!
//! Source: CXL Specification 2.0 §4.2 (68 B: four slots of 16 B, 2 B of CRC, 2 B that name the protocol; what a slot holds, how many
//! messages of a kind a flit holds, flits of data alone) and 3.1 §4.3 (256 B: fifteen slots, the first without room for data; halves).
//! Modelled: headers in the first slot and in others, 64 B of data as four slots behind their header, also in later flits; credits of the
//! receiver for each class of messages; of flits in halves the first goes on by itself, and its ninth slot has no room for data.
//! Not modelled: retries, link-layer control flits, IDE, messages of CXL.cache and CXL.io beside those of memory.

use std::collections::VecDeque;

use fabriscope_catalog::CxlFlit;
use fabriscope_units::{Bytes, Rate, Span};

/// A message of CXL.mem.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Message {
    /// M2S Req: a request without data.
    Request,
    /// M2S RwD: a request with data.
    Write,
    /// S2M DRS: a response with data.
    Data,
    /// S2M NDR: a response without.
    Completion,
    /// S2M BISnp: a back-invalidation.
    Snoop,
    /// M2S BIRsp: its answer.
    Answer,
}

impl Message {
    const ALL: [Message; 6] = [Message::Request, Message::Write, Message::Data, Message::Completion, Message::Snoop, Message::Answer];

    fn has_data(self) -> bool {
        matches!(self, Message::Write | Message::Data)
    }
    /// The class whose credits it takes; back-invalidations have room of their own.
    fn class(self) -> Option<usize> {
        match self {
            Message::Request => Some(0),
            Message::Write => Some(1),
            Message::Data => Some(2),
            Message::Completion => Some(3),
            Message::Snoop | Message::Answer => None,
        }
    }
    /// How many headers a slot holds of it: the first slot, then any other.
    fn in_slot(self, first: bool) -> usize {
        match self {
            Message::Request | Message::Write | Message::Snoop => 1,
            Message::Data if !first => 3,
            Message::Data | Message::Completion | Message::Answer => 2,
        }
    }
    /// How many of them a flit of 68 B holds.
    fn in_small_flit(self) -> usize {
        match self {
            Message::Request | Message::Completion | Message::Answer => 2,
            Message::Write | Message::Snoop => 1,
            Message::Data => 3,
        }
    }
}

/// Bytes of a flit on the wire. Basis: standard.
pub(super) fn bytes(flit: CxlFlit) -> Bytes {
    match flit {
        CxlFlit::Small => Bytes(68),
        CxlFlit::Large | CxlFlit::Halves => Bytes(256),
    }
}

/// One direction of a link: what waits for flits.
#[derive(Debug)]
pub(super) struct Packer {
    flit: CxlFlit,
    waiting: [VecDeque<u32>; 6],
    credits: [u32; 4],
    /// Messages whose header has gone, and how many slots of their data have not.
    data: VecDeque<(u32, u32)>,
    /// The class whose turn it is.
    turn: usize,
}

/// Where headers may go.
#[derive(Debug, Clone, Copy)]
struct Slot {
    /// A slot that is shorter and has no data.
    first: bool,
    /// In the first half of a flit in halves.
    early: bool,
}

/// A message whose last slot is in a flit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Sent {
    /// Its number.
    pub id: u32,
    /// It is there with the first half of the flit.
    pub early: bool,
}

impl Packer {
    pub(super) fn new(flit: CxlFlit, credits: [u32; 4]) -> Packer {
        Packer { flit, waiting: Default::default(), credits, data: VecDeque::new(), turn: 0 }
    }
    /// A flit on the wire.
    pub(super) fn time(&self, rate: Rate) -> Span {
        rate.time(bytes(self.flit))
    }
    pub(super) fn post(&mut self, id: u32, message: Message) {
        self.waiting[message as usize].push_back(id);
    }
    /// The receiver has room for one more.
    pub(super) fn credit(&mut self, message: Message) {
        if let Some(class) = message.class() {
            self.credits[class] += 1;
        }
    }
    /// Whether the next flit would carry anything.
    pub(super) fn ready(&self) -> bool {
        !self.data.is_empty() || Message::ALL.into_iter().any(|message| self.available(message) > 0)
    }
    fn available(&self, message: Message) -> usize {
        let credits = message.class().map_or(usize::MAX, |class| self.credits[class] as usize);
        self.waiting[message as usize].len().min(credits)
    }

    /// Fills a flit: the messages that end in it, and those whose header is in it and which hold a place at the receiver from now on.
    pub(super) fn pack(&mut self, sent: &mut Vec<Sent>, begun: &mut Vec<(u32, Message)>) {
        let slots = if self.flit == CxlFlit::Small { 4 } else { 15 };
        let mut room = Message::ALL.map(|message| if self.flit == CxlFlit::Small { message.in_small_flit() } else { usize::MAX });
        let only_data = self.flit == CxlFlit::Small && self.data.iter().map(|(_, left)| left).sum::<u32>() >= 4;
        for slot in 0..slots {
            let early = self.flit == CxlFlit::Halves && slot < 8;
            let short = !only_data && (slot == 0 || (self.flit == CxlFlit::Halves && slot == 8));
            if !short && let Some((id, left)) = self.data.front_mut() {
                *left -= 1;
                if *left == 0 {
                    sent.push(Sent { id: *id, early });
                    self.data.pop_front();
                }
                continue;
            }
            self.headers(Slot { first: short, early }, &mut room, sent, begun);
        }
    }

    /// Fills a slot with the headers of which it carries most.
    fn headers(&mut self, slot: Slot, room: &mut [usize; 6], sent: &mut Vec<Sent>, begun: &mut Vec<(u32, Message)>) {
        let Slot { first, early } = slot;
        let fits = |message: Message| self.available(message).min(room[message as usize]).min(message.in_slot(first));
        // A response with data beside responses without.
        let beside = fits(Message::Completion).min(if first { 1 } else { 2 });
        let pair = fits(Message::Data).min(1) + beside;
        let order = (0..6).map(|step| Message::ALL[(self.turn + step) % 6]);
        let Some(best) = order.max_by_key(|message| (fits(*message), std::cmp::Reverse((*message as usize + 6 - self.turn) % 6))) else {
            return;
        };
        let counts = if fits(Message::Data) > 0 && beside > 0 && pair >= fits(best) {
            [(Message::Data, 1), (Message::Completion, beside)]
        } else {
            [(best, fits(best)), (Message::Completion, 0)]
        };
        for (message, count) in counts {
            for _ in 0..count {
                let Some(id) = self.waiting[message as usize].pop_front() else { break };
                if let Some(class) = message.class() {
                    self.credits[class] -= 1;
                }
                room[message as usize] -= 1;
                begun.push((id, message));
                if message.has_data() {
                    self.data.push_back((id, 4));
                } else {
                    sent.push(Sent { id, early });
                }
                self.turn = (message as usize + 1) % 6;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ROOM: [u32; 4] = [10_000; 4];

    /// Flits for so many messages that all wait.
    fn flits(flit: CxlFlit, message: Message, count: u32) -> u32 {
        let mut packer = Packer::new(flit, ROOM);
        (0..count).for_each(|id| packer.post(id, message));
        let (mut sent, mut begun, mut flits) = (Vec::new(), Vec::new(), 0);
        while packer.ready() {
            packer.pack(&mut sent, &mut begun);
            flits += 1;
        }
        assert_eq!((sent.len() as u32, begun.len() as u32), (count, count));
        flits
    }

    #[test]
    fn small_flits_carry_what_the_standard_lets_them() {
        // Two requests a flit; a write with its header in five slots.
        assert_eq!(flits(CxlFlit::Small, Message::Request, 100), 50);
        // One write: header and three slots, then the fourth slot behind an empty first one.
        assert_eq!(flits(CxlFlit::Small, Message::Write, 1), 2);
        // Many: a header in the first slot of a flit lets three slots of data go with it; four slots wait: a flit of data alone.
        let writes = f64::from(flits(CxlFlit::Small, Message::Write, 1000)) / 1000.0;
        assert!((1.25..1.34).contains(&writes), "{writes}");
        // Responses: three headers in one flit, so 12 slots of data in little more than three flits: less than 1.25 flits a line.
        let data = f64::from(flits(CxlFlit::Small, Message::Data, 900)) / 900.0;
        assert!((1.05..1.25).contains(&data), "{data}");
    }

    #[test]
    fn large_flits_carry_fourteen_slots_of_data_at_most() {
        // Three headers in a slot for 12 slots of data, the first slot with two: 15 slots carry at most 14 of data, 3.5 lines.
        let lines = 7000.0 / f64::from(flits(CxlFlit::Large, Message::Data, 7000));
        assert!((3.2..=3.5).contains(&lines), "{lines}");
        let halves = 7000.0 / f64::from(flits(CxlFlit::Halves, Message::Data, 7000));
        assert!((3.0..=3.25).contains(&halves), "{halves}");
    }

    #[test]
    fn nothing_goes_without_credit() {
        let mut packer = Packer::new(CxlFlit::Small, [1, 1, 1, 1]);
        (0..3).for_each(|id| packer.post(id, Message::Request));
        let (mut sent, mut begun) = (Vec::new(), Vec::new());
        packer.pack(&mut sent, &mut begun);
        assert_eq!((begun.len(), packer.ready()), (1, false));
        packer.credit(Message::Request);
        assert!(packer.ready());
    }
}
