//! What the GPUs of a node share: the links between them, and what their kernels tell each other in memory.
//!
//! Modelled: links and their directions as serial resources, in the order of asking, cut through from one to the next.
//! Not modelled: what adapters take of the memory of GPUs at the same time, which is little beside what it moves.

use std::collections::BTreeMap;
use std::sync::Arc;

use fabriscope_machine::{Access, Use};
use fabriscope_node::{Devices, Memory, ProgramError};
use fabriscope_units::{Bytes, Rate, Span, Time};

/// A message from one kernel to another on the node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Mail {
    /// When it is there.
    pub at: Time,
    pub channel: u32,
    /// The node whose tokens these are.
    pub node: u32,
    /// The GPU that sends them.
    pub from: u32,
    pub tokens: u32,
}

type Path = (Arc<[(u32, Rate)]>, Span);

/// A node.
pub(crate) struct Node {
    /// When each resource is free.
    free: Vec<Time>,
    paths: BTreeMap<(u32, u32), Path>,
    /// For each GPU.
    pub mail: Vec<Vec<Mail>>,
    /// When the last token came to each GPU.
    pub last: Vec<Time>,
    /// The ranks here, in the order of their GPUs.
    pub ranks: Vec<u32>,
}

impl Node {
    pub fn new(gpus: usize) -> Node {
        Node { free: Vec::new(), paths: BTreeMap::new(), mail: vec![Vec::new(); gpus], last: vec![Time::ZERO; gpus], ranks: Vec::new() }
    }

    /// When bytes that leave a GPU at `now` are at another one.
    pub fn carry(&mut self, devices: &Devices, now: Time, (from, to): (u32, u32), bytes: Bytes) -> Result<Time, ProgramError> {
        if from == to {
            return Ok(now);
        }
        let (path, latency) = match self.paths.get(&(from, to)) {
            Some(known) => known.clone(),
            None => {
                let (source, target) = (devices.vertex(Memory::Device(from))?, devices.vertex(Memory::Device(to))?);
                let (uses, latency) = devices.way(source, target, Access::Write)?;
                let machine = devices.machine();
                let links =
                    uses.iter().filter_map(|Use { resource, weight }| Some((resource.0, weight.payload_of(machine.capacity(*resource)?))));
                let path: Path = (links.collect(), latency);
                self.paths.insert((from, to), path.clone());
                path
            }
        };
        let mut end = now;
        for (resource, rate) in &*path {
            let place = *resource as usize;
            if self.free.len() <= place {
                self.free.resize(place + 1, Time::ZERO);
            }
            self.free[place] = now.max(self.free[place]) + rate.time(bytes);
            end = end.max(self.free[place]);
        }
        Ok(end + latency)
    }

    /// A token came to a GPU.
    pub fn came(&mut self, gpu: u32, at: Time) {
        let last = &mut self.last[gpu as usize];
        *last = at.max(*last);
    }
}
