//! The order in which stages of a pipeline take micro-batches, and when each of them starts and ends.
//!
//! Source: Huang et al., GPipe (arXiv 1811.06965); Narayanan et al., SC 2021, §2.2 (1F1B, interleaved); Qi et al., "Zero Bubble Pipeline
//! Parallelism" (arXiv 2401.10241), ZB-H1.
//! Modelled: stages take their passes in the order of the schedule and wait for what they need; messages between stages take their time,
//! and their senders too where nothing overlaps; gradients of weights fill the waits of zero bubble.
//! Not modelled: messages that wait for each other.

use fabriscope_units::{Span, Time};

use crate::layout::{Layout, Schedule};

/// A pass of a micro-batch through a part of the model.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Pass {
    /// Forward, or backward.
    pub forward: bool,
    /// The micro-batch.
    pub batch: u32,
    /// Which part of those at the stage.
    pub part: u32,
}

/// What passes cost.
pub trait PassSpans {
    /// The pass at a stage, without what may be done later.
    fn span(&self, stage: u32, pass: Pass) -> Span;
    /// Gradients of weights that may be done later.
    fn later(&self, stage: u32, pass: Pass) -> Span;
    /// Activations or gradients from a stage to its neighbour.
    fn message(&self) -> Span;
}

/// A pass with its times.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Timed {
    /// Which.
    pub pass: Pass,
    /// When it starts.
    pub from: Time,
    /// When it has ended.
    pub to: Time,
    /// What its message keeps the stage from computing, behind it.
    pub sends: Span,
    /// Gradients of weights that were put off and fill the wait before it.
    pub fills: Span,
}

/// The time line of a stage.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct StageLine {
    /// Its passes, in order.
    pub passes: Vec<Timed>,
    /// When it has ended.
    pub end: Time,
    /// Gradients of weights that it did while it would have waited, or at the end.
    pub later: Span,
}

/// The order of passes at a stage.
#[must_use]
pub fn order(layout: &Layout, stage: u32) -> Vec<Pass> {
    let (stages, parts, batches) = (layout.pipeline, layout.interleave, layout.micro_batches());
    let all = batches * parts;
    let pass = |forward: bool, number: u32| {
        // Groups of as many micro-batches as stages go through one part after the other.
        let (group, within) = (number / (stages * parts), number % (stages * parts));
        let part = within / stages;
        let batch = group * stages + within % stages;
        Pass { forward, batch, part: if forward { part } else { parts - 1 - part } }
    };
    let plain = |forward: bool, number: u32| Pass { forward, batch: number, part: 0 };
    let make: &dyn Fn(bool, u32) -> Pass = if parts > 1 { &pass } else { &plain };
    let first = match layout.schedule {
        Schedule::GPipe => all,
        _ if parts > 1 => ((stages - 1 - stage) * 2 + (parts - 1) * stages).min(all),
        _ => (stages - 1 - stage).min(all),
    };
    let mut passes: Vec<Pass> = (0..first).map(|number| make(true, number)).collect();
    for number in first..all {
        passes.push(make(true, number));
        passes.push(make(false, number - first));
    }
    passes.extend((all - first..all).map(|number| make(false, number)));
    passes
}

/// When every stage does what.
#[must_use]
pub fn lines(layout: &Layout, spans: &dyn PassSpans) -> Vec<StageLine> {
    let (stages, parts, batches) = (layout.pipeline, layout.interleave, layout.micro_batches());
    let orders: Vec<Vec<Pass>> = (0..stages).map(|stage| order(layout, stage)).collect();
    let mut lines: Vec<StageLine> = vec![StageLine::default(); stages as usize];
    let mut waiting = vec![Span::ZERO; stages as usize];
    // When what a pass needs from elsewhere is there: by direction, part of the whole model and micro-batch.
    let index = |forward: bool, part: u32, batch: u32| ((u32::from(forward) * stages * parts + part) * batches + batch) as usize;
    let mut there: Vec<Option<Time>> = vec![None; 2 * (stages * parts * batches) as usize];
    for batch in 0..batches {
        there[index(true, 0, batch)] = Some(Time::ZERO);
    }
    let mut next = vec![0; stages as usize];
    let (whole, message) = (stages * parts, spans.message());
    loop {
        let mut moved = false;
        for stage in 0..stages {
            let at = stage as usize;
            while let Some(pass) = orders[at].get(next[at]).copied() {
                let part = pass.part * stages + stage;
                let Some(ready) = there[index(pass.forward, part, pass.batch)] else { break };
                let line = &mut lines[at];
                // A wait is filled with what was put off.
                let wait = ready.since(line.end).min(waiting[at]);
                waiting[at] -= wait;
                line.later += wait;
                let from = ready.max(line.end + wait);
                let to = from + spans.span(stage, pass);
                waiting[at] += spans.later(stage, pass);
                let follows = if pass.forward { (part + 1 < whole).then(|| part + 1) } else { part.checked_sub(1) };
                let leaves = follows.is_some() && stages > 1;
                let sends = if leaves && !layout.overlap_pipeline { message } else { Span::ZERO };
                let arrival = to + if leaves { message } else { Span::ZERO };
                match follows {
                    Some(follows) => there[index(pass.forward, follows, pass.batch)] = Some(arrival),
                    None if pass.forward => there[index(false, part, pass.batch)] = Some(to),
                    None => {}
                }
                line.passes.push(Timed { pass, from, to, sends, fills: wait });
                line.end = to + sends;
                next[at] += 1;
                moved = true;
            }
        }
        if !moved {
            break;
        }
    }
    for (line, left) in lines.iter_mut().zip(waiting) {
        line.later += left;
        line.end += left;
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Even;
    impl PassSpans for Even {
        fn span(&self, _: u32, pass: Pass) -> Span {
            Span::from_us(if pass.forward { 1 } else { 2 })
        }
        fn later(&self, _: u32, _: Pass) -> Span {
            Span::ZERO
        }
        fn message(&self) -> Span {
            Span::ZERO
        }
    }

    fn end(stages: u32, batches: u32, interleave: u32, schedule: Schedule) -> Span {
        let layout = Layout { pipeline: stages, global_batch: batches, interleave, schedule, ..Layout::default() };
        let lines = lines(&layout, &Even);
        assert!(lines.iter().all(|line| line.passes.len() == (2 * batches * interleave) as usize), "every pass is made once");
        lines.iter().map(|line| line.end).max().unwrap_or_default().since(Time::ZERO)
    }

    /// (m + p − 1)(f + b) for GPipe and 1F1B; m·v + p − 1 of passes of a v-th each where they are interleaved (Narayanan et al., §2.2.2).
    #[test]
    fn bubbles_are_those_of_the_formulas() {
        assert_eq!(end(1, 8, 1, Schedule::OneForwardOneBackward), Span::from_us(8 * 3));
        assert_eq!(end(4, 8, 1, Schedule::GPipe), Span::from_us((8 + 3) * 3));
        assert_eq!(end(4, 8, 1, Schedule::OneForwardOneBackward), Span::from_us((8 + 3) * 3));
        assert_eq!(end(4, 8, 2, Schedule::OneForwardOneBackward), Span::from_us((8 * 2 + 3) * 3));
        assert_eq!(end(4, 4, 4, Schedule::OneForwardOneBackward), Span::from_us((4 * 4 + 3) * 3));
    }
}
