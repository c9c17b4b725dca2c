//! What the GPUs of a node share: the links between them, and what their kernels tell each other in memory.
//!
//! Modelled: links as [`Links`] has them.
//! Not modelled: what adapters take of the memory of GPUs at the same time, which is little beside what it moves.

use fabriscope_node::{Devices, ProgramError};
use fabriscope_units::{Bytes, Time};

use crate::links::Links;

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

/// A node.
pub(crate) struct Node {
    links: Links,
    /// For each GPU.
    pub mail: Vec<Vec<Mail>>,
    /// When the last token came to each GPU.
    pub last: Vec<Time>,
    /// The ranks here, in the order of their GPUs.
    pub ranks: Vec<u32>,
}

impl Node {
    pub fn new(gpus: usize) -> Node {
        Node { links: Links::default(), mail: vec![Vec::new(); gpus], last: vec![Time::ZERO; gpus], ranks: Vec::new() }
    }

    /// When bytes that leave a GPU at `now` are at another one.
    pub fn carry(&mut self, devices: &Devices, now: Time, ends: (u32, u32), bytes: Bytes) -> Result<Time, ProgramError> {
        self.links.carry(devices, now, ends, bytes)
    }

    /// A token came to a GPU.
    pub fn came(&mut self, gpu: u32, at: Time) {
        let last = &mut self.last[gpu as usize];
        *last = at.max(*last);
    }
}
