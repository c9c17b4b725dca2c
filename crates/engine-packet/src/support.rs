//! What the packet engine has no model of.

use fabriscope_catalog::{FlowControl, NodeGroup, ResolvedCluster};
use fabriscope_engine::{Connections, FastForward, Feature, Job, Placement, Recovery, RunOptions, Service, Unsupported, Work};

use crate::services;

/// A refusal of this engine.
pub(crate) fn refusal(feature: Feature, what: impl Into<String>, help: impl Into<String>) -> Unsupported {
    Unsupported { engine: "packet", feature, what: what.into(), help: help.into() }
}

/// Programs set up their connections themselves, with the options of the program.
fn own_connections(connections: &Connections) -> Result<(), Unsupported> {
    let help = "give it to the program, or leave it out";
    if connections.recovery != Recovery::default() {
        return Err(refusal(Feature::Recovery, "retransmission settings for programs, which set up their own connections", help));
    }
    if connections.rate.is_some() {
        return Err(refusal(Feature::RateLimit, "a rate limit for programs, which set up their own connections", help));
    }
    Ok(())
}

/// Whether queue pairs of a schedule keep to the rate and repeat as they are asked to.
fn settings(parts: &ResolvedCluster, connections: &Connections) -> Result<(), Unsupported> {
    let (service, recovery) = (connections.service, connections.recovery);
    if (connections.rate.is_some() || !connections.rates.is_empty()) && services::shares(service) {
        let what = format!("a rate limit of the queue pairs of {}, which peers share", service.name());
        return Err(refusal(
            Feature::RateLimit,
            what,
            "use reliable or unreliable connections (transport = \"rc\" or \"uc\"), or leave it out",
        ));
    }
    let none = recovery == Recovery::default();
    let only_time = Recovery { timeout: recovery.timeout, ..Recovery::default() } == recovery;
    let streams = parts.groups.iter().any(|group| group.node.nic.iwarp.is_some());
    let takes = match service {
        Service::Rc => none || !streams,
        Service::Uc | Service::Ud | Service::UetUud | Service::Iwarp | Service::Raw => none,
        _ => only_time,
    };
    if !takes {
        let who = if streams { "connections over TCP (iWARP)" } else { service.name() };
        let what = format!("these retransmission settings of {who}");
        let help = match service {
            _ if streams => "leave `recovery` out: TCP has timers of its own",
            Service::Uc | Service::Ud | Service::UetUud => {
                "leave `recovery` out: the adapter repeats nothing there; or use transport = \"rc\""
            }
            _ => "write `timeout` alone, or use transport = \"rc\"",
        };
        return Err(refusal(Feature::Recovery, what, help));
    }
    Ok(())
}

pub(crate) fn supports(parts: &ResolvedCluster, job: &Job, options: &RunOptions) -> Result<(), Unsupported> {
    if options.fast_forward != FastForward::Never && matches!(job.work, Work::Programs(_)) {
        let help = "leave `fast_forward` out, or run the messages of a pattern";
        return Err(refusal(Feature::FastForward, "steady states of programs, which decide by what they see", help));
    }
    let Connections { service, library, libraries, .. } = &job.connections;
    if !libraries.is_empty() && (*service != Service::Rc || parts.groups.iter().any(|group| group.node.nic.iwarp.is_some())) {
        let what = "libraries of ranks over anything but reliable connections of verbs";
        return Err(refusal(Feature::Service, what, "use transport = \"rc\" on adapters without iWARP, or leave the libraries out"));
    }
    let levels = || parts.switch_parts().any(|part| parts.switch.as_ref().is_some_and(|usual| part.buffer.value != usual.buffer.value));
    if parts.flow_control == FlowControl::Lossy && levels() {
        let what = "buffers that overflow (lossy flow control) in switches of unlike sizes";
        return Err(refusal(Feature::FlowControl, what, "use flow_control = \"lossless\", or switches with equal buffers"));
    }
    if library.is_some() && parts.uniform().is_none() {
        let what = format!("messages of a library between the unlike nodes of `{}`", parts.name);
        return Err(refusal(Feature::NodeGroups, what, "name one group of nodes, or use a service without a library"));
    }
    if !matches!(job.work, Work::Programs(_)) {
        settings(parts, &job.connections)?;
    }
    match (&job.work, &job.placement) {
        (Work::Schedule(_), Placement::PerAdapter(_)) => Ok(()),
        (Work::Programs(_), Placement::Nodes(_) | Placement::PerNode(_)) => own_connections(&job.connections),
        (Work::Schedule(_), _) => {
            Err(refusal(Feature::Placement, "ranks of a schedule that are placed by node", "place them by adapter, or run programs"))
        }
        (Work::Programs(_), _) => Err(refusal(Feature::Placement, "programs that are placed by adapter", "place them by node")),
        (Work::Rounds(_), placement) => {
            let one = |group: &NodeGroup| group.node.nics == 1 && group.node.gpus == 0;
            if parts.uniform().is_some_and(one) && matches!(placement, Placement::PerNode(1) | Placement::PerAdapter(0 | 1)) {
                return Ok(());
            }
            let help = "use the flow engine, or a benchmark that runs programs, such as osu_allreduce or all_reduce_perf";
            Err(refusal(Feature::Rounds, "rounds of more than one rank for the one adapter of each node", help))
        }
    }
}
