//! The operations of one group at one switch.

use std::collections::VecDeque;

use fabriscope_units::Time;
use fabriscope_wire::{Collective, Psn, Task};

use super::reduce::join;

/// A packet of a child.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Arrival {
    /// Its number on the child's connection.
    pub psn: Psn,
    /// Header and length of the message, in its first packet.
    pub header: Option<(Task, u32)>,
    /// It ends its message.
    pub last: bool,
    /// Bytes of payload.
    pub payload: u16,
    /// The payload, where real bytes move.
    pub data: Option<Box<[u8]>>,
    /// When its last byte is there.
    pub at: Time,
}

/// What becomes of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It counts.
    Taken,
    /// It came before; everything up to this number has come.
    Repeated(Psn),
    /// One before it is missing: this one.
    Early(Psn),
    /// All slots are taken.
    Full,
    /// It does not fit to what the other children sent.
    Refused,
}

/// A packet that all children brought: it goes to the parent, or is the result.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Joined {
    /// What is done; the header goes with the first packet.
    pub task: Task,
    /// Bytes of the whole message.
    pub length: u32,
    /// It is the first of its message.
    pub first: bool,
    /// It is the last.
    pub last: bool,
    /// Bytes of payload.
    pub payload: u16,
    /// The payload, where real bytes move.
    pub data: Option<Box<[u8]>>,
    /// When the last operand was there.
    pub at: Time,
}

#[derive(Debug)]
struct Child {
    expected: Psn,
    /// Its operation and the packet of it that come next.
    operation: u64,
    packet: usize,
    /// A gap was reported.
    silent: bool,
}

#[derive(Debug, Default)]
struct Operation {
    task: Option<Task>,
    length: u32,
    /// Children whose message has begun, and when the latest did.
    begun: u32,
    began: Time,
    packets: VecDeque<Part>,
    /// Packets that went on.
    gone: usize,
    whole: bool,
}

#[derive(Debug, Default)]
struct Part {
    count: u32,
    at: Time,
    payload: u16,
    last: bool,
    operands: Vec<(u32, Box<[u8]>)>,
}

/// The operations of a group at a switch.
#[derive(Debug)]
pub struct Session {
    children: Vec<Child>,
    /// The child below which each member is.
    below: Vec<Option<u32>>,
    slots: usize,
    operations: VecDeque<Operation>,
    /// The number of the first of them.
    front: u64,
    /// Of them, those that went on whole.
    passed: usize,
}

impl Session {
    /// A switch with so many children, of which `below` says by member which one leads there; room for `slots` operations.
    #[must_use]
    pub fn new(children: u32, below: Vec<Option<u32>>, slots: u32) -> Session {
        let child = |_| Child { expected: Psn::new(0), operation: 0, packet: 0, silent: false };
        let children = (0..children).map(child).collect();
        Session { children, below, slots: slots.max(1) as usize, operations: VecDeque::new(), front: 0, passed: 0 }
    }

    /// The child below which a member is.
    #[must_use]
    pub fn towards(&self, member: u32) -> Option<u32> {
        place(&self.below, member)
    }

    /// A packet of a child.
    pub fn handle(&mut self, child: u32, arrival: Arrival) -> Verdict {
        let Some(from) = self.children.get_mut(child as usize) else { return Verdict::Refused };
        let ahead = arrival.psn.distance(from.expected);
        if ahead < 0 {
            return Verdict::Repeated(from.expected.previous());
        }
        if ahead > 0 {
            let known = std::mem::replace(&mut from.silent, true);
            return if known { Verdict::Repeated(from.expected.previous()) } else { Verdict::Early(from.expected) };
        }
        let Some(index) = from.operation.checked_sub(self.front).map(|index| index as usize) else { return Verdict::Refused };
        if index >= self.slots {
            return Verdict::Full;
        }
        while self.operations.len() <= index {
            self.operations.push_back(Operation::default());
        }
        let (number, operation) = (from.packet, &mut self.operations[index]);
        if arrival.header.is_some() != (number == 0) {
            return Verdict::Refused;
        }
        if let Some((task, length)) = arrival.header {
            let fits = operation.task.is_none_or(|other| other == task);
            // Who does not send in a broadcast has nothing to bring; in other operations all bring the same.
            let brings = brings(&self.below, task, child);
            let is_equal = if task.collective == Collective::Bcast {
                brings || length == 0
            } else {
                operation.begun == 0 || operation.length == length
            };
            if !fits || !is_equal {
                return Verdict::Refused;
            }
            operation.task = Some(task);
            if brings {
                operation.length = length;
            }
            operation.begun += 1;
            operation.began = operation.began.max(arrival.at);
        }
        let task = operation.task.unwrap_or(Task::BARRIER);
        if brings(&self.below, task, child) {
            while operation.packets.len() <= number {
                operation.packets.push_back(Part::default());
            }
            let part = &mut operation.packets[number];
            if part.count > 0 && (part.payload, part.last) != (arrival.payload, arrival.last) {
                return Verdict::Refused;
            }
            part.count += 1;
            part.at = part.at.max(arrival.at);
            (part.payload, part.last) = (arrival.payload, arrival.last);
            part.operands.extend(arrival.data.map(|data| (child, data)));
        }
        from.silent = false;
        from.expected = from.expected.next();
        (from.operation, from.packet) = if arrival.last { (from.operation + 1, 0) } else { (from.operation, number + 1) };
        Verdict::Taken
    }

    /// The next packet that all children brought, in order.
    pub fn poll_joined(&mut self) -> Option<Joined> {
        let operation = self.operations.get_mut(self.passed)?;
        let task = operation.task?;
        let children = self.children.len() as u32;
        // Nobody is sent a result before it has asked.
        if operation.begun < children {
            return None;
        }
        let first = operation.gone == 0;
        if task.collective == Collective::Bcast && place(&self.below, task.root).is_none() {
            operation.whole = true;
            self.passed += 1;
            let at = operation.began;
            return Some(Joined { task, length: 0, first, last: true, payload: 0, data: None, at });
        }
        let wanted = if task.collective == Collective::Bcast { 1 } else { children };
        let part = operation.packets.get_mut(operation.gone).filter(|part| part.count >= wanted)?;
        let mut operands = std::mem::take(&mut part.operands);
        operands.sort_unstable_by_key(|(child, _)| *child);
        let data = operands.into_iter().map(|(_, data)| data).reduce(|mut all, data| {
            join(task.reducer, task.element, &mut all, &data);
            all
        });
        let (last, payload, at) = (part.last, part.payload, part.at.max(operation.began));
        operation.gone += 1;
        if last {
            operation.whole = true;
            self.passed += 1;
        }
        Some(Joined { task, length: operation.length, first, last, payload, data, at })
    }

    /// The last packet of a result has gone by: the oldest operation is over.
    pub fn end(&mut self) {
        if self.operations.front().is_some_and(|operation| operation.whole) {
            self.operations.pop_front();
            self.front += 1;
            self.passed -= 1;
        }
    }

    /// Operations that hold slots.
    #[must_use]
    pub fn under_way(&self) -> usize {
        self.operations.len()
    }
    /// The children that the oldest unfinished operation waits for, with its number; nothing where all have come or none has begun.
    #[must_use]
    pub fn waits_for(&self) -> Option<(u64, Vec<u32>)> {
        let number = self.front + self.passed as u64;
        self.operations.get(self.passed)?;
        let behind = |(_, child): &(usize, &Child)| child.operation <= number;
        Some((number, self.children.iter().enumerate().filter(behind).map(|(index, _)| index as u32).collect()))
    }
}

fn place(below: &[Option<u32>], member: u32) -> Option<u32> {
    below.get(member as usize).copied().flatten()
}

/// Whether a child's message has operands, or only says that it has come.
fn brings(below: &[Option<u32>], task: Task, child: u32) -> bool {
    task.collective != Collective::Bcast || place(below, task.root) == Some(child)
}

#[cfg(test)]
mod tests {
    use fabriscope_units::Span;
    use fabriscope_wire::{Element, Reducer};

    use super::*;

    const SUM: Task = Task { collective: Collective::Allreduce, reducer: Reducer::Sum, element: Element::I32, root: 0 };

    fn at(ns: u64) -> Time {
        Time::ZERO + Span::from_ns(ns)
    }
    fn only(psn: u32, task: Task, values: &[i32], ns: u64) -> Arrival {
        let data: Box<[u8]> = values.iter().flat_map(|value| value.to_le_bytes()).collect();
        let length = data.len() as u32;
        Arrival { psn: Psn::new(psn), header: Some((task, length)), last: true, payload: length as u16, data: Some(data), at: at(ns) }
    }
    fn session(children: u32, slots: u32) -> Session {
        Session::new(children, (0..children).map(Some).collect(), slots)
    }

    #[test]
    fn a_result_comes_when_the_last_child_has_come() {
        let mut s = session(3, 2);
        for (child, ns) in [(2, 5), (0, 30)] {
            assert_eq!(s.handle(child, only(0, SUM, &[child as i32, 7], ns)), Verdict::Taken);
            assert_eq!(s.poll_joined(), None);
        }
        assert_eq!(s.waits_for(), Some((0, vec![1])));
        assert_eq!(s.handle(1, only(0, SUM, &[1, 7], 20)), Verdict::Taken);
        let joined = s.poll_joined().unwrap();
        assert_eq!((joined.at, joined.first, joined.last, joined.payload), (at(30), true, true, 8));
        assert_eq!(joined.data.unwrap()[..], [3, 0, 0, 0, 21, 0, 0, 0]);
        assert_eq!((s.under_way(), s.poll_joined()), (1, None));
        s.end();
        assert_eq!(s.under_way(), 0);
    }

    #[test]
    fn slots_hold_until_the_result_is_gone() {
        let mut s = session(2, 2);
        for psn in 0..2 {
            assert_eq!(s.handle(0, only(psn, SUM, &[1], 0)), Verdict::Taken);
        }
        assert_eq!(s.handle(0, only(2, SUM, &[1], 0)), Verdict::Full);
        s.end();
        assert_eq!(s.handle(0, only(2, SUM, &[1], 0)), Verdict::Full, "nothing was over");
        assert_eq!(s.handle(1, only(0, SUM, &[1], 0)), Verdict::Taken);
        assert!(s.poll_joined().is_some());
        s.end();
        assert_eq!(s.handle(0, only(2, SUM, &[1], 0)), Verdict::Taken);
    }

    #[test]
    fn repeats_and_gaps_are_told() {
        let mut s = session(2, 4);
        assert_eq!(s.handle(0, only(0, SUM, &[1], 0)), Verdict::Taken);
        assert_eq!(s.handle(0, only(0, SUM, &[1], 0)), Verdict::Repeated(Psn::new(0)));
        assert_eq!(s.handle(0, only(2, SUM, &[1], 0)), Verdict::Early(Psn::new(1)));
        assert_eq!(s.handle(0, only(3, SUM, &[1], 0)), Verdict::Repeated(Psn::new(0)), "a gap is told once");
        assert_eq!(s.handle(0, only(1, SUM, &[1], 0)), Verdict::Taken);
    }

    #[test]
    fn contributions_that_differ_are_refused() {
        let mut s = session(2, 4);
        assert_eq!(s.handle(0, only(0, SUM, &[1], 0)), Verdict::Taken);
        assert_eq!(s.handle(1, only(0, SUM, &[1, 2], 0)), Verdict::Refused, "another count");
        assert_eq!(s.handle(1, only(0, Task { element: Element::F32, ..SUM }, &[1], 0)), Verdict::Refused, "another type");
        let bcast = Task { collective: Collective::Bcast, root: 1, ..SUM };
        assert_eq!(s.handle(1, only(0, bcast, &[1], 0)), Verdict::Refused, "another operation");
        assert_eq!(s.handle(9, only(0, SUM, &[1], 0)), Verdict::Refused, "no such child");
        let headless = Arrival { header: None, ..only(0, SUM, &[1], 0) };
        assert_eq!(s.handle(1, headless), Verdict::Refused);
        assert_eq!(s.handle(1, only(0, SUM, &[1], 0)), Verdict::Taken);
    }

    #[test]
    fn a_broadcast_takes_the_bytes_of_its_root_when_all_have_asked() {
        let bcast = Task { collective: Collective::Bcast, root: 2, ..SUM };
        let mut s = session(3, 4);
        assert_eq!(s.handle(2, only(0, bcast, &[42], 0)), Verdict::Taken);
        assert_eq!(s.handle(0, only(0, bcast, &[], 9)), Verdict::Taken);
        assert_eq!(s.handle(1, only(0, bcast, &[1], 9)), Verdict::Refused, "only the root sends");
        assert_eq!(s.poll_joined(), None);
        assert_eq!(s.handle(1, only(0, bcast, &[], 4)), Verdict::Taken);
        let joined = s.poll_joined().unwrap();
        assert_eq!((joined.at, joined.length, joined.data.unwrap()[0]), (at(9), 4, 42));
        // Where the root is not below, that all have asked goes up.
        let mut s = Session::new(2, vec![Some(0), Some(1), None], 4);
        assert!((0..2).all(|child| s.handle(child, only(0, bcast, &[], 3)) == Verdict::Taken));
        let joined = s.poll_joined().unwrap();
        assert_eq!((joined.payload, joined.length, joined.data, joined.last), (0, 0, None, true));
    }

    /// Packets of long messages go on as they come.
    #[test]
    fn streams_are_joined_packet_by_packet() {
        let mut s = session(2, 1);
        let packet = |psn: u32, values: i32, ns| Arrival {
            header: (psn == 0).then_some((SUM, 12)),
            last: psn == 2,
            ..only(psn, SUM, &[values], ns)
        };
        for psn in 0..3 {
            assert_eq!(s.handle(0, packet(psn, 1, psn.into())), Verdict::Taken);
        }
        for psn in 0..3 {
            assert_eq!(s.handle(1, packet(psn, 2, 10 * u64::from(psn) + 50)), Verdict::Taken);
            let joined = s.poll_joined().unwrap();
            assert_eq!((joined.first, joined.last, joined.at), (psn == 0, psn == 2, at(10 * u64::from(psn) + 50)));
            assert_eq!(joined.data.unwrap()[0], 3);
        }
        s.end();
        assert_eq!(s.under_way(), 0);
    }
}
