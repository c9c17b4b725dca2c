//! The all-to-all of NVSHMEM, on a stream: what the benchmark of pplx-kernels has beside its own kernels.
//!
//! Source: NVSHMEM, `nvshmemx_alltoallmem_on_stream`; pplx-kernels, tests/bench_all_to_all.py: each GPU has room for all tokens of all at each
//! expert, and all of it is exchanged.
//! Modelled: a put to each peer on other nodes, posted by the GPU or its proxy; one block that copies to the GPUs of the node, one after the other.
//! Not modelled: barriers of its own beside the time to begin.

use std::sync::Arc;

use fabriscope_catalog::{ExpertLibrary, Poster};
use fabriscope_node::{CpuCosts, Process, ProgramError, Record};
use fabriscope_platform::{Binding, Target};
use fabriscope_units::{Bytes, Span, Time};
use fabriscope_verbs::AppWords;

use crate::job::Net;
use crate::wires::Wires;

/// A job: all-to-alls of so many bytes to each peer, one after the other.
pub struct WholeJob {
    library: ExpertLibrary,
    per_node: u32,
    pieces: Vec<Bytes>,
    net: Net,
    binding: Binding,
    spans: Record<Vec<Span>>,
}

impl WholeJob {
    /// A job on a machine like `target`.
    #[must_use]
    pub fn new(target: &Target, library: &ExpertLibrary, pieces: Vec<Bytes>) -> WholeJob {
        let spans = Record::new(vec![Span::ZERO; pieces.len()]);
        let (per_node, binding) = (target.layout.per_node, target.binding.clone());
        WholeJob { library: library.clone(), per_node, pieces, net: Net::of(target), binding, spans }
    }
    /// What each took, for the slowest GPU.
    #[must_use]
    pub fn spans(&self) -> Vec<Span> {
        self.spans.lock().clone()
    }
}

/// One GPU.
///
/// # Errors
/// Adapters that refuse what is posted.
pub async fn run(process: Process, job: Arc<WholeJob>) -> Result<(), ProgramError> {
    let (me, ranks, per_node) = (process.rank(), process.ranks(), job.per_node);
    let node = me / per_node;
    let count = process.devices()?.count() as u32;
    let gpu = job.binding.gpu(me % per_node, count).unwrap_or(0);
    let cpu = process.cpu();
    let post = *job.library.post + if job.library.poster == Poster::Proxy { cpu.wqe_build + cpu.mmio_busy } else { Span::ZERO };
    let none = Span::ZERO;
    process.drive_as(CpuCosts { wqe_build: post, mmio_busy: none, poll_hit: none, poll_empty: none, dma_touch: none, ..cpu });
    let peers: Vec<u32> = (1..ranks).map(|step| (me + step) % ranks).filter(|peer| peer / per_node != node).collect();
    job.net.store.fence(&process).await;
    let (mut wires, made) = Wires::open(&process, &job.net, (me, gpu), (&peers, 1))?;
    job.net.store.fence(&process).await;
    wires.connect(&process, &job.net, me, made)?;
    for (number, bytes) in job.pieces.iter().enumerate() {
        process.barrier().await;
        let begun = process.now();
        let mut last = begun;
        let mut block = begun;
        for step in 1..ranks {
            let peer = (me + step) % ranks;
            if peer / per_node == node {
                block += job.library.block_rate.as_ref().map_or(Span::ZERO, |rate| rate.time(*bytes));
            }
        }
        last = last.max(block);
        for peer in &peers {
            wires.write(&process, (*peer, 0), *bytes, AppWords::default())?;
        }
        let mut left = peers.len();
        while left > 0 {
            left -= wires.heard(&process).len().min(left);
            if left > 0 {
                let watches = wires.watches(&process);
                process.wait_any(&[], &watches).await;
                wires.clean(&process)?;
                last = last.max(process.now());
            }
        }
        let floor = job.library.call.as_ref().map_or(Span::ZERO, |call| **call);
        let span = (last.since(begun.min(last)) + *job.library.begin).max(floor);
        {
            let longest = &mut job.spans.lock()[number];
            *longest = span.max(*longest);
        }
        process.sleep_until(last.max(Time::ZERO)).await;
    }
    Ok(())
}
