//! Requests: when they come, how long they are.
//!
//! Source: vLLM, benchmarks/serve.py: Poisson arrivals, lengths uniform around their mean (`--random-range-ratio`); GenAI-Perf:
//! `--concurrency`, where each answer lets the next request go.

use fabriscope_streams::Streams;
use fabriscope_units::Time;

/// A request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Request {
    /// When it comes; where requests wait for answers, when it may come at the earliest.
    pub arrival: Time,
    /// Tokens of its prompt.
    pub input: u64,
    /// Tokens that it generates.
    pub output: u64,
}

/// When requests come.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Arrivals {
    /// So many a second, each independent of the others.
    Poisson(f64),
    /// All at once.
    AtOnce,
    /// So many outstanding at any time: each answer lets the next one go.
    Concurrent(u32),
}

impl Arrivals {
    /// Requests outstanding at most.
    #[must_use]
    pub const fn most(self) -> Option<u32> {
        if let Arrivals::Concurrent(most) = self { Some(most) } else { None }
    }
}

/// How long requests are.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Lengths {
    /// Tokens of prompts, at the mean.
    pub input: u64,
    /// Tokens generated, at the mean.
    pub output: u64,
    /// Both are up to this share shorter or longer, all lengths as likely [0..1).
    pub spread: f64,
}

/// `count` requests.
#[must_use]
pub fn requests(arrivals: Arrivals, lengths: Lengths, count: u32, seed: u64) -> Vec<Request> {
    let streams = Streams::new(seed);
    let (mut gaps, mut sizes) = (streams.stream("inference arrivals", 0), streams.stream("inference lengths", 0));
    let mut length = |mean: u64| {
        let spread = (mean as f64 * lengths.spread) as u64;
        (mean - spread.min(mean) + sizes.below(2 * spread + 1)).max(1)
    };
    let mut seconds = 0.0;
    let mut made = Vec::with_capacity(count as usize);
    for _ in 0..count {
        if let Arrivals::Poisson(rate) = arrivals {
            seconds -= libm::log(1.0 - gaps.unit()) / rate;
        }
        made.push(Request {
            arrival: Time::from_ps((seconds * 1e12) as u64),
            input: length(lengths.input),
            output: length(lengths.output),
        });
    }
    made
}
