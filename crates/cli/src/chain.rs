//! From followed messages to the whole of one exchange: a chain of stages without gaps.
//!
//! In a ping-pong the time between the post that sends a message and the post that answers it is, in the steady
//! state, what the tool prints. It is made of the messages on the way (one, or several where MPI meets before it
//! sends) and of what the programs do between seeing one and posting the next; that is the stage `program`.

use fabriscope_engine::MessageTrace;
use fabriscope_units::Span;

/// The stages of one exchange.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Chain {
    /// Name of each stage and its time, in order.
    pub stages: Vec<(String, Span)>,
    /// From the first post to the answer.
    pub total: Span,
    /// Messages of the network on the way.
    pub messages: usize,
}

/// Work of the programs between messages.
const PROGRAM: &str = "program";

/// The stages of a single message.
pub fn single(trace: &MessageTrace) -> Chain {
    let stages = trace.stages.iter().map(|s| (s.label(), s.span)).collect();
    Chain { stages, total: trace.latency(), messages: 1 }
}

/// The chain of the last whole exchange, where `exchanges` of them were followed; `one_way` exchanges have an answer
/// that is a message of the same kind the other way.
pub fn exchange(traces: &[MessageTrace], exchanges: usize, one_way: bool) -> Option<Chain> {
    let mut sorted: Vec<&MessageTrace> = traces.iter().collect();
    sorted.sort_by_key(|t| (t.posted_ps, t.done_ps));
    let each = sorted.len().checked_div(exchanges).filter(|each| *each > 0 && each * exchanges == sorted.len())?;
    if one_way && each == 1 {
        return half_period(sorted.get(sorted.len().checked_sub(2)?..)?);
    }
    let step = if one_way { each.checked_div(2).filter(|half| half * 2 == each && *half > 0)? } else { each };
    let first = sorted.len().checked_sub(2 * each)?;
    let (start, end) = (sorted.get(first)?, sorted.get(first + step)?);
    walk_back(&sorted, start, end.posted_ps)
}

/// Where only the messages of one side were followed: both ways take the same, so half of the time from one post to
/// the next is the message and what the programs do at its end.
fn half_period(pair: &[&MessageTrace]) -> Option<Chain> {
    let [earlier, later] = pair else { return None };
    let mut chain = single(earlier);
    let total = Span::from_ps(later.posted_ps.checked_sub(earlier.posted_ps)? / 2);
    let program = total.as_ps().checked_sub(chain.total.as_ps())?;
    chain.stages.push((PROGRAM.to_owned(), Span::from_ps(program)));
    chain.total = total;
    Some(chain)
}

/// From `until` back to the post of `start`, each time over the message that was seen last.
fn walk_back(sorted: &[&MessageTrace], start: &MessageTrace, until: u64) -> Option<Chain> {
    let mut stages: Vec<(String, Span)> = Vec::new();
    let (mut at, mut messages) = (until, 0);
    while at > start.posted_ps {
        let before = |t: &&&MessageTrace| t.done_ps <= at && t.posted_ps >= start.posted_ps && t.posted_ps < t.done_ps;
        let trace = sorted.iter().filter(before).max_by_key(|t| (t.done_ps, t.posted_ps))?;
        if at > trace.done_ps {
            stages.push((PROGRAM.to_owned(), Span::from_ps(at - trace.done_ps)));
        }
        stages.extend(trace.stages.iter().rev().map(|s| (s.label(), s.span)));
        at = trace.posted_ps;
        messages += 1;
    }
    stages.reverse();
    Some(Chain { stages, total: Span::from_ps(until - start.posted_ps), messages })
}

#[cfg(test)]
mod tests {
    use super::*;
    use fabriscope_engine::{Stage, StageSpan};

    fn message(node: u32, posted: u64, done: u64) -> MessageTrace {
        let half = (done - posted) / 2;
        let stage = |stage, ps| StageSpan { stage, span: Span::from_ps(ps), place: String::new() };
        let stages = vec![stage(Stage::Post, half), stage(Stage::Serialisation, done - posted - half)];
        MessageTrace { node, bytes: 8, posted_ps: posted, done_ps: done, stages }
    }

    #[test]
    fn a_ping_pong_adds_up_to_half_its_round_trip() {
        // 900 ps on the way, 100 ps in the program, there and back, three times.
        let traces: Vec<_> = (0..6).map(|n| message(n as u32 % 2, n * 1000, n * 1000 + 900)).collect();
        let chain = exchange(&traces, 3, true).unwrap();
        assert_eq!((chain.total, chain.messages), (Span::from_ps(1000), 1));
        assert_eq!(chain.stages.iter().map(|(_, s)| *s).sum::<Span>(), chain.total);
        assert_eq!(chain.stages.last().unwrap(), &("program".to_owned(), Span::from_ps(100)));
        assert_eq!(exchange(&traces, 3, false).unwrap().total, Span::from_ps(2000));
    }

    #[test]
    fn one_side_of_a_ping_pong_tells_of_both() {
        // Posts of one side every 2000 ps: 900 ps on the way and 100 ps in the program, twice.
        let traces: Vec<_> = (0..3).map(|n| message(0, n * 2000, n * 2000 + 900)).collect();
        let chain = exchange(&traces, 3, true).unwrap();
        assert_eq!(chain.total, Span::from_ps(1000));
        assert_eq!(chain.stages.iter().map(|(_, s)| *s).sum::<Span>(), chain.total);
    }

    #[test]
    fn messages_beside_the_way_are_left_out() {
        // Announce (0–400), read by the other side (450–1000), a farewell that nobody waits for (1010–1500), answer at 1100.
        let one_way = |n: u64| {
            let t = n * 1100;
            [message(n as u32 % 2, t, t + 400), message(1 - n as u32 % 2, t + 450, t + 1000), message(1 - n as u32 % 2, t + 1010, t + 1500)]
        };
        let traces: Vec<_> = (0..6).flat_map(one_way).collect();
        let chain = exchange(&traces, 3, true).unwrap();
        assert_eq!((chain.total, chain.messages), (Span::from_ps(1100), 2));
    }
}
