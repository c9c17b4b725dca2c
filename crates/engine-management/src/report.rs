//! What came of a sweep.

use std::collections::BTreeMap;

use fabriscope_units::{Bytes, Span, Time};

use crate::mad::{Attribute, Method};

/// A stage of a sweep: the next begins when all answers of one are there.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Stage {
    /// Who is there.
    Discovery,
    /// Partitions of ports.
    Partitions,
    /// Lanes and their weights.
    ServiceLevels,
    /// Addresses and parameters of ports.
    Ports,
    /// The manager computes routes.
    Computing,
    /// Unicast tables.
    Tables,
    /// Multicast tables.
    Multicast,
    /// Ports carry management only, and know their partner is ready.
    Arm,
    /// Ports carry data.
    Activate,
}

impl Stage {
    /// What it is called in a table.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Stage::Discovery => "discovery",
            Stage::Partitions => "partitions",
            Stage::ServiceLevels => "service levels",
            Stage::Ports => "ports",
            Stage::Computing => "computing routes",
            Stage::Tables => "unicast tables",
            Stage::Multicast => "multicast tables",
            Stage::Arm => "arming ports",
            Stage::Activate => "activating ports",
        }
    }
}

/// How long a stage took.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StageTime {
    /// The stage.
    pub stage: Stage,
    /// From its beginning until all its answers were handled.
    pub took: Span,
    /// Datagrams, each counted once however often it was sent.
    pub mads: u64,
}

/// What came of a sweep.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SweepReport {
    /// The stages, in order.
    pub stages: Vec<StageTime>,
    /// Datagrams by what they were about, each counted once.
    pub mads: BTreeMap<(Attribute, Method), u64>,
    /// Packets of the manager, those that were sent again included.
    pub sent: u64,
    /// Packets that found no room at an agent.
    pub dropped: u64,
    /// Packets that were sent again.
    pub retries: u64,
    /// Datagrams without an answer after all retries.
    pub unanswered: u64,
    /// Endpoints that were found.
    pub endpoints: u32,
    /// Switches that were found.
    pub switches: u32,
    /// When the sweep was over.
    pub end: Time,
    /// Time during which the manager handled answers.
    pub handling: Span,
    /// The time from sending to the answer, over all answers.
    pub waiting: Span,
    /// Answers.
    pub answers: u64,
    /// Bytes on the busiest link, in one direction.
    pub busiest: Bytes,
}

impl SweepReport {
    /// All datagrams, each counted once.
    #[must_use]
    pub fn total(&self) -> u64 {
        self.mads.values().sum()
    }
    /// How long a stage took; nothing where the sweep had none such.
    #[must_use]
    pub fn took(&self, stage: Stage) -> Option<Span> {
        self.stages.iter().find(|time| time.stage == stage).map(|time| time.took)
    }
    /// The mean time from sending to the answer.
    #[must_use]
    pub fn round_trip(&self) -> Span {
        Span::from_ps(self.waiting.as_ps() / self.answers.max(1))
    }
}
