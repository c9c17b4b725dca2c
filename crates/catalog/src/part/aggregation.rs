//! Reductions inside a switch: SHARP, In-Network Collectives.
//!
//! The mechanisms are those of `fabriscope_switch::aggregation` and `fabriscope_fabric::aggregation`; here are the numbers, with their
//! sources.

use fabriscope_node::aggregation::Rules;
use fabriscope_units::{Bytes, Rate, Span};
use fabriscope_verbs::Mtu;
use fabriscope_wire::{Collective, Element};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::error::Problem;
use crate::sourced::Sourced;

/// What a switch does with contributions of its ports.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Aggregation {
    /// What the vendor calls it, with its version.
    pub protocol: String,
    /// From the last byte of the last operand to the first byte of the result at an output.
    pub latency: Sourced<Span>,
    /// Between two operations of a switch.
    pub interval: Sourced<Span>,
    /// The most that one operation holds of a vector; longer ones take several, or stream.
    pub payload: Sourced<Bytes>,
    /// Operations that a switch has outstanding, those of all jobs together.
    pub slots: Sourced<u32>,
    /// Of them, what a group gets.
    pub group_slots: Sourced<u32>,
    /// Groups that go through a switch.
    pub groups: Sourced<u32>,
    /// Trees of the fabric.
    pub trees: Sourced<u32>,
    /// Children of a switch in a tree.
    pub children: Sourced<u32>,
    /// What is done: `barrier`, `bcast`, `reduce`, `allreduce`.
    pub operations: Vec<String>,
    /// Of what: `int32`, `float16`, …
    pub elements: Vec<String>,
    /// Long vectors, reduced as they flow.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stream: Option<AggregationStream>,
}

/// Long vectors that are reduced packet by packet.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct AggregationStream {
    /// Bytes of results that a switch makes.
    pub rate: Sourced<Rate>,
    /// Vectors from this length on stream.
    pub from: Sourced<Bytes>,
    /// What an adapter sends as one message.
    pub chunk: Sourced<Bytes>,
    /// What an adapter has on its way without the result: the room that switches keep for it.
    pub window: Sourced<Bytes>,
}

impl Aggregation {
    /// Whether the switch does this to vectors of such elements. A barrier and a broadcast do not look at elements.
    #[must_use]
    pub fn does(&self, collective: Collective, element: Element) -> bool {
        let reduces = matches!(collective, Collective::Reduce | Collective::Allreduce);
        self.operations.iter().any(|word| word == collective.word())
            && (!reduces || self.elements.iter().any(|word| word == element.word()))
    }

    /// What limits a process's part of a group of these switches, with contributions up to `inline` in their request.
    #[must_use]
    pub fn rules(&self, mtu: Mtu, inline: u32) -> Rules {
        let small = Bytes::saturating_u32;
        let stream = self.stream.as_ref();
        Rules {
            payload: small(*self.payload).min(small(mtu.bytes())),
            slots: *self.group_slots,
            from: stream.map_or(u32::MAX, |stream| small(*stream.from)),
            chunk: stream.map_or(0, |stream| small(*stream.chunk)),
            window: stream.map_or(0, |stream| small(*stream.window)),
            inline,
            mtu,
        }
    }

    pub(super) fn check(&self) -> Result<(), Problem> {
        let words = |all: &[&str]| format!("use some of {}", all.join(", "));
        let operations = Collective::ALL.map(Collective::word);
        if let Some(word) = self.operations.iter().find(|word| !operations.contains(&word.as_str())) {
            return Err(Problem::at(&["aggregation", "operations"], format!("switches have no operation `{word}`"), words(&operations)));
        }
        let elements = Element::ALL.map(Element::word);
        if let Some(word) = self.elements.iter().find(|word| !elements.contains(&word.as_str())) {
            return Err(Problem::at(&["aggregation", "elements"], format!("there are no elements `{word}`"), words(&elements)));
        }
        let counts = [
            ("slots", *self.slots),
            ("group_slots", *self.group_slots),
            ("groups", *self.groups),
            ("trees", *self.trees),
            ("children", *self.children),
        ];
        if let Some((key, _)) = counts.into_iter().find(|(_, count)| *count == 0) {
            return Err(Problem::at(&["aggregation", key, "value"], format!("`{key}` is zero"), "use at least 1, or remove [aggregation]"));
        }
        if *self.payload < LEAST_PAYLOAD || *self.payload > MOST_PAYLOAD {
            let message = format!("a payload of {}", *self.payload);
            return Err(Problem::at(&["aggregation", "payload", "value"], message, format!("use {LEAST_PAYLOAD} to {MOST_PAYLOAD}")));
        }
        let Some(stream) = &self.stream else { return Ok(()) };
        if stream.rate.as_bps() == 0 {
            return Err(Problem::at(&["aggregation", "stream", "rate", "value"], "nothing would ever be reduced", "use a rate of a port"));
        }
        if *stream.from <= *self.payload {
            let message = format!("vectors stream from {} on, and {} fit into an operation", *stream.from, *self.payload);
            return Err(Problem::at(&["aggregation", "stream", "from", "value"], message, "make it more than `payload`"));
        }
        if *stream.chunk <= *self.payload || *stream.chunk > *stream.window || stream.chunk.as_u64() % 4096 != 0 {
            let message = format!("chunks of {} in a window of {}", *stream.chunk, *stream.window);
            let help = "make chunks whole multiples of 4 KiB, longer than `payload` and no longer than `window`";
            return Err(Problem::at(&["aggregation", "stream", "chunk", "value"], message, help));
        }
        Ok(())
    }
}

/// An element of the widest type and no more.
const LEAST_PAYLOAD: Bytes = Bytes(8);
/// An operation is one packet. Basis: standard, the largest MTU.
const MOST_PAYLOAD: Bytes = Bytes::from_kib(4);
