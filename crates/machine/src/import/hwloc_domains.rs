//! Packages, cores and memories in XML of hwloc, as domains: processors of one package that see the same memories.
//!
//! ```text
//! objects nest in any order:          what counts is which processors are in them:
//!   Group ─ NUMANode                    package  0 0 0 0 1 1 1 1 ─┐ processors that are alike in both
//!     Package ─ Core ─ PU               memory   0 0 0 0 0 0 0 0 ─┘ are one domain: two here, at one memory
//! ```
//!
//! Source: hwloc, "Terms and definitions", "Upgrading to the hwloc 2.0 API" (memories are beside the tree since then, and around what
//! they are the memory of before).
//! A domain is called after the smallest of its memories, the first of equals: of a processor with DDR and high-bandwidth memory that
//! of DDR, which hwloc lists first. Memory without processors is at the domain that the object around it has first.

use std::collections::{BTreeMap, BTreeSet};

use fabriscope_units::Bytes;

use super::assembly::Draft;
use super::element::Element;
use super::error::ImportError;
use super::hwloc::{above, info, mask};
use crate::cpu_set::CpuSet;
use crate::identity::{Identity, Processor};
use crate::vertex::{Vertex, VertexId, VertexKind};

/// The domains of a machine, by what is in them.
#[derive(Default)]
pub(super) struct Domains {
    each: Vec<Domain>,
}

struct Domain {
    id: VertexId,
    cpus: CpuSet,
    /// Numbers of its memories.
    memories: Vec<u32>,
}

/// A memory of the file.
struct Memory<'d> {
    element: Element<'d>,
    number: u32,
    cpus: CpuSet,
    size: Option<Bytes>,
}

/// Processors that are alike: their package, and the memories around them.
type Kind = (Option<usize>, Vec<usize>);

impl Domains {
    /// All domains with their memories, in the order of their first processors.
    pub(super) fn read(draft: &mut Draft<'_>, topology: Element<'_>) -> Result<Domains, ImportError> {
        let of_type = |names: &'static [&'static str]| {
            let objects = topology.below().filter(|element| element.name() == "object");
            objects.filter(move |object| object.says("type").is_some_and(|found| names.contains(&found)))
        };
        let sets = |names: &'static [&'static str]| -> Result<Vec<(Element<'_>, CpuSet)>, ImportError> {
            of_type(names).map(|object| Ok((object, mask(object, "cpuset")?))).collect()
        };
        // Until 1.11 a package was a socket.
        let (packages, cores, units) = (sets(&["Package", "Socket"])?, sets(&["Core"])?, sets(&["PU"])?);
        let mut memories = Vec::new();
        for numa in of_type(&["NUMANode"]) {
            let number = numa.number("os_index")?.unwrap_or(memories.len() as u32);
            memories.push(Memory { element: numa, number, cpus: mask(numa, "cpuset")?, size: size(numa)? });
        }
        let mut all: Vec<u32> = units.iter().flat_map(|(_, cpus)| cpus.numbers()).collect();
        if all.is_empty() {
            let others = packages.iter().map(|(_, cpus)| cpus).chain(memories.iter().map(|memory| &memory.cpus));
            all = others.flat_map(CpuSet::numbers).collect();
        }
        if memories.is_empty() && !all.is_empty() {
            // Before 2.0 a machine with one memory has no NUMANode; the memory is the machine's.
            let machine = of_type(&["Machine", "System"]).next().unwrap_or(topology);
            memories.push(Memory { element: machine, number: 0, cpus: CpuSet::of(&all), size: size(machine)? });
        }
        let kinds = kinds(&all, &packages, &memories);
        if kinds.iter().any(|((package, _), _)| package.is_none()) {
            let what =
                if packages.is_empty() { "the file names no package: its processors" } else { "the processors outside of all packages" };
            draft.notes.push(format!("{what} are taken as one socket"));
        }
        let mut domains = Domains::default();
        let core_of =
            |cpus: &CpuSet| cores.iter().filter(|(_, core)| core.numbers().next().is_some_and(|first| cpus.contains(first))).count();
        let mut placed: BTreeMap<usize, VertexId> = BTreeMap::new();
        let mut names = BTreeSet::new();
        for ((place, around), cpus) in kinds {
            let package = place.map(|place| packages[place].0);
            let primary = around.first().map(|memory| &memories[*memory]);
            let shared = primary.is_some_and(|primary| domains.each.iter().any(|domain| domain.memories.first() == Some(&primary.number)));
            let name = name(primary, shared, package, &mut names)?;
            // Processors outside of all packages of the file are a package of their own.
            let mut domain = Vertex::new(VertexKind::Numa { package: place.unwrap_or(packages.len()) as u32 }, name);
            let machine = package.or_else(|| of_type(&["Machine", "System"]).next());
            domain.title = machine.and_then(|object| info(object.children(), "CPUModel")).unwrap_or_default().trim().to_owned();
            domain.identity = Identity {
                number: primary.filter(|_| !shared).map(|primary| primary.number),
                cores: core_of(&cpus) as u32,
                cpus: cpus.clone(),
                processor: processor(machine, topology),
                ..Identity::default()
            };
            let line = primary.map(|primary| primary.element).or(package).unwrap_or(topology).line();
            let id = draft.cores(domain, line)?;
            for &memory in &around {
                let vertex = match placed.get(&memory) {
                    Some(vertex) => *vertex,
                    None => memories[memory].place(draft)?,
                };
                placed.insert(memory, vertex);
                draft.memory_at(id, vertex);
            }
            domains.each.push(Domain { id, cpus, memories: around.iter().map(|memory| memories[*memory].number).collect() });
        }
        for (place, memory) in memories.iter().enumerate() {
            if !placed.contains_key(&place) {
                domains.alone(draft, memory, &packages)?;
            }
        }
        Ok(domains)
    }

    /// Memory that no processor of the file is near: of a GPU, behind CXL, or what is left where processors are hidden.
    fn alone(&mut self, draft: &mut Draft<'_>, memory: &Memory<'_>, packages: &[(Element<'_>, CpuSet)]) -> Result<(), ImportError> {
        let (line, number) = (memory.element.line(), memory.number);
        if memory.element.says("subtype") == Some("GPUMemory") {
            draft.notes.push(format!("line {line}: NUMA domain {number} is memory of a GPU, which has its own here"));
            return Ok(());
        }
        let hidden = packages.iter().position(|(package, cpus)| cpus.is_empty() && above(memory.element).any(|outer| outer == *package));
        let outer = above(memory.element).map(|outer| mask(outer, "cpuset")).find(|cpus| !matches!(cpus, Ok(cpus) if cpus.is_empty()));
        let near = self.within(&outer.transpose()?.unwrap_or_default()).first().copied().or_else(|| self.first());
        let vertex = memory.place(draft)?;
        let (Some(near), None) = (near, hidden) else {
            // A package whose processors the file hides has its memory; and so has a file without any set of processors.
            let mut domain = Vertex::new(VertexKind::Numa { package: hidden.unwrap_or(0) as u32 }, format!("numa{number}"));
            domain.identity.number = Some(number);
            let id = draft.cores(domain, line)?;
            draft.memory_at(id, vertex);
            self.each.push(Domain { id, cpus: CpuSet::default(), memories: vec![number] });
            return Ok(());
        };
        draft.memory_at(near, vertex);
        self.each.iter_mut().filter(|domain| domain.id == near).for_each(|domain| domain.memories.push(number));
        let at = draft.vertex_mut(near).name.clone();
        draft.notes.push(format!("line {line}: NUMA domain {number} has no processors: its memory is taken to be at {at}"));
        Ok(())
    }

    /// The domains all of whose processors are in a set.
    fn within(&self, cpus: &CpuSet) -> Vec<VertexId> {
        let inside = |domain: &&Domain| !domain.cpus.is_empty() && domain.cpus.numbers().all(|number| cpus.contains(number));
        self.each.iter().filter(inside).map(|domain| domain.id).collect()
    }
    /// The domains that an object around devices has: by its processors, else by its memories.
    pub(super) fn near(&self, cpus: &CpuSet, memories: &CpuSet) -> Vec<VertexId> {
        let inside = self.within(cpus);
        if !inside.is_empty() {
            return inside;
        }
        // Less than a domain, such as a cache, is of its domain.
        let part = |domain: &&Domain| {
            if cpus.is_empty() {
                domain.memories.iter().any(|number| memories.contains(*number))
            } else {
                cpus.numbers().any(|number| domain.cpus.contains(number))
            }
        };
        self.each.iter().filter(part).map(|domain| domain.id).collect()
    }
    /// The first domain.
    pub(super) fn first(&self) -> Option<VertexId> {
        self.each.first().map(|domain| domain.id)
    }
}

impl Memory<'_> {
    fn place(&self, draft: &mut Draft<'_>) -> Result<VertexId, ImportError> {
        let mut memory = Vertex::new(VertexKind::HostMemory, format!("numa{}-memory", self.number));
        memory.title = self.element.says("subtype").unwrap_or_default().to_owned();
        memory.identity.size = self.size;
        draft.add(memory, self.element.line())
    }
}

/// Processors by kind, kinds in the order of their first processors; memories of a kind from the smallest on.
fn kinds(all: &[u32], packages: &[(Element<'_>, CpuSet)], memories: &[Memory<'_>]) -> Vec<(Kind, CpuSet)> {
    let mut of: BTreeMap<u32, Kind> = BTreeMap::new();
    for (place, (_, cpus)) in packages.iter().enumerate() {
        for cpu in cpus.numbers() {
            of.entry(cpu).or_default().0.get_or_insert(place);
        }
    }
    let mut order: Vec<usize> = (0..memories.len()).collect();
    order.sort_by_key(|place| memories[*place].cpus.len());
    for place in order {
        for cpu in memories[place].cpus.numbers() {
            of.entry(cpu).or_default().1.push(place);
        }
    }
    let mut found: Vec<(Kind, Vec<u32>)> = Vec::new();
    let mut places: BTreeMap<Kind, usize> = BTreeMap::new();
    for cpu in all {
        let kind = of.get(cpu).cloned().unwrap_or_default();
        let place = *places.entry(kind.clone()).or_insert(found.len());
        match found.get_mut(place) {
            Some((_, cpus)) => cpus.push(*cpu),
            None => found.push((kind, vec![*cpu])),
        }
    }
    found.into_iter().map(|(kind, cpus)| (kind, CpuSet::of(&cpus))).collect()
}

/// A name that no domain has: of its first memory; with its package where another domain is at the same memory, or it has none.
fn name(
    primary: Option<&Memory<'_>>,
    shared: bool,
    package: Option<Element<'_>>,
    names: &mut BTreeSet<String>,
) -> Result<String, ImportError> {
    let package = package.map(|package| package.number("os_index")).transpose()?.flatten();
    let of_package = package.map_or_else(|| "cores".to_owned(), |number| format!("package{number}"));
    let stem = match primary {
        Some(primary) if shared => format!("numa{}-{of_package}", primary.number),
        Some(primary) => format!("numa{}", primary.number),
        None => of_package,
    };
    let numbered = (2..).map(|number: u32| format!("{stem}-{number}"));
    let free = std::iter::once(stem.clone()).chain(numbered).find(|name| !names.contains(name));
    let name = free.unwrap_or_else(|| stem.clone());
    names.insert(name.clone());
    Ok(name)
}

fn size(object: Element<'_>) -> Result<Option<Bytes>, ImportError> {
    let bytes = object.parsed("local_memory", "number of bytes", "use a whole number", |text| text.parse().ok())?;
    Ok(bytes.map(Bytes))
}

/// The model of the processors in an object.
fn processor(object: Option<Element<'_>>, topology: Element<'_>) -> Processor {
    let text = |name: &str| object.and_then(|object| info(object.children(), name)).unwrap_or_default().to_owned();
    let number = |name: &str| text(name).trim().parse().ok();
    // The words of NCCL, which knows three.
    let architecture = match info(topology.below(), "Architecture").unwrap_or_default() {
        "aarch64" => "arm64",
        "ppc64le" => "ppc64",
        other => other,
    };
    Processor {
        architecture: architecture.to_owned(),
        vendor: text("CPUVendor"),
        family: number("CPUFamilyNumber"),
        model: number("CPUModelNumber"),
    }
}
