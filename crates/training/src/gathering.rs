//! Parameters that are gathered before a layer and gradients that are scattered behind it, beside computing.
//!
//! ```text
//!  computes  ........ layer 0 ──▶ layer 1 ──▶ layer 2 ...
//!  sends     gather 0  gather 1    gather 2                 one layer ahead; the first one hides behind nothing
//! ```
//! Source: Zhao et al., "PyTorch FSDP" (VLDB 2023, arXiv 2304.11277), §3.3 (prefetching, a limit on what is gathered ahead) and §4.2; the
//! operations of a rank are in one queue, as those of one process group are.
//! Modelled: the two queues of a rank: a gather starts when the one before it has ended and its layer is at most so many ahead of the layer
//! that computes; a layer waits for its parameters; its gradients are scattered behind it; the pass ends with the last of them. Computing
//! is slower while something is sent.
//! Not modelled: parameters kept from pass to pass; gathering for the next micro-batch before this one has ended.

use std::collections::BTreeMap;

use fabriscope_units::Span;

/// A layer as the two queues see it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Gathered {
    /// What it computes, with the operations of its other groups.
    pub computing: Span,
    /// Gathering its parameters; nothing where they are there.
    pub gather: Span,
    /// Scattering its gradients; nothing in the forward pass.
    pub scatter: Span,
    /// What a part of computing takes alone, and what it takes while something is sent.
    pub slower: (Span, Span),
}

/// What a pass loses to gathering and scattering.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Lost {
    /// Waits while parameters are gathered.
    pub gather: Span,
    /// Waits while gradients are scattered: those that parameters wait for, and the last.
    pub scatter: Span,
    /// What computing takes longer meanwhile.
    pub slowed: Span,
}

/// An operation in the queue of those that are sent.
#[derive(Debug, Clone, Copy)]
enum Sent {
    Gather(usize),
    Scatter(usize),
}

/// A pass over layers in the order in which they compute, with parameters gathered at most `ahead` layers before they are needed.
#[must_use]
pub fn pass(layers: &[Gathered], ahead: u32) -> Lost {
    let ahead = ahead as usize;
    let mut queues = Queues { layers, ahead, sent: queue(layers, ahead), ..Queues::default() };
    let mut lost = Lost::default();
    let mut computed_until = 0;
    for (number, layer) in layers.iter().enumerate() {
        queues.send();
        let parameters = if layer.gather == Span::ZERO { 0 } else { queues.there.get(&number).copied().unwrap_or(0) };
        let from = parameters.max(computed_until);
        let scatters = queues.scattering(computed_until, from);
        lost.scatter += Span::from_ps(scatters);
        lost.gather += Span::from_ps(from - computed_until - scatters);
        queues.starts.push(from);
        // What may be sent now is sent while the layer computes.
        queues.send();
        computed_until = computed(from, layer, &queues.sending);
        queues.ends.push(computed_until);
        lost.slowed += Span::from_ps(computed_until - from).saturating_sub(layer.computing);
    }
    queues.send();
    lost.scatter += Span::from_ps(queues.sent_until.saturating_sub(computed_until));
    lost
}

/// The two queues of a rank while a pass goes on; times in picoseconds.
#[derive(Default)]
struct Queues<'a> {
    layers: &'a [Gathered],
    ahead: usize,
    sent: Vec<Sent>,
    next: usize,
    /// When each layer has started and ended, as far as it is known.
    starts: Vec<u64>,
    ends: Vec<u64>,
    /// When the parameters of a layer are there.
    there: BTreeMap<usize, u64>,
    sending: Vec<(u64, u64)>,
    /// Those of them that are scatters.
    scatters: Vec<(u64, u64)>,
    sent_until: u64,
}

impl Queues<'_> {
    /// Sends whatever may be sent by now.
    fn send(&mut self) {
        while let Some(sent) = self.sent.get(self.next).copied() {
            let ready = match sent {
                // Without looking ahead a gather waits for the layer before to end.
                Sent::Gather(0) => Some(0),
                Sent::Gather(layer) if self.ahead == 0 => self.ends.get(layer - 1).copied(),
                Sent::Gather(layer) if layer < self.ahead => Some(0),
                Sent::Gather(layer) => self.starts.get(layer - self.ahead).copied(),
                Sent::Scatter(layer) => self.ends.get(layer).copied(),
            };
            let Some(ready) = ready else { break };
            let from = self.sent_until.max(ready);
            let (Sent::Gather(layer) | Sent::Scatter(layer)) = sent;
            let of = &self.layers[layer];
            let span = if let Sent::Gather(_) = sent { of.gather } else { of.scatter };
            self.sent_until = from + span.as_ps();
            self.sending.push((from, self.sent_until));
            match sent {
                Sent::Gather(layer) => _ = self.there.insert(layer, self.sent_until),
                Sent::Scatter(_) => self.scatters.push((from, self.sent_until)),
            }
            self.next += 1;
        }
    }
    /// What of a time gradients are scattered.
    fn scattering(&self, from: u64, until: u64) -> u64 {
        let first = self.scatters.partition_point(|(_, end)| *end <= from);
        self.scatters[first..].iter().map(|(begin, end)| end.min(&until).saturating_sub(*begin.max(&from))).sum()
    }
}

/// Gathers in the order of the layers, each scatter behind the gathers that may be sent before its layer has ended.
fn queue(layers: &[Gathered], ahead: usize) -> Vec<Sent> {
    let mut queue = Vec::new();
    let mut gathered = 0;
    for (number, layer) in layers.iter().enumerate() {
        while gathered <= number + ahead && gathered < layers.len() {
            if layers[gathered].gather > Span::ZERO {
                queue.push(Sent::Gather(gathered));
            }
            gathered += 1;
        }
        if layer.scatter > Span::ZERO {
            queue.push(Sent::Scatter(number));
        }
    }
    queue
}

/// When a layer that starts at `from` has computed, while these spans are sent.
fn computed(from: u64, layer: &Gathered, sending: &[(u64, u64)]) -> u64 {
    let (alone, beside) = layer.slower;
    let (alone, beside) = (u128::from(alone.as_ps().max(1)), u128::from(beside.max(alone).as_ps().max(1)));
    // Work is counted in picoseconds of computing alone.
    let (mut at, mut left) = (from, layer.computing.as_ps());
    let first = sending.partition_point(|(_, end)| *end <= from);
    for (begin, end) in &sending[first..] {
        let free = begin.saturating_sub(at).min(left);
        (at, left) = (at + free, left - free);
        let window = end.saturating_sub(at);
        let done = (u128::from(window) * alone / beside) as u64;
        if left == 0 || done >= left {
            return at + (u128::from(left) * beside / alone) as u64;
        }
        (at, left) = (at + window, left - done);
    }
    at + left
}

#[cfg(test)]
mod tests {
    use super::*;

    fn layers(count: usize, computing: u64, gather: u64, scatter: u64, slower: (u64, u64)) -> Vec<Gathered> {
        let us = Span::from_us;
        let layer = Gathered { computing: us(computing), gather: us(gather), scatter: us(scatter), slower: (us(slower.0), us(slower.1)) };
        vec![layer; count]
    }

    /// Gathers of 3 us hide behind layers of 10 us, but for the first; without looking ahead nothing hides.
    #[test]
    fn what_is_gathered_ahead_hides() {
        let even = layers(5, 10, 3, 0, (1, 1));
        assert_eq!(pass(&even, 1), Lost { gather: Span::from_us(3), ..Lost::default() });
        assert_eq!(pass(&even, 0), Lost { gather: Span::from_us(15), ..Lost::default() });
    }

    /// Gathers of 12 us behind layers of 10 us: the queue never ends: 5 · 12 us and the last layer, less 5 layers.
    #[test]
    fn slow_gathers_are_a_queue() {
        let slow = layers(5, 10, 12, 0, (1, 1));
        assert_eq!(pass(&slow, 1).gather, Span::from_us(5 * 12 + 10 - 50));
        // Looking further ahead helps nothing where the queue never ends.
        assert_eq!(pass(&slow, 4), pass(&slow, 1));
    }

    /// A slow layer's long gather of 25 us: one layer ahead it hides behind one layer of 10 us, three ahead behind all three before it.
    #[test]
    fn looking_further_ahead_evens_out() {
        let mut uneven = layers(5, 10, 1, 0, (1, 1));
        uneven[4].gather = Span::from_us(25);
        assert_eq!(pass(&uneven, 1).gather, Span::from_us(1 + 15));
        assert_eq!(pass(&uneven, 3).gather, Span::from_us(1));
    }

    /// Backward: gathers of 3, layers of 10, scatters of 4: only the first gather and the last scatter are seen.
    #[test]
    fn scatters_follow_their_layers() {
        assert_eq!(pass(&layers(5, 10, 3, 4, (1, 1)), 1), Lost { gather: Span::from_us(3), scatter: Span::from_us(4), slowed: Span::ZERO });
    }

    /// Without looking ahead a gather waits for the scatter in front of it: all 5 gathers and all 5 scatters are seen, whole.
    #[test]
    fn gathers_wait_for_scatters() {
        let lost = pass(&layers(5, 10, 3, 4, (1, 1)), 0);
        assert_eq!((lost.gather, lost.scatter), (Span::from_us(15), Span::from_us(20)));
    }

    /// While 3 us are gathered, 10 us of computing at half the speed do 1.5 us of work: four layers lose 1.5 us, the last none.
    #[test]
    fn computing_is_slower_meanwhile() {
        let lost = pass(&layers(5, 10, 3, 0, (1, 2)), 1);
        assert_eq!(lost, Lost { gather: Span::from_us(3), slowed: Span::from_ns(4 * 1500), ..Lost::default() });
    }
}
