//! From the faults of a lab to links, times and chances: every name is looked up in the wired fabric.

use std::ops::Range;
use std::path::Path;

use fabriscope_fabric::{EndpointId, Fabric, Graph, LinkId, Node, PortId, SwitchId};
use fabriscope_units::{Remedy, Span};

use fabriscope_catalog::{Catalog, CatalogError, Document, Interface, LinkLayer, Manager, Problem, ResolvedCluster, nearest};
use fabriscope_engine::{Chance, Effect, FaultPlan, PlannedFault, Recovery};
use serde::Deserialize;

use crate::fault::{FaultEvent, FaultKind};

/// The name of the manager that suits a cluster.
pub(crate) fn manager_of(cluster: &ResolvedCluster) -> &'static str {
    let slingshot = cluster.groups.iter().any(|group| group.node.nic.interface == Interface::Cxi);
    match (slingshot, cluster.link_layer) {
        (true, _) => "slingshot-fabric-manager",
        (_, LinkLayer::InfiniBand) => "opensm",
        _ => "routed-ethernet",
    }
}

/// Ranges that types do not hold.
pub(crate) fn check_recovery(recovery: &Recovery) -> Result<(), Problem> {
    if let Some(timeout) = recovery.timeout.filter(|timeout| !(1..=31).contains(timeout)) {
        let message = format!("a timeout exponent of {timeout}");
        return Err(Problem::at(&["recovery", "timeout"], message, "write 1 to 31: 4.096 us times 2 to that power"));
    }
    if let Some(count) = recovery.retry_cnt.filter(|count| *count > 7) {
        return Err(Problem::at(&["recovery", "retry_cnt"], format!("{count} repetitions"), "write 0 to 7"));
    }
    Ok(())
}

/// Reads the faults of a run from a file of their own: `[[fault]]` and `manager` as in a lab.
///
/// # Errors
/// A file that cannot be read, a fault in it, names that the fabric does not have.
pub fn load_faults(catalog: &Catalog, path: &Path, cluster: &ResolvedCluster) -> Result<FaultPlan, CatalogError> {
    let text = fabriscope_catalog::read_text(path)?;
    let file = path.display().to_string();
    let document = Document::parse(&file, &text)?;
    let read: FaultFile = document.read()?;
    let name = read.manager.as_deref().unwrap_or_else(|| manager_of(cluster));
    let found = manager(catalog, name).and_then(|manager| plan(&read.fault, cluster, manager));
    found.map_err(|problem| document.fault_of(problem).into())
}

/// A file of faults.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct FaultFile {
    fault: Vec<FaultEvent>,
    manager: Option<String>,
}

/// The manager of a name.
pub(crate) fn manager<'a>(catalog: &'a Catalog, name: &str) -> Result<&'a Manager, Problem> {
    catalog.manager(name).map_err(|error| match &error {
        CatalogError::UnknownPart { help, .. } => Problem::at(&["manager"], error.to_string(), help),
        _ => Problem::at(&["manager"], error.to_string(), ""),
    })
}

/// The faults of a lab on its fabric.
pub(crate) fn plan(events: &[FaultEvent], cluster: &ResolvedCluster, manager: &Manager) -> Result<FaultPlan, Problem> {
    let fabric = cluster.fabric().map_err(|error| Problem::at(&["cluster"], error.in_full(), "correct the topology"))?;
    let mut planner = Planner { cluster, fabric: &fabric, number: String::new(), kind: "", faults: Vec::new() };
    for (number, event) in events.iter().enumerate() {
        planner.number = number.to_string();
        planner.add(event)?;
    }
    Ok(FaultPlan { faults: planner.faults, manager: manager.clone() })
}

struct Planner<'a> {
    cluster: &'a ResolvedCluster,
    fabric: &'a Fabric,
    /// Place in the list, and name of the kind: where problems lie.
    number: String,
    kind: &'static str,
    faults: Vec<PlannedFault>,
}

impl Planner<'_> {
    fn add(&mut self, event: &FaultEvent) -> Result<(), Problem> {
        let at = event.at;
        match &event.kind {
            FaultKind::Loss(loss) => {
                self.kind = "loss";
                self.share("share", loss.share)?;
                let (links, place) = self.somewhere(loss.link.as_deref())?;
                let effect = Effect::Loss { links, chance: Chance::Packet(loss.share) };
                self.push(format!("loss of {} of the packets, {place}", loss.share), at, loss.lasts, effect)
            }
            FaultKind::BitErrors(errors) => {
                self.kind = "bit_errors";
                self.share("rate", errors.rate)?;
                let (links, place) = self.somewhere(errors.link.as_deref())?;
                let effect = Effect::Loss { links, chance: Chance::Bit(errors.rate) };
                self.push(format!("bit error rate {:e}, {place}", errors.rate), at, errors.lasts, effect)
            }
            FaultKind::LinkDown(down) => {
                self.kind = "link_down";
                let cables = self.cables(&down.link)?;
                let spans = vec![(at, self.end(at, down.lasts)?)];
                self.push(format!("link down, {}", down.link), at, down.lasts, Effect::Down { cables, spans, quiet: false })
            }
            FaultKind::LinkUp(up) => {
                self.kind = "link_up";
                self.up(&up.link, at)
            }
            FaultKind::Flapping(flapping) => {
                self.kind = "flapping";
                self.flap(flapping, at)
            }
            FaultKind::LaneLoss(loss) => {
                self.kind = "lane_loss";
                self.lanes(loss, at)
            }
            FaultKind::SwitchDeath(death) => {
                self.kind = "switch_death";
                let switch = self.switch(&death.switch, "switch")?;
                let cables = self.fabric.graph.outputs(switch).map(|(_, link)| link.cable()).collect();
                let spans = vec![(at, self.end(at, death.lasts)?)];
                self.push(format!("death of {}", death.switch), at, death.lasts, Effect::Down { cables, spans, quiet: false })
            }
            FaultKind::SlowReceiver(slow) => {
                self.kind = "slow_receiver";
                let endpoint = self.endpoint(&slow.node, "node")?;
                if slow.rate.as_bps() == 0 {
                    return Err(self.problem("rate", "a receiver at 0 b/s takes nothing".to_owned(), "use kind.paused_port for that"));
                }
                let effect = Effect::Slow { endpoint: endpoint.0, rate: slow.rate };
                self.push(format!("{} takes {}", slow.node, slow.rate), at, slow.lasts, effect)
            }
            FaultKind::PausedPort(paused) => {
                self.kind = "paused_port";
                self.pause(paused, at)
            }
        }
    }

    fn flap(&mut self, flapping: &crate::fault::Flapping, at: Span) -> Result<(), Problem> {
        let cables = self.cables(&flapping.link)?;
        self.share("duty", flapping.duty)?;
        let (period, count) = (flapping.period.as_ps(), u64::from(flapping.count));
        if period == 0 || count == 0 {
            let key = if period == 0 { "period" } else { "count" };
            return Err(self.problem(key, "a link that flaps without time or number".to_owned(), "write at least \"1 ns\" and 1"));
        }
        if count > MOST_FLAPS {
            let help = format!("write at most {MOST_FLAPS}");
            return Err(self.problem("count", format!("a link that goes down {count} times"), &help));
        }
        let down = (period as f64 * (1.0 - flapping.duty)) as u64;
        if down == 0 {
            return Err(self.problem("duty", "a link that is always up does not flap".to_owned(), "write a `duty` below 1.0"));
        }
        let Some(end) = period.checked_mul(count).and_then(|all| all.checked_add(at.as_ps())) else {
            return Err(self.problem("period", "it flaps for longer than time can be counted".to_owned(), "lower `period` or `count`"));
        };
        let starts = (0..count).map(|flap| at.as_ps() + flap * period);
        let spans = starts.map(|start| (Span::from_ps(start), Some(Span::from_ps(start + down)))).collect();
        let what = format!("flapping, {}, {count} times", flapping.link);
        let lasts = Span::from_ps(end - period + down - at.as_ps());
        self.push(what, at, Some(lasts), Effect::Down { cables, spans, quiet: false })
    }

    fn lanes(&mut self, loss: &crate::fault::LaneLoss, at: Span) -> Result<(), Problem> {
        let cables = self.cables(&loss.link)?;
        let graph = &self.fabric.graph;
        // Of the cables of unlike nodes, the narrowest counts.
        let lanes = |cable: &u32| {
            let link = graph.link(LinkId(cable * 2));
            let group = self.cluster.adapter_at(link.from.0.min(link.to.0)).map_or(0, |(group, ..)| group);
            self.cluster.groups.get(group).map(|group| group.link.lanes)
        };
        let of = cables.iter().filter(|cable| is_host(graph, **cable)).filter_map(lanes).min();
        let of = of.unwrap_or(self.cluster.trunk_link.lanes);
        if loss.lanes == 0 || loss.lanes >= of {
            let message = format!("{} of {of} lanes work", loss.lanes);
            let help = format!("write 1 to {}, or use kind.link_down", of.saturating_sub(1).max(1));
            return Err(self.problem("lanes", message, &help));
        }
        let what = format!("{} of {of} lanes left, {}", loss.lanes, loss.link);
        self.push(what, at, loss.lasts, Effect::Lanes { cables, lanes: loss.lanes, of })
    }

    fn pause(&mut self, paused: &crate::fault::PausedPort, at: Span) -> Result<(), Problem> {
        let endpoint = self.endpoint(&paused.node, "node")?;
        let end = self.end(at, paused.lasts)?;
        let Some(watchdog) = paused.watchdog else {
            return self.push(format!("{} pauses its switch", paused.node), at, paused.lasts, Effect::Paused { endpoint: endpoint.0 });
        };
        let bites = self.end(at, Some(watchdog))?.unwrap_or(at);
        if end.is_some_and(|end| end <= bites) {
            let message = format!("the pause is over when the watchdog would bite, after {watchdog}");
            return Err(self.problem("watchdog", message, "write a shorter time, or leave `watchdog` out"));
        }
        let what = format!("{} pauses its switch", paused.node);
        self.push(what, at, Some(watchdog), Effect::Paused { endpoint: endpoint.0 })?;
        let cables = vec![self.fabric.graph.uplink(endpoint).cable()];
        let lasts = end.map(|end| Span::from_ps(end.as_ps() - bites.as_ps()));
        let effect = Effect::Down { cables, spans: vec![(bites, end)], quiet: true };
        self.push(format!("watchdog drops what is for {}", paused.node), bites, lasts, effect)
    }

    /// Ends the latest fault that has a cable of `link` down at `at`.
    fn up(&mut self, link: &str, at: Span) -> Result<(), Problem> {
        let cables = self.cables(link)?;
        let down = self.faults.iter_mut().rev().find_map(|fault| match &mut fault.effect {
            Effect::Down { cables: down, spans, quiet: false } if cables.iter().all(|cable| down.contains(cable)) => {
                let open = spans.iter().position(|(from, until)| *from < at && until.is_none_or(|until| until > at))?;
                spans[open].1 = Some(at);
                spans.truncate(open + 1);
                fault.until = Some(at);
                Some(())
            }
            _ => None,
        });
        if down.is_none() {
            let message = format!("`{link}` is not down at {at}");
            return Err(self.problem("link", message, "put the fault that takes it down before this one"));
        }
        self.push(format!("link up, {link}"), at, Some(Span::from_ps(0)), Effect::Up)
    }

    fn push(&mut self, what: String, from: Span, lasts: Option<Span>, effect: Effect) -> Result<(), Problem> {
        let until = self.end(from, lasts)?;
        self.faults.push(PlannedFault { what, from, until, effect });
        Ok(())
    }

    fn end(&self, at: Span, lasts: Option<Span>) -> Result<Option<Span>, Problem> {
        let Some(lasts) = lasts else { return Ok(None) };
        match at.as_ps().checked_add(lasts.as_ps()).filter(|end| *end < LONGEST) {
            Some(end) => Ok(Some(Span::from_ps(end))),
            None => Err(self.problem("lasts", format!("{lasts} from {at} on end later than time is counted"), "leave `lasts` out")),
        }
    }

    fn share(&self, key: &str, value: f64) -> Result<(), Problem> {
        if (0.0..=1.0).contains(&value) {
            return Ok(());
        }
        Err(self.problem(key, format!("`{key}` of {value} is not a share"), "use 0.0 to 1.0"))
    }

    fn problem(&self, key: &str, message: String, help: &str) -> Problem {
        Problem::at(&["fault", &self.number, "kind", self.kind, key], message, help)
    }

    /// Directed links, or all of them.
    fn somewhere(&self, link: Option<&str>) -> Result<(Option<Vec<u32>>, String), Problem> {
        match link {
            None => Ok((None, "every link".to_owned())),
            Some(name) => Ok((Some(self.links(name)?), name.to_owned())),
        }
    }

    fn cables(&self, name: &str) -> Result<Vec<u32>, Problem> {
        let mut cables: Vec<u32> = self.links(name)?.into_iter().map(|link| link >> 1).collect();
        cables.sort_unstable();
        cables.dedup();
        Ok(cables)
    }

    /// The directed links that `name` means.
    fn links(&self, name: &str) -> Result<Vec<u32>, Problem> {
        let graph = &self.fabric.graph;
        if let Some((from, to)) = name.split_once("->").or_else(|| name.split_once('→')) {
            let (from, to) = (self.end_of_link(from.trim())?, self.end_of_link(to.trim())?);
            let between = |link: &LinkId| (graph.node(graph.link(*link).from), graph.node(graph.link(*link).to)) == (from, to);
            let links: Vec<u32> = (0..graph.link_count()).filter(|link| between(&LinkId(*link))).collect();
            if links.is_empty() {
                let message = format!("no cable joins {} and {}", self.fabric.name(from), self.fabric.name(to));
                return Err(self.problem(
                    "link",
                    message,
                    "name a port instead, as `leaf 0:3`; `fabriscope topo` shows who is wired to whom",
                ));
            }
            return Ok(links);
        }
        let both = |link: LinkId| Ok(vec![link.0, link.reverse().0]);
        let (device, port) = self.device_and_port(name);
        if let Some(endpoint) = self.node(device, port) {
            return both(graph.uplink(endpoint.map_err(|help| self.problem("link", format!("there is no `{name}`"), &help))?));
        }
        let switch = self.switch(device, "link")?;
        let ports = || {
            let ports: Vec<u16> = graph.outputs(switch).map(|(port, _)| port.0).collect();
            ports.first().zip(ports.last()).map_or_else(|| "none".to_owned(), |(first, last)| format!("{first} to {last}"))
        };
        let Some(port) = port else {
            let help = format!("write `{device}:PORT`, with one of the ports {}, or `{device} -> OTHER`", ports());
            return Err(self.problem("link", format!("which link of `{device}`?"), &help));
        };
        let found = port.parse::<u16>().ok().and_then(|port| graph.out_link(switch, PortId(port)));
        match found {
            Some(link) => both(link),
            None => {
                let help = format!("the ports in use are within {}", ports());
                Err(self.problem("link", format!("nothing is plugged into port `{port}` of `{device}`"), &help))
            }
        }
    }

    fn device_and_port<'n>(&self, name: &'n str) -> (&'n str, Option<&'n str>) {
        // Names in imported fabrics may hold colons.
        let known = self.fabric.graph.switches().any(|switch| self.fabric.name(Node::Switch(switch)) == name);
        match name.rsplit_once(':') {
            Some((device, port)) if !known => (device.trim(), Some(port.trim())),
            _ => (name.trim(), None),
        }
    }

    /// The endpoint that `node 3` or the name of an endpoint means; `None` where it speaks of something else.
    fn node(&self, device: &str, port: Option<&str>) -> Option<Result<EndpointId, String>> {
        let graph = &self.fabric.graph;
        let nodes = self.cluster.nodes();
        let number = device.strip_prefix("node").and_then(|rest| rest.trim().parse::<u32>().ok());
        let Some(number) = number else {
            let named = graph.endpoints().find(|endpoint| self.fabric.name(Node::Endpoint(*endpoint)) == device);
            return named.map(Ok);
        };
        let nic = port.map_or(Some(0), |port| port.parse::<u32>().ok());
        let Some(adapters) = self.cluster.endpoints_of(number) else {
            return Some(Err(format!("the cluster has nodes 0 to {}", nodes.saturating_sub(1))));
        };
        let nics = adapters.end - adapters.start;
        Some(match nic.filter(|nic| *nic < nics) {
            None => Err(format!("a node has {nics} adapters, counted from 0")),
            Some(nic) => Ok(EndpointId(adapters.start + nic)),
        })
    }

    fn endpoint(&self, name: &str, key: &str) -> Result<EndpointId, Problem> {
        let (device, port) = self.device_and_port(name);
        match self.node(device, port) {
            Some(Ok(endpoint)) => Ok(endpoint),
            Some(Err(help)) => Err(self.problem(key, format!("there is no `{name}`"), &help)),
            None => {
                let help = format!("write `node 0` to `node {}`", self.cluster.nodes().saturating_sub(1));
                Err(self.problem(key, format!("`{name}` is no node"), &help))
            }
        }
    }

    fn end_of_link(&self, name: &str) -> Result<Node, Problem> {
        let (device, port) = self.device_and_port(name);
        match self.node(device, port) {
            Some(Ok(endpoint)) => Ok(Node::Endpoint(endpoint)),
            Some(Err(help)) => Err(self.problem("link", format!("there is no `{name}`"), &help)),
            None => self.switch(name, "link").map(Node::Switch),
        }
    }

    fn switch(&self, name: &str, key: &str) -> Result<SwitchId, Problem> {
        let graph = &self.fabric.graph;
        let named = graph.switches().find(|switch| self.fabric.name(Node::Switch(*switch)) == name);
        let number = || name.strip_prefix("switch").and_then(|rest| rest.trim().parse::<u32>().ok());
        let found = named.or_else(|| number().filter(|number| *number < graph.switch_count()).map(SwitchId));
        found.ok_or_else(|| {
            let count = graph.switch_count();
            let names: Vec<String> = graph.switches().take(MOST_NAMES).map(|switch| self.fabric.name(Node::Switch(switch))).collect();
            let help = match nearest(name, names.iter().map(String::as_str)).first() {
                Some(near) => format!("did you mean `{near}`? `fabriscope topo` shows the names"),
                None if count == 0 => "the fabric has no switches; name a link as `node 0`".to_owned(),
                None if count == 1 => format!("there is one switch, `{}`; nodes are `node 0` and so on", names[0]),
                None => format!("there are {count} switches, the first is `{}`; nodes are `node 0` and so on", names[0]),
            };
            self.problem(key, format!("the fabric has no `{name}`"), &help)
        })
    }
}

/// Whether a cable ends at an endpoint.
fn is_host(graph: &Graph, cable: u32) -> bool {
    let link = graph.link(LinkId(cable * 2));
    let hosts: Range<u32> = 0..graph.endpoint_count();
    hosts.contains(&link.from.0) || hosts.contains(&link.to.0)
}

/// Times that one link may go down. Basis: assumed, a bound against slips of the pen.
const MOST_FLAPS: u64 = 1_000_000;
/// The end of time: 48 bits of picoseconds, as links count it.
const LONGEST: u64 = 1 << 48;
/// Names that are compared with a wrong one.
const MOST_NAMES: usize = 10_000;
