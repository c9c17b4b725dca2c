//! Nodes and the cores on their adapters with all their parts: names looked up in the catalogue, and whether they fit together.

use fabriscope_units::Remedy;

use crate::catalog::{AnyPart, Catalog};
use crate::dpu::ResolvedDpu;
use crate::error::{CatalogError, Problem};
use crate::node::{Devices, Node, NodeLayout, NumaDistance, ResolvedBundle, ResolvedNode, ResolvedSlot};
use crate::part::{Bundle, Cpu, Gpu, Kind, Nic, Nics, NodePart, Pcie, PcieSlot};
use crate::resolve::missing;

impl Node {
    /// Which devices it has, without looking at their parts.
    ///
    /// # Errors
    /// No such node in the catalogue.
    pub fn devices(&self, catalog: &Catalog) -> Result<Devices, CatalogError> {
        let part = self.part.as_deref().map(|name| catalog.node(name)).transpose()?;
        let gpus = part.and_then(|part| part.gpus.as_ref());
        let nic = self.nic.as_ref().or(part.and_then(|part| part.nics.as_ref()).map(|nics| &nics.part));
        Ok(Devices {
            gpu: gpus.map(|gpus| self.gpu.as_ref().unwrap_or(&gpus.part).clone()),
            gpus: self.gpus.unwrap_or(part.map_or(0, NodePart::gpus)),
            nic: nic.cloned().unwrap_or_default(),
            nics: self.nics.unwrap_or(part.map_or(1, NodePart::nics)),
        })
    }
}

/// The node with its parts; paths of problems start at the node of the cluster.
pub(crate) fn resolve(catalog: &Catalog, node: &Node) -> Result<ResolvedNode, Problem> {
    node.check()?;
    let Some(name) = &node.part else { return without_part(catalog, node) };
    let part = catalog.node(name).map_err(|error| missing(&["part"], &error))?;
    let mut part = part.clone();
    if let Some(gpu) = &node.gpu {
        let Some(gpus) = &mut part.gpus else {
            return Err(Problem::at(&["gpu"], format!("the node `{name}` has no GPUs"), "choose another node, or remove `gpu`"));
        };
        catalog.gpu(gpu).map_err(|error| missing(&["gpu"], &error))?;
        gpus.part.clone_from(gpu);
    }
    if let Some(nic) = &node.nic {
        let Some(nics) = &mut part.nics else {
            return Err(Problem::at(&["nic"], format!("the node `{name}` has no slots for adapters"), "choose another node"));
        };
        catalog.nic(nic).map_err(|error| missing(&["nic"], &error))?;
        nics.part.clone_from(nic);
    }
    if part.nics() == 0 {
        let message = format!("the node `{name}` has no slots for adapters");
        return Err(Problem::at(&["part"], message, "choose another node, or rest one of your own on it with [nics]"));
    }
    let within = |key: &str, wanted: Option<u32>, has: u32, what: &str| match wanted {
        Some(wanted) if wanted > has => {
            let help = format!("use at most {has}, or rest a node of your own on `{name}` that has more");
            Err(Problem::at(&[key], format!("{wanted} {what}, but the node `{name}` has slots for {has}"), help))
        }
        _ => Ok(wanted.unwrap_or(has)),
    };
    let gpus = within("gpus", node.gpus, part.gpus(), "GPUs")?;
    let nics = within("nics", node.nics, part.nics(), "adapters")?;
    part.trays = trays_in_use(&part, gpus, nics);
    let told = |problem: Problem| Problem::at(&["part"], format!("the node `{name}`: {}", problem.message), problem.help);
    let mut resolved = of_part(catalog, part).map_err(told)?;
    (resolved.gpus, resolved.nics, resolved.numa) = (gpus, nics, node.numa);
    joined(&resolved).map_err(|problem| Problem::at(&["part"], problem.message, problem.help))?;
    Ok(resolved)
}

/// Trays of which no GPU and no adapter is in use are not there: nothing would lead to their processors.
fn trays_in_use(part: &NodePart, gpus: u32, nics: u32) -> u32 {
    let holds = |all: u32| (all / part.trays.max(1)).max(1);
    let needed = gpus.div_ceil(holds(part.gpus())).max(nics.div_ceil(holds(part.nics())));
    needed.clamp(1, part.trays.max(1))
}

/// The node of a cluster that names a processor and an adapter: all adapters at the first processor.
fn without_part(catalog: &Catalog, node: &Node) -> Result<ResolvedNode, Problem> {
    let (cpu, nic) = (node.cpu.as_deref().unwrap_or_default(), node.nic.as_deref().unwrap_or_default());
    let cpu = catalog.cpu(cpu).map_err(|error| missing(&["cpu"], &error))?;
    let nic = catalog.nic(nic).map_err(|error| missing(&["nic"], &error))?;
    let (sockets, nics) = (node.sockets.unwrap_or(1), node.nics.unwrap_or(1));
    let path: &[&str] = if node.pcie.is_some() { &["pcie", "generation"] } else { &["nic"] };
    let pcie = slot(catalog, node.pcie, nic.pcie, path)?;
    let socket_link = socket_link(catalog, cpu, None, sockets).map_err(|problem| Problem { path: vec!["cpu".to_owned()], ..problem })?;
    // Their number is bounded when the topology is built.
    let under = vec!["numa0".to_owned(); nics.min(MOST_SLOTS) as usize];
    let part = NodePart {
        name: String::new(),
        title: String::new(),
        notes: String::new(),
        cpu: cpu.name.clone(),
        sockets,
        numa_per_socket: 1,
        trays: 1,
        socket_link: None,
        memory: None,
        switches: Vec::new(),
        gpus: None,
        scale_up: None,
        nics: Some(Nics { part: nic.name.clone(), under, slot: node.pcie, host_link: None }),
        expanders: None,
        drives: None,
        wafer: None,
    };
    let layout = NodeLayout {
        part,
        socket_link,
        uplinks: Vec::new(),
        gpu_slot: None,
        gpu_link: None,
        scale_up: None,
        nic_link: None,
        expander_link: None,
    };
    let dpu = dpu(catalog, nic).map_err(|problem| of_adapter(&nic.name, &problem, &["nic"]))?;
    let (cpu, nic) = (cpu.clone(), nic.clone());
    Ok(ResolvedNode { cpu, sockets, gpu: None, gpus: 0, nic, nics, dpu, pcie, numa: node.numa, layout })
}

/// A node of the catalogue with its parts; paths of problems start at the part.
pub(crate) fn of_part(catalog: &Catalog, part: NodePart) -> Result<ResolvedNode, Problem> {
    let cpu = catalog.cpu(&part.cpu).map_err(|error| missing(&["cpu"], &error))?.clone();
    let gpu = match &part.gpus {
        Some(gpus) => Some(catalog.gpu(&gpus.part).map_err(|error| missing(&["gpus", "part"], &error))?.clone()),
        None => None,
    };
    let Some(nics) = &part.nics else {
        return Err(Problem::at(&["nics"], "a node without slots for adapters", "add [nics] with `part` and `under`"));
    };
    let nic = catalog.nic(&nics.part).map_err(|error| missing(&["nics", "part"], &error))?.clone();
    let pcie = slot(catalog, nics.slot, nic.pcie, &["nics", "slot", "generation"])?;
    let dpu = dpu(catalog, &nic).map_err(|problem| of_adapter(&nic.name, &problem, &["nics", "part"]))?;
    let mut uplinks = Vec::new();
    for (number, group) in part.switches.iter().enumerate() {
        uplinks.push(slot(catalog, None, group.uplink, &["switches", &number.to_string(), "uplink", "generation"])?);
    }
    let (gpu_slot, gpu_link) = match (&gpu, &part.gpus) {
        (Some(gpu), Some(gpus)) => way_to_gpu(catalog, gpu, gpus)?,
        _ => (None, None),
    };
    let expander_link = part.expanders.as_ref().map(|group| bundle(catalog, &group.link, &["expanders", "link"])).transpose()?;
    if let (Some(pool), Some(link)) = (part.expanders.as_ref().and_then(|group| group.pool.as_ref()), &expander_link) {
        pool.check(&link.part)?;
    }
    let layout = NodeLayout {
        socket_link: socket_link(catalog, &cpu, part.socket_link.as_ref(), part.sockets)?,
        uplinks,
        gpu_slot,
        gpu_link,
        scale_up: scale_up(catalog, &part, gpu.as_deref())?,
        nic_link: nics.host_link.as_ref().map(|link| bundle(catalog, link, &["nics", "host_link"])).transpose()?,
        expander_link,
        part,
    };
    let (sockets, gpus, nics) = (layout.part.sockets.saturating_mul(layout.part.trays), layout.part.gpus(), layout.part.nics());
    Ok(ResolvedNode { cpu, sockets, gpu, gpus, nic, nics, dpu, pcie, numa: NumaDistance::Local, layout })
}

/// The problem of an adapter where it is named.
fn of_adapter(name: &str, problem: &Problem, path: &[&str]) -> Problem {
    Problem::at(path, format!("the adapter `{name}`: {}", problem.message), problem.help.clone())
}

/// Everything that is wrong with a node of the catalogue across its parts.
pub(crate) fn check_part(catalog: &Catalog, part: &NodePart) -> Result<(), Problem> {
    joined(&of_part(catalog, part.clone())?)
}

/// Whether the graph of the node holds together, and every GPU reaches an adapter without the help of other GPUs.
fn joined(node: &ResolvedNode) -> Result<(), Problem> {
    use fabriscope_machine::Purpose;
    let machine = node.machine().map_err(|error| {
        let (message, help) = error.halves("");
        Problem::at(&[], message, help)
    })?;
    let nics = machine.nics();
    for gpu in machine.gpus() {
        // Its own links count only as far as the adapter hangs on them (a wafer): no other GPU is asked to pass traffic on.
        if machine.nearest(gpu, &nics, Purpose::Copy).is_none() {
            let message = format!("no path leads from `{}` to an adapter", machine.vertex(gpu).name);
            let help = "join the processors by `socket_link`, or put an adapter where the GPU is";
            return Err(Problem::at(&["gpus"], message, help));
        }
    }
    Ok(())
}

fn way_to_gpu(catalog: &Catalog, gpu: &Gpu, gpus: &crate::part::Gpus) -> Result<(Option<ResolvedSlot>, Option<ResolvedBundle>), Problem> {
    if let Some(link) = &gpus.host_link {
        return Ok((None, Some(bundle(catalog, link, &["gpus", "host_link"])?)));
    }
    if gpus.unified_memory {
        return Ok((None, None));
    }
    match gpu.pcie {
        Some(connector) => Ok((Some(slot(catalog, gpus.slot, connector, &["gpus", "slot", "generation"])?), None)),
        None => {
            let message = format!("the GPU `{}` has no connector for PCI Express", gpu.name);
            Err(Problem::at(&["gpus", "part"], message, "write `gpus.host_link`: the links that lead to it"))
        }
    }
}

fn scale_up(catalog: &Catalog, part: &NodePart, gpu: Option<&Gpu>) -> Result<Option<ResolvedBundle>, Problem> {
    let (Some(scale_up), Some(gpu)) = (&part.scale_up, gpu) else { return Ok(None) };
    let Some(ports) = &gpu.scale_up else {
        let message = format!("the GPU `{}` has no links to its like", gpu.name);
        return Err(Problem::at(&["scale_up"], message, "remove [scale_up], or choose another GPU"));
    };
    let used = scale_up.most_links(part.gpus());
    if used > ports.links {
        let message = format!("{used} links at one GPU, but `{}` has {}", gpu.name, ports.links);
        return Err(Problem::at(&["scale_up"], message, format!("use at most {} links at each GPU", ports.links)));
    }
    let interconnect = catalog.interconnect(&ports.interconnect).map_err(|error| missing(&["gpus", "part"], &error))?;
    Ok(Some(ResolvedBundle { part: interconnect.clone(), links: ports.links }))
}

/// The links that the node names, or those of its processor.
fn socket_link(catalog: &Catalog, cpu: &Cpu, own: Option<&Bundle>, sockets: u32) -> Result<Option<ResolvedBundle>, Problem> {
    match (own, &cpu.socket_link) {
        _ if sockets == 1 => Ok(None),
        (Some(link), _) => bundle(catalog, link, &["socket_link"]).map(Some),
        (None, Some(link)) => bundle(catalog, link, &["cpu"]).map(Some),
        (None, None) => Ok(None),
    }
}

fn bundle(catalog: &Catalog, bundle: &Bundle, path: &[&str]) -> Result<ResolvedBundle, Problem> {
    let part = catalog.interconnect(&bundle.interconnect).map_err(|error| missing(path, &error))?;
    Ok(ResolvedBundle { part: part.clone(), links: bundle.links })
}

/// The lesser of connector and slot; a generation that does not exist is told at `path`.
pub(crate) fn slot(catalog: &Catalog, slot: Option<PcieSlot>, connector: PcieSlot, path: &[&str]) -> Result<ResolvedSlot, Problem> {
    let given = slot.unwrap_or(connector);
    if given.bus.is_some() != connector.bus.is_some() {
        let message = format!("a device for the {} in a slot of the {}", connector.noun(), given.noun());
        return Err(Problem::at(path, message, "give the slot the bus of the device, or choose another device"));
    }
    let slot = PcieSlot {
        generation: given.generation.min(connector.generation),
        lanes: given.lanes.min(connector.lanes),
        bus: given.bus.min(connector.bus),
        tags: given.tags.into_iter().chain(connector.tags).min(),
    };
    let find = |wanted: PcieSlot| {
        catalog.parts().find_map(|part| match part {
            AnyPart::Pcie(pcie) if pcie.generation == wanted.generation && pcie.bus == wanted.bus => Some(&**pcie),
            _ => None,
        })
    };
    // The slot as written must exist too, even where the connector is the lesser.
    if find(given).is_some()
        && let Some(part) = find(slot)
    {
        let tags = part.tags.as_ref().map(|tags| **tags).into_iter().chain(slot.tags).min();
        return Ok(ResolvedSlot { part: Pcie::clone(part), lanes: slot.lanes, tags });
    }
    let known = catalog.parts().filter_map(|part| match part {
        AnyPart::Pcie(pcie) if pcie.bus.is_none() => Some(pcie.generation.to_string()),
        _ => None,
    });
    let wrong = if find(given).is_none() { given } else { slot };
    let help = format!("the {}s of the catalogue are {}", Kind::Pcie, known.collect::<Vec<_>>().join(", "));
    Err(Problem::at(path, format!("there is no {}", wrong.noun()), help))
}

/// Adapters that the graph of a made-up node shows at most.
const MOST_SLOTS: u32 = 1024;

/// The cores of `nic`, if it has some; paths of problems start at the adapter's part.
pub(crate) fn dpu(catalog: &Catalog, nic: &Nic) -> Result<Option<ResolvedDpu>, Problem> {
    let Some(part) = &nic.dpu else { return Ok(None) };
    let cpu = catalog.cpu(&part.cpu).map_err(|error| missing(&["dpu", "cpu"], &error))?;
    if part.cores > cpu.cores {
        let message = format!("{} cores, but `{}` has {}", part.cores, cpu.name, cpu.cores);
        return Err(Problem::at(&["dpu", "cores"], message, format!("use 1 to {}, or another processor", cpu.cores)));
    }
    let pcie = slot(catalog, None, part.pcie, &["dpu", "pcie", "generation"])?;
    let port = slot(catalog, None, nic.pcie, &["pcie", "generation"])?;
    Ok(Some(ResolvedDpu { part: part.clone(), cpu: cpu.clone(), port, pcie }))
}
