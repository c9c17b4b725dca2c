//! The matched queues: receives that wait for messages, messages that wait for receives.
//!
//! Source: PSM2, `psm_mq.c` and `psm_mq_recv.c`; MPI 4.1 §3.5.
//! Modelled: both queues in order, wildcards of source and tag, how many entries a search passes.
//! Not modelled: the hash tables into which PSM2 turns queues of more than 64 entries.

use std::collections::VecDeque;

use fabriscope_wire::psm2::RequestId;
use fabriscope_wire::psm2::Window;

/// What a receive accepts; `None` accepts all.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Pattern {
    pub source: Option<u32>,
    pub tag: Option<u32>,
}

/// A message that is known to come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Announced {
    pub source: u32,
    pub peer: usize,
    pub tag: u32,
    pub number: u32,
    pub length: u32,
    /// The sender's request, where it waits for a window.
    pub sender: Option<RequestId>,
}

/// A window of a long message that waits for a TID flow.
#[derive(Debug, Clone, Copy)]
pub(crate) struct PendingWindow {
    pub peer: usize,
    pub request: RequestId,
    pub sender: RequestId,
    pub window: Window,
}

#[derive(Debug, Default)]
pub(crate) struct Matching {
    posted: VecDeque<(Pattern, RequestId)>,
    unexpected: VecDeque<Announced>,
}

impl Pattern {
    fn fits(self, message: &Announced) -> bool {
        self.source.is_none_or(|source| source == message.source) && self.tag.is_none_or(|tag| tag == message.tag)
    }
}

impl Matching {
    /// A receive is posted: the message that it takes, and how many entries were passed.
    pub fn post(&mut self, pattern: Pattern, request: RequestId) -> (Option<Announced>, u32) {
        match self.unexpected.iter().position(|message| pattern.fits(message)) {
            Some(at) => (self.unexpected.remove(at), at as u32),
            None => {
                self.posted.push_back((pattern, request));
                (None, self.unexpected.len() as u32)
            }
        }
    }
    /// A message comes: the receive that takes it, and how many entries were passed.
    pub fn arrive(&mut self, message: Announced) -> (Option<RequestId>, u32) {
        match self.posted.iter().position(|(pattern, _)| pattern.fits(&message)) {
            Some(at) => (self.posted.remove(at).map(|(_, request)| request), at as u32),
            None => {
                self.unexpected.push_back(message);
                (None, self.posted.len() as u32)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(source: u32, tag: u32, number: u32) -> Announced {
        Announced { source, peer: source as usize, tag, number, length: 8, sender: None }
    }

    #[test]
    fn queues_keep_their_order_and_count_what_they_pass() {
        let mut queues = Matching::default();
        let of = |source, tag| Pattern { source, tag };
        assert_eq!(queues.post(of(Some(1), Some(7)), RequestId(0)), (None, 0));
        assert_eq!(queues.post(of(None, None), RequestId(1)), (None, 0));
        assert_eq!(queues.post(of(Some(1), Some(7)), RequestId(2)), (None, 0));
        assert_eq!(queues.arrive(message(1, 8, 0)), (Some(RequestId(1)), 1));
        assert_eq!(queues.arrive(message(1, 7, 1)), (Some(RequestId(0)), 0));
        assert_eq!(queues.arrive(message(2, 7, 0)), (None, 1));
        assert_eq!(queues.arrive(message(3, 9, 0)), (None, 1));
        assert_eq!(queues.post(of(None, Some(9)), RequestId(3)), (Some(message(3, 9, 0)), 1));
        assert_eq!(queues.post(of(Some(2), None), RequestId(4)), (Some(message(2, 7, 0)), 0));
    }
}
