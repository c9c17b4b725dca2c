//! What a step is made of at the stage that ends last: every kind of kernel, of operation and of wait, which add up to it.
//!
//! Modelled: kernels by what they compute for, with what the rate of the GPU alone would take, what its tiles and waves cost and the gaps
//! between kernels; operations by purpose, size and group, with what of them hides and what does not; the bubble before the first pass,
//! between passes and behind the last.
//! Not modelled: which of two operations that hide together hides better: the first one hides first.

use std::collections::BTreeMap;

use fabriscope_units::{Bytes, Span, Time};

use crate::layer::{Entry, KernelKind, Purpose, What};
use crate::layout::Layout;
use crate::pipeline::StageLine;
use crate::roofline::Roofline;
use crate::step::{Exchanged, Piece, Step};
use crate::times::{CommunicationTimes, Cost, Group, Operation};

/// What an operation is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Role {
    /// Activations of a tensor group.
    Tensor,
    /// Keys and values of a context group.
    Context,
    /// Tokens to experts.
    Expert,
    /// Activations and gradients between stages.
    Stages,
    /// Parameters of copies.
    Parameters,
    /// Gradients of copies.
    Gradients,
}

impl Role {
    /// All of them.
    pub const ALL: [Role; 6] = [Role::Tensor, Role::Context, Role::Expert, Role::Stages, Role::Parameters, Role::Gradients];
    /// As people call it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Role::Tensor => "tensor parallelism",
            Role::Context => "context parallelism",
            Role::Expert => "expert parallelism",
            Role::Stages => "pipeline messages",
            Role::Parameters => "parameters of copies",
            Role::Gradients => "gradients of copies",
        }
    }
}

/// Kernels of a kind.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct KernelRow {
    /// What they are for.
    pub kind: KernelKind,
    /// Computed a second time.
    pub again: bool,
    /// How many.
    pub count: u64,
    /// Floating-point operations of all.
    pub operations: f64,
    /// Bytes of memory of all.
    pub bytes: u64,
    /// At the sustained rate, or at that of memory.
    pub ideal: Span,
    /// What tiles and waves cost beyond.
    pub waves: Span,
    /// Between kernels.
    pub gaps: Span,
    /// All of it.
    pub total: Span,
    /// Of it those that wait for memory, without gaps.
    pub by_memory: Span,
}

/// Operations of a kind.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct OperationRow {
    /// What they are for.
    pub role: Role,
    /// What they do.
    pub operation: Operation,
    /// Among whom.
    pub group: Group,
    /// Bytes of the larger buffer of a rank.
    pub bytes: Bytes,
    /// For what is computed a second time.
    pub again: bool,
    /// How many.
    pub count: u64,
    /// One of them.
    pub cost: Cost,
    /// All of them.
    pub total: Span,
    /// What of that nothing hides.
    pub exposed: Span,
}

impl OperationRow {
    /// What hides behind computing.
    #[must_use]
    pub fn hidden(&self) -> Span {
        self.total.saturating_sub(self.exposed)
    }
    /// What of all does not depend on the bytes.
    #[must_use]
    pub fn latency(&self) -> Span {
        (self.cost.latency * self.count).min(self.total)
    }
}

/// A step by what it is made of.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Account {
    /// Kernels.
    pub kernels: Vec<KernelRow>,
    /// Operations of groups and messages.
    pub operations: Vec<OperationRow>,
    /// Waits for other stages: before the first pass, between passes, behind the last.
    pub bubble: [Span; 3],
    /// The host that launches kernels is late.
    pub host: Span,
    /// What computing takes longer beside operations.
    pub slowed: Span,
    /// The optimizer, and the bytes of memory that it moves.
    pub optimizer: (Span, Bytes),
}

impl Account {
    /// All of it: the step.
    #[must_use]
    pub fn total(&self) -> Span {
        let kernels: Span = self.kernels.iter().map(|row| row.total).sum();
        let operations: Span = self.operations.iter().map(|row| row.exposed).sum();
        kernels + self.host + operations + self.bubble.into_iter().sum() + self.slowed + self.optimizer.0
    }
}

type KernelKey = (KernelKind, bool);
type OperationKey = (Role, Operation, Bytes, Group, bool);

/// Sums while the pieces of a stage are gone through.
struct Sums<'a, T> {
    roofline: &'a Roofline,
    times: &'a mut T,
    kernels: BTreeMap<KernelKey, KernelRow>,
    operations: BTreeMap<OperationKey, OperationRow>,
}

/// The account of a step.
///
/// # Errors
/// What the cluster cannot do.
pub fn account<T: CommunicationTimes>(step: &Step, layout: &Layout, roofline: &Roofline, times: &mut T) -> Result<Account, T::Error> {
    let mut sums = Sums { roofline, times, kernels: BTreeMap::new(), operations: BTreeMap::new() };
    let batches = u64::from(layout.micro_batches());
    let (mut gathered, mut scattered) = (Span::ZERO, Span::ZERO);
    for content in step.content.iter().skip(step.stage as usize).step_by(layout.pipeline.max(1) as usize) {
        for (piece, count) in content.pieces(&step.pieces) {
            sums.piece(piece, count * batches)?;
        }
        gathered += (content.forward.gather + content.backward.gather) * batches;
        scattered += content.backward.scatter * batches;
    }
    sums.expose(Role::Parameters, gathered);
    sums.expose(Role::Gradients, scattered);
    let copies = step.copies.get(step.stage as usize).cloned().unwrap_or_default();
    sums.list(Role::Gradients, &copies.gradients, copies.gradients_hidden);
    sums.list(Role::Parameters, &copies.parameters, copies.parameters_hidden);
    let line = step.lines.get(step.stage as usize).cloned().unwrap_or_default();
    let sent = line.passes.iter().filter(|timed| leaves(layout, step.stage, timed.pass)).count() as u64;
    if sent > 0 {
        for message in &step.message {
            sums.add(Role::Stages, message, sent, Span::ZERO, false);
        }
        sums.expose(Role::Stages, step.parts.messages);
    }
    Ok(Account {
        kernels: sums.kernels.into_values().collect(),
        operations: sums.operations.into_values().collect(),
        bubble: bubble(&line, step.parts.bubble),
        host: step.parts.host,
        slowed: step.parts.slowed,
        optimizer: (step.parts.optimizer, copies.optimizer_bytes),
    })
}

/// Whether a pass sends to another stage.
fn leaves(layout: &Layout, stage: u32, pass: crate::pipeline::Pass) -> bool {
    let part = pass.part * layout.pipeline + stage;
    layout.pipeline > 1 && if pass.forward { part + 1 < layout.pipeline * layout.interleave } else { part > 0 }
}

/// Waits before the first pass, between passes and behind the last.
fn bubble(line: &StageLine, whole: Span) -> [Span; 3] {
    let before = line.passes.first().map_or(Span::ZERO, |timed| timed.from.since(Time::ZERO).saturating_sub(timed.fills)).min(whole);
    let gaps = line.passes.windows(2).map(|pair| pair[1].from.since(pair[0].to + pair[0].sends).saturating_sub(pair[1].fills));
    let between = gaps.sum::<Span>().min(whole - before);
    [before, between, whole - before - between]
}

impl<T: CommunicationTimes> Sums<'_, T> {
    fn piece(&mut self, piece: &Piece, count: u64) -> Result<(), T::Error> {
        if count == 0 {
            return Ok(());
        }
        for entry in piece.forward.iter().chain(&piece.backward) {
            self.entry(entry, count)?;
        }
        if let Some(gather) = &piece.gather {
            self.add(Role::Parameters, gather, 2 * count, Span::ZERO, false);
        }
        for scatter in &piece.scatter {
            self.add(Role::Gradients, scatter, count, Span::ZERO, false);
        }
        Ok(())
    }

    fn entry(&mut self, entry: &Entry, count: u64) -> Result<(), T::Error> {
        match entry.what {
            What::Kernel(kind, kernel) => {
                let cost = self.roofline.cost(&kernel);
                let row = self.kernels.entry((kind, entry.again)).or_insert(KernelRow {
                    kind,
                    again: entry.again,
                    count: 0,
                    operations: 0.0,
                    bytes: 0,
                    ideal: Span::ZERO,
                    waves: Span::ZERO,
                    gaps: Span::ZERO,
                    total: Span::ZERO,
                    by_memory: Span::ZERO,
                });
                row.count += count;
                row.operations += cost.operations * count as f64;
                row.bytes += cost.bytes * count;
                row.ideal += cost.ideal * count;
                row.waves += cost.span.saturating_sub(cost.gap + cost.ideal) * count;
                row.gaps += cost.gap * count;
                row.total += cost.span * count;
                row.by_memory += if cost.by_memory { cost.span.saturating_sub(cost.gap) * count } else { Span::ZERO };
            }
            What::Together(purpose, operation, bytes, group) => {
                let role = match purpose {
                    Purpose::Tensor => Role::Tensor,
                    Purpose::Context => Role::Context,
                    Purpose::Expert => Role::Expert,
                };
                let cost = Cost { span: entry.span, ..self.times.cost(operation, bytes, group)? };
                let exchanged = Exchanged { operation, bytes, group, cost };
                self.add(role, &exchanged, count, entry.exposed * count, entry.again);
            }
            // Told as what the step says.
            What::Host => {}
        }
        Ok(())
    }

    fn add(&mut self, role: Role, exchanged: &Exchanged, count: u64, exposed: Span, again: bool) {
        let Exchanged { operation, bytes, group, cost } = *exchanged;
        let bare = OperationRow { role, operation, group, bytes, again, count: 0, cost, total: Span::ZERO, exposed: Span::ZERO };
        let row = self.operations.entry((role, operation, bytes, group, again)).or_insert(bare);
        row.count += count;
        row.total += cost.span * count;
        row.exposed += exposed;
    }

    /// Operations one behind the other, the first of which hide.
    fn list(&mut self, role: Role, list: &[Exchanged], mut hidden: Span) {
        for exchanged in list {
            let hides = hidden.min(exchanged.cost.span);
            hidden -= hides;
            self.add(role, exchanged, 1, exchanged.cost.span - hides, false);
        }
    }

    /// What is exposed of all operations of a role together.
    fn expose(&mut self, role: Role, mut exposed: Span) {
        let rows: Vec<&mut OperationRow> = self.operations.values_mut().filter(|row| row.role == role).collect();
        let last = rows.len().saturating_sub(1);
        for (number, row) in rows.into_iter().enumerate() {
            // What does not fit is told with the last, so that nothing is lost.
            let own = if number == last { exposed } else { exposed.min(row.hidden()) };
            row.exposed += own;
            exposed -= own;
        }
    }
}
