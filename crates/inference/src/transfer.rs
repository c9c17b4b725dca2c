//! Keys and values on their way from copies that read prompts to copies that generate.
//!
//! Source: Zhong et al., DistServe (OSDI 2024), §4; Patel et al., Splitwise (ISCA 2024), §IV.C (layer by layer); Qin et al., Mooncake (FAST
//! 2025), §5.
//! Modelled: each copy sends one request after the other, its ranks beside each other, each the heads and layers that ranks of the other copy
//! keep; all that go on share the network at max-min fair rates.
//! Not modelled: messages of each block by themselves.

use std::collections::VecDeque;

use fabriscope_catalog::Transformer;
use fabriscope_training::shape;
use fabriscope_units::{Bytes, Rate, Span, Time};

use crate::memory;
use crate::serving::Serving;

/// Keys and values of `tokens` as they cross the network: as many as ranks of the receiving copy keep.
#[must_use]
pub fn moved(model: &Transformer, to: &Serving, tokens: u64) -> Bytes {
    Bytes(tokens * u64::from(model.layers) * memory::of_layer(model, to.cache, to.tensor) * u64::from(to.tensor))
}

/// Which rank of a copy sends to which of another, and the share of all that it sends there. With `shifted` the ranks of a stage of the receiving
/// copy lie half of them further, as where jobs are placed without regard to adapters.
#[must_use]
pub fn ways(model: &Transformer, from: &Serving, to: &Serving, shifted: bool) -> Vec<(u32, u32, f64)> {
    let spans = |serving: &Serving| {
        let mut first = 0;
        let ends = serving.layers_of_stages(model).into_iter().map(|layers| {
            first += layers;
            (first - layers, first)
        });
        ends.collect::<Vec<_>>()
    };
    // Heads by rank, as many as there are; latent vectors are everybody's.
    let heads = if model.latent.is_some() { 1 } else { shape::kv_heads(model) };
    let of_rank = |rank: u32, tensor: u32| {
        let (rank, tensor) = (u64::from(rank), u64::from(tensor));
        if tensor >= heads {
            (rank * heads / tensor, rank * heads / tensor + 1)
        } else {
            (rank * heads / tensor, (rank + 1) * heads / tensor)
        }
    };
    let mut found = Vec::new();
    for (to_stage, (first, end)) in (0..).zip(spans(to)) {
        for to_rank in 0..to.tensor {
            let wanted = of_rank(to_rank, to.tensor);
            for (from_stage, (from_first, from_end)) in (0..).zip(spans(from)) {
                let layers = end.min(from_end).saturating_sub(first.max(from_first));
                if layers == 0 {
                    continue;
                }
                for head in wanted.0..wanted.1 {
                    // Among those that keep the head, the one that stands where the receiver does.
                    let keep: Vec<u32> = (0..from.tensor)
                        .filter(|rank| (of_rank(*rank, from.tensor).0..of_rank(*rank, from.tensor).1).contains(&head))
                        .collect();
                    let Some(sender) = keep.get(to_rank as usize % keep.len().max(1)) else { continue };
                    let seat = if shifted { (to_rank + (to.tensor / 2).max(1)) % to.tensor } else { to_rank };
                    found.push((from_stage * from.tensor + sender, to_stage * to.tensor + seat, f64::from(layers)));
                }
            }
        }
    }
    let all: f64 = found.iter().map(|(_, _, share)| share).sum();
    let mut joined: Vec<(u32, u32, f64)> = Vec::new();
    for (sender, receiver, share) in found {
        match joined.iter_mut().find(|(known, other, _)| (*known, *other) == (sender, receiver)) {
            Some((_, _, known)) => *known += share / all,
            None => joined.push((sender, receiver, share / all)),
        }
    }
    joined
}

/// A transfer that goes on.
#[derive(Debug, Clone, Copy)]
pub struct Moving {
    /// The request.
    pub request: u32,
    /// The copy that sends.
    pub from: u32,
    /// The copy that receives.
    pub to: u32,
    /// Since when.
    pub since: Time,
    left: f64,
    rate: f64,
}

/// All transfers.
#[derive(Debug, Clone)]
pub struct Transfers {
    queues: Vec<VecDeque<u32>>,
    moving: Vec<Moving>,
    at: Time,
    /// Grows with each change, so that who waited for an end knows that it is another.
    pub epoch: u64,
}

impl Transfers {
    /// Of so many copies that send.
    #[must_use]
    pub fn new(senders: u32) -> Transfers {
        Transfers { queues: vec![VecDeque::new(); senders as usize], moving: Vec::new(), at: Time::ZERO, epoch: 0 }
    }
    /// A request whose prompt is being read by a copy.
    pub fn post(&mut self, sender: u32, request: u32) {
        if let Some(queue) = self.queues.get_mut(sender as usize) {
            queue.push_back(request);
        }
    }
    /// Requests that could start: the first of each copy that sends nothing.
    #[must_use]
    pub fn ready(&self) -> Vec<(u32, u32)> {
        let free = |sender: &u32| self.moving.iter().all(|moving| moving.from != *sender);
        let all = (0..).zip(&self.queues).filter_map(|(sender, queue)| Some((sender, *queue.front()?)));
        all.filter(|(sender, _)| free(sender)).collect()
    }
    /// Starts the first of a copy.
    pub fn start(&mut self, now: Time, (from, to): (u32, u32), bytes: Bytes) {
        self.advance(now);
        let Some(request) = self.queues.get_mut(from as usize).and_then(VecDeque::pop_front) else { return };
        self.moving.push(Moving { request, from, to, since: now, left: bytes.0 as f64, rate: 0.0 });
    }
    /// Those that go on: from whom to whom.
    #[must_use]
    pub fn active(&self) -> Vec<(u32, u32)> {
        self.moving.iter().map(|moving| (moving.from, moving.to)).collect()
    }
    /// What they move from now on, and when the first of them ends.
    pub fn set_rates(&mut self, rates: &[Rate]) -> Option<Time> {
        self.epoch += 1;
        for (moving, rate) in self.moving.iter_mut().zip(rates) {
            moving.rate = rate.as_bytes_per_s_f64() / 1e12;
        }
        let ends = self.moving.iter().map(|moving| if moving.rate > 0.0 { (moving.left / moving.rate).ceil() as u64 } else { u64::MAX });
        ends.min().map(|ps| self.at.saturating_add(Span::from_ps(ps)))
    }
    /// Those that have ended by now.
    pub fn ended(&mut self, now: Time) -> Vec<Moving> {
        self.advance(now);
        // Less than a byte is what rounding leaves.
        let (done, left) = self.moving.iter().partition(|moving| moving.left < 1.0);
        self.moving = left;
        done
    }
    fn advance(&mut self, now: Time) {
        let past = now.since(self.at).as_ps() as f64;
        for moving in &mut self.moving {
            moving.left = (moving.left - moving.rate * past).max(0.0);
        }
        self.at = now;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use fabriscope_catalog::Catalog;

    fn shares(from: (u32, u32), to: (u32, u32), shifted: bool) -> Vec<(u32, u32, f64)> {
        let model = Catalog::embedded().unwrap().model("llama3-70b").unwrap().transformer.clone().unwrap();
        let serving = |(tensor, pipeline)| Serving { tensor, pipeline, ..Serving::default() };
        ways(&model, &serving(from), &serving(to), shifted)
    }

    /// The same layout on both sides: each rank to its like. With half as many senders, each to two. Two stages: half of the layers each.
    #[test]
    fn ranks_send_what_others_keep() {
        assert_eq!(shares((2, 1), (2, 1), false), [(0, 0, 0.5), (1, 1, 0.5)]);
        assert_eq!(shares((2, 1), (2, 1), true), [(0, 1, 0.5), (1, 0, 0.5)]);
        assert_eq!(shares((1, 1), (2, 1), false), [(0, 0, 0.5), (0, 1, 0.5)]);
        assert_eq!(shares((2, 1), (1, 1), false), [(0, 0, 0.5), (1, 0, 0.5)]);
        assert_eq!(shares((1, 2), (1, 1), false), [(0, 0, 0.5), (1, 0, 0.5)]);
    }

    /// 100 bytes at 50 B/s, joined after a second by 50 and then at 25 B/s each: both end after 3 s.
    #[test]
    fn transfers_share_what_there_is() {
        let (s, rate) = (|seconds: u64| Time::ZERO + Span::from_us(1_000_000 * seconds), |bytes: u64| Rate::from_bps(8 * bytes));
        let mut all = Transfers::new(2);
        all.post(0, 7);
        all.post(1, 8);
        all.start(s(0), (0, 0), Bytes(100));
        assert_eq!(all.ready(), [(1, 8)]);
        assert_eq!(all.set_rates(&[rate(50)]), Some(s(2)));
        all.start(s(1), (1, 0), Bytes(50));
        assert_eq!(all.set_rates(&[rate(25), rate(25)]), Some(s(3)));
        let done: Vec<u32> = all.ended(s(3)).iter().map(|moving| moving.request).collect();
        assert_eq!(done, [7, 8]);
        assert!(all.active().is_empty());
    }
}
