//! A layer and a micro-batch as pieces: what a GPU computes in one go, and the operations of groups between.
//!
//! Modelled: the same kernels and operations as [`layer::entries`](crate::layer::entries) lists, in their order; the backward pass goes through
//! them from the end; what lies within nodes counts as computing, as long as its time is.
//! Not modelled: gathers and scatters that leave the node piece by piece beside multiplications (they go one behind the other here).

use fabriscope_units::{Bytes, Span};

use super::Use;
use crate::layer::{Purpose, Work, beside, gradients, group, mirrored, piecewise};
use crate::layout::Layout;
use crate::roofline::{Kernel, Roofline};
use crate::times::{CommunicationTimes, Group, Operation};

/// A piece of a pass.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Piece {
    /// Kernels.
    Compute(Span),
    /// An operation of a group that everything behind it waits for.
    Together(Exchange),
    /// The same while a kernel runs; both are waited for.
    Beside(Span, Exchange),
}

/// An operation of a group.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Exchange {
    pub part: Use,
    pub operation: Operation,
    pub bytes: Bytes,
    pub group: Group,
}

/// In which direction work is done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Direction {
    Forward,
    /// With the gradients of weights, or without.
    Backward {
        weights: bool,
    },
}

/// What pieces are made with.
pub(super) struct Maker<'a, T> {
    pub layout: &'a Layout,
    pub roofline: &'a Roofline,
    pub times: &'a mut T,
    /// Whether an operation of such groups is but a time.
    pub inside: &'a dyn Fn(Group) -> bool,
}

impl<T: CommunicationTimes> Maker<'_, T> {
    /// The pieces of work in a direction.
    pub fn pieces(&mut self, work: &[Work], direction: Direction) -> Result<Vec<Piece>, T::Error> {
        let mut pieces = Pieces::default();
        let forward = direction == Direction::Forward;
        let mut index = 0;
        // Whether an exchange that hides behind attention was made with it.
        let mut hidden = false;
        while index < work.len() {
            let at = if forward { index } else { work.len() - 1 - index };
            index += 1;
            match work[at] {
                Work::Matrix(kernel) => pieces.compute(self.matrix(kernel, direction, self.layout.adapters.is_none())),
                Work::Adapter(kernel) => pieces.compute(self.matrix(kernel, direction, true)),
                Work::Memory(there, back) => pieces.compute(self.roofline.stream(Bytes(if forward { there } else { back }))),
                Work::Attention(kernel) => {
                    let span = self.attention(kernel, forward);
                    let exchange = work.get(at + 1).and_then(|next| self.of_context(next, forward));
                    match exchange {
                        None => pieces.compute(span),
                        Some(exchange) if (self.inside)(exchange.group) => {
                            let moved = self.times.time(exchange.operation, exchange.bytes, exchange.group)?;
                            pieces.compute(span.max(moved));
                        }
                        Some(exchange) => pieces.all.push(Piece::Beside(span, exchange)),
                    }
                    hidden = forward && exchange.is_some();
                }
                Work::Together(purpose, operation, bytes) => {
                    // With attention in one kernel its exchange was made, or will be.
                    let fused = at.checked_sub(1).is_some_and(|before| matches!(work[before], Work::Attention(_)));
                    if purpose == Purpose::Context && (hidden || fused) {
                        hidden = false;
                        continue;
                    }
                    let exchange = self.exchange((purpose, operation, bytes), forward);
                    if (self.inside)(exchange.group) {
                        let span = self.exposed(work, at, (purpose, operation), (exchange, forward))?;
                        pieces.compute(span);
                    } else {
                        pieces.all.push(Piece::Together(exchange));
                    }
                }
            }
        }
        Ok(pieces.all)
    }

    /// What the gradients of weights take, where they are put off.
    pub fn weights(&self, work: &[Work]) -> Span {
        let of = |work: &Work| match work {
            Work::Matrix(_) if self.layout.adapters.is_some() => Span::ZERO,
            Work::Matrix(kernel) | Work::Adapter(kernel) => self.roofline.time(&gradients(*kernel).1),
            _ => Span::ZERO,
        };
        work.iter().map(of).sum()
    }

    fn matrix(&self, kernel: Kernel, direction: Direction, trained: bool) -> Span {
        let Direction::Backward { weights } = direction else { return self.roofline.time(&kernel) };
        let (input, of_weights) = gradients(kernel);
        self.roofline.time(&input) + if weights && trained { self.roofline.time(&of_weights) } else { Span::ZERO }
    }

    fn attention(&self, kernel: Kernel, forward: bool) -> Span {
        match kernel {
            // Scores are computed again: five multiplications for two.
            Kernel::Attention { latest, operations, bytes } if !forward => {
                self.roofline.time(&Kernel::Attention { latest, operations: 2.5 * operations, bytes: 2 * bytes })
            }
            kernel => self.roofline.time(&kernel),
        }
    }

    fn of_context(&self, next: &Work, forward: bool) -> Option<Exchange> {
        match *next {
            Work::Together(Purpose::Context, operation, bytes) => Some(self.exchange((Purpose::Context, operation, bytes), forward)),
            _ => None,
        }
    }

    fn exchange(&self, (purpose, operation, bytes): (Purpose, Operation, Bytes), forward: bool) -> Exchange {
        let group = group(self.layout, purpose);
        let (part, operation, bytes) = match purpose {
            Purpose::Tensor if forward => (Use::Tensor, operation, bytes),
            Purpose::Tensor => (Use::Tensor, mirrored(operation), bytes),
            Purpose::Expert => (Use::Expert, operation, bytes),
            // Gradients go round with keys and values.
            Purpose::Context => (Use::Context, operation, if forward { bytes } else { bytes * 2 }),
        };
        Exchange { part, operation, bytes, group }
    }

    /// What is left of an operation within nodes.
    fn exposed(
        &mut self,
        work: &[Work],
        at: usize,
        (purpose, operation): (Purpose, Operation),
        (exchange, forward): (Exchange, bool),
    ) -> Result<Span, T::Error> {
        let whole = self.times.time(exchange.operation, exchange.bytes, exchange.group)?;
        let product = beside(work, at, operation).filter(|_| self.layout.overlap_tensor && purpose == Purpose::Tensor);
        Ok(product.map_or(whole, |kernel| {
            let kernel = if forward { kernel } else { gradients(kernel).0 };
            piecewise(whole, self.roofline.time(&kernel), self.layout.tensor)
        }))
    }
}

/// Pieces so far; computing that follows on computing is one.
#[derive(Default)]
struct Pieces {
    all: Vec<Piece>,
}

impl Pieces {
    fn compute(&mut self, span: Span) {
        match self.all.last_mut() {
            Some(Piece::Compute(last)) => *last += span,
            _ => self.all.push(Piece::Compute(span)),
        }
    }
}
