//! Steps whose ranks are not equally fast: jitter of every pass, and ranks that are slower than others.
//!
//! ```text
//!  tensor group   rank 0 ████████      every pass ends with the slowest of those who exchange within it
//!                 rank 1 ██████░░
//!  pipeline       the passes of a stage wait for those of its neighbours, each with its own length
//!  copies         gradients start when the slowest copy has come to the end of the stage
//! ```
//! Source: order statistics of the exponential distribution (Rényi, 1953: the expected maximum of n is the n-th harmonic number); Petrini,
//! Kerbyson, Pakin, SC 2003, for what noise of single ranks does to those who wait for all.
//! Modelled: each pass of each rank computes longer by a part drawn from an exponential distribution; ranks slower by a factor; the maximum
//! over ranks that exchange within a pass (tensor, context and expert groups, and all copies where parameters are gathered), the pipeline
//! with these times, the maximum over copies, and a next step that starts when all have ended.
//! Not modelled: jitter of the network, of the optimizer; operations that hide more behind longer passes; ranks that are slow for a while.

use std::collections::BTreeMap;

use fabriscope_streams::{Stream, Streams};
use fabriscope_units::{Span, Time};

use crate::layer::Spans;
use crate::layout::{Layout, Sharding};
use crate::pipeline::{self, Pass, PassSpans};
use crate::step::{Costs, Step, whole};

/// How ranks differ.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Unevenness {
    /// What a pass computes longer at the mean, of its own length.
    pub share: f64,
    /// Ranks that are slower, and how many times as long they take.
    pub slow: BTreeMap<u64, f64>,
    /// Steps.
    pub steps: u32,
    /// Seed of the draws.
    pub seed: u64,
}

/// Steps of uneven ranks.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Uneven {
    /// A step of even ranks.
    pub even: Span,
    /// What each step took, in order.
    pub steps: Vec<Span>,
    /// At the mean: what a step would take if nobody waited for slower ranks of its groups or for other copies.
    pub alone: Span,
    /// At the mean: if nobody waited for other copies.
    pub in_groups: Span,
    /// How often each stage was the one that ended last.
    pub last: BTreeMap<u32, u32>,
}

impl Uneven {
    /// The mean of all steps.
    #[must_use]
    pub fn mean(&self) -> Span {
        mean(&self.steps)
    }
    /// The least step that so many percent do not exceed.
    #[must_use]
    pub fn percentile(&self, percent: u64) -> Span {
        let mut sorted = self.steps.clone();
        sorted.sort_unstable();
        let rank = (sorted.len() as u64 * percent).div_ceil(100).max(1) as usize;
        sorted.get(rank - 1).copied().unwrap_or_default()
    }
}

fn mean(spans: &[Span]) -> Span {
    let sum: u128 = spans.iter().map(|span| u128::from(span.as_ps())).sum();
    Span::from_ps((sum / spans.len().max(1) as u128) as u64)
}

/// Passes of the stages of one set of ranks that go in step, each so many times as long as usual.
struct Stretched<'a> {
    costs: &'a Costs,
    layout: &'a Layout,
    /// By stage and [`number`] of the pass.
    factors: &'a [Vec<f64>],
}

impl Stretched<'_> {
    fn factor(&self, stage: u32, pass: Pass) -> f64 {
        self.factors[stage as usize][number(self.layout, pass)]
    }
}

fn number(layout: &Layout, pass: Pass) -> usize {
    ((u32::from(pass.forward) * layout.interleave + pass.part) * layout.micro_batches() + pass.batch) as usize
}

fn more(span: Span, factor: f64) -> Span {
    Span::from_ps((span.as_ps() as f64 * factor) as u64)
}

impl PassSpans for Stretched<'_> {
    fn span(&self, stage: u32, pass: Pass) -> Span {
        let passes = &self.costs.of[stage as usize][pass.part as usize];
        let spans: &Spans = if pass.forward { &passes.forward } else { &passes.backward };
        let later = self.costs.later(stage, pass);
        let computing = spans.computing().saturating_sub(later) + spans.slowed;
        whole(spans).saturating_sub(later) + more(computing, self.factor(stage, pass))
    }
    fn later(&self, stage: u32, pass: Pass) -> Span {
        let later = self.costs.later(stage, pass);
        later + more(later, self.factor(stage, pass))
    }
    fn message(&self) -> Span {
        self.costs.message
    }
}

/// Ranks of a stage beside those of a tensor group that go in step, pass by pass.
fn in_step(layout: &Layout) -> u32 {
    let all = layout.data_group().size;
    if layout.sharding == Sharding::Parameters {
        return all;
    }
    let (context, expert) = (layout.context.max(1), layout.expert.max(1));
    let common = (1..=all).find(|size| size.is_multiple_of(context) && size.is_multiple_of(expert) && all.is_multiple_of(*size));
    common.unwrap_or(all)
}

/// Steps of a job whose ranks are uneven. With no share and no slow ranks each is the step itself.
#[must_use]
pub fn steps(step: &Step, layout: &Layout, uneven: &Unevenness) -> Uneven {
    let (tensor, all) = (u64::from(layout.tensor), u64::from(layout.data_group().size));
    let block = u64::from(in_step(layout));
    let sets = (all / block.max(1)).max(1);
    let passes = (2 * layout.interleave * layout.micro_batches()) as usize;
    let streams = Streams::new(uneven.seed);
    let ranks = tensor * all * u64::from(layout.pipeline);
    let mut draws: Vec<Stream> = (0..ranks).map(|rank| streams.stream("passes of training", rank)).collect();
    let mut found = Uneven { even: step.parts.total(), ..Uneven::default() };
    let (mut alone, mut in_groups) = (Vec::new(), Vec::new());
    for _ in 0..uneven.steps.max(1) {
        let mut ends = vec![Ends::default(); layout.pipeline as usize];
        for set in 0..sets {
            let (mut longest, mut usual) = (Vec::new(), Vec::new());
            for stage in 0..u64::from(layout.pipeline) {
                let first = stage * tensor * all + set * block * tensor;
                let (most, sum) = stretched(&mut draws, first..first + tensor * block, passes, uneven);
                longest.push(most);
                usual.push(sum.into_iter().map(|sum| sum / (tensor * block) as f64).collect::<Vec<f64>>());
            }
            let lines = |factors: &[Vec<f64>]| pipeline::lines(layout, &Stretched { costs: &step.costs, layout, factors });
            for (end, (slow, mean)) in ends.iter_mut().zip(lines(&longest).into_iter().zip(lines(&usual))) {
                end.add(slow.end, mean.end);
            }
        }
        let behind = |stage: usize| step.copies.get(stage).map_or(Span::ZERO, crate::step::Copies::behind);
        let over = |of: &dyn Fn(&Ends) -> Span| {
            let spans = ends.iter().enumerate().map(|(stage, end)| (of(end) + behind(stage), stage as u32));
            // The first of those that end last.
            spans.max_by_key(|(span, stage)| (*span, std::cmp::Reverse(*stage))).unwrap_or_default()
        };
        let (span, stage) = over(&|end| end.last);
        found.steps.push(span);
        *found.last.entry(stage).or_default() += 1;
        alone.push(over(&|end| end.mean_of_usual(sets)).0);
        in_groups.push(over(&|end| end.mean_of_slow(sets)).0);
    }
    (found.alone, found.in_groups) = (mean(&alone), mean(&in_groups));
    found
}

/// When a stage ended in all sets.
#[derive(Debug, Clone, Copy, Default)]
struct Ends {
    last: Span,
    slow: u128,
    usual: u128,
}

impl Ends {
    fn add(&mut self, slow: Time, usual: Time) {
        let [slow, usual] = [slow, usual].map(|end| end.since(Time::ZERO));
        self.last = self.last.max(slow);
        self.slow += u128::from(slow.as_ps());
        self.usual += u128::from(usual.as_ps());
    }
    fn mean_of_slow(&self, sets: u64) -> Span {
        Span::from_ps((self.slow / u128::from(sets.max(1))) as u64)
    }
    fn mean_of_usual(&self, sets: u64) -> Span {
        Span::from_ps((self.usual / u128::from(sets.max(1))) as u64)
    }
}

/// What each pass of some ranks takes longer, of its length: of the slowest of them, and the sum of all.
fn stretched(draws: &mut [Stream], ranks: std::ops::Range<u64>, passes: usize, uneven: &Unevenness) -> (Vec<f64>, Vec<f64>) {
    let (mut most, mut sum) = (vec![f64::NEG_INFINITY; passes], vec![0.0; passes]);
    for rank in ranks {
        let slow = uneven.slow.get(&rank).copied().unwrap_or(1.0);
        let stream = &mut draws[rank as usize];
        for (most, sum) in most.iter_mut().zip(&mut sum) {
            // 1 − u is above zero.
            let jitter = if uneven.share > 0.0 { -libm::log(1.0 - stream.unit()) * uneven.share } else { 0.0 };
            let longer = slow * (1.0 + jitter) - 1.0;
            *most = most.max(longer);
            *sum += longer;
        }
    }
    (most, sum)
}
