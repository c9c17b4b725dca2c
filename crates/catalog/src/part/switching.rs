//! What an adapter and its cores have for virtual switching: match–action stages, engines, and what software pays where it switches.
//!
//! The mechanisms are those of `fabriscope_vswitch`; here are the numbers, with their sources.
//! Modelled: stages in the order in which packets pass them, how much their tables hold, engines for encryption and compression.
//! Not modelled: what tables hold beside what the cluster's `[ip.virtual_switch]` asks for, engines for regular expressions.

use fabriscope_units::{Rate, Span};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::error::Problem;
use crate::sourced::Sourced;

/// What a stage of a pipeline does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum StageKind {
    /// It finds the headers.
    Parser,
    /// A table that is matched exactly: one entry for each direction of a flow.
    Exact,
    /// A table of longest prefixes: one entry for each node that a tenant reaches.
    Lpm,
    /// A table with wildcards: one entry for each rule of a tenant.
    Ternary,
    /// It writes the headers.
    Deparser,
}

/// One stage of a pipeline.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PipelineStage {
    /// What it does.
    pub kind: StageKind,
    /// Between two packets that it takes.
    pub interval: Sourced<Span>,
    /// What it adds to the way of a packet.
    pub latency: Sourced<Span>,
    /// Entries that it holds, where it is a table.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub entries: Option<Sourced<u64>>,
}

/// The match–action pipeline of an adapter.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PacketPipeline {
    /// Between two rules that it takes for new flows.
    pub insertion: Sourced<Span>,
    /// Its stages, in the order in which packets pass them.
    pub stages: Vec<PipelineStage>,
}

/// An engine of an adapter that packets go through.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Engine {
    /// What it handles, of bytes.
    pub rate: Sourced<Rate>,
    /// Between two packets that it takes, however short.
    pub interval: Sourced<Span>,
    /// What it adds to the way of a packet.
    pub latency: Sourced<Span>,
}

/// Engines beside the pipeline.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Engines {
    /// Encryption of ESP with AES-GCM, in the way of packets.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub crypto: Option<Engine>,
    /// Compression of what lies in memory, beside the way of packets.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub compression: Option<CompressionEngine>,
}

/// An engine that compresses and decompresses (DEFLATE, RFC 1951) from memory to memory, one operation after the other.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct CompressionEngine {
    /// The driver of DPDK that posts to it.
    pub driver: String,
    /// What it takes in where it compresses; it does not where nothing is said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub compress: Option<Sourced<Rate>>,
    /// What it puts out where it decompresses; it does not where nothing is said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub decompress: Option<Sourced<Rate>>,
    /// What an operation takes of it beside its bytes.
    pub interval: Sourced<Span>,
    /// From the last byte that it takes in to the last that it puts out.
    pub latency: Sourced<Span>,
    /// Operations that a queue pair holds.
    pub queue: Sourced<u32>,
    /// Whether data of one operation may lie in several segments.
    pub scatter_gather: Sourced<bool>,
}

/// What a core pays that switches packets of virtual machines.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SwitchingCosts {
    /// Core time of looking a packet up and doing what its rule says; of a segment, where the core sees those.
    pub packet: Sourced<Span>,
    /// Core time of handing a packet or segment over the ring of a virtual machine, beside its copy; none where the adapter moves packets.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ring: Option<Sourced<Span>>,
    /// From the first packet to a core that sleeps; none where cores poll.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub wake_up: Option<Sourced<Span>>,
    /// Core time of an upcall: deciding about a flow and inserting its rule.
    pub upcall: Sourced<Span>,
    /// Threads that decide.
    pub handlers: Sourced<u32>,
    /// Core time of ESP for each packet, beside its bytes.
    pub cipher_packet: Sourced<Span>,
    /// The rate at which a core encrypts with AES-GCM.
    pub cipher_rate: Sourced<Rate>,
}

impl PacketPipeline {
    /// Entries of the smallest table of a kind; none where there is no such table.
    #[must_use]
    pub fn entries(&self, kind: StageKind) -> Option<u64> {
        self.stages.iter().filter(|stage| stage.kind == kind).filter_map(|stage| stage.entries.as_deref().copied()).min()
    }
    pub(super) fn check(&self) -> Result<(), Problem> {
        if self.stages.is_empty() {
            return Err(Problem::at(&["pipeline", "stages"], "a pipeline without stages", "name at least one, or remove [pipeline]"));
        }
        for stage in &self.stages {
            let is_table = matches!(stage.kind, StageKind::Exact | StageKind::Lpm | StageKind::Ternary);
            match (&stage.entries, is_table) {
                (None, true) => {
                    return Err(Problem::at(&["pipeline", "stages"], "a table without `entries`", "say how many it holds"));
                }
                (Some(_), false) => {
                    let message = "`entries` of a stage that is no table";
                    return Err(Problem::at(&["pipeline", "stages"], message, "remove them, or make it \"exact\", \"lpm\" or \"ternary\""));
                }
                _ => {}
            }
        }
        Ok(())
    }
}

impl Engines {
    pub(super) fn check(&self) -> Result<(), Problem> {
        match &self.crypto {
            Some(engine) if engine.rate.as_bps() == 0 => {
                let message = "`rate` of the engine is zero: a packet would never end";
                return Err(Problem::at(&["engines", "crypto", "rate", "value"], message, "use what it handles"));
            }
            _ => {}
        }
        self.compression.as_ref().map_or(Ok(()), CompressionEngine::check)
    }
}

impl CompressionEngine {
    fn check(&self) -> Result<(), Problem> {
        let rates = [("compress", &self.compress), ("decompress", &self.decompress)];
        if rates.iter().all(|(_, rate)| rate.is_none()) {
            let message = "an engine that neither compresses nor decompresses";
            return Err(Problem::at(&["engines", "compression"], message, "add `compress` or `decompress`, or remove the table"));
        }
        if let Some((key, _)) = rates.into_iter().find(|(_, rate)| rate.as_ref().is_some_and(|rate| rate.as_bps() == 0)) {
            let message = format!("`{key}` of the engine is zero: an operation would never end");
            return Err(Problem::at(&["engines", "compression", key, "value"], message, "use what it handles, or remove it"));
        }
        if *self.queue == 0 {
            return Err(Problem::at(&["engines", "compression", "queue", "value"], "a queue for no operation", "use at least 1"));
        }
        Ok(())
    }
}

impl SwitchingCosts {
    pub(super) fn check(&self, path: &[&str]) -> Result<(), Problem> {
        let below = |keys: [&'static str; 2]| path.iter().copied().chain(keys).collect::<Vec<_>>();
        if *self.handlers == 0 {
            return Err(Problem::at(&below(["handlers", "value"]), "`handlers` is zero: no flow would ever be known", "use at least 1"));
        }
        if self.cipher_rate.as_bps() == 0 {
            let message = "`cipher_rate` is zero: a packet would never end";
            return Err(Problem::at(&below(["cipher_rate", "value"]), message, "use the rate of one core"));
        }
        Ok(())
    }
}
