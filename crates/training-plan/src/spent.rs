//! What the kernels of a GPU spent a step on, by when the operations of a run began and ended.
//!
//! Modelled: each wait between two kernels belongs to what ended last of that which the second one waited for. The parts add up to the step.

use fabriscope_training::operations::{Action, KERNELS, Task, Use};
use fabriscope_units::{Span, Time};

/// What a GPU spent a step on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Spent {
    /// Kernels of passes.
    pub computing: Span,
    /// Groups of tensors, context and experts between nodes.
    pub groups: Span,
    /// Messages of the pipeline and waits for them.
    pub pipeline: Span,
    /// Gradients and parameters of copies.
    pub data: Span,
    /// The optimizer.
    pub optimizer: Span,
}

impl Spent {
    /// Of a GPU: its tasks with when each began and ended.
    #[must_use]
    pub fn of(tasks: &[Task], times: &[(Time, Time)]) -> Spent {
        let mut spent = Spent::default();
        let mut last = Time::ZERO;
        let end = |task: u32| times.get(task as usize).map_or(Time::ZERO, |times| times.1);
        for (task, (begin, ended)) in tasks.iter().zip(times).filter(|(task, _)| task.stream == KERNELS) {
            let latest = task.after.iter().copied().max_by_key(|before| end(*before));
            if let Some(before) = latest {
                spent.add(tasks[before as usize].part, begin.since(last));
            } else {
                spent.add(task.part, begin.since(last));
            }
            // What a kernel of another stream did meanwhile is hidden.
            let part = if matches!(task.action, Action::Compute(_)) && task.part != Use::Optimizer { Use::Computing } else { task.part };
            spent.add(part, ended.since((*begin).max(last)));
            last = last.max(*ended);
        }
        for (task, (_, ended)) in tasks.iter().zip(times).filter(|(task, _)| task.stream != KERNELS) {
            spent.add(task.part, ended.since(last));
            last = last.max(*ended);
        }
        spent
    }
    /// The step.
    #[must_use]
    pub fn total(&self) -> Span {
        self.computing + self.groups + self.pipeline + self.data + self.optimizer
    }
    /// Its parts with their names.
    #[must_use]
    pub fn parts(&self) -> [(&'static str, Span); 5] {
        [
            ("computing, with groups within nodes", self.computing),
            ("groups between nodes, exposed", self.groups),
            ("pipeline messages and bubble", self.pipeline),
            ("data parallelism, exposed", self.data),
            ("optimizer", self.optimizer),
        ]
    }

    fn add(&mut self, part: Use, span: Span) {
        *match part {
            Use::Computing => &mut self.computing,
            Use::Tensor | Use::Context | Use::Expert => &mut self.groups,
            Use::Pipeline => &mut self.pipeline,
            Use::Data => &mut self.data,
            Use::Optimizer => &mut self.optimizer,
        } += span;
    }
}
