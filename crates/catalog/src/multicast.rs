//! How a network learns who belongs to a multicast group, and how long that takes.
//!
//! Source: OpenSM (`osm_sa_mcmember_record.c`, `osm_mcast_mgr.c`: answer first, tables afterwards; `max_wire_smps` 4);
//! RFC 2236 §8 (robustness 2, last member query interval 1 s), RFC 4541 (snooping).

use fabriscope_units::Span;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::error::Problem;

/// Management of multicast groups: InfiniBand asks the subnet manager, Ethernet reports to its switches.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Multicast {
    /// InfiniBand: what the subnet manager takes for a request to join or leave; requests wait for each other.
    pub answer: Span,
    /// InfiniBand: from writing the table of a switch to its acknowledgement.
    pub table_write: Span,
    /// InfiniBand: tables that the subnet manager writes at the same time.
    pub outstanding: u32,
    /// Ethernet: switches learn from reports; else they send packets of groups everywhere.
    pub snooping: bool,
    /// Ethernet: what the processor of a switch takes for a report.
    pub report: Span,
    /// Ethernet: time between two questions for members that are left, and after the second until a port is pruned.
    pub last_member_query: Span,
}

impl Default for Multicast {
    /// A subnet manager on a server (assumed: 100 us per request, 50 us per table, 4 tables at once as OpenSM), switches that
    /// snoop with a slow processor (assumed: 1 ms per report), and the query interval of IGMPv2 (standard: 1 s).
    fn default() -> Multicast {
        Multicast {
            answer: Span::from_us(100),
            table_write: Span::from_us(50),
            outstanding: 4,
            snooping: true,
            report: Span::from_us(1000),
            last_member_query: Span::from_us(1_000_000),
        }
    }
}

impl Multicast {
    pub(crate) fn check(&self, ethernet: bool) -> Result<(), Problem> {
        if self.outstanding == 0 {
            return Err(Problem::at(&["multicast", "outstanding"], "no table could ever be written", "use at least 1; OpenSM uses 4"));
        }
        if !ethernet && !self.snooping {
            let help = "remove `snooping`: subnet managers write the tables";
            return Err(Problem::at(&["multicast", "snooping"], "switches of InfiniBand do not snoop", help));
        }
        Ok(())
    }
}
