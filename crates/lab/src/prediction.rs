//! Answers of the packet engine to the questions of published tables.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use fabriscope_catalog::{Catalog, CatalogError, Kind, NodeChoice, ResolvedCluster, Shared, Software};
use fabriscope_collectives::Kind as Collective;
use fabriscope_platform::{Binding, Layout};
use fabriscope_report::question::Placement;
use fabriscope_report::{Answer, Predict, Question, Refusal};
use fabriscope_tools::{Measures, Operation, Point, Ranks, SizeOption, Suite, Tool, Traits};
use fabriscope_units::{Bytes, Remedy};

use crate::devices::DeviceOptions;
use crate::launch::{Launch, LaunchError};
use crate::memory::BIG;

/// One run as a question has it, before it starts: what a change may be made to.
#[derive(Debug, Clone, PartialEq)]
pub struct Setup {
    /// The tool.
    pub tool: Tool,
    /// The cluster, with the library of the question.
    pub parts: ResolvedCluster,
    /// The tool's options, with those of the size.
    pub options: Vec<String>,
    /// Which GPU each rank of a node has, and where it is.
    pub binding: Binding,
    /// The shape of the job.
    pub layout: Layout,
    /// Which nodes.
    pub nodes: NodeChoice,
    /// Size of one message in bytes, where the question is of one.
    pub message_bytes: Option<u64>,
}

/// A change of what is run; a refusal says why there is none of this run.
pub type Change<'a> = dyn Fn(&mut Setup) -> Result<(), Refusal> + Sync + 'a;

/// Runs the simulations that a validation asks for.
pub struct Predictor<'a> {
    /// Where clusters and libraries come from.
    catalog: &'a Catalog,
    /// The cluster for every row, instead of the row's own.
    on: Option<ResolvedCluster>,
    /// The catalogue as that cluster has it, where it changes numbers.
    changed: Option<Catalog>,
    /// Seed of everything random.
    seed: u64,
    /// Also run what takes minutes.
    long: bool,
    /// The largest size that sweeps have to reach, in bytes; the tool's own largest where nothing is said.
    largest: Option<u64>,
    /// Made to every run that it changes; the others are refused.
    change: Option<&'a Change<'a>>,
    /// Told after each run.
    progress: Box<dyn Fn(usize, usize) + Sync + 'a>,
    /// The points of the runs so far: of whole sweeps, and of single sizes, whichever of their columns is asked for.
    runs: Mutex<BTreeMap<Question, Arc<Run>>>,
    /// Held by a run that takes much memory: they follow each other.
    big: Mutex<()>,
}

/// What a run gave, or why there is nothing; set by whoever asks first.
type Run = OnceLock<Result<Ran, Refusal>>;

/// What a run gave.
#[derive(Debug, Clone)]
struct Ran {
    points: Vec<Point>,
    /// What the link of an adapter carries, in bytes a second.
    line_bytes_per_s: f64,
}

impl Ran {
    fn answer(&self, question: &Question) -> Answer {
        Answer { line_bytes_per_s: Some(self.line_bytes_per_s), ..answer(&self.points, question) }
    }
}

impl Predict for Predictor<'_> {
    /// A size of the tool's own sweep comes out of that sweep, as a user of the tool reads it: what a size leaves behind
    /// in queues and caches is there when the next one starts.
    fn predict(&self, question: &Question) -> Result<Answer, Refusal> {
        let message_bytes = question.message_bytes.filter(|_| !in_sweep(question));
        let whole = Question { message_bytes, column: None, ..question.clone() };
        let run = {
            let mut runs = self.runs.lock().unwrap_or_else(PoisonError::into_inner);
            Arc::clone(runs.entry(whole.clone()).or_default())
        };
        match run.get_or_init(|| self.run(&whole)) {
            Ok(ran) => Ok(ran.answer(question)),
            Err(refusal) => Err(refusal.clone()),
        }
    }
    fn progress(&self, done: usize, all: usize) {
        (self.progress)(done, all);
    }
}

impl<'a> Predictor<'a> {
    /// Answers from runs on `on`, or on the cluster that a question names.
    pub fn new(
        catalog: &'a Catalog,
        on: Option<ResolvedCluster>,
        seed: u64,
        long: bool,
        progress: impl Fn(usize, usize) + Sync + 'a,
    ) -> Predictor<'a> {
        // What a cluster changes could be changed when it was resolved.
        let changes = on.as_ref().filter(|on| !on.change.is_empty());
        let changed = changes.and_then(|on| catalog.changed(&on.name, &on.change).ok());
        let (runs, big) = (Mutex::default(), Mutex::default());
        Predictor { catalog, on, changed, seed, long, largest: None, change: None, progress: Box::new(progress), runs, big }
    }

    /// The same with sweeps that end at that size, where what comes before is not changed by what would come after, and with few windows
    /// of each size: the first few tell what all take.
    #[must_use]
    pub fn up_to(mut self, largest: Option<u64>) -> Predictor<'a> {
        self.largest = largest;
        self
    }

    /// The same with a change made to every run. A run that it leaves as it was is refused with [`UNCHANGED`] and not made.
    #[must_use]
    pub fn changed(mut self, change: &'a Change<'a>) -> Predictor<'a> {
        self.change = Some(change);
        self
    }

    /// What a question runs: tool, cluster, options, nodes; without the change.
    ///
    /// # Errors
    /// Why it cannot be run.
    pub fn setup(&self, question: &Question) -> Result<Setup, Refusal> {
        let tool = Tool::by_name(question.tool).map_err(|e| Refusal::Fail(e.in_full()))?;
        if !self.long && is_long(question, &tool.traits()) {
            return Err(Refusal::Skip("it takes minutes: --long runs it".to_owned()));
        }
        let mut parts = self.cluster(question)?;
        if let Some(name) = &question.software {
            parts.sole_mut().software = library(self.changed.as_ref().unwrap_or(self.catalog), &parts, name)
                .ok_or_else(|| Refusal::Skip(format!("the catalogue has no software part for `{name}`")))?
                .clone();
        }
        let word = |on: Option<bool>| on.map(|on| if on { "on" } else { "off" }.to_owned());
        let gpus = question.gpus.map(|[sender, receiver]| format!("{sender},{receiver}"));
        let bind = gpus.or_else(|| question.bind.clone());
        let intra_node = question.intra_node.clone();
        let devices = DeviceOptions { bind, intra_node, gpu_aware: word(question.gpu_aware), gpudirect: word(question.gpudirect) };
        let (devices, told) = devices.for_tool(tool);
        let binding = devices.apply(&mut parts, question.ranks).map_err(|e| Refusal::Skip(e.to_string()))?;
        let mut options = options(question, &tool.traits())?;
        options.splice(..0, told);
        if let (Suite::Omb, None, Some(largest)) = (tool.traits().suite, question.message_bytes, self.largest)
            && in_sweep(question)
            && !options.iter().any(|option| option.starts_with("-m") || option.starts_with("--message-size"))
        {
            options.extend(["-m".to_owned(), largest.min(LARGEST_OF_SWEEP).to_string()]);
            if tool.traits().measures != Measures::Latency && !options.iter().any(|option| option == "-i") {
                options.extend(BRIEF.map(str::to_owned));
            }
        }
        let layout = Layout { nodes: question.nodes, per_node: question.ranks / question.nodes.max(1) };
        let nodes = match question.placement {
            Placement::First => parts.placement,
            Placement::SameSwitch => NodeChoice::SameLeaf,
            Placement::Farthest => NodeChoice::Across,
            Placement::Scattered => NodeChoice::Scattered,
        };
        Ok(Setup { tool, parts, options, binding, layout, nodes, message_bytes: question.message_bytes })
    }

    fn run(&self, question: &Question) -> Result<Ran, Refusal> {
        let mut setup = self.setup(question)?;
        if let Some(change) = self.change {
            let before = setup.clone();
            change(&mut setup)?;
            if setup == before {
                return Err(Refusal::Skip(UNCHANGED.to_owned()));
            }
        }
        let Setup { tool, parts, options, binding, layout, nodes, .. } = setup;
        let line_bytes_per_s = parts.sole().link.data_rate().as_bps() as f64 / 8.0;
        let launch = Launch { nodes, layout: Some(layout), seed: self.seed, binding, ..Launch::new(tool, &options, &parts) };
        // What one run leaves free is known when it runs alone.
        let alone = launch.need().is_some_and(|need| need >= BIG);
        let _guard = alone.then(|| self.big.lock().unwrap_or_else(PoisonError::into_inner));
        match launch.run() {
            Ok((output, _)) => Ok(Ran { points: output.points, line_bytes_per_s }),
            // What the row asks for is not there: an option, so many nodes.
            Err(LaunchError::Usage(error)) => Err(Refusal::Skip(error.in_full())),
            Err(refused @ (LaunchError::OneNode { .. } | LaunchError::TooFewNodes { .. } | LaunchError::Unlike(_))) => {
                Err(Refusal::Skip(refused.to_string()))
            }
            Err(LaunchError::Memory(message)) => Err(Refusal::Skip(message)),
            Err(other) => Err(Refusal::Fail(other.to_string())),
        }
    }

    /// The cluster that a row names, with a group of its nodes if it has several; or one with the adapter that it names.
    fn cluster(&self, question: &Question) -> Result<ResolvedCluster, Refusal> {
        if let Some(on) = &self.on {
            return Ok(on.clone());
        }
        let name = &question.cluster;
        match self.catalog.target_alike(name) {
            Ok(parts) => Ok(parts),
            Err(CatalogError::UnknownPart { help, .. }) => {
                self.with_adapter(name).ok_or_else(|| Refusal::Skip(format!("the catalogue has no cluster `{name}`: {help}")))
            }
            Err(refused @ (CatalogError::BadTarget { .. } | CatalogError::Impossible { .. } | CatalogError::Unreadable { .. })) => {
                Err(Refusal::Skip(refused.to_string()))
            }
            Err(other) => Err(Refusal::Fail(other.to_string())),
        }
    }

    /// The first cluster by name of which two nodes have that adapter.
    fn with_adapter(&self, adapter: &str) -> Option<ResolvedCluster> {
        self.catalog.nic(adapter).ok()?;
        let has = |parts: &ResolvedCluster| parts.nodes() > 1 && parts.uniform().is_some_and(|group| group.node.nic.name == adapter);
        let named = self.catalog.names(Kind::Cluster).into_iter();
        named.filter_map(|name| self.catalog.target(name).ok()).find(has)
    }
}

/// Why a run is not made that a change leaves as it was.
pub const UNCHANGED: &str = "the change does not reach this run";

/// The part of the library that a table names in words: the cluster's own where it is of that kind, else of those that drive
/// its adapters the one with the same version, else one of the same major version; the first, where the row names none. Of
/// several alike that is meant whose last word the row has: `Intel MPI 2019.7 verbs` is `intelmpi-2019-verbs`.
pub fn library<'a>(catalog: &'a Catalog, cluster: &'a ResolvedCluster, name: &str) -> Option<&'a Shared<Software>> {
    let group = cluster.uniform()?;
    let own = &group.software;
    if let Ok(part) = catalog.software(name) {
        return Some(part);
    }
    let name = &in_full(name);
    let wanted = plain(name);
    let family = FAMILIES.into_iter().find(|family| wanted.starts_with(family))?;
    if plain(&own.name).contains(family) {
        return Some(own);
    }
    let parts = || catalog.names(Kind::Software).into_iter().filter_map(|n| catalog.software(n).ok());
    let suits = |s: &&Shared<Software>| s.mpi.is_some() && s.interface == group.node.nic.interface && plain(&s.name).contains(family);
    let is_meant = |s: &&Shared<Software>| s.name.rsplit('-').next().is_some_and(|last| wanted.contains(last));
    let of_family = || parts().filter(suits).filter(is_meant).chain(parts().filter(suits));
    let Some(version) = name.split_whitespace().find(|word| word.starts_with(|c: char| c.is_ascii_digit())) else {
        return of_family().next();
    };
    let major = version.split('.').next().unwrap_or(version);
    let is_of_major = |s: &&Shared<Software>| {
        let words = format!("{} {}", s.name, s.title);
        words.split([' ', '-']).any(|word| word.split('.').next() == Some(major))
    };
    of_family().find(|s| s.name.contains(version) || s.title.contains(version)).or_else(|| of_family().find(is_of_major))
}

/// `IMPI193` is how some write Intel MPI 2019.3, `IMPI18` Intel MPI 2018, `MPICH8015` Cray MPICH 8.0.15, `OMPI405` Open MPI 4.0.5.
fn in_full(name: &str) -> String {
    let lower = name.to_ascii_lowercase();
    let digits = |prefix: &str| lower.strip_prefix(prefix).filter(|rest| !rest.is_empty() && rest.bytes().all(|b| b.is_ascii_digit()));
    let dotted = |digits: &str, minor: usize| format!("{}.{}.{}", &digits[..1], &digits[1..1 + minor], &digits[1 + minor..]);
    if let Some(digits) = digits("impi") {
        return match digits.len() {
            2 => format!("Intel MPI 20{digits}"),
            3 => format!("Intel MPI 20{}.{}", &digits[..2], &digits[2..]),
            _ => format!("Intel MPI {digits}"),
        };
    }
    let three = |prefix: &str| digits(prefix).filter(|digits| digits.len() == 3);
    match (digits("mpich"), three("ompi").or_else(|| three("openmpi")), three("mvapich").or_else(|| three("mvapich2"))) {
        (Some(digits), ..) if digits.len() > 3 => format!("Cray MPICH {}", dotted(digits, 1)),
        (_, Some(digits), _) => format!("Open MPI {}", dotted(digits, 1)),
        (.., Some(digits)) => format!("MVAPICH2 {}", dotted(digits, 1)),
        _ => name.replacen("ompi", "Open MPI", usize::from(lower.starts_with("ompi"))),
    }
}

/// Names are written with blanks, dashes and capitals as it pleases their authors.
fn plain(name: &str) -> String {
    name.chars().filter(char::is_ascii_alphanumeric).map(|c| c.to_ascii_lowercase()).collect()
}

const FAMILIES: [&str; 6] = ["mvapich", "openmpi", "hpcx", "intelmpi", "mpich", "craympi"];

/// Whether the run takes minutes: many ranks that send each other more than a few large messages.
fn is_long(question: &Question, traits: &Traits) -> bool {
    let blocks = matches!(traits.operation, Operation::Collective(Collective::Alltoall | Collective::Alltoallv) | Operation::AnyCollective);
    let short = if blocks { SHORT_BLOCK } else { SHORT_BUFFER };
    question.ranks > SHORT_RANKS && question.message_bytes.is_none_or(|size| size > short)
}

/// Ranks among which every message can be simulated in seconds.
const SHORT_RANKS: u32 = 128;
/// Blocks of this size in bytes take few messages among any number of ranks: Bruck's algorithm.
const SHORT_BLOCK: u64 = 256;
/// As do buffers of this size of an operation that has one buffer: trees and exchanges by halves.
const SHORT_BUFFER: u64 = 8192;

/// Whether the tool's own sweep has the size: powers of two up to its largest, and zero. Sweeps of many pairs are long.
fn in_sweep(question: &Question) -> bool {
    let Ok(traits) = Tool::by_name(question.tool).map(Tool::traits) else { return false };
    let size = question.message_bytes;
    match (traits.suite, traits.operation, traits.ranks) {
        (Suite::Gpu, ..) => size.is_none_or(|size| size <= LARGEST_COPY && size.is_power_of_two()),
        (Suite::Omb, Operation::Message, Ranks::Two) => {
            size.is_none_or(|size| size <= LARGEST_OF_SWEEP && (size == 0 || size.is_power_of_two()))
        }
        _ => false,
    }
}

/// The largest copy of gdrcopy_copylat's own sweep, in bytes.
const LARGEST_COPY: u64 = 16 << 20;

/// The options by which the tool of that name, which names sizes so, runs one size.
///
/// # Errors
/// A tool without sizes, or one that runs powers of two only.
pub fn size_options(tool: &str, sizes: SizeOption, size: Bytes) -> Result<Vec<String>, String> {
    let size = size.0;
    let words: &[String] = match sizes {
        SizeOption::One => &["-s".to_owned(), size.to_string()],
        SizeOption::Range => &["-m".to_owned(), format!("{size}:{size}")],
        SizeOption::BeginEnd => &["-b".to_owned(), size.to_string(), "-e".to_owned(), size.to_string()],
        SizeOption::Powers if size.is_power_of_two() => &["-msglog".to_owned(), format!("{log}:{log}", log = size.trailing_zeros())],
        SizeOption::Powers => return Err(format!("{tool} runs powers of two, not {size} bytes")),
        SizeOption::Fixed => return Err(format!("{tool} has no sizes: leave them out")),
    };
    Ok(words.to_vec())
}

/// The options of the question, its size, and no more iterations than tell something new.
fn options(question: &Question, traits: &Traits) -> Result<Vec<String>, Refusal> {
    let mut options = question.options.clone();
    // Powers of two are asked for always; the other tools have sizes of their own where none is.
    let size = question.message_bytes.or((traits.sizes == SizeOption::Powers).then_some(0));
    match size {
        Some(size) if traits.sizes != SizeOption::Fixed => {
            options.extend(size_options(question.tool, traits.sizes, Bytes(size)).map_err(Refusal::Skip)?);
            let windows = traits.suite == Suite::Omb && traits.operation == Operation::Message && traits.measures != Measures::Latency;
            let fewer: &[&str] = match traits.sizes {
                SizeOption::One if size > LONG_PERFTEST => &["-n", "256"],
                SizeOption::Range if windows && size > LONG_OMB => &["-i", "1", "-x", "1"],
                _ => &[],
            };
            options.extend(fewer.iter().map(|word| (*word).to_owned()));
        }
        None if traits.suite == Suite::Perftest => options.push("-a".to_owned()),
        _ => {}
    }
    if traits.ranks == Ranks::Pairs {
        options.extend(["--pairs".to_owned(), (question.ranks / 2).to_string()]);
    }
    Ok(options)
}

/// Windows of each size where many runs of a sweep are compared: three give the bandwidth of a hundred within 1 %.
const BRIEF: [&str; 4] = ["-i", "3", "-x", "1"];
/// The largest size that the OSU benchmarks run by themselves.
const LARGEST_OF_SWEEP: u64 = 4 << 20;
/// Above this, 256 iterations of a perftest program have long reached the steady state.
const LONG_PERFTEST: u64 = 256 << 10;
/// Above this, a window of 64 messages is 64 MiB or more, and each takes the same time.
const LONG_OMB: u64 = 512 << 10;

/// The values of a size in base units; without a size, the best of all.
fn answer(points: &[Point], question: &Question) -> Answer {
    let (size, column) = (question.message_bytes, question.column);
    let of = |metric: &str, unit_in_base: fn(&str) -> Option<f64>, pick: fn(f64, f64) -> f64| {
        let values = points
            .iter()
            .filter(|p| p.metric == column.unwrap_or(metric) && size.is_none_or(|s| p.size.as_u64() == s))
            .filter_map(|p| Some(p.value * unit_in_base(p.unit)?));
        values.reduce(pick)
    };
    let bandwidth = |unit: &str| match unit {
        "MB/s" => Some(1e6),
        "GB/s" => Some(1e9),
        "MiB/s" => Some(1_048_576.0),
        "Gb/s" => Some(1e9 / 8.0),
        _ => None,
    };
    let rate = |unit: &str| match unit {
        "Mpps" => Some(1e6),
        "messages/s" | "msg/s" | "1/s" => Some(1.0),
        _ => None,
    };
    let time = |unit: &str| (unit == "us").then_some(1.0);
    Answer {
        latency_us: of("latency", time, f64::min),
        bytes_per_s: of("bandwidth", bandwidth, f64::max),
        messages_per_s: of("message_rate", rate, f64::max),
        percent: of("saved", |unit| (unit == "%").then_some(1.0), f64::max),
        line_bytes_per_s: None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_may_name_an_adapter() {
        let catalog = Catalog::embedded().unwrap();
        let predictor = Predictor::new(&catalog, None, 1, false, |_, _| {});
        let found = |name: &str| predictor.cluster(&Question { cluster: name.to_owned(), ..Question::default() }).map(|parts| parts.name);
        assert_eq!((found("efa-1"), found("ri2")), (Ok("aws-c5n-efa".to_owned()), Ok("ri2".to_owned())));
        assert!(matches!(found("ri3"), Err(Refusal::Skip(reason)) if reason.contains("`ri2`")));
        // Of nodes that are not all alike, a row has to say which.
        assert!(matches!(found("lumi"), Err(Refusal::Skip(_))));
        assert!(found("lumi:lumi-c").is_ok());
    }

    #[test]
    fn values_come_in_base_units() {
        use fabriscope_units::Bytes;
        let point = |metric, unit, value| Point { size: Bytes(8), metric, unit, value };
        let points = [point("bandwidth", "MiB/s", 2.0), point("message_rate", "Mpps", 0.5), point("bandwidth", "MiB/s", 1.0)];
        let question =
            |message_bytes, column| Question { tool: "osu_bw", nodes: 2, ranks: 2, message_bytes, column, ..Question::default() };
        assert_eq!(super::answer(&points, &question(Some(16), None)), Answer::default());
        assert_eq!(super::answer(&points, &question(Some(8), Some("message_rate"))).messages_per_s, Some(500_000.0));
        let answer = answer(&points, &question(Some(8), None));
        assert_eq!((answer.bytes_per_s, answer.messages_per_s, answer.latency_us), (Some(2_097_152.0), Some(500_000.0), None));
    }

    #[test]
    fn names_of_libraries_are_written_in_many_ways() {
        assert!(plain("HPC-X 2.7 (UCX 1.9)").starts_with("hpcx"));
        assert!(plain("Open MPI 4.0.3 UCX").starts_with("openmpi"));
        for (short, full) in [
            ("IMPI193", "Intel MPI 2019.3"),
            ("IMPI18", "Intel MPI 2018"),
            ("IMPI2021", "Intel MPI 2021"),
            ("IMPI", "IMPI"),
            ("MPICH8015", "Cray MPICH 8.0.15"),
            ("OMPI405", "Open MPI 4.0.5"),
            ("MVAPICH237", "MVAPICH2 2.3.7"),
            ("ompi 4", "Open MPI 4"),
        ] {
            assert_eq!(in_full(short), full);
        }
    }

    #[test]
    fn a_library_of_another_major_version_does_not_stand_for_one() {
        let catalog = Catalog::embedded().unwrap();
        let of = |cluster: &str, name: &str| library(&catalog, &catalog.target(cluster).unwrap(), name).map(|s| s.name.clone());
        assert_eq!(of("csd3-opa", "IMPI193").as_deref(), Some("intelmpi-2019-psm2"));
        assert_eq!(of("alaska-roce25", "Intel MPI 2018.2").as_deref(), Some("intelmpi-2018-dapl"));
        assert_eq!(of("alaska-roce25", "IMPI18").as_deref(), Some("intelmpi-2018-dapl"));
        assert_eq!(of("alaska-roce25", "openmpi-tcp").as_deref(), Some("openmpi-tcp"));
        assert_eq!(of("alaska-roce25", "Intel MPI 2019.7 verbs").as_deref(), Some("intelmpi-2019-verbs"));
        assert_eq!(of("betzy-hdr", "Intel MPI 2019.7").as_deref(), Some("intelmpi-2019-mlx"));
        assert_eq!(of("betzy-hdr", "Intel MPI 2021.3").as_deref(), Some("intelmpi-2021-mlx"));
        assert_eq!(of("alaska-roce25", "Intel MPI 2017.1"), None);
        assert_eq!(of("ibex-cpu", "MVAPICH2 2.3.7").as_deref(), Some("mvapich2-2.3.7"));
    }
}
