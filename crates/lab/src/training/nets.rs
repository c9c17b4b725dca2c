//! Steps of convolutional nets and of models that recommend.
//!
//! Source: F. Seide et al., Interspeech 2014: data-parallel training of CNTK, which shares parameters in stripes: partial gradients go to the owner
//! of each stripe, who sums them and sends the sum to all; C.-H. Chu et al., ICPP 2017: that sending as broadcasts of MVAPICH2-GDR.
//! Modelled: that exchange by the cluster's MPI library, packet by packet, behind the backward pass (all-to-all of stripes, sums at the owners,
//! one broadcast of each stripe of each layer from each owner); or all-reduces of buckets beside it.
//! Not modelled: gradients in one bit.

use std::collections::BTreeMap;

use fabriscope_catalog::{Convolutional, Recommendation};
use fabriscope_report::{Cell, Column, Grid, Outcome};
use fabriscope_training::convolution::{self, Exchange as Gradients, NetStep, Row};
use fabriscope_training::{Precision, recommendation};
use fabriscope_units::{Bytes, Span};

use super::job::{On, told};
use super::shown::{change, gb, ms, percent};
use super::times::{ClusterTimes, Network};
use super::{Exchange, Question, benched};
use crate::error::LabError;

/// A step of a convolutional net.
pub(super) fn convolutional(question: &Question<'_>, on: &On, net: &Convolutional, title: &str) -> Result<Outcome, LabError> {
    let (batch, precision) = (images(question)?, precision(question, on)?);
    let copies = question.layout.data;
    let rows = convolution::table(net);
    let mut outcome = Outcome::new();
    let words = if precision == Precision::Bits32 { "32" } else { "16" };
    outcome.note(format!("{title} on {}: dp {copies}, {batch} images a copy, in {words} bits", on.parts.name));
    outcome.note(format!(
        "{:.3} million parameters in {} layers, {:.3} GFLOP for an image forward",
        convolution::parameters(net) as f64 / 1e6,
        rows.iter().filter(|row| row.parameters() > 0).count(),
        2.0 * rows.iter().map(Row::multiplications).sum::<u64>() as f64 / 1e9
    ));
    let of = |gradients, times: &mut ClusterTimes<'_>| convolution::step(net, (batch, copies), precision, &on.roofline, gradients, times);
    let mut times = ClusterTimes::new(question.catalog, on.parts.clone(), copies)?;
    let step = match question.exchange {
        Exchange::AllReduce => {
            let bucket = BUCKET;
            let gradients = if question.layout.overlap_gradients { Gradients::Overlapped { bucket } } else { Gradients::Behind };
            let step = of(gradients, &mut times)?;
            let mut with = |network| -> Result<f64, LabError> {
                times.on(network);
                Ok(change(of(gradients, &mut times)?.total(), step.total()))
            };
            let (doubled, without) = (with(Network::TwiceAsFast)?, with(Network::None)?);
            parts(&mut outcome, &step.parts());
            outcome.note(format!(
                "gradients take {:.3} ms; with a network twice as fast the step takes {doubled:+.2} %, with none between nodes {without:+.2} %",
                ms(step.exchange)
            ));
            outcome.set("network_doubled_percent", doubled);
            outcome.set("no_network_percent", without);
            step
        }
        Exchange::Broadcast => {
            let alone = of(Gradients::Known(Span::ZERO), &mut times)?;
            let cast = broadcasts(question, on, &rows, precision)?;
            schemes(&mut outcome, &cast, alone.total());
            let best = cast.schemes.first().map_or(Span::ZERO, |(_, span)| *span);
            let step = of(Gradients::Known(cast.to_owners + cast.summed + best), &mut times)?;
            parts(&mut outcome, &step.parts());
            step
        }
    };
    rate(&mut outcome, on, &step, (net, batch, copies), precision);
    Ok(outcome)
}

/// Gradients of a bucket. Basis: published, PyTorch's `bucket_cap_mb`.
const BUCKET: Bytes = Bytes::from_mib(25);

fn rate(outcome: &mut Outcome, on: &On, step: &NetStep, (net, batch, copies): (&Convolutional, u64, u32), precision: Precision) {
    let (total, all) = (step.total(), batch as f64 * f64::from(copies));
    let each = convolution::operations(net) * batch as f64 / total.as_s_f64();
    let peak = on.gpu.compute.as_ref().map_or(0.0, |compute| match (precision, &compute.matrix_32) {
        (Precision::Bits32, Some(rate)) => rate.as_f64(),
        _ => compute.matrix.as_f64(),
    });
    outcome.note(format!(
        "{:.0} images/s, {:.1} for each GPU; {:.2} TFLOP/s for each, {:.1} % of the peak; exposed communication {:.1} %",
        all / total.as_s_f64(),
        batch as f64 / total.as_s_f64(),
        each / 1e12,
        100.0 * each / peak.max(1.0),
        percent(step.exposed + step.slowed, total)
    ));
    outcome.set("step_s", total.as_s_f64());
    outcome.set("images_per_s", all / total.as_s_f64());
    outcome.set("exchange_s", step.exchange.as_s_f64());
    outcome.set("exposed_percent", percent(step.exposed + step.slowed, total));
}

/// The exchange of a step by broadcasts.
struct Broadcasts {
    to_owners: Span,
    summed: Span,
    /// Broadcasts of all stripes, by algorithm: the first is what the others are compared with.
    schemes: Vec<(String, Span)>,
}

fn broadcasts(question: &Question<'_>, on: &On, rows: &[Row], precision: Precision) -> Result<Broadcasts, LabError> {
    let copies = question.layout.data;
    let node = &on.parts.sole().node;
    let per_node = node.gpus.max(1);
    if copies < 2 || !copies.is_multiple_of(per_node) && copies > per_node {
        return Err(told(
            format!("broadcasts among {copies} copies, with {per_node} GPUs on each node"),
            "take two copies or more, and whole nodes: --dp",
        ));
    }
    let (nodes, each) = (copies.div_ceil(per_node), per_node.min(copies));
    let layers: Vec<u64> = rows.iter().map(|row| row.parameters() * precision.width()).filter(|bytes| *bytes > 0).collect();
    let stripes: Vec<u64> = layers.iter().map(|bytes| bytes.div_ceil(u64::from(copies) * 4) * 4).collect();
    let asked = |tool: &str, words: Vec<String>| {
        let options = ["-d".to_owned(), "cuda".to_owned()].into_iter().chain(words).collect();
        benched(question.catalog, tool, &on.parts, (nodes, each), options)
    };
    // Stripes of one length take one time.
    let mut known: BTreeMap<u64, Span> = BTreeMap::new();
    for stripe in &stripes {
        if known.contains_key(stripe) {
            continue;
        }
        let words = ["-m", &format!("{stripe}:{stripe}"), "-x", "1", "-i", "2"].map(str::to_owned).to_vec();
        let found = values(&asked("osu_alltoall", words)?, None);
        let us =
            found.first().copied().ok_or_else(|| told("`osu_alltoall` gave no time".to_owned(), "run it by itself: fabriscope bench"))?;
        known.insert(*stripe, Span::from_ps((us * 1e6) as u64));
    }
    let list = layers.iter().map(u64::to_string).collect::<Vec<_>>().join(",");
    let outcome = asked("bcast_training", vec!["--layers".to_owned(), list, "--image-time".to_owned(), "0".to_owned()])?;
    let remarks = outcome.get("remarks").and_then(|remarks| remarks.as_array()).into_iter().flatten();
    let names = remarks.filter_map(|name| name.as_str()).map(|name| name.split(':').next().unwrap_or(name).to_owned());
    let schemes = names.zip(values(&outcome, Some("iteration"))).map(|(name, ms)| (name, Span::from_ps((ms * 1e9) as u64))).collect();
    Ok(Broadcasts {
        to_owners: stripes.iter().filter_map(|stripe| known.get(stripe)).copied().sum(),
        // An owner reads all partial gradients of its stripe and writes the sum.
        summed: stripes.iter().map(|stripe| on.roofline.stream(Bytes(stripe * (u64::from(copies) + 1)))).sum(),
        schemes,
    })
}

/// The values of a metric, in the order of the outcome.
fn values(outcome: &Outcome, metric: Option<&str>) -> Vec<f64> {
    let points = outcome.get("points").and_then(|points| points.as_array()).into_iter().flatten();
    let wanted = points.filter(|point| metric.is_none_or(|metric| point["metric"] == metric));
    wanted.filter_map(|point| point["value"].as_f64()).collect()
}

fn schemes(outcome: &mut Outcome, cast: &Broadcasts, alone: Span) {
    let mut grid = Grid::new([
        Column::words("broadcasts by", "scheme"),
        Column::number("computing ms", "computing_ms"),
        Column::number("to owners ms", "to_owners_ms"),
        Column::number("broadcasts ms", "broadcasts_ms"),
        Column::number("step ms", "step_ms"),
        Column::number("saved %", "saved_percent"),
    ]);
    let whole = |span: Span| alone + cast.to_owners + cast.summed + span;
    let first = cast.schemes.first().map_or(Span::ZERO, |(_, span)| whole(*span));
    for (name, span) in &cast.schemes {
        grid.push([
            Cell::word(name.clone()),
            Cell::number(ms(alone), 2),
            Cell::number(ms(cast.to_owners + cast.summed), 2),
            Cell::number(ms(*span), 2),
            Cell::number(ms(whole(*span)), 2),
            Cell::number(0.0 - change(first, whole(*span)), 1),
        ]);
    }
    outcome.keyed_table("schemes", grid);
    outcome.note("saved: the share of a step that the first saves against this one; the parts are those of the first".to_owned());
}

/// A step of a model that recommends.
pub(super) fn recommends(question: &Question<'_>, on: &On, model: &Recommendation, title: &str) -> Result<Outcome, LabError> {
    if question.exchange == Exchange::Broadcast {
        return Err(told("broadcasts in a step of a model that recommends".to_owned(), "leave --exchange out"));
    }
    let (batch, precision) = (images(question)?, precision(question, on)?);
    let gpus = question.layout.data;
    let share = recommendation::fullest(model, gpus);
    let (tables, layers) = recommendation::parameters(model);
    let (kept, room) = (Bytes(4 * share.kept + 16 * layers), *on.gpu.memory.size);
    if kept > room && !question.oversized {
        return Err(told(
            format!("{} of tables on the fullest GPU, which has {}", gb(kept), gb(room)),
            "take more GPUs (--dp), or go on anyway: --oversize",
        ));
    }
    let mut times = ClusterTimes::new(question.catalog, on.parts.clone(), gpus)?;
    let of = |times: &mut ClusterTimes<'_>| recommendation::step(model, (batch, gpus), precision, &on.roofline, times);
    let step = of(&mut times)?;
    let mut with = |network| -> Result<f64, LabError> {
        times.on(network);
        Ok(change(of(&mut times)?.total(), step.total()))
    };
    let (doubled, without) = (with(Network::TwiceAsFast)?, with(Network::None)?);
    let mut outcome = Outcome::new();
    let words = if precision == Precision::Bits32 { "32" } else { "16" };
    outcome.note(format!("{title} on {}: {gpus} GPUs, {batch} samples for each, in {words} bits", on.parts.name));
    outcome.note(format!(
        "{:.2} billion parameters of tables, {:.2} million of layers; the fullest GPU keeps {} of {}",
        tables as f64 / 1e9,
        layers as f64 / 1e6,
        gb(kept),
        gb(room)
    ));
    parts(&mut outcome, &step.parts());
    let (total, all) = (step.total(), batch as f64 * f64::from(gpus));
    let exposed = percent(step.all_to_all + step.all_reduce, total);
    outcome.note(format!(
        "{:.3} million samples/s, {:.3} for each GPU; exposed communication {exposed:.1} %",
        all / total.as_s_f64() / 1e6,
        batch as f64 / total.as_s_f64() / 1e6
    ));
    outcome.note(format!(
        "both all-to-alls take {:.3} ms, the all-reduce {:.3} ms; with a network twice as fast the step takes {doubled:+.2} %, with none between nodes {without:+.2} %",
        ms(step.exchanged),
        ms(step.reduced)
    ));
    outcome.set("step_s", total.as_s_f64());
    outcome.set("samples_per_s", all / total.as_s_f64());
    outcome.set("exposed_percent", exposed);
    outcome.set("network_doubled_percent", doubled);
    outcome.set("no_network_percent", without);
    Ok(outcome)
}

/// The table of parts.
pub(super) fn parts(outcome: &mut Outcome, parts: &[(&'static str, Span)]) {
    let total: Span = parts.iter().map(|(_, span)| *span).sum();
    let mut grid = Grid::new([Column::words("part", "part"), Column::number("ms", "ms"), Column::number("%", "percent")]);
    for (name, span) in parts.iter().filter(|(_, span)| *span > Span::ZERO) {
        grid.push([Cell::word(*name), Cell::number(ms(*span), 3), Cell::number(percent(*span, total), 2)]);
    }
    grid.push([Cell::word("step"), Cell::number(ms(total), 3), Cell::number(100.0, 2)]);
    outcome.keyed_table("parts", grid);
}

/// Images or samples of a copy.
fn images(question: &Question<'_>) -> Result<u64, LabError> {
    let layout = question.layout;
    let others = [layout.tensor, layout.pipeline, layout.context, layout.expert, layout.interleave];
    if others.iter().any(|count| *count != 1) || question.searched {
        return Err(told("layers that GPUs share, in a net whose copies share nothing but gradients".to_owned(), "use --dp alone"));
    }
    if layout.data == 0 || !layout.global_batch.is_multiple_of(layout.data) || layout.global_batch == 0 {
        return Err(told(
            format!("{} in a step do not divide among {} copies", layout.global_batch, layout.data),
            "make --global-batch a multiple of --dp",
        ));
    }
    Ok(u64::from(layout.global_batch / layout.data))
}

fn precision(question: &Question<'_>, on: &On) -> Result<Precision, LabError> {
    if question.mixed {
        return Ok(Precision::Bits16);
    }
    if !on.roofline.has_single() {
        return Err(told(
            format!("it is not known what `{}` multiplies in 32 bits", on.gpu.name),
            "add matrix_32 to its [compute], or multiply in 16 bits: --mixed",
        ));
    }
    Ok(Precision::Bits32)
}
