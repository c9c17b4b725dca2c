//! A sweep of a cluster's subnet manager: what it sends, how long that takes, and where the time goes.

use fabriscope_catalog::{Layer, Manager, ResolvedCluster, SubnetSweep};
use fabriscope_engine_management::{Costs, Routed, Stage, Subnet, SweepKind, SweepReport, sweep};
use fabriscope_fabric::{EndpointId, Fabric};
use fabriscope_report::{Cell, Column, Grid, Outcome};
use fabriscope_units::{Span, Time};

use crate::error::LabError;

/// What is asked of a sweep.
#[derive(Debug, Clone, Copy, Default)]
pub struct SweepRequest {
    /// Datagrams in flight, in place of the manager's own number.
    pub window: Option<u32>,
    /// Packets that agents hold, in place of the manager's number.
    pub buffer: Option<u32>,
    /// The node on which the manager runs.
    pub node: u32,
    /// What the sweep is for.
    pub kind: SweepKind,
    /// How packets find nodes that are known.
    pub routed: Routed,
    /// Whether tables of service levels are set; as the cluster has classes of traffic where nothing is said.
    pub service_levels: Option<bool>,
}

/// The sweep of a manager on a cluster.
///
/// # Errors
/// A fabric that has no subnet manager, a manager that sends no packets, a node that there is not.
pub fn swept(cluster: &ResolvedCluster, fabric: &Fabric, manager: &Manager, request: &SweepRequest) -> Result<SweepReport, LabError> {
    if cluster.link_layer.layer() != Layer::InfiniBand {
        let what = format!("{} runs Ethernet, which no subnet manager configures", cluster.name);
        return Err(LabError::refused(what, "name a cluster of InfiniBand; `fabriscope clusters` lists them"));
    }
    let Some(said) = &manager.sweep else {
        let what = format!("the manager `{}` does not say what its packets cost", manager.name);
        return Err(LabError::refused(what, "add a [sweep] table to it, or use --manager opensm"));
    };
    if request.window == Some(0) || request.buffer == Some(0) {
        return Err(LabError::refused("nothing in flight, or no room at agents", "use at least 1 for --window and --buffer"));
    }
    let Some(endpoint) = cluster.endpoints_of(request.node).map(|adapters| adapters.start) else {
        let what = format!("{} has no node {}", cluster.name, request.node);
        return Err(LabError::refused(what, format!("name a node from 0 to {}", cluster.nodes().saturating_sub(1))));
    };
    let mut latencies = cluster.switch_latencies(fabric);
    if latencies.is_empty() {
        latencies.extend(cluster.switch.as_ref().map(|switch| *switch.latency));
    }
    let subnet = Subnet {
        graph: &fabric.graph,
        latencies: &latencies,
        manager: EndpointId(endpoint),
        service_levels: request.service_levels.unwrap_or(cluster.qos.is_some()),
        routed: request.routed,
    };
    let entries = u64::from(fabric.graph.endpoint_count()) * u64::from(fabric.graph.switch_count());
    let computing = Span::from_ps(manager.computing.as_ps().saturating_mul(entries));
    Ok(sweep(subnet, &costs(said, request, computing), request.kind))
}

fn costs(said: &SubnetSweep, request: &SweepRequest, computing: Span) -> Costs {
    Costs {
        window: request.window.unwrap_or(*said.window),
        timeout: *said.timeout,
        retries: *said.retries,
        handling: *said.handling,
        switch_agent: *said.switch_agent,
        adapter_agent: *said.adapter_agent,
        directed_hop: *said.directed_hop,
        buffer: request.buffer.unwrap_or(*said.buffer),
        computing,
    }
}

/// The report as tables and notes.
#[must_use]
pub fn told(name: &str, fabric: &Fabric, report: &SweepReport) -> Outcome {
    let mut outcome = Outcome::new();
    outcome.note(format!("{name}: {} endpoints and {} switches found, {}", report.endpoints, report.switches, fabric.counts()));
    let mut stages = Grid::new([
        Column::words("stage", "stage"),
        Column::number("datagrams", "mads"),
        Column::number("time (us)", "took_ps"),
        Column::number("each (us)", "each_ps"),
    ]);
    for time in &report.stages {
        let each = (time.mads > 0).then(|| Span::from_ps(time.took.as_ps() / time.mads));
        stages.push([Cell::word(time.stage.name()), Cell::count(time.mads), Cell::us(time.took), Cell::us_or_none(each)]);
    }
    let all = report.end.since(Time::ZERO);
    stages.foot([Cell::word("sum"), Cell::count(report.total()), Cell::us(all), Cell::blank()]);
    outcome.keyed_table("stages", stages).text("\n");
    let mut mads =
        Grid::new([Column::words("method", "method"), Column::words("attribute", "attribute"), Column::number("datagrams", "mads")]);
    for ((attribute, method), count) in &report.mads {
        mads.push([Cell::word(method.name()), Cell::word(attribute.name()), Cell::count(*count)]);
    }
    outcome.keyed_table("mads", mads).text("\n");
    let share = |part: Span| 100.0 * part.as_ps() as f64 / all.as_ps().max(1) as f64;
    let discovery = report.took(Stage::Discovery).unwrap_or_default();
    let computing = report.took(Stage::Computing).unwrap_or_default();
    outcome.note(format!(
        "discovery {:.3} ms, computing {:.3} ms, configuration {:.3} ms, in all {:.3} ms",
        ms(discovery),
        ms(computing),
        ms(all.saturating_sub(discovery).saturating_sub(computing)),
        ms(all)
    ));
    outcome.note(format!(
        "an answer comes after {:.3} us on average; the manager handles answers {:.1} % of the time",
        report.round_trip().as_us_f64(),
        share(report.handling)
    ));
    outcome.note(format!(
        "{} packets sent, {} found no room at an agent, {} sent again, {} without an answer",
        report.sent, report.dropped, report.retries, report.unanswered
    ));
    outcome
        .set("cluster", name)
        .set("endpoints", report.endpoints)
        .set("switches", report.switches)
        .set("discovery_ps", discovery.as_ps())
        .set("computing_ps", computing.as_ps())
        .set("end_ps", report.end.as_ps())
        .set("sent", report.sent)
        .set("dropped", report.dropped)
        .set("retries", report.retries)
        .set("unanswered", report.unanswered)
        .set("round_trip_ps", report.round_trip().as_ps());
    outcome
}

fn ms(span: Span) -> f64 {
    span.as_us_f64() / 1e3
}

#[cfg(test)]
mod tests {
    use super::*;
    use fabriscope_catalog::Catalog;
    use fabriscope_engine_management::{Attribute, Method};

    fn of(name: &str, request: &SweepRequest) -> Result<(Fabric, SweepReport), LabError> {
        let catalog = Catalog::embedded().unwrap();
        let cluster = catalog.target(name).unwrap();
        let fabric = cluster.fabric().unwrap();
        let report = swept(&cluster, &fabric, catalog.manager("opensm").unwrap(), request)?;
        Ok((fabric, report))
    }

    /// All of a fat tree is found, over all its cables: the manager's own node is asked once, and every node once over each of its cables
    /// but that by which whoever asks was found.
    #[test]
    fn a_cluster_is_found_whole() {
        let (fabric, report) = of("lab-ndr-1024", &SweepRequest::default()).unwrap();
        let graph = &fabric.graph;
        assert_eq!((report.endpoints, report.switches), (graph.endpoint_count(), graph.switch_count()));
        let nodes = u64::from(graph.endpoint_count() + graph.switch_count());
        let links = u64::from(graph.link_count());
        assert_eq!(report.mads[&(Attribute::NodeInfo, Method::Get)], 1 + links - (nodes - 1));
        assert_eq!(report.mads[&(Attribute::LinearForwarding, Method::Set)], u64::from(graph.switch_count()) * (nodes + 1).div_ceil(64));
        assert_eq!((report.dropped, report.unanswered), (0, 0));
        let text = told("lab-ndr-1024", &fabric, &report);
        assert_eq!(text.get("endpoints"), Some(&1024.into()));
    }

    /// More in flight is faster until the manager is what bounds the sweep.
    #[test]
    fn a_wider_window_is_faster_up_to_the_manager() {
        let end = |window| of("lab-ndr-1024:128", &SweepRequest { window: Some(window), ..SweepRequest::default() }).unwrap().1;
        let [one, four, eight] = [1, 4, 8].map(end);
        assert!(four.end < one.end && eight.end <= four.end);
        assert!(eight.end.since(Time::ZERO) >= eight.handling);
    }

    #[test]
    fn what_cannot_be_swept_is_refused() {
        let refused = |name: &str, request: SweepRequest| of(name, &request).err().map(|error| error.to_string()).unwrap_or_default();
        assert!(refused("lumi", SweepRequest::default()).contains("no subnet manager"));
        assert!(refused("ri2", SweepRequest { node: 7, ..SweepRequest::default() }).contains("no node 7"));
        assert!(refused("ri2", SweepRequest { window: Some(0), ..SweepRequest::default() }).contains("nothing in flight"));
    }
}
