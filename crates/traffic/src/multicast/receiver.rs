//! A receiving rank: puts messages together by the numbers of their datagrams.

use fabriscope_node::{ProgramError, Record};
use fabriscope_units::Time;
use fabriscope_verbs::{Wc, WcStatus};

use super::Config;
use super::sample::{Board, Received};
use super::setup::{DEPTH, Member};

/// Messages being put together.
struct Assembly {
    config: Config,
    seen: Vec<bool>,
    /// Parts that each message lacks.
    lacks: Vec<u32>,
    next: u32,
    result: Received,
}

impl Assembly {
    fn new(config: Config) -> Assembly {
        let (messages, packets) = (config.messages as usize, config.packets());
        let result = Received { complete: vec![None; messages], ..Received::default() };
        Assembly { config, seen: vec![false; messages * packets as usize], lacks: vec![packets; messages], next: 0, result }
    }
    fn take(&mut self, at: Time, number: u32) -> Result<(), ProgramError> {
        let seen = self
            .seen
            .get_mut(number as usize)
            .ok_or_else(|| ProgramError(format!("a datagram has number {number}, which none was given")))?;
        if std::mem::replace(seen, true) {
            self.result.repeated += 1;
            return Ok(());
        }
        self.result.late += u64::from(number < self.next);
        self.next = self.next.max(number + 1);
        let message = (number / self.config.packets()) as usize;
        self.lacks[message] -= 1;
        if self.lacks[message] == 0 {
            self.result.complete[message] = Some(at);
        }
        Ok(())
    }
    fn is_complete(&self) -> bool {
        self.lacks.iter().all(|lacks| *lacks == 0)
    }
    fn finish(mut self) -> Received {
        self.result.lost = self.lacks.iter().map(|lacks| u64::from(*lacks)).sum();
        self.result
    }
}

/// Receives until every message is whole, or nothing has come for a while after the last was sent.
pub(super) async fn run(end: &Member, board: &Record<Board>, config: Config) -> Result<(), ProgramError> {
    let mut assembly = Assembly::new(config);
    let all = u64::from(config.packets()) * u64::from(config.messages);
    let mut posted = all.min(u64::from(DEPTH));
    let mut left = all;
    while left > 0 || !assembly.is_complete() {
        let until = end.process.now() + config.settle.max(config.interval * 2);
        if !end.process.wait_any_until(&[(0, end.cq)], &[], until).await {
            if board.lock().ended.is_some() {
                break;
            }
            continue;
        }
        for wc in end.process.poll_cq(0, end.cq, BATCH).await {
            assembly.take(end.process.now(), number(&wc)?)?;
            left -= 1;
            if posted < all {
                end.post_receive(config)?;
                posted += 1;
            }
        }
    }
    let rank = end.process.rank() as usize;
    board.lock().received[rank - 1] = assembly.finish();
    Ok(())
}

fn number(wc: &Wc) -> Result<u32, ProgramError> {
    match (wc.status, wc.imm) {
        (WcStatus::Success, Some(number)) => Ok(number),
        (WcStatus::Success, None) => Err(ProgramError("a datagram came without its number".to_owned())),
        (status, _) => Err(ProgramError(format!("a receive failed: {} ({})", status.text(), status.name()))),
    }
}

/// Completions taken at a time. Basis: as perftest.
const BATCH: usize = 16;

#[cfg(test)]
mod tests {
    use fabriscope_units::{Bytes, Span};

    use super::*;

    #[test]
    fn messages_are_whole_when_all_parts_are_there_in_any_order() {
        let config = Config {
            group: None,
            receivers: 1,
            size: Bytes(2500),
            mtu: Bytes(1000),
            messages: 2,
            interval: Span::ZERO,
            level: 0,
            pkey: None,
            rate: None,
            settle: Span::ZERO,
        };
        assert_eq!((config.packets(), config.length(0), config.length(2)), (3, 1000, 500));
        let mut assembly = Assembly::new(config);
        for (at, number) in [(1, 1), (2, 0), (3, 4), (4, 2), (5, 2)] {
            assembly.take(Time::from_ps(at), number).unwrap();
        }
        assert!(assembly.take(Time::ZERO, 6).is_err());
        assert!(!assembly.is_complete());
        let expected = Received { complete: vec![Some(Time::from_ps(4)), None], lost: 2, repeated: 1, late: 2 };
        assert_eq!(assembly.finish(), expected);
    }
}
