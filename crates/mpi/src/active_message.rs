//! Active messages of one-sided operations: what an origin asks of a target.
//!
//! Modelled: an operation on one element travels in the words of its message, and the old element in those of the answer. That a message
//! brings a vector, and whether the old one is wanted, is in its tag.
//! The bytes of vectors are in [`Vectors`], where contents are kept.

use std::collections::BTreeMap;

use fabriscope_node::Record;

use super::atomic_op::{AtomicOp, Width};
use super::element::{Datatype, Reduction};
use super::request::RequestId;

/// What an origin wants of a target.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Question {
    /// An accumulate; `fetches`: the old elements are wanted.
    Vector { fetches: bool },
    /// An operation on the element at `offset` of the target's window.
    Element { operation: AtomicOp, width: Width, offset: u64 },
    /// A lock is taken or given back.
    Lock,
}

impl Question {
    /// Bytes of the answer to a message of `size` bytes.
    pub fn answer(self, size: u32) -> u32 {
        match self {
            Question::Vector { fetches: true } => size,
            // The message has two operands.
            Question::Element { operation: AtomicOp::CompareSwap { .. }, .. } => size / 2,
            Question::Element { .. } => size,
            Question::Vector { fetches: false } | Question::Lock => 0,
        }
    }
    /// As numbers of three, one and 40 bits, and two operands.
    pub fn fields(self) -> Option<(u32, bool, u64, [u64; 2])> {
        match self {
            Question::Vector { .. } => None,
            Question::Lock => Some((0, false, 0, [0, 0])),
            Question::Element { operation, width, offset } => {
                let (kind, operands) = match operation {
                    AtomicOp::Add(value) => (1, [value, 0]),
                    AtomicOp::Swap(value) => (2, [value, 0]),
                    AtomicOp::CompareSwap { compare, swap } => (3, [compare, swap]),
                };
                Some((kind, width == Width::Eight, offset, operands))
            }
        }
    }
    /// What such numbers mean.
    pub fn from_fields(kind: u32, wide: bool, offset: u64, [first, second]: [u64; 2]) -> Option<Question> {
        let operation = match kind {
            0 => return Some(Question::Lock),
            1 => AtomicOp::Add(first),
            2 => AtomicOp::Swap(first),
            3 => AtomicOp::CompareSwap { compare: first, swap: second },
            _ => return None,
        };
        Some(Question::Element { operation, width: if wide { Width::Eight } else { Width::Four }, offset })
    }
}

/// A message that this rank serves.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Serving {
    /// Its receive.
    pub request: RequestId,
    pub origin: u32,
    /// Which of the origin's it is.
    pub number: u64,
    /// Bytes of the message.
    pub size: u32,
    pub asked: Question,
}

/// The elements of an accumulate, and what is to be done with them.
#[derive(Debug, Clone)]
pub(crate) struct Vector {
    pub datatype: Datatype,
    pub reduction: Reduction,
    /// Where in the target's window.
    pub offset: u64,
    pub operand: Vec<u8>,
}

/// Vectors on the way. Only jobs that keep contents have any.
#[derive(Debug, Clone, Default)]
pub(crate) struct Vectors(Record<OnTheWay>);

/// By origin, target and number.
type InFlight<V> = BTreeMap<(u32, u32, u64), V>;

#[derive(Debug, Default)]
struct OnTheWay {
    operands: InFlight<Vector>,
    old: InFlight<Vec<u8>>,
}

impl Vectors {
    /// The operand leaves with a message.
    pub fn send(&self, origin: u32, target: u32, number: u64, vector: Vector) {
        self.0.lock().operands.insert((origin, target, number), vector);
    }
    /// It has come.
    pub fn take(&self, origin: u32, target: u32, number: u64) -> Option<Vector> {
        self.0.lock().operands.remove(&(origin, target, number))
    }
    /// The old elements leave with the answer.
    pub fn answer(&self, origin: u32, target: u32, number: u64, old: Vec<u8>) {
        self.0.lock().old.insert((origin, target, number), old);
    }
    /// They have come.
    pub fn take_answer(&self, origin: u32, target: u32, number: u64) -> Option<Vec<u8>> {
        self.0.lock().old.remove(&(origin, target, number))
    }
}
