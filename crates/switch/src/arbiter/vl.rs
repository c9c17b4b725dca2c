//! InfiniBand's arbitration among virtual lanes: a table of high and one of low priority, and a limit of the high one.
//!
//! Source: InfiniBand Architecture Specification vol. 1, §7.6.9: entries of a lane and a weight in units of 64 bytes; an entry
//! keeps its turn until its weight is used up or its lane has nothing to send, and the last packet may exceed the weight;
//! packets of the high table go first until the Limit of High Priority, in units of 4096 bytes, is used up: then the low table
//! has one opportunity. Limit 0 is one packet, 255 is no limit. Lane 15 belongs to management and goes before both.
//! Modelled: both tables with up to 64 entries each, lanes that stand in several entries and in both tables, weight 0 (the entry
//! is skipped), the limit, lane 15.
//! Not modelled: preemption of a packet on the wire, which InfiniBand has not either.

use std::sync::Arc;

use fabriscope_units::Bytes;

/// One entry of a table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct VlEntry {
    /// The lane.
    pub lane: u8,
    /// What it may send in one turn, in units of 64 bytes; 0 skips the entry.
    pub weight: u8,
}

/// The tables of a port.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct VlTables {
    high: Vec<VlEntry>,
    low: Vec<VlEntry>,
    /// Lanes of each table.
    high_lanes: u16,
    low_lanes: u16,
    /// Bytes of the high table before the low one has an opportunity; `None` for no limit.
    limit: Option<u32>,
    /// Lane 15 carries management.
    management: bool,
}

/// Unit of a weight (standard).
const UNIT: Bytes = Bytes(64);
/// Unit of the limit in bytes (standard).
const LIMIT_UNIT: u32 = 4096;
/// The limit that is none (standard).
pub const UNLIMITED: u8 = 255;
/// Lane of management (standard).
const MANAGEMENT: u16 = 1 << 15;

impl VlTables {
    /// Tables with `limit` in units of 4096 bytes. With `management`, lane 15 goes before both.
    #[must_use]
    pub fn new(high: &[VlEntry], low: &[VlEntry], limit: u8, management: bool) -> VlTables {
        let used =
            |table: &[VlEntry]| -> Vec<VlEntry> { table.iter().copied().filter(|entry| entry.weight > 0 && entry.lane < 16).collect() };
        let lanes = |table: &[VlEntry]| table.iter().fold(0u16, |all, entry| all | 1 << entry.lane);
        let (high, low) = (used(high), used(low));
        let limit = (limit != UNLIMITED).then(|| u32::from(limit) * LIMIT_UNIT);
        VlTables { high_lanes: lanes(&high), low_lanes: lanes(&low), high, low, limit, management }
    }

    /// `lanes` lanes in turn, 4 KiB each.
    #[must_use]
    pub fn even(lanes: u8) -> VlTables {
        let low: Vec<VlEntry> = (0..lanes).map(|lane| VlEntry { lane, weight: 64 }).collect();
        VlTables::new(&[], &low, 0, false)
    }
}

/// Where a port stands in one table.
#[derive(Debug, Clone, Copy)]
struct Turn {
    entry: u8,
    /// Blocks of 64 bytes that the entry may still send.
    left: i32,
}

/// Where a port stands in its tables.
#[derive(Debug, Clone)]
pub struct State {
    tables: Arc<VlTables>,
    high: Turn,
    low: Turn,
    /// Bytes that the high table may send before the low one has an opportunity.
    high_left: i64,
    /// The table that the last packet came from.
    last: Source,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Source {
    Management,
    High,
    Low,
}

impl State {
    pub(super) fn new(tables: Arc<VlTables>) -> State {
        let first = |table: &[VlEntry]| Turn { entry: 0, left: table.first().map_or(0, |entry| i32::from(entry.weight)) };
        let (high, low) = (first(&tables.high), first(&tables.low));
        let high_left = allowance(&tables);
        State { tables, high, low, high_left, last: Source::Low }
    }

    pub(super) fn pick(&mut self, ready: u16) -> Option<u8> {
        let tables = &*self.tables;
        if tables.management && ready & MANAGEMENT != 0 {
            self.last = Source::Management;
            return Some(15);
        }
        let (high, low) = (ready & tables.high_lanes, ready & tables.low_lanes);
        if high == 0 || (self.high_left <= 0 && low != 0) {
            self.high_left = allowance(tables);
            self.last = Source::Low;
            return turn(&tables.low, &mut self.low, low);
        }
        if self.high_left <= 0 {
            // The low table has nothing: its opportunity is over.
            self.high_left = allowance(tables);
        }
        self.last = Source::High;
        turn(&tables.high, &mut self.high, high)
    }

    pub(super) fn charge(&mut self, amount: Bytes) {
        let blocks = amount.div_ceil(UNIT);
        match self.last {
            Source::Management => {}
            Source::High => {
                self.high.left -= blocks as i32;
                if self.tables.limit.is_some() {
                    self.high_left -= (UNIT * blocks).0 as i64;
                }
            }
            Source::Low => self.low.left -= blocks as i32,
        }
    }
}

/// What the high table may send: with limit 0 whatever one packet has.
fn allowance(tables: &VlTables) -> i64 {
    tables.limit.map_or(1, |limit| i64::from(limit.max(1)))
}

/// The lane of the entry whose turn it is.
fn turn(table: &[VlEntry], turn: &mut Turn, ready: u16) -> Option<u8> {
    let has = |entry: &VlEntry| ready & (1 << entry.lane) != 0;
    let current = table.get(usize::from(turn.entry))?;
    if turn.left > 0 && has(current) {
        return Some(current.lane);
    }
    let from = usize::from(turn.entry) + 1;
    let next = (from..table.len()).chain(0..from.min(table.len())).find(|&at| has(&table[at]))?;
    *turn = Turn { entry: next as u8, left: i32::from(table[next].weight) };
    Some(table[next].lane)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entries(pairs: &[(u8, u8)]) -> Vec<VlEntry> {
        pairs.iter().map(|&(lane, weight)| VlEntry { lane, weight }).collect()
    }

    fn state(high: &[(u8, u8)], low: &[(u8, u8)], limit: u8) -> State {
        State::new(Arc::new(VlTables::new(&entries(high), &entries(low), limit, true)))
    }

    /// Packets of each lane among `count`, all lanes of `ready` always full of packets of `blocks` 64-byte blocks.
    fn served(state: &mut State, ready: u16, blocks: u64, count: u32) -> [u32; 16] {
        let mut served = [0; 16];
        for _ in 0..count {
            let lane = state.pick(ready).expect("a lane is ready");
            state.charge(UNIT * blocks);
            served[usize::from(lane)] += 1;
        }
        served
    }

    #[test]
    fn lanes_share_by_weight() {
        // Weights 192 and 64 with 64-block packets: three packets of lane 0 for one of lane 1.
        let served = served(&mut state(&[], &[(0, 192), (1, 64)], 0), 0b11, 64, 400);
        assert_eq!(served[..2], [300, 100]);
    }

    #[test]
    fn the_last_packet_of_a_turn_may_exceed_the_weight() {
        // 66-block packets: three of them use up 192, one uses up 64. With weight 1 every turn is one packet.
        assert_eq!(served(&mut state(&[], &[(0, 192), (1, 64)], 0), 0b11, 66, 400)[..2], [300, 100]);
        assert_eq!(served(&mut state(&[], &[(0, 1), (1, 1), (2, 1)], 0), 0b111, 66, 300)[..3], [100, 100, 100]);
    }

    #[test]
    fn an_empty_lane_does_not_hold_the_wire() {
        let mut even = State::new(Arc::new(VlTables::even(16)));
        assert_eq!(even.pick(0b1000_0000_0000_0000), Some(15));
        assert_eq!(even.pick(0b1), Some(0));
        assert_eq!(state(&[], &[(0, 1)], 0).pick(0b10), None);
    }

    /// Limit h of high priority and packets of P bytes: ceil(4096 h / P) packets of the high table for one of the low one.
    #[test]
    fn the_limit_of_high_priority_lets_low_packets_through() {
        let split = |limit, blocks, count| {
            let served = served(&mut state(&[(1, 255)], &[(0, 64)], limit), 0b11, blocks, count);
            (served[1], served[0])
        };
        // 0: one packet each.
        assert_eq!(split(0, 64, 100), (50, 50));
        // 6 × 4096 B = 24 KiB: six packets of 4096 B.
        assert_eq!(split(6, 64, 700), (600, 100));
        // 66 blocks are 4224 B: 24576 / 4224 = 5.8, so six.
        assert_eq!(split(6, 66, 700), (600, 100));
        // 255: the low table starves.
        assert_eq!(split(255, 64, 1000), (1000, 0));
    }

    #[test]
    fn high_packets_wait_for_no_weight_of_the_low_table() {
        let mut state = state(&[(1, 1)], &[(0, 255)], 255);
        assert_eq!(served(&mut state, 0b01, 64, 1)[0], 1);
        assert_eq!(state.pick(0b11), Some(1), "the low entry has weight left, but the high table goes first");
    }

    #[test]
    fn a_lane_may_stand_in_several_entries_and_in_both_tables() {
        // Lane 2 has two of four equal entries.
        assert_eq!(served(&mut state(&[], &[(0, 64), (2, 64), (1, 64), (2, 64)], 0), 0b111, 64, 400)[..3], [100, 100, 200]);
        // Of the high table's packets all, of the low one's half: limit 0 gives each table every second packet.
        assert_eq!(served(&mut state(&[(0, 64)], &[(0, 64), (1, 64)], 0), 0b11, 64, 400)[..2], [300, 100]);
    }

    #[test]
    fn management_goes_before_all() {
        let mut state = state(&[(0, 255)], &[(1, 255)], 255);
        assert_eq!(served(&mut state, 0x8003, 5, 10)[15], 10);
    }
}
