//! A step of systems that weights stream to.
//!
//! Source: see [`fabriscope_training::streaming`]. The link of a system is all its ports, its rate that of all dies of its wafer; the tree has a
//! level for each time that a switch's ports, half of them down, multiply to the systems.

use fabriscope_catalog::Transformer;
use fabriscope_report::Outcome;
use fabriscope_training::shape;
use fabriscope_training::streaming::{self, Streaming};
use fabriscope_units::{Bytes, Rate, Span};

use super::Question;
use super::job::{On, told};
use super::nets::parts;
use super::shown::{gb, ms, percent};
use crate::error::LabError;

/// What a step takes, and how it scales from one system on.
pub(super) fn outcome(question: &Question<'_>, on: &On, model: &Transformer, title: &str) -> Result<Outcome, LabError> {
    let layout = question.layout;
    layout.check(model)?;
    let node = &on.parts.sole().node;
    let others = [layout.tensor, layout.pipeline, layout.context, layout.expert, layout.interleave];
    if others.iter().any(|count| *count != 1) || question.searched {
        return Err(told("layers that systems share, where weights stream to copies".to_owned(), "use --dp alone"));
    }
    if model.experts.is_some() {
        return Err(told("experts whose weights stream".to_owned(), "take a model without experts"));
    }
    if layout.data > on.parts.nodes() {
        return Err(told(
            format!("{} systems for the job, and `{}` has {}", layout.data, on.parts.name, on.parts.nodes()),
            "take fewer copies: --dp",
        ));
    }
    let dies = node.gpus.max(1);
    let compute = on.gpu.compute.as_ref().ok_or_else(|| told(format!("`{}` has no [compute]", on.gpu.name), "add it to its part"))?;
    let each = compute.matrix.share(*compute.sustained);
    let room = Bytes(on.gpu.memory.size.0 * u64::from(dies));
    let switch = on.parts.switch.as_ref();
    let levels = levels(layout.data, switch.map_or(2, |switch| switch.ports / 2));
    let hop = switch.map_or(Span::ZERO, |switch| *switch.latency) + on.parts.sole().host_delay();
    let system = |links: u64| Streaming {
        rate: each,
        dies,
        link: Rate::from_bps(on.parts.sole().link.data_rate().as_bps() * u64::from(node.nics) * links),
        latency: hop * u64::from(levels + 1),
        room,
    };
    let step = streaming::step(model, layout, &system(1));
    if step.kept > room && !question.oversized {
        return Err(told(
            format!("{} of activations on a system, which has {}", gb(step.kept), gb(room)),
            "make micro-batches smaller (--micro-batch), or go on anyway: --oversize",
        ));
    }
    let mut outcome = Outcome::new();
    outcome.note(format!(
        "{title} on {}: weights stream to {} systems, {} micro-batches of {} for each",
        on.parts.name,
        layout.data,
        layout.micro_batches(),
        layout.micro_batch
    ));
    outcome.note(format!(
        "{:.4} billion parameters; a system keeps {} of {} as activations; {:.0} Gb/s into it, {} switches on the way of a weight",
        shape::parameters(model) as f64 / 1e9,
        gb(step.kept),
        gb(room),
        system(1).link.as_bps() as f64 / 1e9,
        levels
    ));
    parts(&mut outcome, &step.parts());
    let total = step.total();
    let tokens = f64::from(layout.global_batch) * f64::from(model.sequence) / total.as_s_f64();
    let one = streaming::step(
        model,
        &fabriscope_training::Layout { data: 1, global_batch: layout.global_batch / layout.data, ..layout.clone() },
        &Streaming { latency: hop * 2, ..system(1) },
    );
    let scaled = one.total().as_s_f64() / total.as_s_f64();
    let faster = streaming::step(model, layout, &system(2)).total();
    outcome.note(format!(
        "{:.0} tokens/s, {:.0} for each system; streams take {:.3} ms, exposed {:.2} %; {:.2} times one system",
        tokens,
        tokens / f64::from(layout.data),
        ms(step.streamed),
        percent(step.streams + step.turn, total),
        f64::from(layout.data) * scaled
    ));
    outcome.note(format!("with links twice as fast the step takes {:+.2} %", super::shown::change(faster, total)));
    outcome.set("step_s", total.as_s_f64());
    outcome.set("tokens_per_s", tokens);
    outcome.set("speed_up", f64::from(layout.data) * scaled);
    outcome.set("exposed_percent", percent(step.streams + step.turn, total));
    Ok(outcome)
}

/// Switches between the memory outside and the farthest of so many systems.
fn levels(systems: u32, down: u32) -> u32 {
    let (mut reached, mut levels) = (1u64, 0);
    while reached < u64::from(systems.max(2)) {
        reached = reached.saturating_mul(u64::from(down.max(2)));
        levels += 1;
    }
    levels
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_level_for_each_power_of_the_ports() {
        assert_eq!([1, 2, 16, 32, 33, 192].map(|systems| levels(systems, 32)), [1, 1, 1, 1, 2, 2]);
    }
}
