//! What a message of the library costs each side, measured by running it: the numbers by which engines without packets carry messages.
//!
//! Source: D. Culler et al., "LogP: Towards a Realistic Model of Parallel Computation", PPoPP 1993 (latency, overheads, gap); A. Alexandrov et
//! al., "LogGP", SPAA 1995; their measurement by delayed receivers: T. Kielmann, H. Bal, K. Verstoep, "Fast Measurement of LogP Parameters
//! for Message Passing Platforms", IPDPS 2000 Workshops (by size, both sides, without saturating the network).
//! Modelled: one message between two idle ranks of a node, of two near nodes and of two far ones, whose receiver waits, is busy, or is late;
//! many messages of one pair and of all ranks of a node, one way and both, which show what the ranks of a node share.
//! Not modelled: connections beyond those of the measurement, which an adapter may have no room for.

mod costs;
mod measure;

use std::sync::Arc;

use fabriscope_node::{Main, Record};
use fabriscope_units::{Bytes, Span, Time};

use crate::world::World;

pub use costs::{Costs, Gaps, MessageCosts};

/// What is measured.
#[derive(Debug, Clone)]
pub struct Probe {
    /// Sizes of messages, ascending.
    pub sizes: Vec<u32>,
    /// Ranks on each node.
    pub per_node: u32,
    /// Nodes: one, or one and a near one, or one, a near one and a far one.
    pub nodes: u32,
    /// What the program goes through, as its caches see it.
    pub footprint: Bytes,
}

/// A measurement that runs.
#[derive(Debug, Clone)]
pub struct Probing {
    probe: Arc<Probe>,
    notes: Record<Notes>,
}

/// What the ranks noted.
#[derive(Debug, Default)]
struct Notes {
    /// Of each rank of the first node.
    domains: Vec<u32>,
    /// From each domain that a rank is in to each: (from, to, what a line takes longer).
    crossings: Vec<(u32, u32, Span)>,
    samples: Vec<Sample>,
}

/// The times of one message, or of one window of them.
#[derive(Debug, Clone, Copy, Default)]
struct Sample {
    /// The sender calls, is back, and knows that the message has left.
    call: Time,
    back: Time,
    done: Time,
    /// The receiver turns to the message, is back from posting, and has it.
    begin: Time,
    posted: Time,
    end: Time,
}

impl Probing {
    /// The programs of a measurement, one of each rank: those of the first node, then those of the others.
    #[must_use]
    pub fn new(probe: Probe, world: &World) -> (Probing, Vec<Main>) {
        let probing = Probing { notes: Record::default(), probe: Arc::new(probe) };
        let main = |_| -> Main {
            let (probing, world) = (probing.clone(), world.clone());
            Box::new(move |process| Box::pin(measure::run(process, world, probing)))
        };
        let ranks = probing.probe.nodes * probing.probe.per_node;
        (probing.clone(), (0..ranks).map(main).collect())
    }

    /// What was found, once all programs have ended.
    #[must_use]
    pub fn costs(&self) -> Costs {
        Costs::of(&self.probe, &self.notes.lock())
    }
}
