//! What the flow engine has a model of, and what only packets know.
//!
//! Modelled by rates and latencies: schedules and rounds over reliable connections with oblivious routing, at any scale. A receiver that
//! takes packets in any order is the same to a fluid. Everything else that a job or a cluster asks for is refused, with what to do.

use fabriscope_catalog::{DEFAULT_PKEY, FlowControl, Line, PartitionEnforcement, ResolvedCluster};
use fabriscope_engine::{
    Connections, Counting, DeadlockPolicy, FastForward, Feature, Job, Loss, Placement, Recovery, RunOptions, Service, Unsupported, Work,
};

/// A refusal of this engine.
pub(crate) fn refusal(feature: Feature, what: impl Into<String>, help: impl Into<String>) -> Unsupported {
    Unsupported { engine: "flow", feature, what: what.into(), help: help.into() }
}

pub(crate) fn supports(parts: &ResolvedCluster, job: &Job, options: &RunOptions) -> Result<(), Unsupported> {
    work(job)?;
    if matches!(job.work, Work::Rounds(_)) && parts.uniform().is_none() {
        let what = format!("ranks laid out on the unlike nodes of `{}`", parts.name);
        return Err(refusal(Feature::NodeGroups, what, "name one group of nodes"));
    }
    connections(&job.connections)?;
    fabric(parts)?;
    watched(options)
}

fn work(job: &Job) -> Result<(), Unsupported> {
    let packets = "use the packet engine";
    match (&job.work, &job.placement) {
        (Work::Programs(_), _) => Err(refusal(Feature::Programs, "programs that post work requests as they go", packets)),
        (Work::Schedule(_), Placement::PerAdapter(0 | 1)) | (Work::Rounds(_), Placement::PerNode(_)) => Ok(()),
        (Work::Schedule(_), _) => Err(refusal(Feature::Placement, "several ranks of a schedule at one adapter", packets)),
        (Work::Rounds(_), _) => Err(refusal(Feature::Placement, "rounds of ranks that are placed one by one", "place them by node")),
    }
}

fn connections(connections: &Connections) -> Result<(), Unsupported> {
    let Connections { service, order: _, spraying: _, level, pkey, rate, recovery, library, libraries, levels, pkeys, rates } = connections;
    let (no_key, packets) = ("use the packet engine, or leave it out", "use the packet engine");
    if *service != Service::Rc {
        let help = "use the packet engine, or reliable connections (transport = \"rc\")";
        return Err(refusal(Feature::Service, format!("the transport service {service}"), help));
    }
    if library.is_some() || !libraries.is_empty() {
        return Err(refusal(Feature::Service, "the costs of a message-passing library", packets));
    }
    if *recovery != Recovery::default() {
        return Err(refusal(Feature::Recovery, "retransmission: no packet is lost", no_key));
    }
    if *level != 0 || levels.iter().any(|(_, level)| *level != 0) {
        return Err(refusal(Feature::Classes, "service levels, priorities and classes", no_key));
    }
    let partitioned = |pkey: &u16| *pkey != 0 && u32::from(*pkey) != DEFAULT_PKEY;
    if partitioned(pkey) || pkeys.iter().any(|(_, pkey)| partitioned(pkey)) {
        return Err(refusal(Feature::Partitions, "partitions", no_key));
    }
    if rate.is_some() || !rates.is_empty() {
        return Err(refusal(Feature::RateLimit, "rate limits of connections", no_key));
    }
    Ok(())
}

pub(crate) fn fabric(parts: &ResolvedCluster) -> Result<(), Unsupported> {
    if let Some(congestion) = &parts.congestion {
        let help = "use the packet engine, or congestion = \"none\": rates of fluids are what an ideal control would give";
        return Err(refusal(Feature::Congestion, format!("the congestion control `{}`", congestion.name), help));
    }
    if parts.route_prototype.is_some() {
        return Err(refusal(Feature::Routing, "a prototype of a routing", "use the packet engine, or the routing underneath alone"));
    }
    if parts.flow_control == FlowControl::Lossy {
        let help = "use the packet engine, or flow_control = \"lossless\"";
        return Err(refusal(Feature::FlowControl, "buffers that overflow (lossy flow control)", help));
    }
    if parts.qos.is_some() {
        return Err(refusal(Feature::Classes, "classes that share links by their own rules", "use the packet engine, or remove [qos]"));
    }
    if !parts.partitions.is_empty() || parts.partition_enforcement != PartitionEnforcement::Off {
        return Err(refusal(Feature::Partitions, "partitions", "use the packet engine, or remove [partitions]"));
    }
    if parts.subnet_nodes.is_some() {
        let help = "use the packet engine, or remove `subnet_nodes`";
        return Err(refusal(Feature::Subnets, "headers of packets between subnets", help));
    }
    if parts.iommu.is_some() {
        return Err(refusal(Feature::Iommu, "addresses that the IOMMU translates", "use the packet engine, or remove [iommu]"));
    }
    if parts.noise.is_some() {
        return Err(refusal(Feature::Noise, "interruptions of cores", "use the packet engine, or remove [noise]"));
    }
    if parts.line != Line::default() {
        let help = "use the packet engine, or remove [line]";
        return Err(refusal(Feature::LinkRetry, "links that retry, rest or run with fewer lanes", help));
    }
    Ok(())
}

fn watched(options: &RunOptions) -> Result<(), Unsupported> {
    let RunOptions {
        threads: _,
        taps,
        counting,
        jobs: _,
        series,
        timeline,
        control,
        link_loads: _,
        op_times: _,
        faults,
        loss,
        peers: _,
        deadlock,
        fast_forward,
    } = options;
    if *deadlock == DeadlockPolicy::Allow {
        return Err(refusal(
            Feature::Deadlock,
            "deadlock: it has no buffers that fill",
            "use the packet engine, or remove `allow_deadlock`",
        ));
    }
    if *fast_forward != FastForward::Never {
        let help = "use the packet engine, or leave `fast_forward` out: rates of fluids change only where messages begin and end";
        return Err(refusal(Feature::FastForward, "steady states of packets, so there is nothing to skip", help));
    }
    if faults.is_some() || *loss != Loss::None {
        return Err(refusal(Feature::Faults, "faults and losses", "use the packet engine, or leave the faults out"));
    }
    if !taps.is_empty() {
        return Err(refusal(
            Feature::Taps,
            "packets, so there is nothing to capture",
            "use the packet engine (engine = \"packet\"), or leave --pcap out",
        ));
    }
    if timeline.is_some() {
        return Err(refusal(
            Feature::Timelines,
            "stages of messages, so there is nothing to draw",
            "use the packet engine (engine = \"packet\"), or leave --trace out",
        ));
    }
    if control.is_some() {
        return Err(refusal(Feature::Control, "a manager that acts while the run goes", "use the packet engine (engine = \"packet\")"));
    }
    if *counting != Counting::Off || series.is_some() {
        return Err(refusal(
            Feature::Counters,
            "packets, so there is nothing to count",
            "use the packet engine (engine = \"packet\"), or leave --counters and --series out",
        ));
    }
    Ok(())
}
