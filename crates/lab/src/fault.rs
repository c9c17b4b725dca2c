//! Faults of a lab: what breaks, where and when.
//!
//! ```toml
//! [[fault]]
//! at = "20 us"
//! kind.link_down = { link = "leaf 0:8", lasts = "50 us" }
//!
//! [[fault]]
//! at = "0 us"
//! kind.loss = { share = 1e-3 }                      # on every link, for the whole run
//! ```
//!
//! A link is named by one of its ends: `leaf 0:8` (port 8 of that switch), `node 3`, `node 3:1` (its second adapter), both
//! directions; or by both ends, `leaf 0 -> spine 1`, one direction of every cable between the two.

use fabriscope_units::{Rate, Span};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Something that breaks.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct FaultEvent {
    /// When, since the start of the run.
    pub at: Span,
    /// What.
    pub kind: FaultKind,
}

/// What breaks.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum FaultKind {
    /// Packets are lost at random.
    Loss(RandomLoss),
    /// Bits arrive wrong that error correction does not repair: a packet with one of them is dropped.
    BitErrors(BitErrors),
    /// A link goes down.
    LinkDown(LinkDown),
    /// A link that went down comes back.
    LinkUp(LinkUp),
    /// A link goes down and comes back, again and again.
    Flapping(Flapping),
    /// A link loses some of its lanes: its rate falls.
    LaneLoss(LaneLoss),
    /// A switch dies with all its links; the packets in it are lost.
    SwitchDeath(SwitchDeath),
    /// A node takes what arrives at a lower rate than its link brings it.
    SlowReceiver(SlowReceiver),
    /// An adapter takes nothing: it sends pause frames all the time, or gives no credits.
    PausedPort(PausedPort),
}

/// Packets lost at random.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RandomLoss {
    /// Share of the packets that are lost on each link that they cross [0..1].
    pub share: f64,
    /// Where; on every link if left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub link: Option<String>,
    /// For how long; to the end of the run if left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lasts: Option<Span>,
}

/// Bits that arrive wrong.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct BitErrors {
    /// Share of the bits that are wrong behind error correction [0..1].
    pub rate: f64,
    /// Where; on every link if left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub link: Option<String>,
    /// For how long; to the end of the run if left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lasts: Option<Span>,
}

/// A link that goes down.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct LinkDown {
    /// Which link; both of its directions.
    pub link: String,
    /// For how long; until a `link_up`, or to the end of the run, if left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lasts: Option<Span>,
}

/// A link that comes back.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct LinkUp {
    /// Which link.
    pub link: String,
}

/// A link that goes down and comes back.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Flapping {
    /// Which link; both of its directions.
    pub link: String,
    /// From one time that it goes down to the next.
    pub period: Span,
    /// Share of each period in which it is up [0..1]. Default: 0.5.
    #[serde(default = "half")]
    pub duty: f64,
    /// How many times it goes down.
    #[schemars(range(min = 1))]
    pub count: u32,
}

fn half() -> f64 {
    0.5
}

/// Lanes that fail.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct LaneLoss {
    /// Which link; both of its directions.
    pub link: String,
    /// How many lanes still work.
    #[schemars(range(min = 1))]
    pub lanes: u32,
    /// For how long; to the end of the run if left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lasts: Option<Span>,
}

/// A switch that dies.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SwitchDeath {
    /// Which switch: `leaf 3`, `switch 12`, or the name it has in an imported fabric.
    pub switch: String,
    /// For how long; to the end of the run if left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lasts: Option<Span>,
}

/// A node that takes what arrives slowly.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SlowReceiver {
    /// Which node or adapter: `node 3`, `node 3:1`.
    pub node: String,
    /// The rate at which its memory takes payload.
    pub rate: Rate,
    /// For how long; to the end of the run if left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lasts: Option<Span>,
}

/// An adapter that takes nothing.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PausedPort {
    /// Which node or adapter: `node 3`, `node 3:1`.
    pub node: String,
    /// For how long; to the end of the run if left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lasts: Option<Span>,
    /// After so long the switch drops what waits for the port, and what comes for it, until the storm is over. Switches that
    /// have such a watchdog look after some 200 ms; without it they wait.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub watchdog: Option<Span>,
}
