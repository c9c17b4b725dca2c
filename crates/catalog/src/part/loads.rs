//! What a load or a store that misses all caches takes on its way to memory: the core's part, DRAM, CXL with its ports and switches.
//!
//! Source: JEDEC for DRAM; CXL Specification 1.1, 2.0 and 3.1 for flits and credits; the parts say it for each number.
//! Modelled: the numbers of `fabriscope bench mlc`, which says how they are used.
//! Not modelled: rows left open, ranks apart from their banks, errors and retries of links.

use fabriscope_units::Span;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::error::Problem;
use crate::part::Interconnect;
use crate::sourced::Sourced;

/// What a core asks memory for.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct CoreLoads {
    /// Lines that a core's own loads have outstanding at most: the fill buffers of its first cache.
    pub fill_buffers: Sourced<u32>,
    /// Lines that it has outstanding with its prefetchers: the queue of its second cache.
    pub prefetch_lines: Sourced<u32>,
    /// From the core to a memory controller or a port of the processor, and back with the line.
    pub on_die: Sourced<Span>,
}

/// How DRAM answers.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct DramTiming {
    /// Independent halves of a channel, each with so much less of its rate: 2 for DDR5.
    pub subchannels: u32,
    /// Banks of each, over all ranks.
    pub banks: Sourced<u32>,
    /// From a request at the controller to the begin of the data: activation, column, controller.
    pub access: Sourced<Span>,
    /// From one access of a bank to the next: tRC.
    pub row_cycle: Sourced<Span>,
    /// From refresh to refresh: tREFI.
    pub refresh_interval: Sourced<Span>,
    /// How long one takes: tRFC.
    pub refresh_time: Sourced<Span>,
    /// What a change between reads and writes costs the bus.
    pub turnaround: Sourced<Span>,
    /// Writes that are gathered before the bus is turned round for them.
    pub write_batch: Sourced<u32>,
}

/// What a CXL link carries at a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum CxlFlit {
    /// Four slots of 16 B, 2 B of CRC and 2 B that name the protocol.
    #[serde(rename = "68B")]
    Small,
    /// Fifteen slots, 2 B header, 2 B of credits, 8 B CRC, 6 B of error correction.
    #[serde(rename = "256B")]
    Large,
    /// The same in halves with a CRC of 6 B each, of which one slot has 12 B: a half goes on before the other is there.
    #[serde(rename = "256B-low-latency")]
    Halves,
}

/// Messages that a receiver of CXL.mem has room for.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct CxlCredits {
    /// Requests without data (M2S Req).
    pub requests: Sourced<u32>,
    /// Requests with data (M2S RwD).
    pub writes: Sourced<u32>,
    /// Responses with data (S2M DRS).
    pub data: Sourced<u32>,
    /// Responses without (S2M NDR).
    pub completions: Sourced<u32>,
}

/// CXL on a link.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct CxlLink {
    /// Its flits.
    pub flit: CxlFlit,
    /// Both ways through the port of the processor: protocol layers and PHY.
    pub host_port: Sourced<Span>,
    /// One way through a retimer.
    pub retimer: Sourced<Span>,
    /// Buffers at the receivers.
    pub credits: CxlCredits,
}

/// Expanders that several hosts reach.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct CxlPool {
    /// Hosts that share it.
    pub hosts: u32,
    /// Expanders behind the switch; where there is none, one expander with a port for each host.
    pub devices: u32,
    /// From port to port of a switch, one way; none for an expander of several heads.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub switch: Option<Sourced<Span>>,
    /// Switches between host and expander.
    #[serde(default = "one")]
    pub levels: u32,
    /// Hosts share lines, and expanders keep their caches the same.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sharing: Option<CxlSharing>,
    /// An accelerator behind the same switch.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub peer: Option<CxlPeer>,
}

/// How expanders keep caches of hosts the same.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct CxlSharing {
    /// Look-up of the expander's directory of lines that hosts have.
    pub directory: Sourced<Span>,
    /// From a back-invalidation at the port of a host to its answer there.
    pub snoop: Sourced<Span>,
}

/// A device that reads expanders by itself.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct CxlPeer {
    /// Lines that it has outstanding.
    pub outstanding: Sourced<u32>,
    /// From its engines to its port, and back.
    pub port: Sourced<Span>,
    /// What a host takes to turn a read of the device into one of its own and its answer back.
    pub host: Sourced<Span>,
}

impl CxlPool {
    /// Whether links of this generation can do it; paths start at the node's expanders.
    pub(crate) fn check(&self, link: &Interconnect) -> Result<(), Problem> {
        let generation = link.generation.unwrap_or(1);
        let wrong = |key: &str, message: String, help: String| Err(Problem::at(&["expanders", "pool", key], message, help));
        for (key, number, most) in [("hosts", self.hosts, 64), ("devices", self.devices, 64), ("levels", self.levels, 4)] {
            if !(1..=most).contains(&number) {
                return wrong(key, format!("`{key}` is {number}"), format!("use 1 to {most}"));
            }
        }
        if self.switch.is_none() && self.devices != 1 {
            let message = format!("{} expanders without a switch between them and {} hosts", self.devices, self.hosts);
            return wrong("devices", message, "add `switch`, or use 1 expander of several heads".to_owned());
        }
        let needs = [
            ("switch", self.switch.is_some(), 2, "switches"),
            ("levels", self.levels > 1, 3, "switches behind switches"),
            ("sharing", self.sharing.is_some(), 3, "back-invalidation"),
            ("peer", self.peer.is_some(), 3, "peers that reach expanders"),
        ];
        match needs.into_iter().find(|(_, asked, from, _)| *asked && generation < *from) {
            Some((key, _, from, what)) => {
                let message = format!("`{}` is CXL {generation}, which has no {what}", link.name);
                wrong(key, message, format!("use links of CXL {from}, or remove `{key}`"))
            }
            None => Ok(()),
        }
    }
}

fn one() -> u32 {
    1
}

#[cfg(test)]
mod tests {
    use crate::catalog::{AnyPart, Catalog};
    use crate::part::Kind;

    #[test]
    fn what_a_generation_of_cxl_has_not_is_refused() {
        let catalog = Catalog::embedded().unwrap();
        let pool_on = |link: &str| {
            let Ok(AnyPart::Node(node)) = catalog.part(Kind::Node, "lab-cxl-3") else { panic!("no lab-cxl-3") };
            node.expanders.as_ref().unwrap().pool.as_ref().unwrap().check(catalog.interconnect(link).unwrap())
        };
        assert!(pool_on("cxl-3").is_ok());
        let problem = pool_on("cxl-2").unwrap_err();
        assert!(problem.message.contains("no back-invalidation") && problem.help.contains("CXL 3"), "{}", problem.message);
        assert!(pool_on("cxl-1.1").unwrap_err().message.contains("no switches"));
    }
}
