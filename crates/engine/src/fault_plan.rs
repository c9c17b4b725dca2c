//! What breaks in a run, as an engine takes it: links by number, times and chances; and how connections repeat what is lost.

use fabriscope_catalog::Manager;
use fabriscope_units::{Rate, Span};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The faults of a run, and who repairs the routes.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct FaultPlan {
    /// What breaks, in the order of the file.
    pub faults: Vec<PlannedFault>,
    /// How the fabric reacts.
    pub manager: Manager,
}

/// One fault.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct PlannedFault {
    /// What a person calls it: `link down, leaf 0:8`.
    pub what: String,
    /// When it begins.
    pub from: Span,
    /// When it ends; never within the run if `None`.
    pub until: Option<Span>,
    /// What it does.
    pub effect: Effect,
}

/// What a fault does.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub enum Effect {
    /// Packets are lost on these links, on all of them if `None`.
    Loss {
        /// Numbers of directed links.
        links: Option<Vec<u32>>,
        /// How often.
        chance: Chance,
    },
    /// Cables are down.
    Down {
        /// Numbers of cables.
        cables: Vec<u32>,
        /// From when until when; in order.
        spans: Vec<(Span, Option<Span>)>,
        /// A port of a switch drops by itself, and nobody makes new tables for it: the watchdog of a paused port.
        quiet: bool,
    },
    /// Cables run on some of their lanes.
    Lanes {
        /// Numbers of cables.
        cables: Vec<u32>,
        /// Lanes that work.
        lanes: u32,
        /// Lanes that there are.
        of: u32,
    },
    /// An endpoint takes payload at this rate at most.
    Slow {
        /// Its number.
        endpoint: u32,
        /// The rate.
        rate: Rate,
    },
    /// An endpoint takes nothing.
    Paused {
        /// Its number.
        endpoint: u32,
    },
    /// A cable comes back that an earlier fault took down: that fault ends here.
    Up,
}

/// How often packets are lost.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub enum Chance {
    /// Per packet [0..1].
    Packet(f64),
    /// Per bit on the wire [0..1].
    Bit(f64),
}

/// How reliable connections of a lab's messages repeat what is lost; as `ibv_modify_qp` has it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Recovery {
    /// Exponent of the time to wait for an acknowledgement, 4.096 us · 2^timeout. Default: 14 (67 ms), or what the congestion
    /// control says.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 31))]
    pub timeout: Option<u8>,
    /// Repetitions without an answer before a connection gives up. Default: 7.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0, max = 7))]
    pub retry_cnt: Option<u8>,
    /// Connections have an alternate path, to which they migrate when the repetitions run out.
    #[serde(default)]
    pub alternate_path: bool,
}
