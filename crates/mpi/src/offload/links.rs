//! The queue pairs of a worker: requests wait for room, and several to one peer go under one doorbell.

use std::collections::{BTreeMap, VecDeque};

use fabriscope_node::{Process, ProgramError};
use fabriscope_verbs::{QpNum, SendWr, Wc, WcStatus};

use super::state::ConnectionEnd;
use super::task::TaskId;

/// What the end of a request means.
#[derive(Debug, Clone, Copy)]
pub(super) enum Signal {
    /// A piece that a task wrote, or read, is where it belongs.
    Moved(TaskId),
    /// A piece has come from the host's memory to the worker's.
    Fetched(TaskId, Next),
    /// A staged piece is in the memory of a rank.
    Landed { to: u32, from: u32, op: u64 },
}

/// Where a piece goes from the worker's memory.
#[derive(Debug, Clone, Copy)]
pub(super) enum Next {
    /// To another rank.
    To { rank: u32, bytes: u32 },
    /// Back to where its rank wants it.
    Back { bytes: u32 },
    /// Through a reduction of the worker's core, and back as its result.
    Reduced { bytes: u32 },
}

struct Link {
    qp: QpNum,
    posted: u64,
    freed: u64,
    waiting: VecDeque<(SendWr, Option<Signal>)>,
}

/// All of them.
pub(super) struct Links {
    nic: usize,
    links: BTreeMap<ConnectionEnd, Link>,
    by_qp: BTreeMap<QpNum, ConnectionEnd>,
    /// Links with requests that wait.
    open: Vec<ConnectionEnd>,
    signals: BTreeMap<u64, (ConnectionEnd, u64, Vec<Signal>)>,
    next: u64,
}

impl Links {
    pub fn new(nic: usize) -> Links {
        Links { nic, links: BTreeMap::new(), by_qp: BTreeMap::new(), open: Vec::new(), signals: BTreeMap::new(), next: FIRST }
    }
    pub fn add(&mut self, end: ConnectionEnd, qp: QpNum) {
        self.links.insert(end, Link { qp, posted: 0, freed: 0, waiting: VecDeque::new() });
        self.by_qp.insert(qp, end);
    }
    /// Every connection.
    pub fn all(&self) -> impl Iterator<Item = (ConnectionEnd, QpNum)> {
        self.links.iter().map(|(end, link)| (*end, link.qp))
    }
    /// Who is at the other end of a queue pair.
    pub fn peer(&self, qp: QpNum) -> Option<ConnectionEnd> {
        self.by_qp.get(&qp).copied()
    }
    /// A request for the next [`flush`](Self::flush).
    ///
    /// # Errors
    /// Nobody is connected there.
    pub fn push(&mut self, end: ConnectionEnd, wr: SendWr, signal: Option<Signal>) -> Result<(), ProgramError> {
        let link = self.links.get_mut(&end).ok_or_else(|| ProgramError(format!("a worker has no connection to {end:?}")))?;
        if link.waiting.is_empty() {
            self.open.push(end);
        }
        link.waiting.push_back((wr, signal));
        Ok(())
    }
    /// Posts what has room: the last request of each doorbell asks for a completion.
    ///
    /// # Errors
    /// A queue pair in error.
    pub fn flush(&mut self, process: &Process) -> Result<(), ProgramError> {
        for end in std::mem::take(&mut self.open) {
            let Some(link) = self.links.get_mut(&end) else { continue };
            while !link.waiting.is_empty() && link.posted - link.freed < DEPTH {
                let count = (DEPTH - (link.posted - link.freed)).min(BATCH) as usize;
                let count = count.min(link.waiting.len());
                let (mut batch, signals): (Vec<SendWr>, Vec<Option<Signal>>) = link.waiting.drain(..count).unzip();
                link.posted += batch.len() as u64;
                if let Some(last) = batch.last_mut() {
                    last.wr_id = self.next;
                    *last = last.clone().signaled();
                }
                self.signals.insert(self.next, (end, link.posted, signals.into_iter().flatten().collect()));
                self.next += 1;
                process.post_send_list(self.nic, link.qp, &batch)?;
            }
            if !link.waiting.is_empty() {
                self.open.push(end);
            }
        }
        Ok(())
    }
    /// What the completion of a request means.
    ///
    /// # Errors
    /// It failed.
    pub fn complete(&mut self, wc: &Wc) -> Result<Vec<Signal>, ProgramError> {
        if wc.status != WcStatus::Success {
            let (text, name) = (wc.status.text(), wc.status.name());
            return Err(ProgramError(format!("a worker on a DPU got a completion with error: {text} ({name})")));
        }
        let Some((end, through, signals)) = self.signals.remove(&wc.wr_id) else { return Ok(Vec::new()) };
        if let Some(link) = self.links.get_mut(&end) {
            link.freed = link.freed.max(through);
        }
        Ok(signals)
    }
}

/// Requests in a send queue. Basis: assumed.
pub(super) const DEPTH: u64 = 1024;
/// Requests under one doorbell. Basis: assumed; the library's list of postponed requests.
const BATCH: u64 = 16;
/// The first `wr_id` of those with a completion.
const FIRST: u64 = 2;
