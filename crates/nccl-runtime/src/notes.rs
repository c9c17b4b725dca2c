//! Kernels of a rank that a timeline hears of, with what their calls said, when they have ended.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;

use fabriscope_nccl::{Operation, Plan};
use fabriscope_node::{Doing, Kernel};
use fabriscope_units::{Bytes, Time};

use super::communicator::Communicator;
use super::kernels::Turn;
use super::point_to_point::Exchange;

/// What a rank keeps for a timeline.
pub(super) struct Notes {
    /// The type of elements, and its bytes.
    elements: Cell<(&'static str, u64)>,
    next: Cell<u64>,
    /// Kernels that have not ended: their numbers in the stream, when they could begin, what they do.
    open: RefCell<VecDeque<(Turn, Time, Kernel)>>,
}

impl Default for Notes {
    fn default() -> Notes {
        Notes { elements: Cell::new(("int8", 1)), next: Cell::new(0), open: RefCell::default() }
    }
}

impl Communicator {
    /// From now on calls are about elements of this type, of so many bytes; timelines say so.
    pub fn counts(&self, datatype: &'static str, element: Bytes) {
        self.notes.elements.set((datatype, element.0.max(1)));
    }

    /// Notes the kernel of a collective, where anybody asks for it.
    pub(super) fn note_collective(&self, (turn, launched): (Turn, Time), plan: &Plan) {
        let (_, element) = self.notes.elements.get();
        let ranks = u64::from(self.ranks());
        let count = plan.block.0 / element;
        let elements = match plan.choice.operation {
            Operation::AllGather => (count, count * ranks),
            Operation::ReduceScatter => (count * ranks, count),
            Operation::Broadcast | Operation::Reduce | Operation::AllReduce => (count, count),
        };
        let choice = Some((plan.choice.algorithm.name(), plan.choice.protocol.name()));
        self.note((turn, launched), |kernel| Kernel { operation: plan.choice.operation.name(), choice, count, elements, ..kernel });
    }

    /// The same of a group of sends and receives.
    pub(super) fn note_group(&self, (turn, launched): (Turn, Time), exchanges: &[Exchange]) {
        let (_, element) = self.notes.elements.get();
        let sum =
            |sends| exchanges.iter().filter(|exchange| exchange.sends == sends).map(|exchange| exchange.bytes.0).sum::<u64>() / element;
        let most = exchanges.iter().map(|exchange| exchange.bytes.0).max().unwrap_or(0);
        self.note((turn, launched), |kernel| Kernel {
            count: most / element,
            elements: (sum(true), sum(false)),
            exchanges: exchanges.iter().map(|exchange| (exchange.peer, exchange.sends, exchange.bytes)).collect(),
            ..kernel
        });
    }

    fn note(&self, (turn, launched): (Turn, Time), kernel: impl FnOnce(Kernel) -> Kernel) {
        if !self.proxy.process.keeps_activities() {
            return;
        }
        let (datatype, element) = self.notes.elements.get();
        let sequence = self.notes.next.replace(self.notes.next.get() + 1);
        let kernel = kernel(Kernel {
            gpu: self.proxy.seat.gpu,
            operation: "SendRecv",
            choice: None,
            datatype,
            element,
            count: 0,
            elements: (0, 0),
            exchanges: Vec::new(),
            ranks: self.ranks(),
            nodes: self.plan().nodes(),
            sequence,
        });
        self.notes.open.borrow_mut().push_back((turn, launched, kernel));
    }

    /// Tells of the kernels that have ended by now.
    pub(super) fn tell_ended(&self) {
        let mut open = self.notes.open.borrow_mut();
        while let Some((turn, launched, _)) = open.front() {
            let kernels = &self.proxy.node.borrow().kernels;
            let stream = self.stream();
            let Some(ended) = kernels.ended(stream, *turn) else { break };
            let free = turn.checked_sub(1).and_then(|before| kernels.ended(stream, before)).unwrap_or_default();
            let begun = (*launched).max(free);
            if let Some((_, _, kernel)) = open.pop_front() {
                self.proxy.process.note_activity((begun, ended), || Doing::Kernel(kernel));
            }
        }
    }
}
