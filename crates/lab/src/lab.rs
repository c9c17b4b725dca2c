//! Lab files: a cluster, a workload and a seed, in one file that users run and copy.

use std::fmt;
use std::path::Path;

use fabriscope_fabric::Routing;
use fabriscope_units::Rate;
use schemars::JsonSchema;
use serde::de::{self, Deserializer, MapAccess, Visitor};
use serde::{Deserialize, Serialize, Serializer};
use toml::Spanned;

use fabriscope_catalog::{
    Catalog, CatalogError, Cluster, ClusterSource, Document, FlowControl, Kind, Line, PartitionEnforcement, Partitions, Problem, Qos,
    QosRequest, ResolvedCluster, Target,
};
use fabriscope_engine::{FaultPlan, Recovery, Service};

use crate::engines;
use crate::fault::FaultEvent;
use crate::fault_plan;
use crate::job_library::{JobLibrary, libraries};
use crate::jobs::LEAST_RATE;
use crate::training::of_lab;
use crate::workload::{Scheme, Workload, check};

/// A cluster by its name, or written out (possibly with a `base`).
#[derive(Clone, Debug, PartialEq, JsonSchema)]
#[schemars(untagged)]
pub enum ClusterChoice {
    /// A cluster of the catalogue, `cluster = "ri2"`, or a file as seen from the lab: `cluster = "mine.toml:4"`.
    Named(String),
    /// A cluster of its own: `[cluster]`.
    Inline(Box<Cluster>),
}

impl Serialize for ClusterChoice {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            ClusterChoice::Named(name) => name.serialize(serializer),
            ClusterChoice::Inline(cluster) => cluster.serialize(serializer),
        }
    }
}

/// Reads either form without losing the place of an error.
impl<'de> Deserialize<'de> for ClusterChoice {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Choice;
        impl<'de> Visitor<'de> for Choice {
            type Value = ClusterChoice;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("the name of a cluster, or a [cluster] table")
            }
            fn visit_str<E: de::Error>(self, name: &str) -> Result<ClusterChoice, E> {
                Ok(ClusterChoice::Named(name.to_owned()))
            }
            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<ClusterChoice, A::Error> {
                Cluster::deserialize(de::value::MapAccessDeserializer::new(map)).map(|cluster| ClusterChoice::Inline(Box::new(cluster)))
            }
        }
        deserializer.deserialize_any(Choice)
    }
}

/// Which engine runs the lab.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum EngineChoice {
    /// Packet by packet.
    #[default]
    Packet,
    /// Messages as fluids that share links fairly.
    Flow,
    /// No messages: a step of training by the time line of its operations, whose groups are fluids that do not meet each other.
    TimeLine,
}

/// A lab file.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Lab {
    /// One line that tells a person what it shows.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub title: String,
    /// What a reader should know besides.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub notes: String,
    /// Where it happens.
    pub cluster: ClusterChoice,
    /// What every random choice follows from.
    #[serde(default = "first_seed")]
    pub seed: u64,
    /// Which engine runs it.
    #[serde(default)]
    pub engine: EngineChoice,
    /// How packets find their way, where it is not as the cluster says.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub routing: Option<Routing>,
    /// Name of the congestion control, where it is not as the cluster says; "none" for none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub congestion: Option<String>,
    /// What happens where a buffer is full, where it is not as the cluster says.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub flow_control: Option<FlowControl>,
    /// How traffic of different classes shares the links, where it is not as the cluster says.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub qos: Option<Qos>,
    /// InfiniBand's service level of the workload.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub service_level: Option<u32>,
    /// Ethernet's priority of the workload.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub priority: Option<u32>,
    /// DSCP of the workload's packets, which gives their priority.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dscp: Option<u32>,
    /// Name of the workload's class, of `[qos.slingshot]`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub traffic_class: Option<String>,
    /// What links do beyond carrying bits, where it is not as the cluster says.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub line: Option<Line>,
    /// Bits per second that each connection of the workload sends at most.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rate_limit: Option<Rate>,
    /// InfiniBand partitions by name, where they are not as the cluster says.
    #[serde(default, skip_serializing_if = "Partitions::is_empty")]
    pub partitions: Partitions,
    /// Whether switches drop packets of other partitions, where it is not as the cluster says.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub partition_enforcement: Option<PartitionEnforcement>,
    /// Name of the partition of the workload; the default one where nothing is said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub partition: Option<String>,
    /// Leave steady states out, in which every window of time is like the one before: what is left out is said.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub fast_forward: bool,
    /// Run although the routing can deadlock.
    #[serde(default)]
    pub allow_deadlock: bool,
    /// Retransmission settings, where they are not the defaults.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub recovery: Option<Recovery>,
    /// Name of the manager that repairs the routes. Default: what suits the cluster.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub manager: Option<String>,
    /// What breaks, where and when.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub fault: Vec<FaultEvent>,
    /// What happens.
    pub workload: Workload,
}

fn first_seed() -> u64 {
    1
}

/// A lab with its cluster at hand.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ResolvedLab {
    /// The file as it was read, includes merged.
    pub lab: Lab,
    /// Where it happens.
    pub cluster: ResolvedCluster,
    /// The service level, priority or class that packets of the workload carry.
    pub level: u8,
    /// What breaks, where anything does.
    pub faults: Option<FaultPlan>,
    /// The P_Key of the workload's queue pairs, without the bit of membership.
    pub pkey: u16,
    /// The library of each job, of a lab of jobs; nothing for a job over verbs.
    #[serde(skip)]
    pub libraries: Vec<Option<JobLibrary>>,
}

impl ResolvedLab {
    /// What a person calls it: its title, or else its workload.
    pub fn name(&self) -> &str {
        if self.lab.title.is_empty() { self.lab.workload.name() } else { &self.lab.title }
    }
}

/// A file of a lab, read but not yet understood.
struct LabText {
    file: String,
    text: String,
    lies: Lies,
}

/// How a text lies over those before it.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Lies {
    /// As a file over those that it includes.
    Over,
    /// It sets single keys.
    In,
}

/// Reads a lab file, what it includes, and its cluster.
///
/// # Errors
/// A file that cannot be read, includes in a cycle, a fault in a file, parts or workloads that do not fit.
pub fn load(catalog: &Catalog, path: &Path) -> Result<ResolvedLab, CatalogError> {
    let mut texts = Vec::new();
    collect(path, &mut Vec::new(), &mut texts)?;
    lab_of(catalog, &texts)
}

/// The same with `over`, TOML text, in the place of what the file says: `workload.incast.size = "8 MiB"`.
///
/// # Errors
/// As [`load`]; a fault in `over`.
pub fn load_under(catalog: &Catalog, path: &Path, over: &str) -> Result<ResolvedLab, CatalogError> {
    let mut texts = Vec::new();
    collect(path, &mut Vec::new(), &mut texts)?;
    // Paths in it are seen from the folder of the lab.
    texts.push(LabText { file: format!("{} (as set)", path.display()), text: over.to_owned(), lies: Lies::In });
    lab_of(catalog, &texts)
}

/// Reads the text of a lab that includes no other file.
///
/// # Errors
/// An `include`, a fault in the text, parts or workloads that do not fit.
pub fn parse(catalog: &Catalog, file: &str, text: &str) -> Result<ResolvedLab, CatalogError> {
    let mut document = Document::parse(file, text)?;
    if let Some(include) = document.take_texts("include")?.first() {
        let message = format!("`{}` cannot be included here", include.get_ref());
        return Err(document.fault(include.span(), message, "only a lab in a file can include other files".to_owned()).into());
    }
    lab_of(catalog, &[LabText { file: file.to_owned(), text: text.to_owned(), lies: Lies::Over }])
}

/// The lab of these texts: the last one is the lab, those before it lie under it.
fn lab_of(catalog: &Catalog, texts: &[LabText]) -> Result<ResolvedLab, CatalogError> {
    let mut merged: Option<Document<'_>> = None;
    for LabText { file, text, lies } in texts {
        let mut document = Document::parse(file, text)?;
        document.take_texts("include")?;
        merged = Some(match merged {
            Some(under) if *lies == Lies::In => document.set_in(under),
            Some(under) => document.over(under),
            None => document,
        });
    }
    let Some(mut document) = merged else {
        return Err(CatalogError::UnknownName { name: String::new(), help: "name a lab file".to_owned() });
    };
    if let Some(inner) = document.table("cluster") {
        document.set_table("cluster", catalog.based(Kind::Cluster, inner, &mut Vec::new())?);
    }
    let mut lab: Lab = document.read()?;
    if let ClusterChoice::Inline(cluster) = &mut lab.cluster {
        cluster.locate_imported(&document, &["cluster"]);
    }
    if let Workload::Capture(capture) = &mut lab.workload {
        let folder = Path::new(document.file_of(&["workload", "capture", "file"])).parent().unwrap_or(Path::new(""));
        capture.file = folder.join(&capture.file);
    }
    if let Workload::Flows(flows) = &mut lab.workload {
        flows.locate(Path::new(document.file_of(&["workload", "flows", "sizes"])).parent().unwrap_or(Path::new("")));
    }
    let fault = |problem: Problem| CatalogError::from(document.fault_of(problem));
    let cluster = match &lab.cluster {
        ClusterChoice::Named(name) => catalog.target(&beside_lab(&document, name)).map_err(|error| match error {
            CatalogError::UnknownPart { ref help, .. } => fault(Problem::at(&["cluster"], error.to_string(), help)),
            CatalogError::BadTarget { .. } | CatalogError::Impossible { .. } => {
                let help = "write the name of a cluster, with its number of nodes if you like: \"ri2:4\"";
                fault(Problem::at(&["cluster"], error.to_string(), help))
            }
            other => other,
        })?,
        ClusterChoice::Inline(cluster) => catalog.resolve_inline(cluster).map_err(|problem| fault(problem.under("cluster")))?,
    };
    let mut cluster = cluster;
    crate::unlike::suits(&lab, &cluster).map_err(fault)?;
    if let Some(routing) = lab.routing {
        cluster.set_routing(routing).map_err(fault)?;
    }
    if let Some(name) = &lab.congestion {
        cluster.set_congestion(catalog, (name != "none").then_some(name)).map_err(fault)?;
        cluster.check_marks().map_err(fault)?;
    }
    if let Some(given) = lab.flow_control {
        cluster.set_flow_control(given).map_err(fault)?;
    }
    if let Some(qos) = &lab.qos {
        cluster.qos = Some(qos.clone());
    }
    if lab.qos.is_some() || lab.flow_control.is_some() {
        cluster.check_classes().map_err(fault)?;
    }
    cluster.partition_enforcement = lab.partition_enforcement.unwrap_or(cluster.partition_enforcement);
    if !lab.partitions.is_empty() {
        cluster.partitions = lab.partitions.clone();
    }
    if !lab.partitions.is_empty() || lab.partition_enforcement.is_some() {
        cluster.check_partitions().map_err(fault)?;
    }
    if let Some(line) = &lab.line {
        cluster.line = line.clone();
        line.check().map_err(fault)?;
    }
    // Jobs choose for themselves.
    let everybody = match lab.workload {
        Workload::Jobs(_) => Vec::new(),
        Workload::Multicast(ref work) => work.endpoints(&cluster),
        _ => cluster.hosts().collect(),
    };
    let pkey = cluster.partition_key(lab.partition.as_deref(), everybody.into_iter()).map_err(fault)?;
    let (service_level, priority, dscp, traffic_class) = (lab.service_level, lab.priority, lab.dscp, lab.traffic_class.as_deref());
    workload_takes(&lab).map_err(fault)?;
    let level = QosRequest { service_level, priority, dscp, traffic_class }.level(&cluster).map_err(fault)?;
    check(&lab.workload, &cluster).map_err(fault)?;
    match &lab.workload {
        Workload::Training(work) => of_lab::check(catalog, &lab, &cluster, work).map_err(fault)?,
        Workload::Mix(work) => crate::mix::check(catalog, &cluster, work).map_err(fault)?,
        Workload::BesideStorage(work) => crate::beside_storage::check(catalog, &cluster, work).map_err(fault)?,
        _ => {}
    }
    let (name, schemes) = (lab.workload.name(), schemes(&lab.workload, &cluster));
    for (number, scheme) in schemes.iter().enumerate() {
        let place = ["workload", name, "schemes"];
        let said = |p: Problem| Problem::at(&place, format!("scheme {}: {}", number + 1, p.message), p.help);
        with_scheme(catalog, &cluster, scheme).map_err(|problem| fault(said(problem)))?;
    }
    let libraries = match &lab.workload {
        Workload::Jobs(work) => libraries(catalog, work, &cluster).map_err(fault)?,
        _ => Vec::new(),
    };
    let faults = faults(catalog, &lab, &cluster).map_err(fault)?;
    let resolved = ResolvedLab { lab, cluster, level, pkey, libraries, faults };
    engines::check(&resolved, catalog).map_err(fault)?;
    Ok(resolved)
}

/// The cluster as the lab names it; a file is a path as seen from the file that says so.
fn beside_lab(document: &Document<'_>, name: &str) -> String {
    let folder = Path::new(document.file_of(&["cluster"])).parent().unwrap_or(Path::new(""));
    match Target::parse(name) {
        Ok(Target { place: ClusterSource::File(path), nodes, groups }) => {
            let nodes = nodes.map_or_else(String::new, |nodes| format!(":{nodes}"));
            let groups = if groups.is_empty() { String::new() } else { format!(":{}", groups.join("+")) };
            format!("{}{nodes}{groups}", folder.join(path).display())
        }
        _ => name.to_owned(),
    }
}

/// What breaks in a lab.
fn faults(catalog: &Catalog, lab: &Lab, cluster: &ResolvedCluster) -> Result<Option<FaultPlan>, Problem> {
    if let Some(recovery) = &lab.recovery {
        fault_plan::check_recovery(recovery)?;
    }
    let name = lab.manager.as_deref().unwrap_or_else(|| fault_plan::manager_of(cluster));
    if lab.fault.is_empty() {
        return match &lab.manager {
            None => Ok(None),
            Some(_) => Err(Problem::at(&["manager"], "a manager has no effect where nothing breaks", "add a [[fault]], or leave it out")),
        };
    }
    let sweeps = matches!(lab.workload, Workload::ClosedLoop(_) | Workload::OpenLoop(_));
    if sweeps || matches!(lab.workload, Workload::Interference(_) | Workload::Compare(_) | Workload::Flows(_)) {
        let message = format!("faults in a sweep: the workload `{}` has several runs", lab.workload.name());
        return Err(Problem::at(&["fault"], message, "choose another workload, or leave the faults out"));
    }
    fault_plan::plan(&lab.fault, cluster, fault_plan::manager(catalog, name)?).map(Some)
}

/// The ways that a workload compares.
pub(crate) fn schemes(workload: &Workload, cluster: &ResolvedCluster) -> Vec<Scheme> {
    match workload {
        Workload::Interference(jobs) => jobs.schemes.clone(),
        Workload::Compare(work) => work.compared(),
        Workload::Flows(flows) => flows.compared(cluster),
        _ => Vec::new(),
    }
}

/// A cluster under another scheme of congestion control.
///
/// # Errors
/// No such congestion control, or a routing or flow control that does not suit the cluster.
pub fn with_scheme(catalog: &Catalog, cluster: &ResolvedCluster, scheme: &Scheme) -> Result<ResolvedCluster, Problem> {
    let mut cluster = cluster.clone();
    let name = scheme.congestion.as_ref().filter(|name| *name != "none");
    cluster.set_congestion(catalog, name)?;
    if let Some(given) = scheme.flow_control {
        cluster.set_flow_control(given)?;
    }
    if let Some(routing) = scheme.routing {
        cluster.set_routing(routing)?;
    }
    let place = ["workload", "schemes"];
    if scheme.any_order {
        crate::workload::check_order(scheme.transport, &place)?;
    }
    if matches!(scheme.transport, Service::Ud | Service::UetUud) {
        let message = format!("{} does not write memory, and messages of this workload are written", scheme.transport.name());
        return Err(Problem::at(&place, message, "use transport = \"rc\", or another one that is reliable"));
    }
    crate::workload::check_transport(scheme.transport, &cluster, &place)?;
    Ok(cluster)
}

/// Whether the workload of the lab takes the settings of connections that the lab has.
fn workload_takes(lab: &Lab) -> Result<(), Problem> {
    if let Some(rate) = lab.rate_limit.filter(|rate| rate.as_bps() < LEAST_RATE.as_bps()) {
        return Err(Problem::at(&["rate_limit"], format!("a limit of {rate}"), format!("use at least {LEAST_RATE}")));
    }
    if lab.allow_deadlock && matches!(lab.workload, Workload::Bench(_) | Workload::BesideStorage(_)) {
        let message = "`allow_deadlock` of a benchmark program";
        return Err(Problem::at(&["allow_deadlock"], message, "choose a routing that is free of deadlock"));
    }
    let compares = match &lab.workload {
        Workload::Interference(_) | Workload::Compare(_) => true,
        Workload::Flows(flows) => !flows.schemes.is_empty(),
        _ => false,
    };
    if lab.congestion.is_some() && compares {
        let message = "`congestion` of a lab that compares congestion controls";
        return Err(Problem::at(&["congestion"], message, "write it into each of the schemes: { congestion = \"dcqcn\" }"));
    }
    let keys = [
        ("service_level", lab.service_level.is_some()),
        ("priority", lab.priority.is_some()),
        ("dscp", lab.dscp.is_some()),
        ("traffic_class", lab.traffic_class.is_some()),
        ("partition", lab.partition.is_some()),
        ("rate_limit", lab.rate_limit.is_some()),
    ];
    let given = keys.iter().find(|(_, given)| *given).map(|(key, _)| *key);
    match (&lab.workload, given) {
        (Workload::Bench(_), Some(key)) => {
            Err(Problem::at(&[key], format!("`{key}` of a benchmark program"), "write it into its `args`: \"--sl\", \"--rate_limit\""))
        }
        (Workload::BesideStorage(_), Some(key)) => {
            Err(Problem::at(&[key], format!("`{key}` of a program beside storage"), "write a class into [workload.beside_storage.storage]"))
        }
        (Workload::Jobs(_), Some(key)) => Err(Problem::at(&[key], format!("`{key}` of a lab of jobs"), "write it into each job")),
        _ => Ok(()),
    }
}

/// Reads a file and, before it, everything that it includes; `chain` are the files on the way here.
fn collect(path: &Path, chain: &mut Vec<String>, texts: &mut Vec<LabText>) -> Result<(), CatalogError> {
    let file = path.display().to_string();
    // Two ways to write a path are one file.
    let key = std::fs::canonicalize(path).map_or_else(|_| file.clone(), |path| path.display().to_string());
    if let Some(at) = chain.iter().position(|earlier| *earlier == key) {
        let short = |name: &String| Path::new(name).file_name().map_or_else(|| name.clone(), |name| name.to_string_lossy().into_owned());
        return Err(CatalogError::IncludeCycle { chain: chain[at..].iter().chain([&key]).map(short).collect() });
    }
    let text = fabriscope_catalog::read_text(path)?;
    let includes: Vec<Spanned<String>> = {
        let mut document = Document::parse(&file, &text)?;
        let includes = document.take_texts("include")?;
        if let Some(over) = includes.get(MOST_INCLUDES) {
            let message = format!("more than {MOST_INCLUDES} files are included");
            return Err(document.fault(over.span(), message, "put the common parts into one file".to_owned()).into());
        }
        includes
    };
    if texts.len() > MOST_INCLUDES {
        let document = Document::parse(&file, &text)?;
        let message = format!("the lab consists of more than {MOST_INCLUDES} files");
        return Err(document.fault(0..0, message, "put the common parts into one file".to_owned()).into());
    }
    chain.push(key);
    let folder = path.parent().unwrap_or(Path::new(""));
    for include in includes {
        let other = folder.join(include.get_ref());
        if !other.is_file() {
            let document = Document::parse(&file, &text)?;
            let message = format!("there is no file {}", other.display());
            let help = "an include is a path as seen from the file that includes it".to_owned();
            return Err(document.fault(include.span(), message, help).into());
        }
        collect(&other, chain, texts)?;
    }
    chain.pop();
    texts.push(LabText { file, text, lies: Lies::Over });
    Ok(())
}

/// The most files that make a lab.
const MOST_INCLUDES: usize = 64;
