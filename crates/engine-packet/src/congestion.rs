//! From the congestion control of the catalogue to the settings of the NICs.

use fabriscope_catalog::ResolvedCluster;
use fabriscope_catalog::congestion::{Algorithm as Part, Nscc};
use fabriscope_fabric::{Fabric, Route, Router};
use fabriscope_units::{Bytes, Rate, Span};
use fabriscope_verbs::cc::{Algorithm, Echo, Line, Settings, parameters};
use fabriscope_wire::Opcode;

/// The settings of all NICs of a cluster.
pub(crate) fn settings(parts: &ResolvedCluster, fabric: &Fabric, router: &Router, drops: bool) -> Settings {
    let lossy = drops.then_some(LOSSY_TIMEOUT);
    let line = line(parts, fabric, router);
    let Some(congestion) = &parts.congestion else { return Settings { timeout: lossy, line, ..Settings::default() } };
    let (algorithm, echo, ack_interval, telemetry, timeout) = match &congestion.algorithm {
        Part::InfiniBand(p) => {
            let (increase, limit, timer, step) = (*p.increase, *p.limit, *p.timer, *p.step);
            let algorithm = Algorithm::InfiniBand(parameters::InfiniBand { increase, limit, timer, step });
            (algorithm, Echo::AcknowledgeOrNotify(*p.notification_interval), None, false, None)
        }
        Part::Dcqcn(p) => {
            let algorithm = Algorithm::Dcqcn(parameters::Dcqcn {
                g: *p.g,
                alpha_interval: *p.alpha_interval,
                increase_interval: *p.increase_interval,
                increase_bytes: *p.increase_bytes,
                recovery_steps: *p.recovery_steps,
                additive: *p.additive,
                hyper: *p.hyper,
                least: *p.least,
            });
            (algorithm, Echo::Notify(*p.notification_interval), None, false, None)
        }
        Part::Dctcp(p) => (Algorithm::Dctcp(parameters::Dctcp { g: *p.g }), Echo::Acknowledge, Some(1), false, None),
        Part::Swift(p) => {
            let algorithm = Algorithm::Swift(parameters::Swift {
                target: *p.target,
                additive: *p.additive,
                beta: *p.beta,
                most_decrease: *p.most_decrease,
                scaling_range: *p.scaling_range,
                scaling_least: *p.scaling_least,
                scaling_most: *p.scaling_most,
            });
            (algorithm, Echo::Silent, Some(1), false, None)
        }
        Part::Hpcc(p) => {
            let (utilisation, stages, flows) = (*p.utilisation, *p.stages, *p.flows);
            (Algorithm::Hpcc(parameters::Hpcc { utilisation, stages, flows }), Echo::Silent, Some(1), true, None)
        }
        Part::Nscc(p) => (Algorithm::Nscc(nscc(p)), Echo::Acknowledge, Some(1), false, Some(*p.timeout)),
        Part::Rccc(p) => {
            let (initial, share, network) = (*p.initial, *p.share, p.nscc.as_ref().map(nscc));
            let echo = if network.is_some() { Echo::Acknowledge } else { Echo::Silent };
            (Algorithm::Rccc(parameters::Rccc { initial, share, network }), echo, Some(1), false, Some(*p.timeout))
        }
        Part::Srd(p) => {
            let algorithm = Algorithm::Srd(parameters::Srd { bound: *p.bound, additive: *p.additive, beta: *p.beta });
            (algorithm, Echo::Silent, Some(1), false, Some(*p.timeout))
        }
        Part::Slingshot(p) => {
            let algorithm = Algorithm::Slingshot(parameters::Slingshot { threshold: *p.threshold, release: *p.release });
            (algorithm, Echo::Silent, Some(1), true, None)
        }
        _ => (Algorithm::None, Echo::Silent, None, false, None),
    };
    Settings { algorithm, echo, ack_interval, timeout: timeout.or(lossy), telemetry, line }
}

fn nscc(p: &Nscc) -> parameters::Nscc {
    parameters::Nscc { target: *p.target, most_decrease: *p.most_decrease, gamma: *p.gamma, fair: *p.fair, proportional: *p.proportional }
}

/// The link of a host and the longest round trip of a full packet and its acknowledgement on an idle network.
fn line(parts: &ResolvedCluster, fabric: &Fabric, router: &Router) -> Line {
    let links = fabric.graph.links();
    let rate = links.first().map_or(Rate::default(), |link| link.rate);
    let slowest = links.iter().map(|link| link.rate).min().unwrap_or(rate);
    let delay = links.iter().map(|link| link.delay).max().unwrap_or_default();
    let switch = parts.switch.as_ref().map_or(Span::ZERO, |switch| switch.latency.value);
    // Paths without detours: what an idle network takes.
    let hops = u64::from(router.longest().min(fabric.coordinates.diameter()));
    let layer = parts.link_layer.wire();
    let full = slowest.time(Bytes(u64::from(layer.wire_bytes(Opcode::RC_WRITE_MIDDLE, parts.mtu.0 as u32))));
    let answer = slowest.time(Bytes(u64::from(layer.wire_bytes(Opcode::RC_ACKNOWLEDGE, 0))));
    let nic = &parts.sole().node.nic;
    let fetch = parts.sole().node.cpu.root_complex.dma_read_latency.value;
    // The time that a packet left is that at which it is built: its fetch and its way out belong to the round trip.
    let srd = nic.srd_latency.as_ref().map_or(Span::ZERO, |latency| latency.value);
    let ends = (nic.tx_latency.value + nic.rx_latency.value) * 2 + srd + fetch;
    let way = delay * hops + switch * hops.saturating_sub(1);
    Line { rate, base_rtt: way * 2 + full + answer + ends, mtu: parts.mtu }
}

/// How long a NIC waits for an answer where packets may be dropped and nothing else is said. Basis: assumed; the default of
/// 67 ms is made for networks that lose nothing.
const LOSSY_TIMEOUT: Span = Span::from_us(500);
