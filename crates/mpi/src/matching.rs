//! Tag matching: which receive takes which message.
//!
//! Source: MPI 4.1 §3.5: a receive takes the earliest message that fits, a message the earliest receive that fits; K. Underwood,
//! R. Brightwell, "The Impact of MPI Queue Usage on Message Latency", ICPP 2004: the time of a search grows with the entries it passes.
//! Modelled: one list of posted receives and one of unexpected messages, and how many entries a search passes, each of which costs a core
//! `match_step` of the library; nothing where a table by tag (UCX, PSM2) or the adapter finds them.
//! Not modelled: which of the entries a cache still holds.

use std::collections::VecDeque;

use super::request::RequestId;
use super::wire::Source;

/// What a receive accepts; `None` is `MPI_ANY_SOURCE` or `MPI_ANY_TAG`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Pattern {
    pub source: Option<u32>,
    pub tag: Option<u32>,
}

/// The announcement of a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Arrival {
    pub source: u32,
    pub tag: u32,
    pub size: u32,
    /// The sender's request, for a rendezvous; an eager message is here already.
    pub rendezvous: Option<RequestId>,
    /// Where it is, for a rendezvous.
    pub from: Source,
    /// The sender's number, for an eager message that comes in parts.
    pub parts: Option<u64>,
}

impl Arrival {
    /// A short message all of which is here.
    pub fn whole(source: u32, tag: u32, size: u32) -> Arrival {
        Arrival { source, tag, size, rendezvous: None, from: Source::Host, parts: None }
    }
}

impl Pattern {
    fn fits(self, arrival: &Arrival) -> bool {
        self.source.is_none_or(|source| source == arrival.source) && self.tag.is_none_or(|tag| tag == arrival.tag)
    }
}

/// What a search of a queue found, and how many entries it passed before.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Found<T> {
    pub what: Option<T>,
    pub passed: u32,
}

/// The posted and the unexpected queue of a rank.
#[derive(Debug, Default)]
pub(crate) struct Matching {
    posted: VecDeque<(Pattern, RequestId)>,
    unexpected: VecDeque<Arrival>,
}

impl Matching {
    /// A receive is posted: the unexpected message that it takes, or it waits.
    pub fn post(&mut self, pattern: Pattern, request: RequestId) -> Found<Arrival> {
        match self.unexpected.iter().position(|arrival| pattern.fits(arrival)) {
            Some(at) => Found { what: self.unexpected.remove(at), passed: at as u32 },
            None => {
                self.posted.push_back((pattern, request));
                Found { what: None, passed: self.unexpected.len() as u32 }
            }
        }
    }
    /// A message arrives: the receive that takes it, or it waits.
    pub fn arrive(&mut self, arrival: Arrival) -> Found<RequestId> {
        match self.posted.iter().position(|(pattern, _)| pattern.fits(&arrival)) {
            Some(at) => Found { what: self.posted.remove(at).map(|(_, request)| request), passed: at as u32 },
            None => {
                self.unexpected.push_back(arrival);
                Found { what: None, passed: self.posted.len() as u32 }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn from(source: u32, tag: u32, size: u32) -> Arrival {
        Arrival { source, tag, size, rendezvous: None, from: Source::Host, parts: None }
    }
    fn exactly(source: u32, tag: u32) -> Pattern {
        Pattern { source: Some(source), tag: Some(tag) }
    }
    const ANY: Pattern = Pattern { source: None, tag: None };

    #[test]
    fn messages_take_receives_in_the_order_of_posting() {
        let mut matching = Matching::default();
        assert_eq!(matching.post(exactly(1, 7), RequestId(0)).what, None);
        assert_eq!(matching.post(ANY, RequestId(1)).what, None);
        assert_eq!(matching.post(exactly(1, 7), RequestId(2)).what, None);
        assert_eq!(matching.arrive(from(1, 8, 0)).what, Some(RequestId(1)));
        assert_eq!(matching.arrive(from(1, 7, 0)).what, Some(RequestId(0)));
        assert_eq!(matching.arrive(from(1, 7, 0)).what, Some(RequestId(2)));
        assert_eq!(matching.arrive(from(1, 7, 0)).what, None);
    }

    #[test]
    fn receives_take_unexpected_messages_in_the_order_of_arrival() {
        let mut matching = Matching::default();
        for (source, tag, size) in [(1, 7, 10), (2, 7, 20), (1, 7, 30)] {
            assert_eq!(matching.arrive(from(source, tag, size)).what, None);
        }
        assert_eq!(matching.post(exactly(2, 7), RequestId(0)).what.map(|arrival| arrival.size), Some(20));
        assert_eq!(matching.post(ANY, RequestId(1)).what.map(|arrival| arrival.size), Some(10));
        assert_eq!(matching.post(Pattern { source: Some(1), tag: None }, RequestId(2)).what.map(|arrival| arrival.size), Some(30));
        assert_eq!(matching.post(ANY, RequestId(3)).what, None);
        assert_eq!(matching.arrive(from(9, 9, 0)).what, Some(RequestId(3)));
    }

    #[test]
    fn a_search_passes_what_lies_before() {
        let mut matching = Matching::default();
        for tag in 0..4 {
            assert_eq!(matching.post(exactly(1, tag), RequestId(tag)).passed, 0, "nothing is unexpected yet");
        }
        assert_eq!(matching.arrive(from(1, 2, 0)), Found { what: Some(RequestId(2)), passed: 2 });
        assert_eq!(matching.arrive(from(1, 9, 0)), Found { what: None, passed: 3 });
        assert_eq!(matching.post(exactly(1, 8), RequestId(8)), Found { what: None, passed: 1 });
    }
}
