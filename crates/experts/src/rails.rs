//! All-to-all of equal messages among the GPUs of nodes: along rails, where each GPU writes to those of its number, or across them.
//!
//! Source: UCCL-EP, ep/bench/alltoall/test_alltoall.cpp and test_alltoall_rail.cpp: a thread for each GPU posts one message after the other to its
//! peers in turn; it takes another adapter of its GPU after `stripe` messages to the same peer; an adapter has no more than `window` messages
//! outstanding, and where the next message's adapter is full, the thread waits.
//! Modelled: that loop, with the core's costs of posting and polling; peers in turn or at random; every message on the network.
//! Not modelled: the addresses that messages go to.
//!
//! Across rails a GPU of a node of 8 has 8 peers on each other node and takes 8 · `stripe` messages in a row to one adapter. With a window of half
//! of that, the thread is at one adapter while another drains: two adapters are busy, however many there are.

use std::sync::Arc;

use fabriscope_node::{Process, ProgramError, Record};
use fabriscope_platform::{Binding, Target};
use fabriscope_streams::Streams;
use fabriscope_units::{Bytes, Span};
use fabriscope_verbs::AppWords;

use crate::job::Net;
use crate::wires::Wires;

/// What is measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Settings {
    /// Nodes.
    pub nodes: u32,
    /// GPUs of each.
    pub per_node: u32,
    /// A message.
    pub bytes: Bytes,
    /// Messages of each GPU to each GPU of other nodes; along rails as many to the one there as to all of a node otherwise.
    pub messages: u64,
    /// Along rails.
    pub aligned: bool,
    /// Peers at random instead of in turn.
    pub random: bool,
    /// Messages outstanding on an adapter.
    pub window: u32,
    /// Messages to a peer on an adapter before the next is taken.
    pub stripe: u64,
    /// Seed of the random peers.
    pub seed: u64,
}

/// A job.
pub struct RailsJob {
    settings: Settings,
    net: Net,
    binding: Binding,
    spans: Record<Vec<Span>>,
}

impl RailsJob {
    /// A job on a machine like `target`.
    #[must_use]
    pub fn new(target: &Target, settings: Settings) -> RailsJob {
        let spans = Record::new(vec![Span::ZERO; (settings.nodes * settings.per_node) as usize]);
        RailsJob { settings, net: Net::of(target), binding: target.binding.clone(), spans }
    }
    /// The settings.
    #[must_use]
    pub fn settings(&self) -> &Settings {
        &self.settings
    }
    /// Messages of a GPU.
    #[must_use]
    pub fn messages(&self) -> u64 {
        u64::from(self.settings.nodes - 1) * u64::from(self.settings.per_node) * self.settings.messages
    }
    /// What each GPU took, once the job has run.
    #[must_use]
    pub fn spans(&self) -> Vec<Span> {
        self.spans.lock().clone()
    }
}

/// The thread of one GPU.
///
/// # Errors
/// Adapters that refuse what is posted.
pub async fn run(process: Process, job: Arc<RailsJob>) -> Result<(), ProgramError> {
    let Settings { nodes, per_node, bytes, aligned, random, window, stripe, seed, .. } = job.settings;
    let me = process.rank();
    let (node, local) = (me / per_node, me % per_node);
    let gpu = job.binding.gpu(local, process.devices()?.count() as u32).unwrap_or(0);
    let others = (1..nodes).map(|step| (node + step) % nodes);
    let peers: Vec<u32> = if aligned {
        others.map(|other| other * per_node + local).collect()
    } else {
        others.flat_map(|other| (0..per_node).map(move |gpu| other * per_node + gpu)).collect()
    };
    let adapters = crate::wires::adapters_of(&process, gpu)?.len() as u32;
    job.net.store.fence(&process).await;
    let (mut wires, made) = Wires::open(&process, &job.net, (me, gpu), (&peers, adapters))?;
    job.net.store.fence(&process).await;
    wires.connect(&process, &job.net, me, made)?;
    process.barrier().await;
    let begun = process.now();
    let total = job.messages();
    let mut stream = Streams::new(seed).stream("peers of an all-to-all", me.into());
    let each = total / peers.len().max(1) as u64;
    let mut posted = vec![0u64; peers.len()];
    let mut outstanding = vec![0u32; adapters as usize];
    let (mut sent, mut done, mut turn) = (0, 0, 0);
    let queues: Vec<_> = wires.rails.iter().map(|rail| (rail.nic, rail.cq)).collect();
    let mut chosen: Option<usize> = None;
    while done < total {
        while sent < total {
            let peer = *chosen.get_or_insert_with(|| {
                if random {
                    turn = stream.below(peers.len() as u64) as usize;
                }
                while posted[turn] >= each {
                    turn = (turn + 1) % peers.len();
                }
                turn
            });
            let rail = (posted[peer] / stripe % u64::from(adapters)) as u32;
            if outstanding[rail as usize] >= window {
                break;
            }
            let lane = (u64::from(rail) + u64::from(adapters) * 2 - u64::from((peers[peer] + me) % adapters)) % u64::from(adapters);
            wires.write(&process, (peers[peer], lane as u32), bytes, AppWords::default())?;
            posted[peer] += 1;
            outstanding[rail as usize] += 1;
            sent += 1;
            turn = (peer + 1) % peers.len();
            chosen = None;
        }
        process.wait_any(&queues, &[]).await;
        for (rail, (nic, cq)) in queues.iter().enumerate() {
            if process.earliest(&[(*nic, *cq)], &[]).is_none_or(|at| at > process.now()) {
                process.compute(process.cpu().poll_empty);
                continue;
            }
            let found = process.poll_cq(*nic, *cq, window as usize).await;
            outstanding[rail] -= found.len() as u32;
            done += found.len() as u64;
        }
    }
    job.spans.lock()[me as usize] = process.now().since(begun);
    Ok(())
}
