//! Do the ranks of a trace agree: messages have partners, collectives all their members with one operation and one length, no cycle in a rank.

use std::collections::BTreeMap;

use fabriscope_units::Bytes;

use crate::{Group, Kind, Message, Operation, Record, RecordId, Trace};

/// What the ranks say differently of one operation.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error, miette::Diagnostic)]
#[non_exhaustive]
pub enum CheckError {
    /// Sends and receives of two ranks do not come out even.
    #[error("rank {from} sends {sends} messages to rank {to} with tag {tag}, which receives {receives}")]
    #[diagnostic(help("give the files of one run, and the whole of each"))]
    Unmatched {
        /// The sender.
        from: u32,
        /// The receiver.
        to: u32,
        /// The tag.
        tag: u32,
        /// Messages sent.
        sends: u64,
        /// Messages received.
        receives: u64,
    },
    /// A message longer than the receive has room for.
    #[error("rank {from} sends {sent} to rank {to} with tag {tag} where that receives {room} (message {number} of them)")]
    #[diagnostic(help("messages of one tag meet in order, is one missing from a file?"))]
    TooLong {
        /// The sender.
        from: u32,
        /// The receiver.
        to: u32,
        /// The tag.
        tag: u32,
        /// Which of the messages with this tag, from 1.
        number: u64,
        /// What is sent.
        sent: Bytes,
        /// What is received at most.
        room: Bytes,
    },
    /// Ranks of a group call different operations.
    #[error("operation {number} of {group}: rank {rank} has {operation} of {bytes}, rank {other} {its_operation} of {its_bytes}")]
    #[diagnostic(help("give the files of one run: all ranks of a group call the same operations in the same order"))]
    Collective {
        /// The group.
        group: String,
        /// Which operation of the group, from 1.
        number: u64,
        /// A rank.
        rank: u32,
        /// What it calls.
        operation: Operation,
        /// How long.
        bytes: Bytes,
        /// Another rank.
        other: u32,
        /// What that calls.
        its_operation: Operation,
        /// How long.
        its_bytes: Bytes,
    },
    /// Ranks of a group call a different number of operations.
    #[error("rank {rank} calls {calls} operations of {group}, rank {other} {its_calls}")]
    #[diagnostic(help("give the files of one run, and the whole of each"))]
    Count {
        /// The group.
        group: String,
        /// A rank.
        rank: u32,
        /// How many it calls.
        calls: u64,
        /// Another rank.
        other: u32,
        /// How many that calls.
        its_calls: u64,
    },
    /// Records that wait for each other.
    #[error("rank {rank}: record {id} (`{name}`) waits for itself, through {others} others")]
    #[diagnostic(help("the dependencies of the file have a cycle, write it again"))]
    Cycle {
        /// The rank.
        rank: u32,
        /// One of the records.
        id: u64,
        /// What it is called.
        name: String,
        /// How many more are on the cycle.
        others: u64,
    },
}

/// What was compared, and what could not be.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Checked {
    /// Messages whose partners were found.
    pub messages: u64,
    /// Messages to or from ranks without a file, and receives of anybody.
    pub open_messages: u64,
    /// Collectives that all members with a file agree on.
    pub collectives: u64,
    /// Collectives of which members have no file.
    pub partial_collectives: u64,
}

/// Collectives of a rank in their order.
type Calls = Vec<(Operation, Option<Bytes>)>;
/// Messages from one rank to another in one communicator with one tag.
type Lane = (u32, u32, Option<crate::GroupId>, u32);

impl Trace {
    /// Compares what the ranks say. Ranks without a file are not missed; what concerns them is counted.
    ///
    /// # Errors
    /// The first disagreement, or a cycle in a rank.
    pub fn check(&self) -> Result<Checked, CheckError> {
        let mut checked = Checked::default();
        for of in &self.ranks {
            order_of(&of.records).map_err(|cycle| CheckError::Cycle {
                rank: of.rank,
                id: cycle.0.0,
                name: of
                    .records
                    .iter()
                    .find(|record| record.id == cycle.0)
                    .map_or(String::new(), |record| record.name.chars().take(60).collect()),
                others: cycle.1,
            })?;
        }
        if !self.every_rank {
            self.messages(&mut checked)?;
            self.collectives(&mut checked)?;
        }
        Ok(checked)
    }

    fn messages(&self, checked: &mut Checked) -> Result<(), CheckError> {
        let has = |rank: u32| self.ranks.binary_search_by_key(&rank, |of| of.rank).is_ok();
        let mut lanes: BTreeMap<Lane, (Vec<Bytes>, Vec<Bytes>)> = BTreeMap::new();
        let mut anybody = 0_u64;
        for (rank, record) in self.all() {
            let (sends, message) = match &record.kind {
                Kind::Send(message) => (true, message),
                Kind::Recv(message) => (false, message),
                _ => continue,
            };
            let Message { peer: Some(peer), tag: Some(tag), bytes, group } = message else {
                anybody += 1;
                continue;
            };
            if !has(*peer) {
                checked.open_messages += 1;
                continue;
            }
            if sends {
                lanes.entry((rank, *peer, *group, *tag)).or_default().0.push(*bytes);
            } else {
                lanes.entry((*peer, rank, *group, *tag)).or_default().1.push(*bytes);
            }
        }
        checked.open_messages += anybody;
        for ((from, to, _, tag), (sends, receives)) in lanes {
            // A receive of anybody may take any message, so that the others need not come out even.
            if sends.len() != receives.len() && anybody == 0 {
                return Err(CheckError::Unmatched { from, to, tag, sends: sends.len() as u64, receives: receives.len() as u64 });
            }
            if anybody > 0 {
                continue;
            }
            for ((sent, room), number) in sends.iter().zip(&receives).zip(1..) {
                if sent > room {
                    return Err(CheckError::TooLong { from, to, tag, number, sent: *sent, room: *room });
                }
            }
            checked.messages += sends.len() as u64;
        }
        Ok(())
    }

    fn collectives(&self, checked: &mut Checked) -> Result<(), CheckError> {
        // Of each group: of each rank, the operations in their order.
        let mut calls: BTreeMap<Option<crate::GroupId>, BTreeMap<u32, Calls>> = BTreeMap::new();
        for (rank, record) in self.all() {
            if let Kind::Collective(collective) = &record.kind {
                let of = calls.entry(collective.group).or_default().entry(rank).or_default();
                of.push((collective.operation, collective.bytes));
            }
        }
        for (id, ranks) in calls {
            let group = self.groups.name(id).to_owned();
            let size = id.and_then(|id| self.groups.get(id)).map_or(Some(self.world), |group: &Group| group.size);
            let Some((first, theirs)) = ranks.iter().next() else { continue };
            for (rank, mine) in &ranks {
                if mine.len() != theirs.len() {
                    let (calls, its_calls) = (mine.len() as u64, theirs.len() as u64);
                    return Err(CheckError::Count { group, rank: *rank, calls, other: *first, its_calls });
                }
                for ((mine, theirs), number) in mine.iter().zip(theirs).zip(1..) {
                    let lengths = mine.0.same_length() && mine.1.zip(theirs.1).is_some_and(|(mine, theirs)| mine != theirs);
                    if mine.0 != theirs.0 || lengths {
                        let length = |bytes: Option<Bytes>| bytes.unwrap_or(Bytes::ZERO);
                        return Err(CheckError::Collective {
                            group,
                            number,
                            rank: *rank,
                            operation: mine.0,
                            bytes: length(mine.1),
                            other: *first,
                            its_operation: theirs.0,
                            its_bytes: length(theirs.1),
                        });
                    }
                }
            }
            let complete = size == Some(ranks.len() as u32);
            *(if complete { &mut checked.collectives } else { &mut checked.partial_collectives }) += theirs.len() as u64;
        }
        Ok(())
    }
}

/// The records in an order in which each comes after those that it waits for, ties in the order of the file; or one on a cycle and how many more
/// are on it or wait for it.
pub(crate) fn order_of(records: &[Record]) -> Result<Vec<usize>, (RecordId, u64)> {
    let places: BTreeMap<RecordId, usize> = records.iter().enumerate().map(|(at, record)| (record.id, at)).collect();
    let mut waits = vec![0_usize; records.len()];
    let mut waiters: Vec<Vec<usize>> = vec![Vec::new(); records.len()];
    for (at, record) in records.iter().enumerate() {
        for after in &record.after {
            if let Some(place) = places.get(&after.record()) {
                waits[at] += 1;
                waiters[*place].push(at);
            }
        }
    }
    let mut ready: std::collections::BTreeSet<usize> = (0..records.len()).filter(|at| waits[*at] == 0).collect();
    let mut order = Vec::with_capacity(records.len());
    while let Some(at) = ready.pop_first() {
        order.push(at);
        for waiter in &waiters[at] {
            waits[*waiter] -= 1;
            if waits[*waiter] == 0 {
                ready.insert(*waiter);
            }
        }
    }
    match waits.iter().position(|count| *count > 0) {
        None => Ok(order),
        Some(at) => Err((records[at].id, (records.len() - order.len()).saturating_sub(1) as u64)),
    }
}
