//! Which algorithm and protocol the library takes for a message, and by how many channels and threads.
//!
//! For each operation, algorithm and protocol the library has a latency and a bandwidth; it takes what its formula
//! `latency + bytes / bandwidth` says is fastest.
//!
//! Source: NCCL 2.22.3 and 2.18.3, src/graph/tuning.cc (ncclTopoTuneModel, ncclTopoGetAlgoTime), src/enqueue.cc (topoGetAlgoInfo).
//! Modelled: all of it, groups of operations (`group.rs`) and the file of the example plug-in (`rules.rs`). Blackwell: constants of 2.27 in the formulas of 2.22, NVLS with the
//! efficiency of 2.27. RCCL: its formulas and the constants of its models.
//! Not modelled: RCCL's ranges of sizes that override the choice on gfx942; CollNet's all-gather and reduce-scatter, which need
//! switches that the usual plug-ins do not drive.

mod amd;
mod group;
mod model;
mod rules;

use std::fmt;
use std::sync::Arc;

use fabriscope_units::{Bytes, Rate, Span};

use crate::algorithm::{Algorithm, Operation, Protocol};
use crate::communicator::Communicator;
use crate::error::NcclError;
use crate::tables;

pub use group::{GroupEstimate, GroupPart};
pub use rules::{Rule, Rules};

/// What the library believes of an algorithm with a protocol.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Entry {
    /// Time without bytes, µs.
    pub latency: f64,
    /// Bytes of the message by time, GB/s (10⁹ bytes).
    pub bandwidth: f64,
}

impl Entry {
    /// The same as types with units.
    #[must_use]
    pub fn as_units(self) -> (Span, Rate) {
        (span(self.latency), Rate::from_bps((self.bandwidth * 8e9) as u64))
    }
}

/// As the library prints it: latency in µs / bandwidth in GB/s by operation, algorithm and protocol; `-` for what is not used.
impl fmt::Display for Tuner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let used = |algorithm: Algorithm| {
            Operation::ALL
                .iter()
                .any(|operation| Protocol::ALL.iter().any(|protocol| self.entry(*operation, algorithm, *protocol).is_some()))
        };
        let algorithms: Vec<Algorithm> = Algorithm::ALL.into_iter().filter(|algorithm| used(*algorithm)).collect();
        let columns = || {
            algorithms.iter().flat_map(|algorithm| {
                let simple = !matches!(algorithm, Algorithm::Ring | Algorithm::Tree);
                Protocol::ALL
                    .into_iter()
                    .filter(move |protocol| !simple || *protocol == Protocol::Simple)
                    .map(|protocol| (*algorithm, protocol))
            })
        };
        write!(f, "{:<13}", "us / GB/s")?;
        let title = |algorithm: Algorithm, protocol: Protocol| format!("{algorithm} {protocol}");
        for (algorithm, protocol) in columns() {
            write!(f, " {:>15}", title(algorithm, protocol))?;
        }
        for operation in Operation::ALL {
            write!(f, "\n{operation:<13}")?;
            for (algorithm, protocol) in columns() {
                let width = title(algorithm, protocol).len().max(15);
                let entry = self.entry(operation, algorithm, protocol);
                let text = entry.map_or_else(|| "-".to_owned(), |Entry { latency, bandwidth }| format!("{latency:.1} / {bandwidth:.1}"));
                write!(f, " {text:>width$}")?;
            }
        }
        writeln!(f)
    }
}

fn span(microseconds: f64) -> Span {
    Span::from_ps((microseconds * 1e6) as u64)
}

/// What is used for a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Choice {
    /// The operation.
    pub operation: Operation,
    /// The algorithm.
    pub algorithm: Algorithm,
    /// The protocol.
    pub protocol: Protocol,
    /// Channels at the most.
    pub channels: u32,
    /// Threads of each.
    pub threads: u32,
    /// What the library thinks it takes.
    pub estimate: Span,
}

impl Choice {
    /// What ranks do, whatever the library thinks that it takes: operation, algorithm, protocol, channels and threads.
    #[must_use]
    pub fn work(&self) -> (Operation, Algorithm, Protocol, u32, u32) {
        (self.operation, self.algorithm, self.protocol, self.channels, self.threads)
    }
}

/// The library's table for a communicator.
#[derive(Clone, Debug)]
pub struct Tuner {
    ranks: u32,
    nodes: u32,
    channels: u32,
    nvls_channels: u32,
    collnet_heads: u64,
    capability: u32,
    amd: Option<usize>,
    /// Simple rings have fewer threads where the node is slow.
    ring_threads: u32,
    threads: Option<u32>,
    table: [[[Option<Entry>; 3]; 6]; 5],
    /// What a tuner's file says.
    rules: Option<Arc<Rules>>,
}

impl Tuner {
    /// The table for a communicator.
    #[must_use]
    pub fn new(communicator: &Communicator) -> Tuner {
        let first = &communicator.kinds()[0];
        let capability = communicator.kinds().iter().map(|kind| kind.topology.capability()).min().unwrap_or(0);
        let amd = first.topology.facts().architecture.is_amd().then_some(first.graphs.tuning);
        let ring_threads = if first.graphs.ring.total_intra() <= tables::PCI { 256 } else { tables::SIMPLE_THREADS };
        Tuner {
            ranks: communicator.ranks(),
            nodes: communicator.nodes(),
            channels: communicator.channels(),
            nvls_channels: communicator.nvls_channels(),
            collnet_heads: communicator.collnet_heads(0).len() as u64,
            capability,
            amd,
            ring_threads,
            threads: communicator.settings().threads,
            table: model::table(communicator),
            rules: communicator.settings().rules.clone(),
        }
    }

    /// Latency and bandwidth of an operation by algorithm and protocol; nothing where it is not used.
    #[must_use]
    pub fn entry(&self, operation: Operation, algorithm: Algorithm, protocol: Protocol) -> Option<Entry> {
        self.table[operation as usize][algorithm as usize][protocol as usize]
    }

    /// What the library thinks a message of `bytes` takes, where `bytes` is the larger buffer of a rank.
    #[must_use]
    pub fn estimate(&self, operation: Operation, algorithm: Algorithm, protocol: Protocol, bytes: Bytes) -> Option<Span> {
        self.time(operation, algorithm, protocol, bytes, 1).map(span)
    }

    /// The same in µs, with so many operations for each channel in the group.
    fn time(&self, operation: Operation, algorithm: Algorithm, protocol: Protocol, bytes: Bytes, each: u32) -> Option<f64> {
        let Entry { mut latency, mut bandwidth } = self.entry(operation, algorithm, protocol)?;
        let size = bytes.0 >> 6;
        let step = (size > 0).then(|| size.ilog2() as usize);
        if let Some(tuning) = self.amd {
            let step = step.unwrap_or(0).min(26);
            match algorithm {
                Algorithm::Tree => bandwidth *= amd::tuning(tuning).tree[protocol as usize][step],
                Algorithm::Ring if self.nodes > 1 => bandwidth *= amd::tuning(tuning).ring[protocol as usize][step],
                _ => {}
            }
        } else {
            if algorithm == Algorithm::Tree
                && let Some(step) = step.filter(|step| *step < 23)
            {
                bandwidth *= tables::TREE_CORRECTION[protocol as usize][step];
            }
            // Rings of many nodes rise to a plateau.
            let each = bytes.0 / (u64::from(self.channels) * u64::from(self.ranks)).max(1);
            let ring = algorithm == Algorithm::Ring && protocol == Protocol::Simple;
            if ring && self.nodes > 1 && operation == Operation::AllReduce && each >= 64 {
                latency *= if self.capability < 80 { 1.9 } else { 1.4 };
            }
        }
        // Trees take operations of a batch through without a pause.
        let times = if algorithm == Algorithm::Ring { each } else { each.div_ceil(tables::BATCH) };
        Some(latency * f64::from(times) + bytes.0 as f64 / (1000.0 * bandwidth))
    }

    /// What the library uses for a message, where `bytes` is the larger buffer of a rank.
    ///
    /// # Errors
    /// What users set leaves nothing.
    pub fn choose(&self, operation: Operation, bytes: Bytes) -> Result<Choice, NcclError> {
        self.choose_among(operation, &Algorithm::ALL, bytes)
    }

    /// The same, as if there were these algorithms only.
    ///
    /// # Errors
    /// What users set leaves none of them.
    pub fn choose_among(&self, operation: Operation, algorithms: &[Algorithm], bytes: Bytes) -> Result<Choice, NcclError> {
        if let Some(choice) = self.ruled(operation, algorithms, bytes) {
            return choice;
        }
        self.choose_of(operation, algorithms, bytes, 1)
    }

    /// What the library itself takes where a group has so many operations for each channel.
    fn choose_of(&self, operation: Operation, algorithms: &[Algorithm], bytes: Bytes, each: u32) -> Result<Choice, NcclError> {
        let mut best: Option<(f64, Algorithm, Protocol)> = None;
        for algorithm in algorithms.iter().copied() {
            for protocol in Protocol::ALL {
                if let Some(time) = self.time(operation, algorithm, protocol, bytes, each)
                    && best.is_none_or(|(known, _, _)| time < known)
                {
                    best = Some((time, algorithm, protocol));
                }
            }
        }
        let (time, algorithm, protocol) = best.ok_or(NcclError::NoAlgorithm { operation })?;
        Ok(Choice { estimate: span(time), ..self.with(operation, algorithm, protocol, bytes)? })
    }

    /// What the first line of a tuner's file says that fits and can be done.
    fn ruled(&self, operation: Operation, algorithms: &[Algorithm], bytes: Bytes) -> Option<Result<Choice, NcclError>> {
        let fits = |rule: &&Rule| {
            let there = |algorithm| algorithms.contains(&algorithm) && self.entry(operation, algorithm, rule.protocol).is_some();
            rule.fits(operation, bytes, (self.nodes, self.ranks)) && rule.algorithm.is_some_and(there)
        };
        let rule = self.rules.as_ref()?.rules.iter().find(fits)?;
        let choice = self.with(operation, rule.algorithm?, rule.protocol, bytes);
        Some(choice.map(|choice| Choice { channels: self.channels_of(rule, &choice), ..choice }))
    }

    /// As many channels as the line says, of those that are there.
    fn channels_of(&self, rule: &Rule, choice: &Choice) -> u32 {
        let nvls = matches!(choice.algorithm, Algorithm::Nvls | Algorithm::NvlsTree);
        let most = if nvls { self.nvls_channels } else { self.channels };
        rule.channels.map_or(choice.channels, |channels| channels.min(most))
    }

    /// Channels and threads for an algorithm with a protocol.
    ///
    /// # Errors
    /// The communicator does not have it.
    pub fn with(&self, operation: Operation, algorithm: Algorithm, protocol: Protocol, bytes: Bytes) -> Result<Choice, NcclError> {
        let estimate = self.estimate(operation, algorithm, protocol, bytes);
        let estimate = estimate.ok_or(NcclError::NotThere { operation, algorithm, protocol })?;
        let bytes = u128::from(bytes.0);
        let mut channels = u128::from(self.channels);
        let mut threads = u128::from(self.most_threads(algorithm, protocol));
        let collnet = matches!(algorithm, Algorithm::CollnetDirect | Algorithm::CollnetChain);
        let mut threshold = u128::from(if collnet { tables::COLLNET_THRESHOLD } else { tables::THREAD_THRESHOLDS[protocol as usize] });
        if algorithm == Algorithm::Ring && protocol == Protocol::Ll {
            threshold *= u128::from(self.ranks);
        }
        match algorithm {
            Algorithm::Nvls | Algorithm::NvlsTree => channels = u128::from(self.nvls_channels),
            Algorithm::CollnetDirect => {
                let heads = u128::from(self.collnet_heads);
                let (mut switch, mut small) = (16, true);
                while switch >= 1 && small {
                    loop {
                        small = bytes < channels * threads * heads * threshold;
                        if !small || channels <= switch {
                            break;
                        }
                        if channels == switch + switch / 2 {
                            threshold /= 2;
                        }
                        channels -= 1;
                    }
                    switch /= 2;
                }
            }
            _ => {
                while bytes < channels * threads * threshold && channels >= 2 {
                    channels -= 1;
                }
                while bytes < channels * threads * threshold && threads.is_multiple_of(128) {
                    threads /= 2;
                }
            }
        }
        if protocol == Protocol::Simple && algorithm == Algorithm::Ring {
            // A warp that only waits and tells.
            threads += u128::from(tables::WARP);
        }
        threads = threads.max(u128::from(3 * tables::WARP));
        if algorithm == Algorithm::Tree && self.amd.is_none() {
            threads = u128::from(tables::MOST_THREADS);
        }
        Ok(Choice { operation, algorithm, protocol, channels: channels as u32, threads: threads as u32, estimate })
    }

    fn most_threads(&self, algorithm: Algorithm, protocol: Protocol) -> u32 {
        let usual = self.threads.unwrap_or(tables::SIMPLE_THREADS);
        if self.amd.is_some() {
            // RCCL: 256 threads of all (device.h, NCCL_MAX_NTHREADS).
            return self.threads.unwrap_or(256).min(256);
        }
        match (algorithm, protocol) {
            (Algorithm::Ring, Protocol::Simple) => self.threads.unwrap_or(self.ring_threads),
            (Algorithm::Ring | Algorithm::Tree, Protocol::Ll128) => tables::MOST_THREADS,
            (Algorithm::Ring | Algorithm::Tree, _) => usual,
            _ => tables::MOST_THREADS,
        }
    }
}
