//! Which blocks a reduce task asks for, and when.
//!
//! Source: Spark, `ShuffleBlockFetcherIterator`: blocks of an executor are put into requests of a fifth of what may be in flight, requests in
//! random order, sent while bytes and requests in flight allow; bytes are in flight until the task takes the block.
//! Modelled: that. Not modelled: limits of blocks by address, requests deferred for memory, blocks fetched again.

use std::collections::{BTreeMap, VecDeque};

use fabriscope_streams::Stream;
use fabriscope_units::Bytes;

/// Blocks that an executor is asked for at once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Request {
    /// Its number among those of the task.
    pub number: u32,
    /// Who has them.
    pub executor: u32,
    /// How many.
    pub blocks: u32,
    /// Bytes of all.
    pub bytes: Bytes,
}

/// What may be in flight.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Bytes.
    pub bytes: Bytes,
    /// Requests.
    pub requests: u32,
    /// A request is one of so many parts of the bytes.
    pub share: u32,
}

/// The requests of a task.
#[derive(Debug)]
pub struct Fetcher {
    limits: Limits,
    waiting: VecDeque<Request>,
    /// Blocks that are to come, by request.
    open: BTreeMap<u32, u32>,
    bytes: u64,
}

impl Fetcher {
    /// Asks each of `executors` for its number of blocks of `size`, in an order by chance.
    #[must_use]
    pub fn new(executors: &[(u32, u32)], size: Bytes, limits: Limits, order: &mut Stream) -> Fetcher {
        let target = (limits.bytes.0 / u64::from(limits.share.max(1))).max(1);
        let most = u32::try_from(target.div_ceil(size.0.max(1))).unwrap_or(u32::MAX).max(1);
        let mut waiting = Vec::new();
        for &(executor, blocks) in executors.iter().filter(|_| size > Bytes::ZERO) {
            let mut left = blocks;
            while left > 0 {
                let here = left.min(most);
                waiting.push(Request { number: 0, executor, blocks: here, bytes: size * u64::from(here) });
                left -= here;
            }
        }
        order.shuffle(&mut waiting);
        (0..).zip(&mut waiting).for_each(|(number, request)| request.number = number);
        Fetcher { limits, waiting: waiting.into(), open: BTreeMap::new(), bytes: 0 }
    }
    /// The next request, if it may be sent.
    pub fn poll_request(&mut self) -> Option<Request> {
        let next = *self.waiting.front()?;
        let fits = self.bytes == 0 || self.bytes + next.bytes.0 <= self.limits.bytes.0;
        if !fits || self.open.len() >= self.limits.requests as usize {
            return None;
        }
        self.waiting.pop_front();
        self.bytes += next.bytes.0;
        self.open.insert(next.number, next.blocks);
        Some(next)
    }
    /// A block of a request is here.
    pub fn handle_block(&mut self, number: u32) {
        if let Some(left) = self.open.get_mut(&number) {
            *left -= 1;
            if *left == 0 {
                self.open.remove(&number);
            }
        }
    }
    /// The task has taken a block.
    pub fn handle_taken(&mut self, bytes: Bytes) {
        self.bytes = self.bytes.saturating_sub(bytes.0);
    }
}

#[cfg(test)]
mod tests {
    use fabriscope_streams::Streams;

    use super::*;

    fn fetcher(requests: u32) -> Fetcher {
        let limits = Limits { bytes: Bytes::from_mib(48), requests, share: 5 };
        Fetcher::new(&[(1, 30), (2, 12)], Bytes::from_mib(1), limits, &mut Streams::new(1).stream("test", 0))
    }

    #[test]
    fn requests_are_a_fifth_of_what_may_be_in_flight() {
        // 9.6 MiB: the tenth block passes the mark. 30 blocks are three requests, 12 are two.
        let mut fetcher = fetcher(u32::MAX);
        let sent: Vec<Request> = std::iter::from_fn(|| fetcher.poll_request()).collect();
        let mut blocks: Vec<(u32, u32)> = sent.iter().map(|request| (request.executor, request.blocks)).collect();
        blocks.sort_unstable();
        assert_eq!(blocks, [(1, 10), (1, 10), (1, 10), (2, 2), (2, 10)]);
        assert!(sent.iter().map(|request| request.bytes).sum::<Bytes>() <= Bytes::from_mib(48));
    }

    #[test]
    fn blocks_are_in_flight_until_they_are_taken() {
        let limits = Limits { bytes: Bytes(10), requests: 9, share: 2 };
        let mut fetcher = Fetcher::new(&[(1, 4)], Bytes(5), limits, &mut Streams::new(1).stream("test", 0));
        let numbers: Vec<u32> = std::iter::from_fn(|| fetcher.poll_request()).map(|request| request.number).collect();
        assert_eq!(numbers, [0, 1]);
        fetcher.handle_block(0);
        assert_eq!(fetcher.poll_request(), None);
        fetcher.handle_taken(Bytes(5));
        assert_eq!(fetcher.poll_request().map(|request| request.number), Some(2));
    }

    #[test]
    fn requests_in_flight_are_limited_too() {
        let mut fetcher = fetcher(2);
        let first: Vec<Request> = std::iter::from_fn(|| fetcher.poll_request()).collect();
        assert_eq!(first.len(), 2);
        (0..first[0].blocks).for_each(|_| fetcher.handle_block(first[0].number));
        assert!(fetcher.poll_request().is_some());
    }
}
