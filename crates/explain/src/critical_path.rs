//! From followed messages to the whole of one exchange: a chain of stages without gaps.
//!
//! In a ping-pong the time between the post that sends a message and the post that answers it is, in the steady
//! state, what the tool prints. It is made of the messages on the way (one, or several where MPI meets before it
//! sends) and of what the programs do between seeing one and posting the next; that is the stage `program`, or the copies
//! that cores and GPUs make meanwhile. Where ranks of one node talk through its memory, the copies alone are followed.

use fabriscope_engine::{MessageTrace, Stage};
use fabriscope_node::Work;
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

/// The stages of a single piece of work beside the network.
pub fn alone(work: &Work) -> Chain {
    Chain { stages: work.parts.clone(), total: work.done - work.begun, messages: 0 }
}

/// What was followed of an exchange.
#[derive(Debug, Clone, Copy)]
pub struct Followed<'a> {
    /// Messages of the network.
    pub traces: &'a [MessageTrace],
    /// Work of cores and GPUs beside it.
    pub works: &'a [Work],
    /// Adapters of a node.
    pub nics: u32,
    /// How many exchanges there were.
    pub exchanges: usize,
}

/// The chain of the last whole exchange; `one_way` exchanges have an answer that is a message of the same kind the other way.
pub fn exchange(followed: &Followed<'_>, one_way: bool) -> Option<Chain> {
    let Followed { traces, works, nics, exchanges } = *followed;
    let mut sorted: Vec<&MessageTrace> = traces.iter().collect();
    sorted.sort_by_key(|t| (t.posted_ps, t.done_ps));
    if sorted.is_empty() {
        return within(works, exchanges, one_way);
    }
    let each = sorted.len().checked_div(exchanges).filter(|each| *each > 0 && each * exchanges == sorted.len())?;
    if one_way && each == 1 {
        return half_period(sorted.get(sorted.len().checked_sub(2)?..)?);
    }
    let step = if one_way { each.checked_div(2).filter(|half| half * 2 == each && *half > 0)? } else { each };
    let first = sorted.len().checked_sub(2 * each)?;
    let (start, end) = (sorted.get(first)?, sorted.get(first + step)?);
    walk_back(&sorted, works, nics.max(1), ((start.posted_ps, start.node), end))
}

/// The same where nothing went over the network.
fn within(works: &[Work], exchanges: usize, one_way: bool) -> Option<Chain> {
    let mut sorted: Vec<&Work> = works.iter().collect();
    sorted.sort_by_key(|work| (work.begun, work.done));
    let each = sorted.len().checked_div(exchanges).filter(|each| *each > 0 && each * exchanges == sorted.len())?;
    let step = if one_way { each.checked_div(2).filter(|half| half * 2 == each && *half > 0)? } else { each };
    let first = sorted.len().checked_sub(2 * each)?;
    let (start, end) = (sorted.get(first)?.begun.as_ps(), sorted.get(first + step)?.begun.as_ps());
    let (mut stages, mut at) = (Vec::new(), end);
    while at > start {
        let done = sorted.iter().filter(|work| work.done.as_ps() <= at && work.begun.as_ps() >= start && work.begun < work.done);
        let Some(work) = done.max_by_key(|work| (work.done, std::cmp::Reverse(work.begun))) else {
            stages.push((PROGRAM.to_owned(), Span::from_ps(at - start)));
            break;
        };
        at = before(work, at, &mut stages);
    }
    stages.reverse();
    Some(Chain { stages, total: Span::from_ps(end - start), messages: 0 })
}

/// The stages of a message; work that its core did while it posted is a stage of its own.
fn of_message(trace: &MessageTrace, works: &[Work], nics: u32) -> Vec<(String, Span)> {
    let mut stages: Vec<(String, Span)> = trace.stages.iter().map(|s| (s.label(), s.span)).collect();
    let Some(post) = trace.stages.first().filter(|first| first.stage == Stage::Post) else { return stages };
    let (mut at, end) = (trace.posted_ps, trace.posted_ps + post.span.as_ps());
    let mut parts = Vec::new();
    for work in works.iter().filter(|work| work.node == trace.node / nics) {
        let (begun, done) = (work.begun.as_ps(), work.done.as_ps());
        if begun >= at && done <= end && begun < done {
            parts.push((stages[0].0.clone(), Span::from_ps(begun - at)));
            parts.extend(work.parts.iter().cloned());
            at = done;
        }
    }
    parts.push((stages[0].0.clone(), Span::from_ps(end - at)));
    stages.splice(..1, parts.into_iter().filter(|(_, span)| *span > Span::ZERO));
    stages
}

/// Adds a piece of work that was over at `at` at the latest, last part first; when it began.
fn before(work: &Work, at: u64, stages: &mut Vec<(String, Span)>) -> u64 {
    if at > work.done.as_ps() {
        stages.push((PROGRAM.to_owned(), Span::from_ps(at - work.done.as_ps())));
    }
    stages.extend(work.parts.iter().rev().cloned());
    work.begun.as_ps()
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

/// From the post of `end` back to `start`, each time over the message that was seen last, or the work of the same node that was over
/// later.
fn walk_back(sorted: &[&MessageTrace], works: &[Work], nics: u32, (start, end): ((u64, u32), &MessageTrace)) -> Option<Chain> {
    let mut stages: Vec<(String, Span)> = Vec::new();
    let (first, own) = start;
    // Copies that were begun before the first post are of this exchange: it begins with them, and ends as much earlier.
    let under_way = |work: &&Work| work.node == own / nics && work.begun.as_ps() < first && work.done.as_ps() > first;
    let earliest = works.iter().filter(under_way).map(|work| work.begun.as_ps()).min().unwrap_or(first);
    let (start, until) = (earliest, end.posted_ps.saturating_sub(first - earliest));
    let (mut at, mut here, mut messages) = (until, end.node / nics, 0);
    while at > start {
        let earlier = |t: &&&MessageTrace| t.done_ps <= at && t.posted_ps >= start && t.posted_ps < t.done_ps;
        let trace = sorted.iter().filter(earlier).max_by_key(|t| (t.done_ps, t.posted_ps));
        let of_here = |work: &&Work| {
            let (begun, done) = (work.begun.as_ps(), work.done.as_ps());
            work.node == here && done <= at && begun >= start && begun < done
        };
        let work = works.iter().filter(of_here).max_by_key(|work| (work.done, std::cmp::Reverse(work.begun)));
        if let Some(work) = work.filter(|work| trace.is_none_or(|trace| work.done.as_ps() >= trace.done_ps)) {
            at = before(work, at, &mut stages);
            continue;
        }
        let Some(trace) = trace else {
            // Work that began before the first post of this exchange belongs to the answer before it; a message in several packets begins
            // with the first, and the core copies and posts until the last.
            if works.is_empty() && here != own / nics {
                return None;
            }
            stages.push((PROGRAM.to_owned(), Span::from_ps(at - start)));
            break;
        };
        if at > trace.done_ps {
            stages.push((PROGRAM.to_owned(), Span::from_ps(at - trace.done_ps)));
        }
        stages.extend(of_message(trace, works, nics).into_iter().rev());
        at = trace.posted_ps;
        here = trace.node / nics;
        messages += 1;
    }
    stages.reverse();
    Some(Chain { stages, total: Span::from_ps(until - start), messages })
}

#[cfg(test)]
mod tests {
    use super::*;
    use fabriscope_engine::StageSpan;
    use fabriscope_units::Time;

    fn all(traces: &[MessageTrace]) -> Followed<'_> {
        Followed { traces, works: &[], nics: 1, exchanges: 3 }
    }
    fn work(node: u32, begun: u64, done: u64) -> Work {
        let (begun, done) = (Time::from_ps(begun), Time::from_ps(done));
        Work {
            rank: node,
            node,
            begun,
            done,
            parts: vec![("call".to_owned(), Span::from_ps(10)), ("copy".to_owned(), done - begun - Span::from_ps(10))],
        }
    }

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
        let chain = exchange(&all(&traces), true).unwrap();
        assert_eq!((chain.total, chain.messages), (Span::from_ps(1000), 1));
        assert_eq!(chain.stages.iter().map(|(_, s)| *s).sum::<Span>(), chain.total);
        assert_eq!(chain.stages.last().unwrap(), &("program".to_owned(), Span::from_ps(100)));
        assert_eq!(exchange(&all(&traces), false).unwrap().total, Span::from_ps(2000));
    }

    #[test]
    fn one_side_of_a_ping_pong_tells_of_both() {
        // Posts of one side every 2000 ps: 900 ps on the way and 100 ps in the program, twice.
        let traces: Vec<_> = (0..3).map(|n| message(0, n * 2000, n * 2000 + 900)).collect();
        let chain = exchange(&all(&traces), true).unwrap();
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
        let chain = exchange(&all(&traces), true).unwrap();
        assert_eq!((chain.total, chain.messages), (Span::from_ps(1100), 2));
    }

    #[test]
    fn a_message_in_several_packets_begins_with_the_first() {
        // Two packets 200 ps apart, each 700 ps on its way, 100 ps in the program: the second one binds.
        let one_way = |n: u64| [message(n as u32 % 2, n * 1000, n * 1000 + 700), message(n as u32 % 2, n * 1000 + 200, n * 1000 + 900)];
        let traces: Vec<_> = (0..6).flat_map(one_way).collect();
        let chain = exchange(&all(&traces), true).unwrap();
        assert_eq!((chain.total, chain.messages), (Span::from_ps(1000), 1));
        assert_eq!(chain.stages.first().unwrap(), &("program".to_owned(), Span::from_ps(200)));
        assert_eq!(chain.stages.iter().map(|(_, span)| *span).sum::<Span>(), chain.total);
    }

    #[test]
    fn copies_at_the_ends_of_a_message_are_stages() {
        // A copy out of 100 ps, 10 ps of program, 900 ps on the way, 10 ps of program, a copy in of 80 ps; each 1100 ps one way.
        let traces: Vec<_> = (0..6).map(|n| message(n as u32 % 2, n * 1100 + 110, n * 1100 + 1010)).collect();
        let ends = |n: u64| [work(n as u32 % 2, n * 1100, n * 1100 + 100), work(1 - n as u32 % 2, n * 1100 + 1020, n * 1100 + 1100)];
        let works: Vec<_> = (0..6).flat_map(ends).collect();
        let chain = exchange(&Followed { works: &works, ..all(&traces) }, true).unwrap();
        assert_eq!(chain.total, Span::from_ps(1100));
        assert_eq!(chain.stages.iter().map(|(_, s)| *s).sum::<Span>(), chain.total);
        let copies: Vec<u64> = chain.stages.iter().filter(|(name, _)| name == "copy").map(|(_, s)| s.as_ps()).collect();
        assert_eq!(copies, [70, 90]);
        // Within a node the copies are all there is.
        let within: Vec<_> = works.iter().map(|work| Work { node: 0, ..work.clone() }).collect();
        let chain = exchange(&Followed { works: &within, ..all(&[]) }, true).unwrap();
        assert_eq!((chain.total, chain.messages), (Span::from_ps(1100), 0));
        assert_eq!(chain.stages.iter().map(|(_, s)| *s).sum::<Span>(), chain.total);
    }
}
