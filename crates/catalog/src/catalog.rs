//! All parts at hand: the ones that come with the program, and those of a user's folder over them.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use include_dir::{Dir, include_dir};

use crate::altered::Alteration;
use crate::cluster::{Change, Cluster, ResolvedCluster};
use crate::copy_on_write::Shared;
use crate::document::Document;
use crate::error::{CatalogError, Fault, Problem};
use crate::file;
use crate::node::{Node, ResolvedNode};
use crate::part::{
    Cable, Congestion, Cpu, Decisions, Drive, FileSystem, Gpu, Interconnect, Kernel, Kind, LinkSpeed, Manager, Model, Nic, NodeFiles,
    NodePart, Part, Pcie, PowerFigures, Software, Switch,
};
use crate::stop::Stop;
use crate::suggest;
use crate::target::{ClusterSource, Target, is_yaml};

/// The catalogue that comes with the program.
static EMBEDDED: Dir<'static> = include_dir!("$CARGO_MANIFEST_DIR/../../catalog");

/// A part of any kind.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum AnyPart {
    /// A link speed.
    Link(Box<LinkSpeed>),
    /// A cable.
    Cable(Cable),
    /// A network adapter.
    Nic(Shared<Nic>),
    /// A switch.
    Switch(Box<Switch>),
    /// A processor.
    Cpu(Shared<Cpu>),
    /// A GPU or another accelerator.
    Gpu(Shared<Gpu>),
    /// A link inside a node.
    Interconnect(Box<Interconnect>),
    /// A node.
    Node(Box<NodePart>),
    /// What files about nodes leave out.
    NodeFiles(Box<NodeFiles>),
    /// A generation of PCI Express.
    Pcie(Box<Pcie>),
    /// An MPI library or a benchmark program.
    Software(Shared<Software>),
    /// Choices of algorithms for collective operations.
    Decisions(Box<Decisions>),
    /// A congestion control.
    Congestion(Box<Congestion>),
    /// A manager of a fabric.
    Manager(Box<Manager>),
    /// An operating system.
    Kernel(Box<Kernel>),
    /// A neural network.
    Model(Box<Model>),
    /// A drive.
    Drive(Shared<Drive>),
    /// A file system.
    FileSystem(Box<FileSystem>),
    /// What parts draw.
    Power(Box<PowerFigures>),
    /// A cluster.
    Cluster(Box<Cluster>),
}

/// Calls a generic expression with whatever part is inside.
macro_rules! each {
    ($any:expr, $part:ident => $result:expr) => {
        match $any {
            AnyPart::Link($part) => $result,
            AnyPart::Cable($part) => $result,
            AnyPart::Nic($part) => $result,
            AnyPart::Switch($part) => $result,
            AnyPart::Cpu($part) => $result,
            AnyPart::Gpu($part) => $result,
            AnyPart::Interconnect($part) => $result,
            AnyPart::Node($part) => $result,
            AnyPart::NodeFiles($part) => $result,
            AnyPart::Pcie($part) => $result,
            AnyPart::Software($part) => $result,
            AnyPart::Decisions($part) => $result,
            AnyPart::Congestion($part) => $result,
            AnyPart::Manager($part) => $result,
            AnyPart::Kernel($part) => $result,
            AnyPart::Model($part) => $result,
            AnyPart::Drive($part) => $result,
            AnyPart::FileSystem($part) => $result,
            AnyPart::Power($part) => $result,
            AnyPart::Cluster($part) => $result,
        }
    };
}

impl AnyPart {
    /// The kind of the part.
    pub fn kind(&self) -> Kind {
        match self {
            AnyPart::Link(_) => Kind::Link,
            AnyPart::Cable(_) => Kind::Cable,
            AnyPart::Nic(_) => Kind::Nic,
            AnyPart::Switch(_) => Kind::Switch,
            AnyPart::Cpu(_) => Kind::Cpu,
            AnyPart::Gpu(_) => Kind::Gpu,
            AnyPart::Interconnect(_) => Kind::Interconnect,
            AnyPart::Node(_) => Kind::Node,
            AnyPart::NodeFiles(_) => Kind::NodeFiles,
            AnyPart::Pcie(_) => Kind::Pcie,
            AnyPart::Software(_) => Kind::Software,
            AnyPart::Decisions(_) => Kind::Decisions,
            AnyPart::Congestion(_) => Kind::Congestion,
            AnyPart::Manager(_) => Kind::Manager,
            AnyPart::Kernel(_) => Kind::Kernel,
            AnyPart::Model(_) => Kind::Model,
            AnyPart::Drive(_) => Kind::Drive,
            AnyPart::FileSystem(_) => Kind::FileSystem,
            AnyPart::Power(_) => Kind::Power,
            AnyPart::Cluster(_) => Kind::Cluster,
        }
    }
    /// The name of the part.
    pub fn name(&self) -> &str {
        each!(self, part => part.name())
    }
    /// One line that tells a person what it is.
    pub fn title(&self) -> &str {
        each!(self, part => part.title())
    }
    /// The part as plain data, fields in the order of the type.
    pub fn to_json(&self) -> serde_json::Value {
        // Every field is a text, a number, a list or a table of those: none of them can fail.
        each!(self, part => serde_json::to_value(part).unwrap_or_default())
    }
}

/// The text of a part and where it came from.
#[derive(Clone, Debug)]
pub(crate) struct Source {
    pub(crate) file: String,
    pub(crate) text: String,
}

/// The name of a part within its kind.
pub(crate) type Key = (Kind, String);

/// All parts at hand. A copy costs next to nothing.
#[derive(Clone, Debug)]
pub struct Catalog {
    pub(crate) sources: Arc<BTreeMap<Key, Source>>,
    pub(crate) parts: Arc<BTreeMap<Key, AnyPart>>,
    /// Clusters that have their parts already, by name; they come before those of the catalogue.
    pub(crate) resolved: Arc<BTreeMap<String, ResolvedCluster>>,
    /// What ends the runs of its clusters.
    pub(crate) stop: Stop,
}

impl Catalog {
    /// The catalogue that comes with the program.
    ///
    /// # Errors
    /// A fault in one of its files; the tests rule that out.
    pub fn embedded() -> Result<Catalog, CatalogError> {
        Catalog::of_sources(embedded_sources())
    }

    /// The catalogue that comes with the program, with the files of `folder` added or put in their place.
    ///
    /// # Errors
    /// A folder or file that cannot be read, a folder that names no kind of part, a fault in a file.
    pub fn load(folder: &Path) -> Result<Catalog, CatalogError> {
        let mut sources = embedded_sources();
        add_folder(&mut sources, folder)?;
        Catalog::of_sources(sources)
    }

    /// The catalogue that consists of the files of `folder` alone.
    ///
    /// # Errors
    /// As [`Catalog::load`].
    pub fn only(folder: &Path) -> Result<Catalog, CatalogError> {
        let mut sources = BTreeMap::new();
        add_folder(&mut sources, folder)?;
        Catalog::of_sources(sources)
    }

    fn of_sources(sources: BTreeMap<Key, Source>) -> Result<Catalog, CatalogError> {
        let mut catalog = Catalog { sources: Arc::new(sources), parts: Arc::default(), resolved: Arc::default(), stop: Stop::default() };
        // Software looks at decisions.
        for last in [false, true] {
            let mut parts = BTreeMap::new();
            for (key, source) in catalog.sources.iter().filter(|(key, _)| (key.0 != Kind::Decisions) == last) {
                parts.insert(key.clone(), catalog.parse_part_in(key.0, &key.1, &source.file, &source.text)?);
            }
            Arc::make_mut(&mut catalog.parts).append(&mut parts);
        }
        Ok(catalog)
    }

    /// Reads the text of one part called `name`; its `base` may be any part of the catalogue.
    ///
    /// # Errors
    /// Whatever is wrong with it.
    pub fn parse_part(&self, kind: Kind, name: &str, text: &str) -> Result<AnyPart, CatalogError> {
        self.parse_part_in(kind, name, &format!("{}/{name}.toml", kind.folder()), text)
    }

    /// Reads the text of one cluster; `file` is what messages call it.
    ///
    /// # Errors
    /// Whatever is wrong with it.
    pub fn parse_cluster(&self, file: &str, text: &str) -> Result<Cluster, CatalogError> {
        let document = self.based(Kind::Cluster, Document::parse(file, text)?, &mut Vec::new())?;
        read_cluster(&document).map_err(CatalogError::from)
    }

    pub(crate) fn parse_part_in(&self, kind: Kind, name: &str, file: &str, text: &str) -> Result<AnyPart, CatalogError> {
        let document = self.based(kind, Document::parse(file, text)?, &mut vec![name.to_owned()])?;
        let part = match kind {
            Kind::Link => AnyPart::Link(Box::new(read_checked(&document)?)),
            Kind::Cable => AnyPart::Cable(read_checked(&document)?),
            Kind::Nic => AnyPart::Nic(Shared::new(read_checked(&document)?)),
            Kind::Switch => AnyPart::Switch(Box::new(read_checked(&document)?)),
            Kind::Cpu => AnyPart::Cpu(Shared::new(read_checked(&document)?)),
            Kind::Gpu => AnyPart::Gpu(Shared::new(read_checked(&document)?)),
            Kind::Interconnect => AnyPart::Interconnect(Box::new(read_checked(&document)?)),
            Kind::Node => AnyPart::Node(Box::new(read_checked(&document)?)),
            Kind::NodeFiles => AnyPart::NodeFiles(Box::new(read_checked(&document)?)),
            Kind::Pcie => AnyPart::Pcie(Box::new(read_checked(&document)?)),
            Kind::Software => {
                let mut software: Software = document.read()?;
                self.decide(&mut software).and_then(|()| software.check()).map_err(|problem| document.fault_of(problem))?;
                AnyPart::Software(Shared::new(software))
            }
            Kind::Decisions => AnyPart::Decisions(Box::new(read_checked(&document)?)),
            Kind::Congestion => AnyPart::Congestion(Box::new(read_checked(&document)?)),
            Kind::Manager => AnyPart::Manager(Box::new(read_checked(&document)?)),
            Kind::Kernel => AnyPart::Kernel(Box::new(read_checked(&document)?)),
            Kind::Model => AnyPart::Model(Box::new(read_checked(&document)?)),
            Kind::Drive => AnyPart::Drive(Shared::new(read_checked(&document)?)),
            Kind::FileSystem => AnyPart::FileSystem(Box::new(read_checked(&document)?)),
            Kind::Power => AnyPart::Power(Box::new(read_checked(&document)?)),
            Kind::Cluster => AnyPart::Cluster(Box::new(read_cluster(&document)?)),
        };
        if part.name() != name {
            let message = format!("the file is called `{name}`, the part in it `{}`", part.name());
            return Err(document.fault_of(Problem::at(&["name"], message, format!("write name = \"{name}\", or rename the file"))).into());
        }
        Ok(part)
    }

    /// The document with everything that it rests on under it; `chain` are the parts on the way here.
    ///
    /// # Errors
    /// A `base` that does not exist, or parts that rest on each other in a cycle.
    pub fn based<'t>(&'t self, kind: Kind, mut document: Document<'t>, chain: &mut Vec<String>) -> Result<Document<'t>, CatalogError> {
        let base = document.take_text("base")?;
        let Some(base) = base else { return Ok(document) };
        let name = base.get_ref();
        if let Some(at) = chain.iter().position(|earlier| earlier == name) {
            let chain = chain[at..].iter().chain([name]).cloned().collect();
            return Err(CatalogError::BaseCycle { kind, chain });
        }
        let Some(source) = self.sources.get(&(kind, name.clone())) else {
            let message = format!("the base `{name}` is no {kind} of the catalogue");
            return Err(document.fault(base.span(), message, suggest::help(name, self.source_names(kind))).into());
        };
        chain.push(name.clone());
        let mut under = self.based(kind, Document::parse(&source.file, &source.text)?, chain)?;
        if kind == Kind::Software && document.has("decisions") {
            // Whoever has decisions of its own has none of what it rests on.
            under = under.without("mpi", "collectives").without("mpi", "hierarchical");
        }
        Ok(document.over(under))
    }

    /// Puts the tables of its `decisions` under its own; a problem if there are none of that name.
    fn decide(&self, software: &mut Software) -> Result<(), Problem> {
        let Some(named) = &software.decisions else { return Ok(()) };
        let name = named.value.clone();
        match self.parts.get(&(Kind::Decisions, name.clone())) {
            Some(AnyPart::Decisions(decisions)) => software.decide(&decisions.mpi),
            _ => {
                let help = suggest::help(&name, self.source_names(Kind::Decisions));
                Err(Problem::at(&["decisions", "value"], format!("there are no {} called `{name}`", Kind::Decisions), help))
            }
        }
    }

    /// The problem of a part of the catalogue, at its line.
    pub(crate) fn located(&self, part: &AnyPart, problem: Problem) -> CatalogError {
        let impossible =
            |problem: Problem| CatalogError::Impossible { cluster: part.name().to_owned(), message: problem.message, help: problem.help };
        let Some(source) = self.sources.get(&(part.kind(), part.name().to_owned())) else { return impossible(problem) };
        match Document::parse(&source.file, &source.text)
            .map_err(CatalogError::from)
            .and_then(|d| self.based(part.kind(), d, &mut Vec::new()))
        {
            Ok(document) => document.fault_of(problem).into(),
            Err(error) => error,
        }
    }

    fn source_names(&self, kind: Kind) -> impl Iterator<Item = &str> + Clone {
        self.sources.keys().filter(move |(k, _)| *k == kind).map(|(_, name)| name.as_str())
    }

    /// The names of all parts of a kind, sorted.
    pub fn names(&self, kind: Kind) -> Vec<&str> {
        self.source_names(kind).collect()
    }

    /// All parts, by kind and name.
    pub fn parts(&self) -> impl Iterator<Item = &AnyPart> {
        self.parts.values()
    }

    /// The part of that kind and name.
    ///
    /// # Errors
    /// No such part: the nearest names.
    pub fn part(&self, kind: Kind, name: &str) -> Result<&AnyPart, CatalogError> {
        self.parts.get(&(kind, name.to_owned())).ok_or_else(|| CatalogError::UnknownPart {
            kind,
            name: name.to_owned(),
            help: suggest::help(name, self.source_names(kind)),
        })
    }

    /// Every part of that name, whatever its kind.
    ///
    /// # Errors
    /// No such part: the nearest names.
    pub fn show(&self, name: &str) -> Result<Vec<&AnyPart>, CatalogError> {
        let found: Vec<&AnyPart> = self.parts().filter(|part| part.name() == name).collect();
        if found.is_empty() {
            let near = suggest::nearest(name, self.sources.keys().map(|(_, name)| name.as_str()));
            let help = match near.first() {
                Some(near) => format!("did you mean `{near}`?"),
                None => "list all with `fabriscope parts`".to_owned(),
            };
            return Err(CatalogError::UnknownName { name: name.to_owned(), help });
        }
        Ok(found)
    }

    /// The file that a part came from, as messages call it.
    pub fn file_of(&self, kind: Kind, name: &str) -> Option<&str> {
        self.sources.get(&(kind, name.to_owned())).map(|source| source.file.as_str())
    }

    /// The text that a part came from.
    pub fn text_of(&self, kind: Kind, name: &str) -> Option<&str> {
        self.sources.get(&(kind, name.to_owned())).map(|source| source.text.as_str())
    }

    /// The cluster that `text` means: `name`, `file.toml`, `profile.yaml`, or any with `:nodes` or `:group+group`.
    ///
    /// # Errors
    /// No such cluster, a fault in its file, parts that do not fit together, more nodes than it can have, groups that it has not.
    pub fn target(&self, text: &str) -> Result<ResolvedCluster, CatalogError> {
        let Target { place, nodes, groups } = Target::parse(text)?;
        let whole = self.whole(place, nodes)?;
        if groups.is_empty() {
            return Ok(whole);
        }
        let bad = |reason: String| CatalogError::BadTarget { text: text.to_owned(), reason };
        let known: Vec<String> =
            whole.groups.iter().filter(|group| !group.name.is_empty()).map(|group| format!("`{}`", group.name)).collect();
        let mut numbers = Vec::new();
        for name in &groups {
            match whole.groups.iter().position(|group| group.name == *name) {
                Some(number) if numbers.contains(&number) => return Err(bad(format!("the group `{name}` is a duplicate entry"))),
                Some(number) => numbers.push(number),
                None if known.is_empty() => return Err(bad("what follows the colon is no number of nodes".to_owned())),
                None => return Err(bad(format!("there is no group `{name}`; the groups of `{}` are {}", whole.name, known.join(", ")))),
            }
        }
        Ok(whole.narrowed_to(&numbers))
    }

    /// The same for what looks at one kind of node only: of a cluster with several, `text` says which.
    ///
    /// # Errors
    /// As [`Catalog::target`], and a cluster with several groups.
    pub fn target_alike(&self, text: &str) -> Result<ResolvedCluster, CatalogError> {
        let cluster = self.target(text)?;
        if cluster.uniform().is_some() {
            return Ok(cluster);
        }
        let names: Vec<String> = cluster.groups.iter().map(|group| format!("`{}:{}`", cluster.name, group.name)).collect();
        let message = "it has groups of unlike nodes, and this looks at one kind of node".to_owned();
        Err(CatalogError::Impossible { cluster: cluster.name, message, help: format!("name one of its groups: {}", names.join(", ")) })
    }

    fn whole(&self, place: ClusterSource, nodes: Option<u32>) -> Result<ResolvedCluster, CatalogError> {
        match place {
            ClusterSource::Name(name) => match (self.resolved.get(&name), nodes) {
                (Some(known), Some(nodes)) if nodes != known.nodes() => {
                    let reason = format!("the cluster is at hand with its {} nodes; make it with that number", known.nodes());
                    Err(CatalogError::BadTarget { text: format!("{name}:{nodes}"), reason })
                }
                (Some(known), _) => Ok(ResolvedCluster { stop: self.stop.clone(), ..known.clone() }),
                (None, _) => match self.part(Kind::Cluster, &name)? {
                    AnyPart::Cluster(cluster) => self.resolve(cluster, nodes),
                    _ => Err(CatalogError::UnknownPart { kind: Kind::Cluster, name, help: String::new() }),
                },
            },
            ClusterSource::File(path) => {
                let (name, text) = (path.display().to_string(), file::read(&path)?);
                if is_yaml(&path) { self.cluster_from_profile(&name, &text, nodes) } else { self.cluster_from_text(&name, &text, nodes) }
            }
        }
    }

    /// The cluster that the text of a TOML file describes, with `nodes` nodes instead of its own number if given; `file` is what messages
    /// call it.
    ///
    /// # Errors
    /// A fault in the text, parts that do not fit together, more nodes than it can have.
    pub fn cluster_from_text(&self, file: &str, text: &str, nodes: Option<u32>) -> Result<ResolvedCluster, CatalogError> {
        let document = self.based(Kind::Cluster, Document::parse(file, text)?, &mut Vec::new())?;
        let cluster = read_cluster(&document)?;
        self.resolve_in(&cluster, nodes, Some(&document))
    }

    /// The cluster with all its parts at hand, with `nodes` nodes instead of its own number if given.
    ///
    /// # Errors
    /// A part that does not exist, parts that do not fit together, more nodes than the topology holds.
    pub fn resolve(&self, cluster: &Cluster, nodes: Option<u32>) -> Result<ResolvedCluster, CatalogError> {
        // A cluster of the catalogue is reported at its line, any other by name.
        let source = match self.parts.get(&(Kind::Cluster, cluster.name.clone())) {
            Some(AnyPart::Cluster(known)) if **known == *cluster => self.sources.get(&(Kind::Cluster, cluster.name.clone())),
            _ => None,
        };
        let document = match source {
            Some(source) => Some(self.based(Kind::Cluster, Document::parse(&source.file, &source.text)?, &mut Vec::new())?),
            None => None,
        };
        self.resolve_in(cluster, nodes, document.as_ref())
    }

    /// A node with all its parts at hand.
    ///
    /// # Errors
    /// A part that does not exist, parts that do not fit together, more devices than slots.
    pub fn resolve_node(&self, node: &Node) -> Result<ResolvedNode, CatalogError> {
        crate::resolve_node::resolve(self, node).map_err(|Problem { message, help, .. }| {
            let cluster = node.part.clone().unwrap_or_default();
            CatalogError::Impossible { cluster, message, help }
        })
    }

    /// The catalogue as a cluster of this name has it that changes numbers.
    ///
    /// # Errors
    /// A number that there is not, a value that does not fit where it goes.
    pub fn changed(&self, cluster: &str, changes: &[Change]) -> Result<Catalog, CatalogError> {
        self.altered(&alterations(cluster, changes)?)
    }

    pub(crate) fn resolve_in(
        &self,
        cluster: &Cluster,
        nodes: Option<u32>,
        document: Option<&Document<'_>>,
    ) -> Result<ResolvedCluster, CatalogError> {
        let changed = if cluster.change.is_empty() { None } else { Some(self.changed(&cluster.name, &cluster.change)?) };
        crate::resolve::resolve(changed.as_ref().unwrap_or(self), cluster, nodes).map_err(|problem| match document {
            // What the command line asked for stands nowhere in the file.
            Some(document) if !(nodes.is_some() && problem.path == ["nodes"]) => document.fault_of(problem).into(),
            _ => CatalogError::Impossible { cluster: cluster.name.clone(), message: problem.message, help: problem.help },
        })
    }
}

/// The numbers that a cluster changes.
fn alterations(cluster: &str, changes: &[Change]) -> Result<Vec<Alteration>, CatalogError> {
    let alteration = |change: &Change| {
        let kind = Kind::of_folder(&change.kind).filter(|kind| *kind != Kind::Cluster);
        let kind = kind.ok_or_else(|| CatalogError::Impossible {
            cluster: cluster.to_owned(),
            message: format!("`{}` is no folder of parts, in the change of `{}`", change.kind, change.field),
            help: "kind = \"nics\", \"switches\", \"software\", \"cpus\" or another folder of the catalogue".to_owned(),
        })?;
        let because = if change.note.is_empty() { change.source.clone() } else { format!("{}; {}", change.source, change.note) };
        let Change { part, field, value, basis, .. } = change.clone();
        Ok(Alteration { kind, part, field, value, basis, because })
    };
    changes.iter().map(alteration).collect()
}

/// One method per kind: the part of that name, typed.
macro_rules! lookup {
    ($($(#[$doc:meta])* $method:ident, $variant:ident, $part:ty, $held:ty;)*) => {
        impl Catalog {
            $($(#[$doc])*
            ///
            /// # Errors
            /// No such part: the nearest names.
            pub fn $method(&self, name: &str) -> Result<&$held, CatalogError> {
                match self.part(<$part as Part>::KIND, name)? {
                    AnyPart::$variant(part) => Ok(part),
                    other => Err(CatalogError::UnknownPart { kind: other.kind(), name: name.to_owned(), help: String::new() }),
                }
            })*
        }
    };
}

lookup! {
    /// The link speed of that name.
    link, Link, LinkSpeed, LinkSpeed;
    /// The cable of that name.
    cable, Cable, Cable, Cable;
    /// The adapter of that name.
    nic, Nic, Nic, Shared<Nic>;
    /// The switch of that name.
    switch, Switch, Switch, Switch;
    /// The processor of that name.
    cpu, Cpu, Cpu, Shared<Cpu>;
    /// The GPU of that name.
    gpu, Gpu, Gpu, Shared<Gpu>;
    /// The interconnect of that name.
    interconnect, Interconnect, Interconnect, Interconnect;
    /// The node of that name.
    node, Node, NodePart, NodePart;
    /// The rates of node files of that name.
    node_files, NodeFiles, NodeFiles, NodeFiles;
    /// The generation of PCI Express of that name.
    pcie, Pcie, Pcie, Pcie;
    /// The software of that name.
    software, Software, Software, Shared<Software>;
    /// The manager of fabrics of that name.
    manager, Manager, Manager, Manager;
    /// The model of that name.
    model, Model, Model, Model;
    /// The drive of that name.
    drive, Drive, Drive, Shared<Drive>;
    /// The file system of that name.
    file_system, FileSystem, FileSystem, FileSystem;
    /// The cluster of that name.
    cluster, Cluster, Cluster, Cluster;
}

/// A part whose fields are typed and agree with each other.
pub(crate) fn read_checked<T: Part>(document: &Document<'_>) -> Result<T, Box<Fault>> {
    let part: T = document.read()?;
    part.check().map_err(|problem| document.fault_of(problem))?;
    Ok(part)
}

/// A cluster that knows where the files are that it names.
fn read_cluster(document: &Document<'_>) -> Result<Cluster, Box<Fault>> {
    let mut cluster: Cluster = read_checked(document)?;
    crate::imported::locate(document, &[], &mut cluster);
    Ok(cluster)
}

fn embedded_sources() -> BTreeMap<Key, Source> {
    let mut sources = BTreeMap::new();
    for kind in Kind::ALL {
        let files = EMBEDDED.get_dir(kind.folder()).into_iter().flat_map(Dir::files);
        for entry in files.filter(|entry| entry.path().extension().is_some_and(|extension| extension == "toml")) {
            let Some(stem) = entry.path().file_stem().and_then(|stem| stem.to_str()) else { continue };
            let text = entry.contents_utf8().unwrap_or_default().to_owned();
            let file = format!("catalog/{}", entry.path().display());
            sources.insert((kind, stem.to_owned()), Source { file, text });
        }
    }
    sources
}

/// What lies beside the parts: distributions of flow sizes, which labs name.
const FLOW_SIZES: &str = "flow-sizes";

/// Adds the parts of a folder, or puts them in the place of others.
fn add_folder(sources: &mut BTreeMap<Key, Source>, folder: &Path) -> Result<(), CatalogError> {
    for (path, name) in file::entries(folder)? {
        if !path.is_dir() || name == FLOW_SIZES {
            continue;
        }
        let Some(kind) = Kind::of_folder(&name) else { return Err(CatalogError::UnknownFolder { path, folder: name }) };
        for (path, name) in file::entries(&path)? {
            if let Some(stem) = name.strip_suffix(".toml") {
                let source = Source { file: path.display().to_string(), text: file::read(&path)? };
                sources.insert((kind, stem.to_owned()), source);
            }
        }
    }
    Ok(())
}
