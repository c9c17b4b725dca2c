//! What has landed where at one receiver of a broadcast: no byte is moved in a simulation, so each place remembers which packet's bytes it holds.
//!
//! Receives are used in the order in which they were posted, whatever comes. After a loss of g packets each later one lands g places too early, until
//! receives are posted with the loss known; so a place may hold another packet's bytes, and a place is right only when it holds its own.
//!
//! Modelled: the place of each packet in the program's buffer, a spare buffer for packets that are fetched, what has to be moved in the end.
//! Not modelled: the header in a packet, which says what its number says.

use std::ops::Range;

/// Where the bytes of a packet are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Spot {
    /// In the program's buffer, at the place of this packet.
    Place(u32),
    /// In the spare buffer.
    Spare(u32),
}

/// Packets that stand side by side and have to go side by side to where they belong.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Move {
    /// The first of them.
    pub packet: u32,
    /// How many.
    pub count: u32,
    /// They were fetched.
    pub spare: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Awaited,
    /// It will not come; it is being fetched.
    Lost,
    Here,
}

/// The packets of one broadcast at one receiver.
#[derive(Debug, Clone)]
pub(super) struct Landing {
    chunk: u32,
    /// By place: the packet whose bytes it holds.
    places: Vec<u32>,
    /// The same of the spare buffer, in the order of fetching.
    spare: Vec<u32>,
    states: Vec<State>,
    /// Packets that each chunk lacks.
    lacks: Vec<u32>,
    /// Packets that are not here.
    left: u32,
    /// The first packet beyond those that came or are known to be lost.
    next: u32,
    /// Packets that came a second time.
    pub repeated: u64,
}

/// A place that holds nothing of this broadcast.
const NOTHING: u32 = u32::MAX;

impl Landing {
    /// Nothing of `packets` packets, `chunk` of them in a chunk, has come.
    pub fn new(packets: u32, chunk: u32) -> Landing {
        let chunks = packets.div_ceil(chunk.max(1));
        let lacks = (0..chunks).map(|index| chunk.min(packets - index * chunk)).collect();
        Landing {
            chunk,
            places: vec![NOTHING; packets as usize],
            spare: Vec::new(),
            states: vec![State::Awaited; packets as usize],
            lacks,
            left: packets,
            next: 0,
            repeated: 0,
        }
    }

    /// Packet `packet` has landed at `place`. Returns the packets before it that have not come and will not: one tree brings them in order.
    pub fn land(&mut self, place: u32, packet: u32) -> Range<u32> {
        if let Some(held) = self.places.get_mut(place as usize) {
            *held = packet;
        }
        match self.states.get_mut(packet as usize) {
            Some(state @ State::Awaited) => {
                *state = State::Here;
                self.count_in(packet);
            }
            _ => self.repeated += 1,
        }
        let lost = self.declare(packet);
        self.next = self.next.max(packet + 1);
        lost
    }

    /// Something that is no packet has landed at `place`.
    pub fn spoil(&mut self, place: u32) {
        if let Some(held) = self.places.get_mut(place as usize) {
            *held = NOTHING;
        }
    }

    /// Everything before `packet` was sent and had time to come: returns what has not, from the first packet that is missing. What is
    /// in between is here or known to be lost.
    pub fn declare(&mut self, packet: u32) -> Range<u32> {
        let (first, end) = (self.next, packet.min(self.states.len() as u32));
        self.next = self.next.max(end);
        if first >= end {
            return first..first;
        }
        self.states[first as usize..end as usize]
            .iter_mut()
            .filter(|state| **state == State::Awaited)
            .for_each(|state| *state = State::Lost);
        first..end
    }

    /// A packet that was lost has come into the spare buffer; its place there holds the bytes of `content`.
    pub fn fetch(&mut self, packet: u32, content: u32) {
        self.spare.push(content);
        if self.states.get(packet as usize) == Some(&State::Lost) {
            self.states[packet as usize] = State::Here;
            self.count_in(packet);
        }
    }

    /// A chunk that another rank had complete was copied here as a whole.
    pub fn take_chunk(&mut self, index: u32) {
        for packet in self.packets_of(index) {
            self.places[packet as usize] = packet;
            if self.states[packet as usize] != State::Here {
                self.states[packet as usize] = State::Here;
                self.count_in(packet);
            }
        }
        self.next = self.next.max(self.packets_of(index).end);
    }

    fn count_in(&mut self, packet: u32) {
        self.lacks[(packet / self.chunk) as usize] -= 1;
        self.left -= 1;
    }

    /// The packets of a chunk.
    pub fn packets_of(&self, index: u32) -> Range<u32> {
        index * self.chunk..((index + 1) * self.chunk).min(self.places.len() as u32)
    }
    /// How many chunks there are.
    pub fn chunks(&self) -> u32 {
        self.lacks.len() as u32
    }
    /// The first packet that has neither come nor is known to be lost.
    pub fn next(&self) -> u32 {
        self.next
    }
    /// Every packet is somewhere here.
    pub fn is_complete(&self) -> bool {
        self.left == 0
    }
    /// Every packet of the chunk is somewhere here.
    pub fn has(&self, index: u32) -> bool {
        self.lacks[index as usize] == 0
    }
    /// Every place of the chunk holds its own packet.
    pub fn is_right(&self, index: u32) -> bool {
        self.packets_of(index).all(|packet| self.places[packet as usize] == packet)
    }
    /// Places that hold anything but their own packet.
    pub fn wrong(&self) -> u64 {
        (0u32..).zip(&self.places).filter(|(packet, held)| packet != *held).count() as u64
    }

    /// What has to be moved so that every packet that is here lies where it belongs.
    pub fn moves(&self) -> Vec<Move> {
        let spots = self.spots();
        let mut moves: Vec<Move> = Vec::new();
        let mut before: Option<Spot> = None;
        for (packet, spot) in (0u32..).zip(spots) {
            let next = before.map(|spot| match spot {
                Spot::Place(place) => Spot::Place(place + 1),
                Spot::Spare(place) => Spot::Spare(place + 1),
            });
            match (spot, moves.last_mut()) {
                (None, _) => {}
                (Some(Spot::Place(place)), _) if place == packet => {}
                (Some(_), Some(last)) if spot == next && last.packet + last.count == packet => last.count += 1,
                (Some(spot), _) => moves.push(Move { packet, count: 1, spare: matches!(spot, Spot::Spare(_)) }),
            }
            before = spot;
        }
        moves
    }

    /// The moves are done, and the spare buffer is empty.
    pub fn moved(&mut self) {
        let spots = self.spots();
        let content: Vec<u32> = spots
            .into_iter()
            .map(|spot| match spot {
                Some(Spot::Place(place)) => self.places[place as usize],
                Some(Spot::Spare(place)) => self.spare[place as usize],
                None => NOTHING,
            })
            .collect();
        self.places = content;
        self.spare.clear();
    }

    /// Where each packet lies, at its own place if it lies there, too.
    fn spots(&self) -> Vec<Option<Spot>> {
        let mut spots = vec![None; self.places.len()];
        let spare = (0u32..).zip(&self.spare).map(|(at, packet)| (Spot::Spare(at), *packet));
        for (spot, packet) in spare.chain((0u32..).zip(&self.places).map(|(at, packet)| (Spot::Place(at), *packet))) {
            let Some(known) = spots.get_mut(packet as usize) else { continue };
            if *known != Some(Spot::Place(packet)) {
                *known = Some(spot);
            }
        }
        spots
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_comes_in_order_needs_no_move() {
        let mut landing = Landing::new(10, 4);
        assert!((0..10).all(|packet| landing.land(packet, packet).is_empty()));
        assert!(landing.is_complete() && (0..3).all(|index| landing.has(index) && landing.is_right(index)));
        assert_eq!((landing.moves(), landing.wrong(), landing.chunks()), (Vec::new(), 0, 3));
    }

    /// Packets 2 and 3 of 8 are lost: 4 to 7 land two places too early, and the fetched ones wait in the spare buffer.
    #[test]
    fn a_loss_shifts_what_comes_later() {
        let mut landing = Landing::new(8, 4);
        let lost: Vec<_> = [0, 1, 4, 5, 6, 7].into_iter().enumerate().map(|(place, packet)| landing.land(place as u32, packet)).collect();
        assert_eq!(lost, [0..0, 1..1, 2..4, 5..5, 6..6, 7..7]);
        assert!(!landing.has(0) && landing.has(1) && !landing.is_right(1));
        landing.fetch(2, 2);
        landing.fetch(3, 3);
        assert!(landing.is_complete());
        let moves = [Move { packet: 2, count: 2, spare: true }, Move { packet: 4, count: 4, spare: false }];
        assert_eq!((landing.moves(), landing.wrong()), (moves.to_vec(), 6));
        landing.moved();
        assert_eq!((landing.moves(), landing.wrong(), landing.spare.len()), (Vec::new(), 0, 0));
    }

    #[test]
    fn what_is_declared_lost_is_named_once_and_wrong_bytes_stay_wrong() {
        let mut landing = Landing::new(4, 2);
        assert!(landing.land(0, 0).is_empty());
        assert_eq!((landing.declare(3), landing.declare(3), landing.next()), (1..3, 3..3, 3));
        // What was only late counts once.
        assert!(landing.land(1, 1).is_empty());
        assert_eq!(landing.repeated, 1);
        landing.fetch(1, 1);
        // The sender had used the place again before it was read.
        landing.fetch(2, NOTHING);
        landing.land(2, 3);
        assert!(landing.is_complete());
        landing.moved();
        assert_eq!(landing.wrong(), 1);
    }
}
