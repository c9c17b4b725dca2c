//! A step over time: what every stage of the pipeline does when, as tracks.
//!
//! Modelled: passes, waits, messages and gradients that were put off, with their exact lengths; within passes kernels and operations one by
//! one, of all micro-batches where these are few, else of the first and the last; gradients and parameters of copies, and the optimizer.
//! Not modelled: where within a pass gathered parameters were waited for: these waits stand in front of it, and what computing lost to
//! operations beside it stands behind.

use fabriscope_timeline::sheet::{Process, Slice, Track};
use fabriscope_training::account::Role;
use fabriscope_training::layer::{Entry, KernelKind, Purpose, What};
use fabriscope_training::pipeline::Timed;
use fabriscope_training::step::{Exchanged, PartContent, Piece};
use fabriscope_training::{Layout, Step};
use fabriscope_units::{Span, Time};

/// Kernels and operations that are told one by one, of all stages. Basis: assumed, what a viewer takes with ease.
const MOST: usize = 400_000;

/// A process for each stage.
pub(super) fn processes(step: &Step, layout: &Layout) -> Vec<Process> {
    let of_part = |content: &PartContent| -> usize {
        content.pieces(&step.pieces).iter().map(|(piece, count)| (piece.forward.len() + piece.backward.len()) * *count as usize).sum()
    };
    let all = step.content.iter().map(of_part).sum::<usize>() * layout.micro_batches() as usize;
    let ranks = u64::from(layout.tensor) * u64::from(layout.data_group().size);
    (0..layout.pipeline)
        .map(|stage| {
            let first = u64::from(stage) * ranks;
            let stage = Stage { step, layout, stage, all: all <= MOST };
            Process { name: format!("stage {}, ranks {first} to {}", stage.stage, first + ranks - 1), tracks: stage.tracks() }
        })
        .collect()
}

struct Stage<'a> {
    step: &'a Step,
    layout: &'a Layout,
    stage: u32,
    /// All passes are told one by one.
    all: bool,
}

fn slice(name: impl Into<String>, from: Time, span: Span) -> Slice {
    Slice { name: name.into(), from, span, ..Slice::default() }
}

impl Stage<'_> {
    fn tracks(&self) -> Vec<Track> {
        let (Some(line), Some(copies)) = (self.step.lines.get(self.stage as usize), self.step.copies.get(self.stage as usize)) else {
            return Vec::new();
        };
        let mut passes = Vec::new();
        let mut groups: Vec<(Role, Vec<Slice>)> = Role::ALL.into_iter().map(|role| (role, Vec::new())).collect();
        let mut add = |role: Role, slice: Slice| {
            if slice.span > Span::ZERO {
                groups.iter_mut().filter(|(other, _)| *other == role).for_each(|(_, slices)| slices.push(slice.clone()));
            }
        };
        let mut at = Time::ZERO;
        for timed in &line.passes {
            let wait = timed.from.since(at).saturating_sub(timed.fills);
            passes.extend([slice("gradients of weights", at, timed.fills), slice("waits", at + timed.fills, wait)]);
            passes.push(self.pass(timed, &mut add));
            passes.push(slice("sends", timed.to, timed.sends));
            add(Role::Stages, slice("message", timed.to, timed.sends));
            at = timed.to + timed.sends;
        }
        passes.push(slice("gradients of weights", at, line.end.since(at)));
        at = line.end;
        // Gradients hide in front of the end of the passes, parameters behind the first one of the next step, which is like this one.
        let list = |list: &[Exchanged], mut from: Time, told_in: &mut Vec<Slice>| {
            for exchanged in list {
                let mut told = slice(format!("{} of {}", exchanged.operation, exchanged.bytes), from, exchanged.cost.span);
                told.values = vec![("bytes", exchanged.bytes.0), ("ranks", u64::from(exchanged.group.size))];
                told_in.push(told);
                from += exchanged.cost.span;
            }
        };
        let sum = |list: &[Exchanged]| -> Span { list.iter().map(|exchanged| exchanged.cost.span).sum() };
        let gradients = sum(&copies.gradients).saturating_sub(copies.gradients_hidden);
        let mut behind = Vec::new();
        list(&copies.gradients, Time::ZERO + at.since(Time::ZERO).saturating_sub(copies.gradients_hidden), &mut behind);
        passes.push(slice("waits for gradients", at, gradients));
        at += gradients;
        passes.push(slice("slower beside operations", at, copies.slowed));
        at += copies.slowed;
        passes.push(slice("optimizer", at, copies.optimizer));
        at += copies.optimizer;
        let parameters = sum(&copies.parameters).saturating_sub(copies.parameters_hidden);
        passes.push(slice("waits for parameters", at, parameters));
        list(&copies.parameters, at, &mut behind);
        at += parameters;
        let end = Time::ZERO + self.step.parts.total();
        passes.push(slice("waits for the other stages", at, end.since(at)));
        passes.retain(|slice| slice.span > Span::ZERO);
        let mut tracks = vec![Track { name: "passes".to_owned(), slices: passes }];
        let told = groups.into_iter().filter(|(_, slices)| !slices.is_empty());
        tracks.extend(told.map(|(role, slices)| Track { name: role.name().to_owned(), slices }));
        if !behind.is_empty() {
            tracks.push(Track { name: "copies, beside and behind the passes".to_owned(), slices: behind });
        }
        tracks
    }

    /// A pass with what it is made of.
    fn pass(&self, timed: &Timed, add: &mut dyn FnMut(Role, Slice)) -> Slice {
        let (pass, forward) = (timed.pass, timed.pass.forward);
        let name = format!("{} {}", if forward { "forward" } else { "backward" }, pass.batch);
        let mut whole = slice(name, timed.from, timed.to.since(timed.from));
        whole.values = vec![("micro_batch", u64::from(pass.batch)), ("part", u64::from(pass.part))];
        let told = self.all || pass.batch == 0 || pass.batch + 1 == self.layout.micro_batches();
        let Some(content) = self.step.content.get((pass.part * self.layout.pipeline + self.stage) as usize).filter(|_| told) else {
            return whole;
        };
        let lost = if forward { content.forward } else { content.backward };
        let mut at = timed.from;
        let mut push = |name: &str, span: Span, at: &mut Time| {
            if span > Span::ZERO {
                whole.within.push(slice(name, *at, span));
            }
            *at += span;
        };
        add(Role::Parameters, slice("waits for parameters", at, lost.gather));
        push("waits for parameters", lost.gather, &mut at);
        let mut pieces: Vec<(&Piece, u64)> = content.pieces(&self.step.pieces).to_vec();
        if !forward {
            pieces.reverse();
        }
        for (piece, count) in pieces {
            for _ in 0..count {
                for entry in if forward { &piece.forward } else { &piece.backward } {
                    let Some((name, role)) = self.named(entry) else { continue };
                    if let (Some(role), What::Together(_, operation, bytes, group)) = (role, entry.what) {
                        let mut told = slice(format!("{operation} of {bytes}"), at, entry.exposed);
                        told.values = vec![("bytes", bytes.0), ("ranks", u64::from(group.size)), ("whole_ps", entry.span.as_ps())];
                        add(role, told);
                    }
                    push(name, entry.exposed, &mut at);
                }
            }
        }
        push("slower beside operations", lost.slowed, &mut at);
        add(Role::Gradients, slice("waits for scattered gradients", at, lost.scatter));
        push("waits for scattered gradients", lost.scatter, &mut at);
        whole
    }

    /// What an entry is called, and whose it is; nothing where it is put off.
    fn named(&self, entry: &Entry) -> Option<(&'static str, Option<Role>)> {
        Some(match entry.what {
            What::Kernel(KernelKind::WeightGradient, _) if self.puts_off() => return None,
            What::Kernel(kind, _) => (kind.name(), None),
            What::Host => ("waits for the host", None),
            What::Together(purpose, ..) => {
                let role = match purpose {
                    Purpose::Tensor => Role::Tensor,
                    Purpose::Context => Role::Context,
                    Purpose::Expert => Role::Expert,
                };
                (role.name(), Some(role))
            }
        })
    }
    fn puts_off(&self) -> bool {
        self.layout.schedule == fabriscope_training::Schedule::ZeroBubble
    }
}
