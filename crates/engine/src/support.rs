//! What an engine does not model: which feature, in words, and what to do about it.

use std::fmt;

/// A refusal: the job needs a feature that the engine has no model of.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the {engine} engine does not model {what}")]
pub struct Unsupported {
    /// The engine, as labs name it.
    pub engine: &'static str,
    /// The feature, by which a front end finds the key that asked for it.
    pub feature: Feature,
    /// The feature in words, with its value.
    pub what: String,
    /// What to do instead.
    pub help: String,
}

/// Something that not every engine models.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Feature {
    /// Programs that post work requests as they go.
    Programs,
    /// Rounds of messages on nodes with several ranks.
    Rounds,
    /// A placement of ranks.
    Placement,
    /// A transport service.
    Service,
    /// Routing that looks at queues.
    Routing,
    /// Congestion control.
    Congestion,
    /// What happens where a buffer is full.
    FlowControl,
    /// Retransmission settings.
    Recovery,
    /// Service levels, priorities and classes.
    Classes,
    /// Partitions.
    Partitions,
    /// Routers between subnets.
    Subnets,
    /// Addresses of devices that the host translates.
    Iommu,
    /// Rates that connections keep to.
    RateLimit,
    /// Links that retry, rest or run at another width.
    LinkRetry,
    /// Interruptions of cores.
    Noise,
    /// Faults and losses.
    Faults,
    /// Taps: there are no packets to capture.
    Taps,
    /// Counters of ports and adapters: there are no packets to count.
    Counters,
    /// Timelines: there are no stages of messages to draw.
    Timelines,
    /// Managers of the fabric that act while the run goes.
    Control,
    /// Receivers that take packets in any order.
    PacketOrder,
    /// Routing that can deadlock: there are no buffers that fill.
    Deadlock,
    /// Several kinds of nodes in one cluster.
    NodeGroups,
    /// Steady states that are left out.
    FastForward,
}

impl fmt::Display for Feature {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Feature::Programs => "programs",
            Feature::Rounds => "rounds",
            Feature::Placement => "placement",
            Feature::Service => "transport service",
            Feature::Routing => "routing",
            Feature::Congestion => "congestion control",
            Feature::FlowControl => "flow control",
            Feature::Recovery => "retransmission settings",
            Feature::Classes => "classes",
            Feature::Partitions => "partitions",
            Feature::Subnets => "subnets",
            Feature::Iommu => "iommu",
            Feature::RateLimit => "rate limit",
            Feature::LinkRetry => "link-level retry",
            Feature::Noise => "noise of operating systems",
            Feature::Faults => "faults",
            Feature::Taps => "taps",
            Feature::Counters => "counters",
            Feature::Timelines => "timelines",
            Feature::Control => "control of the fabric",
            Feature::PacketOrder => "order of packets",
            Feature::Deadlock => "deadlock",
            Feature::NodeGroups => "node groups",
            Feature::FastForward => "steady states",
        })
    }
}
