//! Serving without a network: queues beside their closed forms, memory counted by hand, requests that all end.

use fabriscope_catalog::{Catalog, Gpu, Transformer};
use fabriscope_inference::iteration::{Costs, Part};
use fabriscope_inference::layer::Load;
use fabriscope_inference::memory::{cache_of_token, room};
use fabriscope_inference::request::requests;
use fabriscope_inference::{
    Admission, Arrivals, Exchange, Lengths, Outcome, Pools, Request, Serving, ServingError, ServingTimes, Transfer, simulate,
};
use fabriscope_training::{CommunicationTimes, Group, Operation, Precision};
use fabriscope_units::{Bytes, Rate, Span, Time};

/// A network on which each operation takes as long, and transfers share a rate.
struct Even {
    operation: Span,
    rate: Rate,
}

impl CommunicationTimes for Even {
    type Error = ServingError;
    fn time(&mut self, _: Operation, _: Bytes, _: Group) -> Result<Span, ServingError> {
        Ok(self.operation)
    }
    fn processors(&mut self, _: Operation, _: Bytes, _: Group) -> Result<u32, ServingError> {
        Ok(0)
    }
}

impl ServingTimes for Even {
    fn exchange(&mut self, _: &Exchange) -> Result<Span, ServingError> {
        Ok(self.operation)
    }
    fn transfers(&mut self, active: &[(u32, u32)]) -> Result<Vec<Rate>, ServingError> {
        Ok(active.iter().map(|_| Rate::from_bps(self.rate.as_bps() / active.len() as u64)).collect())
    }
}

const NOTHING: Even = Even { operation: Span::ZERO, rate: Rate::from_gbps(400) };

fn parts(model: &str) -> (Transformer, Gpu) {
    let catalog = Catalog::embedded().unwrap();
    (catalog.model(model).unwrap().transformer.clone().unwrap(), Gpu::clone(catalog.gpu("h100-sxm5").unwrap()))
}

fn served(model: &Transformer, gpu: &Gpu, serving: &Serving, of: &[Request], most: Option<u32>) -> Outcome {
    let blocks = room(model, serving, gpu).unwrap().blocks;
    let mut costs = Costs::new(model, serving, gpu, NOTHING).unwrap();
    simulate(of, most, Pools { model, first: &mut costs, blocks, second: None, transfer: Transfer::Layers }).unwrap()
}

/// 80 layers, 8 heads of 128, keys and values of 2 bytes: 80 · 8 · 128 · 2 · 2 = 327,680 B. DeepSeek-V3: 61 · (512 + 64) · 2 = 70,272 B.
#[test]
fn keys_and_values_of_a_token() {
    assert_eq!(cache_of_token(&parts("llama3-70b").0, Precision::Bits16), Bytes::from_kib(320));
    assert_eq!(cache_of_token(&parts("llama3-70b").0, Precision::Bits8), Bytes::from_kib(160));
    assert_eq!(cache_of_token(&parts("deepseek-v3").0, Precision::Bits16), Bytes(70_272));
}

/// Eight GPUs share 70.6 billion parameters of 2 bytes, 17.6 GB each, and a head of keys and values: 40 KiB of a token. Of 72 GB at most 54 are
/// left for them.
#[test]
fn room_is_what_weights_leave() {
    let (model, gpu) = parts("llama3-70b");
    let room = room(&model, &Serving { tensor: 8, ..Serving::default() }, &gpu).unwrap();
    assert!((room.weights.0 as f64 / 17.64e9 - 1.0).abs() < 0.01, "{:?}", room.weights);
    assert_eq!(room.blocks, room.cache.0 / (16 * 40 * 1024));
    assert!((1_100_000..1_330_000).contains(&room.tokens), "{}", room.tokens);
    let alone = fabriscope_inference::memory::room(&model, &Serving::default(), &gpu);
    assert!(matches!(alone, Err(ServingError::NoRoom { .. })), "{alone:?}");
}

/// One request at a time that generates one token: a queue with one server that takes as long for each, M/D/1. It waits ρ S / 2 (1 − ρ) at the
/// mean (Pollaczek and Khinchine).
#[test]
fn a_queue_of_single_tokens_is_md1() {
    let (model, gpu) = parts("llama3-8b");
    let serving = Serving { sequences: 1, ..Serving::default() };
    let mut load = Load::default();
    load.read(512, 0, true);
    let service = Costs::new(&model, &serving, &gpu, NOTHING).unwrap().iteration(&[load]).unwrap().total();
    for share in [0.3, 0.6, 0.8] {
        let rate = share / service.as_s_f64();
        let lengths = Lengths { input: 512, output: 1, spread: 0.0 };
        let outcome = served(&model, &gpu, &serving, &requests(Arrivals::Poisson(rate), lengths, 200_000, 1), None);
        let waits = outcome.answers.iter().map(|answer| answer.begun.unwrap().since(answer.arrival).as_s_f64());
        let mean = waits.sum::<f64>() / outcome.answers.len() as f64;
        let expected = share * service.as_s_f64() / 2.0 / (1.0 - share);
        assert!((mean / expected - 1.0).abs() < 0.03, "at {share}: {mean} s, M/D/1 {expected} s");
    }
}

/// What each request asks for comes, whatever the layout, and nothing is left in the cache.
#[test]
fn all_requests_end() {
    let (model, gpu) = parts("llama3-8b");
    let lengths = Lengths { input: 600, output: 60, spread: 0.9 };
    let all = requests(Arrivals::Poisson(40.0), lengths, 500, 7);
    let tokens: u64 = all.iter().map(|request| request.output).sum();
    for (pipeline, copies, chunked, admission, share) in [
        (1, 1, true, Admission::Preempt, 0.9),
        (4, 1, true, Admission::Preempt, 0.9),
        (2, 3, false, Admission::Reserve, 0.9),
        // Little room: some are computed again.
        (1, 1, true, Admission::Preempt, 0.29),
        (2, 1, false, Admission::Preempt, 0.15),
    ] {
        let serving = Serving { pipeline, copies, chunked, admission, memory_share: share, ..Serving::default() };
        let outcome = served(&model, &gpu, &serving, &all, None);
        assert_eq!(outcome.answers.iter().map(|answer| answer.tokens).sum::<u64>(), tokens, "{serving:?}");
        assert_eq!(outcome.between.count(), tokens - 500, "each token but the first is behind another");
        assert!(outcome.answers.iter().all(|answer| answer.first.unwrap() > answer.arrival && answer.last >= answer.first.unwrap()));
        let preempted: u32 = outcome.answers.iter().map(|answer| answer.preempted).sum();
        assert_eq!(preempted > 0, share < 0.5, "{serving:?}: {preempted}");
    }
}

/// Eight at a time: never more are outstanding, and each answer lets the next one go at once.
#[test]
fn closed_loops_keep_as_many_outstanding() {
    let (model, gpu) = parts("llama3-8b");
    let all = requests(Arrivals::Concurrent(8), Lengths { input: 100, output: 20, spread: 0.5 }, 100, 3);
    let outcome = served(&model, &gpu, &Serving::default(), &all, Some(8));
    let mut changes: Vec<(Time, i32)> = outcome.answers.iter().flat_map(|answer| [(answer.arrival, 1), (answer.last, -1)]).collect();
    // Ends before beginnings at the same time.
    changes.sort_unstable();
    let mut outstanding = 0;
    for (_, change) in changes {
        outstanding += change;
        assert!(outstanding <= 8);
    }
}

/// Parts are the iteration. Two stages halve what one computes; each takes half of the layers.
#[test]
fn parts_add_up() {
    let (model, gpu) = parts("llama3-70b");
    let mut load = Load::default();
    load.read(2000, 1000, true);
    (0..64).for_each(|_| load.generate(1500));
    let network = || Even { operation: Span::from_us(10), rate: Rate::from_gbps(400) };
    let serving = Serving { tensor: 4, pipeline: 2, ..Serving::default() };
    let iteration = Costs::new(&model, &serving, &gpu, network()).unwrap().iteration(&[load]).unwrap();
    let stages = iteration.stages.iter().fold(Span::ZERO, |sum, span| sum + *span);
    assert_eq!(iteration.total(), stages + iteration.hop + serving.host);
    // Two all-reduces in each of 80 layers, and the logits; a message and a gather between two stages.
    assert_eq!(iteration.parts.of(Part::Tensor), Span::from_us(10) * 161);
    assert_eq!(iteration.parts.of(Part::Stages), Span::from_us(10) * 2);
}

/// One sequence at a time reads all weights and little else: 8.03 billion parameters less the embedding of 0.53, of 2 bytes each, at 3.29 TB/s are
/// 4.57 ms. What comes on top are gaps, kernels of a few bytes, and the host.
#[test]
fn a_token_costs_a_reading_of_the_weights() {
    let (model, gpu) = parts("llama3-8b");
    let serving = Serving { host: Span::ZERO, ..Serving::default() };
    let mut load = Load::default();
    load.generate(1000);
    let iteration = Costs::new(&model, &serving, &gpu, NOTHING).unwrap().iteration(&[load]).unwrap();
    let reading = iteration.parts.of(Part::Linear) + iteration.parts.of(Part::Output);
    assert!((reading.as_s_f64() / 4.57e-3 - 1.0).abs() < 0.05, "{reading}");
    assert!(iteration.total() < reading + reading / 3, "{}", iteration.total());
}

/// Copies that share experts wait for each other: as long as the fullest alone would with all tokens at the experts.
#[test]
fn copies_with_common_experts_go_in_step() {
    let (model, gpu) = parts("mixtral-8x7b");
    let serving = Serving { copies: 4, expert: 4, ..Serving::default() };
    let mut costs = Costs::new(&model, &serving, &gpu, Even { operation: Span::from_us(20), rate: Rate::from_gbps(400) }).unwrap();
    let load = |count| {
        let mut load = Load::default();
        (0..count).for_each(|_| load.generate(500));
        load
    };
    let even = costs.iteration(&[load(16); 4]).unwrap();
    let uneven = costs.iteration(&[load(40), load(8), load(8), load(8)]).unwrap();
    assert_eq!(even.parts.of(Part::Experts), uneven.parts.of(Part::Experts), "as many tokens");
    assert!(uneven.parts.of(Part::Cache) > even.parts.of(Part::Cache) * 2);
    // 32 layers, each with its exchange.
    assert_eq!(even.parts.of(Part::Dispatch) + even.parts.of(Part::Combine), Span::from_us(20) * 64);
    let halves = Serving { two_batches: true, ..serving.clone() };
    let beside = Costs::new(&model, &halves, &gpu, Even { operation: Span::from_us(20), rate: Rate::from_gbps(400) })
        .unwrap()
        .iteration(&[load(16); 4])
        .unwrap();
    assert_eq!(beside.parts.of(Part::Dispatch), Span::ZERO, "hidden by the other half");
    assert!(beside.parts.of(Part::Experts) > even.parts.of(Part::Experts), "weights are read twice");
}

fn in_pools(rate: Rate, transfer: Transfer) -> Outcome {
    let (model, gpu) = parts("llama3-8b");
    let serving = Serving::default();
    let blocks = room(&model, &serving, &gpu).unwrap().blocks;
    let mut first = Costs::new(&model, &serving, &gpu, Even { operation: Span::ZERO, rate }).unwrap();
    let mut second = Costs::new(&model, &serving, &gpu, Even { operation: Span::ZERO, rate }).unwrap();
    let all = requests(Arrivals::Poisson(5.0), Lengths { input: 2000, output: 50, spread: 0.0 }, 50, 5);
    simulate(&all, None, Pools { model: &model, first: &mut first, blocks, second: Some((&mut second, blocks)), transfer }).unwrap()
}

/// Keys and values of 2,000 tokens are 262 MB: 5.24 ms at 400 Gb/s, which the prompt's computing hides layer by layer.
#[test]
fn pools_send_keys_and_values() {
    let rate = Rate::from_gbps(400);
    let end = in_pools(rate, Transfer::End);
    assert_eq!(end.answers.iter().map(|answer| answer.tokens).sum::<u64>(), 50 * 50);
    assert_eq!(end.moved, 50 * 2000 * 131_072);
    assert_eq!(end.transfers.count(), 50);
    let alone = rate.time(Bytes(2000 * 131_072));
    let mut waits: Vec<Span> = end.answers.iter().map(|answer| answer.first.unwrap().since(answer.arrival)).collect();
    waits.sort_unstable();
    let shortest = |outcome: &Outcome| outcome.answers.iter().map(|answer| answer.first.unwrap().since(answer.arrival)).min().unwrap();
    let layers = in_pools(rate, Transfer::Layers);
    let hidden = shortest(&end) - shortest(&layers);
    // All but the last of 32 layers.
    assert!((hidden.as_s_f64() / (alone - alone / 32).as_s_f64() - 1.0).abs() < 1e-6, "{hidden} of {alone}");
    let second = end.second.unwrap();
    assert_eq!(second.parts.of(Part::Prompts), Span::ZERO, "prompts are read in the first pool");
}

/// The same seed gives the same bytes; another does not.
#[test]
fn a_seed_is_a_run() {
    let (model, gpu) = parts("llama3-8b");
    let run = |seed| {
        let all = requests(Arrivals::Poisson(20.0), Lengths { input: 300, output: 30, spread: 0.5 }, 200, seed);
        format!("{:?}", served(&model, &gpu, &Serving::default(), &all, None))
    };
    assert_eq!(run(1), run(1));
    assert_ne!(run(1), run(2));
}

#[test]
fn what_cannot_be_served_is_refused() {
    let (model, _) = parts("llama3-70b");
    let (experts, _) = parts("mixtral-8x7b");
    let told = |model: &Transformer, serving: Serving| serving.check(model).unwrap_err().to_string();
    assert_eq!(told(&model, Serving { tensor: 3, ..Serving::default() }), "3 tensor-parallel GPUs do not divide 64 heads of attention");
    assert_eq!(
        told(&model, Serving { expert: 8, ..Serving::default() }),
        "the experts of a layer shared by 8 GPUs, and the model has none"
    );
    let serving = Serving { expert: 4, tensor: 2, copies: 3, ..Serving::default() };
    assert_eq!(told(&experts, serving), "experts shared by 4 GPUs, 2 GPUs a copy, 3 copies, 1 stages");
    assert_eq!(told(&model, Serving { sequences: 0, ..Serving::default() }), "sequences of an iteration of 0");
}
