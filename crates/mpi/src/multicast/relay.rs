//! Within a node: chunks go on from GPU to GPU by copies of the rank that has them, as they arrive.
//!
//! A child says that it is there (its buffer is known and mapped); then each chunk is copied by an engine of the parent's GPU, and the child is told when
//! that has ended. In host memory the child copies by itself.

use std::collections::BTreeMap;

use fabriscope_node::{CopyId, Memory, ProgramError};
use fabriscope_units::{Bytes, Span};

use super::broadcast::{CopyOf, Course};

/// Passing on.
pub(super) struct Passing {
    /// Chunks that are right here, in the order in which they became so.
    available: Vec<u32>,
    /// Chunks that are to come from a parent.
    parent: bool,
    taken: usize,
    children: Vec<Child>,
    /// How many there are in all, once that is known.
    chunks: Option<u32>,
}

struct Child {
    rank: u32,
    begun: usize,
    passed: usize,
}

impl Passing {
    /// All of `all` chunks are here from the beginning, at the source.
    pub fn new(parent: Option<u32>, children: &[u32], all: Option<u32>) -> Passing {
        let children = children.iter().map(|rank| Child { rank: *rank, begun: 0, passed: 0 }).collect();
        let available = (0..all.unwrap_or(0)).collect();
        Passing { available, parent: parent.is_some(), taken: 0, children, chunks: None }
    }

    /// A chunk is here, every packet at its place.
    pub fn has(&mut self, chunk: u32) {
        self.available.push(chunk);
    }

    /// Takes what the parent has passed on, and asks for one copy of what there is: calls of the driver take a core longer than the rest of its
    /// work. Says whether it would go on at once.
    pub fn advance(&mut self, course: &Course<'_>, copies: &mut BTreeMap<CopyId, CopyOf>) -> Result<bool, ProgramError> {
        self.chunks = Some(course.chunks);
        if self.parent {
            self.take(course);
        }
        let now = course.process.now();
        // One engine makes them all.
        if self.children.iter().map(|child| child.begun - child.passed).sum::<usize>() >= AT_A_TIME {
            return Ok(false);
        }
        let mut waiting: Vec<&mut Child> = self.children.iter_mut().filter(|child| child.begun < self.available.len()).collect();
        waiting.sort_by_key(|child| child.begun);
        for child in waiting {
            let (entered, memory) = {
                let seat = course.seat(child.rank);
                (seat.entered.0 > course.first.2 && seat.entered.1 <= now, seat.memory)
            };
            let Some(to) = memory.filter(|_| entered) else { continue };
            let from = course.rank.state.borrow().home.memory(course.buffer)?;
            if child.begun == 0 {
                course.map(child.rank)?;
            }
            let chunk = self.available[child.begun];
            child.begun += 1;
            if let (Memory::Host(_), Memory::Host(_)) = (from, to) {
                // Who has it in host memory copies it.
                give(course, child.rank, chunk);
                child.passed += 1;
            } else {
                let (first, count) = course.packets_of(chunk);
                let id = course.process.begin_copy(from, to, course.bytes(first, count))?;
                copies.insert(id, CopyOf::Passed { child: child.rank, chunk });
            }
            return Ok(true);
        }
        Ok(false)
    }

    fn take(&mut self, course: &Course<'_>) {
        let (me, now) = (course.process.rank(), course.process.now());
        let given: Vec<u32> =
            course.seat(me).given[self.taken..].iter().take_while(|(at, _)| *at <= now).map(|(_, chunk)| *chunk).collect();
        self.taken += given.len();
        for chunk in given {
            if course.buffer == crate::Buffer::Host {
                let (first, count) = course.packets_of(chunk);
                course.process.copy(course.bytes(first, count), Bytes(u64::MAX));
            }
            self.has(chunk);
        }
    }

    /// An engine has copied a chunk to a child.
    pub fn passed(&mut self, course: &Course<'_>, rank: u32, chunk: u32) {
        give(course, rank, chunk);
        self.children.iter_mut().filter(|child| child.rank == rank).for_each(|child| child.passed += 1);
    }

    /// Everything is here and with the children.
    pub fn is_over(&self) -> bool {
        let Some(chunks) = self.chunks else { return false };
        let here = !self.parent || self.available.len() == chunks as usize;
        here && self.children.iter().all(|child| child.passed == chunks as usize)
    }
}

impl Course<'_> {
    /// Maps the memory of `peer`, or finds the mapping.
    fn map(&self, peer: u32) -> Result<(), ProgramError> {
        let gpu = self.rank.state.borrow().gpu_numbers();
        let Ok(devices) = self.process.devices() else { return Ok(()) };
        let calls = &devices.costs().calls;
        let open = if self.multicast.mapped.borrow_mut().insert(peer) { calls.ipc_open } else { Span::ZERO };
        self.process.compute(open + calls.ipc_use + gpu.peers.map_or(Span::ZERO, |peers| peers.overhead));
        Ok(())
    }
}

/// A chunk is at a rank of the node, and its core can see that.
fn give(course: &Course<'_>, rank: u32, chunk: u32) {
    course.process.compute(course.process.cpu().detect);
    let now = course.process.now();
    {
        let seat = &mut *course.seat(rank);
        seat.given.push((now, chunk));
        if let Some(landing) = &mut seat.landing {
            landing.take_chunk(chunk);
        }
    }
    course.tell(rank);
}

/// Copies to children that are in progress. Basis: assumed; the next one begins as one ends.
const AT_A_TIME: usize = 2;
