//! Options about the inside of nodes: where each rank is, which GPU it has, and how the MPI library moves bytes there.

use fabriscope_catalog::{GpuProtocol, MapBy, Mechanism, ResolvedCluster, ResolvedNode};
use fabriscope_platform::Binding;
use fabriscope_tools::Tool;

use crate::error::LabError;

/// The options, as typed; what is left out is as the library does.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct DeviceOptions {
    /// Where the ranks of each node are: `core`, `socket`, `numa`, `core:0,20`, or their GPUs, `0,2`.
    pub bind: Option<String>,
    /// By what means long messages within a node travel: `shm`, `cma`, `knem`, `xpmem`.
    pub intra_node: Option<String>,
    /// Whether the MPI library takes buffers on a GPU: `on` or `off`.
    pub gpu_aware: Option<String>,
    /// Whether adapters and cores reach the memory of GPUs: `on` or `off`.
    pub gpudirect: Option<String>,
}

impl DeviceOptions {
    /// The options of `self`, and where they are not given those of `before`.
    pub fn or(&self, before: &DeviceOptions) -> DeviceOptions {
        let first = |own: &Option<String>, other: &Option<String>| own.clone().or_else(|| other.clone());
        DeviceOptions {
            bind: first(&self.bind, &before.bind),
            intra_node: first(&self.intra_node, &before.intra_node),
            gpu_aware: first(&self.gpu_aware, &before.gpu_aware),
            gpudirect: first(&self.gpudirect, &before.gpudirect),
        }
    }

    /// What is left for the MPI library and the nodes, and what the tool itself is told: programs of NCCL and RCCL have GPUDirect from their
    /// own library, which a variable of it turns off. Options of the tool come after these, and win.
    pub fn for_tool(&self, tool: Tool) -> (DeviceOptions, Vec<String>) {
        let mut left = self.clone();
        if !matches!(tool, Tool::NcclTests(_) | Tool::Xccl(_)) {
            return (left, Vec::new());
        }
        // Any other word is refused as ever.
        let told = match left.gpudirect.take_if(|word| matches!(word.as_str(), "on" | "off")).as_deref() {
            Some("off") => WITHOUT_GPUDIRECT.map(str::to_owned).to_vec(),
            _ => Vec::new(),
        };
        (left, told)
    }

    /// Changes the library of `parts`; the seats and GPUs of the ranks, of which a job has `ranks`.
    ///
    /// # Errors
    /// A word that is neither on nor off, numbers that no GPU or core has, a library or nodes without GPUs, means that the library does
    /// not have.
    pub fn apply(&self, parts: &mut ResolvedCluster, ranks: u32) -> Result<Binding, LabError> {
        if parts.uniform().is_none() {
            let given = [
                ("--gpu-aware", &self.gpu_aware),
                ("--gpudirect", &self.gpudirect),
                ("--intra-node", &self.intra_node),
                ("--bind", &self.bind),
            ];
            return match given.iter().find(|(_, word)| word.is_some()) {
                None => Ok(Binding::default()),
                Some((option, _)) => {
                    let message = format!("{option} on `{}`, whose nodes are unlike", parts.name);
                    Err(LabError::refused(message, "leave it out, or name one group of nodes behind a colon"))
                }
            };
        }
        let aware = switch("--gpu-aware", self.gpu_aware.as_deref())?;
        let direct = switch("--gpudirect", self.gpudirect.as_deref())?;
        let name = parts.sole().software.name.clone();
        let gpu = parts.sole_mut().software.mpi.as_mut().and_then(|mpi| mpi.gpu.as_mut());
        let unknown = || {
            LabError::refused(
                format!("the library {name} knows nothing of GPUs"),
                "choose software with an [mpi.gpu] table, as openmpi-ucx",
            )
        };
        match (aware, gpu) {
            (Some(true), None) => return Err(unknown()),
            (aware, Some(gpu)) => {
                gpu.aware = aware.unwrap_or(gpu.aware);
                with_direct(&name, gpu, direct)?;
            }
            (_, None) if direct.is_some() => return Err(unknown()),
            (_, None) => {}
        }
        if let Some(word) = &self.intra_node {
            with_mechanism(parts, word)?;
        }
        let by_socket =
            ranks > 2 && parts.sole().node.gpus == 0 && parts.sole().software.mpi.as_ref().is_some_and(|mpi| mpi.map_by == MapBy::Socket);
        binding(self.bind.as_deref().or(by_socket.then_some("socket")), &parts.sole().node)
    }
}

/// Options of programs of NCCL and RCCL: no adapter of a node is near enough to a GPU to reach its memory.
pub const WITHOUT_GPUDIRECT: [&str; 2] = ["--env", "NCCL_NET_GDR_LEVEL=LOC"];

/// Where ranks are.
fn binding(text: Option<&str>, node: &ResolvedNode) -> Result<Binding, LabError> {
    let seats = Seats::of(node);
    let gpus = |text: &str| numbers(text, node.gpus).map(Binding::new);
    let cores = |text: &str| numbers(text, seats.cores).map(|cores| cores.iter().map(|core| seats.domain(*core)).collect());
    let told = match text {
        None if node.gpus > 0 => Some(Binding::default()),
        None | Some("core") => Some(Binding::default().at((0..seats.cores).map(|core| seats.domain(core)).collect())),
        Some("socket") => Some(Binding::default().at(seats.in_turn(node.sockets))),
        Some("numa") => Some(Binding::default().at(seats.in_turn(seats.domains))),
        Some(list) if list.starts_with("core:") => cores(&list["core:".len()..]).map(|domains| Binding::default().at(domains)),
        Some(list) if node.gpus > 0 => gpus(list),
        Some(list) => cores(list).map(|domains| Binding::default().at(domains)),
    };
    told.ok_or_else(|| {
        let text = text.unwrap_or_default();
        let (last, most) = (seats.cores.saturating_sub(1), node.gpus.saturating_sub(1));
        let lists = match node.gpus {
            0 => format!("cores from 0 to {last}, as --bind 0,{last}"),
            _ => format!("GPUs from 0 to {most}, as --bind 0, or cores from 0 to {last}, as --bind core:0,{last}"),
        };
        LabError::refused(
            format!("--bind {text} is no list of {}", if node.gpus > 0 { "GPUs" } else { "cores" }),
            format!("write core, socket, numa, {lists}"),
        )
    })
}

/// Numbers below `count`, separated by commas.
fn numbers(text: &str, count: u32) -> Option<Vec<u32>> {
    text.split(',').map(|word| word.trim().parse::<u32>().ok().filter(|number| *number < count)).collect()
}

/// The cores of a node, spread evenly over its NUMA domains.
struct Seats {
    cores: u32,
    domains: u32,
}

impl Seats {
    fn of(node: &ResolvedNode) -> Seats {
        let domains = node.sockets.saturating_mul(node.layout.part.numa_per_socket).max(1);
        Seats { cores: node.cpu.cores.saturating_mul(node.sockets).max(1), domains }
    }
    /// The domain of a core.
    fn domain(&self, core: u32) -> u32 {
        u32::try_from(u64::from(core) * u64::from(self.domains) / u64::from(self.cores)).unwrap_or(0)
    }
    /// The domains of ranks that take `groups` parts of the node in turn, and within each one core after the other.
    fn in_turn(&self, groups: u32) -> Vec<u32> {
        let groups = groups.clamp(1, self.cores);
        let each = self.cores / groups;
        (0..each * groups).map(|rank| self.domain(rank % groups * each + rank / groups)).collect()
    }
}

/// Chooses by what means long messages within a node travel.
fn with_mechanism(parts: &mut ResolvedCluster, word: &str) -> Result<(), LabError> {
    let name = parts.sole().software.name.clone();
    let mechanism = match word {
        "shm" => Mechanism::Fifo,
        "cma" => Mechanism::Cma,
        "knem" => Mechanism::Knem,
        "xpmem" => Mechanism::Xpmem,
        _ => return Err(LabError::refused(format!("--intra-node {word} is no means of a library"), "use shm, cma, knem or xpmem")),
    };
    let shared = parts.sole_mut().software.mpi.as_mut().and_then(|mpi| mpi.shared_memory.as_mut());
    let shared = shared.ok_or_else(|| {
        let help = "choose software with an [mpi.shared_memory] table, as openmpi-ucx";
        LabError::refused(format!("the library {name} has no messages within a node"), help)
    })?;
    if mechanism != Mechanism::Fifo && shared.costs(mechanism).is_none() {
        let has = Mechanism::ALL.into_iter().filter(|mechanism| shared.costs(*mechanism).is_some());
        let has: Vec<&str> = std::iter::once("shm").chain(has.map(Mechanism::name)).collect();
        return Err(LabError::refused(format!("the library {name} has no {word}"), format!("it has {}", has.join(", "))));
    }
    shared.mechanism = mechanism;
    Ok(())
}

fn with_direct(name: &str, gpu: &mut GpuProtocol, direct: Option<bool>) -> Result<(), LabError> {
    match direct {
        Some(false) => {
            gpu.without_gpudirect();
            Ok(())
        }
        Some(true) if gpu.direct.is_none() => {
            Err(LabError::refused(format!("the library {name} has no GPUDirect RDMA"), "leave --gpudirect out, or choose other software"))
        }
        _ => Ok(()),
    }
}

fn switch(option: &str, word: Option<&str>) -> Result<Option<bool>, LabError> {
    match word {
        None => Ok(None),
        Some("on") => Ok(Some(true)),
        Some("off") => Ok(Some(false)),
        Some(other) => {
            Err(LabError::refused(format!("{option} {other} is neither on nor off"), format!("write {option} on or {option} off")))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Programs of NCCL have GPUDirect from their own library, whatever the MPI library has.
    #[test]
    fn nccl_is_told_by_its_own_variable() {
        let options = DeviceOptions { gpudirect: Some("off".to_owned()), ..DeviceOptions::default() };
        let of = |name: &str| options.for_tool(Tool::by_name(name).unwrap());
        assert_eq!(of("all_reduce_perf"), (DeviceOptions::default(), vec!["--env".to_owned(), "NCCL_NET_GDR_LEVEL=LOC".to_owned()]));
        assert_eq!(of("osu_latency"), (options.clone(), Vec::new()));
        let wrong = DeviceOptions { gpudirect: Some("maybe".to_owned()), ..DeviceOptions::default() };
        assert_eq!(wrong.for_tool(Tool::by_name("all_reduce_perf").unwrap()), (wrong.clone(), Vec::new()), "refused as ever");
    }

    #[test]
    fn ranks_are_packed_or_take_sockets_in_turn() {
        let seats = Seats { cores: 8, domains: 4 };
        assert_eq!((0..8).map(|core| seats.domain(core)).collect::<Vec<_>>(), [0, 0, 1, 1, 2, 2, 3, 3]);
        // Two sockets of two domains each: within a socket one core after the other.
        assert_eq!(seats.in_turn(2), [0, 2, 0, 2, 1, 3, 1, 3]);
        assert_eq!(seats.in_turn(4), [0, 1, 2, 3, 0, 1, 2, 3]);
        assert_eq!((numbers("0, 7", 8), numbers("8", 8), numbers("", 8)), (Some(vec![0, 7]), None, None));
    }
}
