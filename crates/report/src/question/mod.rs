//! Which program, with which options, gives a measured value.
//!
//! Modelled: perftest (`ib_{send,write,read,atomic}_{lat,bw}`), OMB point to point and collectives, over MPI and over NCCL, nccl-tests, IMB
//! PingPong, which times the same exchange as `osu_latency`, IMB's collectives, iperf3 and netperf, ucx_perftest and fi_pingpong as what times the
//! same exchange, programs on GPUs. A perftest row's variant holds the options of
//! the tool; another row's variant names the library, the buffers and the placement in words (`words`); "small messages" without a size are
//! of 8 bytes. Rows that compare two runs (`improvement`, `throughput ratio`, `overhead`) are answered by both.
//!
//! Not modelled: everything else; such a row is skipped, and the reason is told.

mod beneath;
mod broadcast;
mod generation;
mod gpu;
mod hccl;
mod krylov;
mod names;
mod nccl;
mod sockets;
mod words;

use fabriscope_tools::{Ranks, SizeOption, Suite, Tool, Traits};

use crate::measured::{Column, Measured, MeasuredError, Row};
use names::{Named, quantity_of, tool_of};
use words::Words;

/// What to run for one measured value. Rows with equal questions are answered by one run.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Default)]
pub struct Question {
    /// The cluster that the row names, or an adapter of which a cluster has to be found.
    pub cluster: String,
    /// The tool, by its own name.
    pub tool: &'static str,
    /// The tool's options, without those that set the size and the number of iterations.
    pub options: Vec<String>,
    /// The message library as the row names it; `None` takes the cluster's own.
    pub software: Option<String>,
    /// Where the nodes stand to each other.
    pub placement: Placement,
    /// Nodes of the job.
    pub nodes: u32,
    /// Ranks of the job.
    pub ranks: u32,
    /// Size of one message in bytes; `None` asks for the best over the tool's own sweep.
    pub message_bytes: Option<u64>,
    /// Whether the MPI library takes buffers on a GPU; as its part says where nothing is said.
    pub gpu_aware: Option<bool>,
    /// The GPUs of the two ranks; the first two where nothing is said.
    pub gpus: Option<[u32; 2]>,
    /// Where the ranks of a node are: `core`, `socket` or `numa`; as the library has it where nothing is said.
    pub bind: Option<String>,
    /// By what means long messages travel within a node; as the library does where nothing is said.
    pub intra_node: Option<String>,
    /// Whether adapters and cores reach the memory of GPUs; as the library's part says where nothing is said.
    pub gpudirect: Option<bool>,
    /// The quantity that the tool gives under this name, where it gives several.
    pub column: Option<&'static str>,
}

/// Where the nodes of a job stand in the fabric.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Placement {
    /// The first nodes of the cluster, as a job gets them.
    #[default]
    First,
    /// Below one switch.
    SameSwitch,
    /// As far apart as the fabric has it.
    Farthest,
    /// As a scheduler finds them on a busy machine.
    Scattered,
}

impl Placement {
    /// The word of files.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Placement::First => "first",
            Placement::SameSwitch => "same_switch",
            Placement::Farthest => "farthest",
            Placement::Scattered => "scattered",
        }
    }
}

/// What a row's value is, with the factor from its unit to the base unit.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Quantity {
    /// Time of one message; base unit µs.
    Latency {
        /// Microseconds in one unit of the row.
        us: f64,
    },
    /// Bytes a second; base unit byte/s.
    Bandwidth {
        /// Bytes a second in one unit of the row.
        bytes_per_s: f64,
    },
    /// Messages a second.
    MessageRate {
        /// Messages a second in one unit of the row.
        per_s: f64,
    },
    /// A share of something.
    Share {
        /// Percent in one unit of the row.
        percent: f64,
    },
    /// Bytes a second as a share of what the link carries.
    OfLine {
        /// Percent in one unit of the row.
        percent: f64,
    },
}

/// Two runs that a row compares.
#[derive(Debug, Clone, PartialEq)]
pub struct Comparison {
    /// The run that the row speaks of.
    pub of: Question,
    /// The one that it is compared with.
    pub against: Question,
    /// What of both.
    pub quantity: Quantity,
    /// How.
    pub relation: Relation,
}

/// How one value stands to another.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Relation {
    /// So many percent more.
    Longer,
    /// So many percent less.
    Shorter,
    /// So many times as much.
    Times,
}

impl Relation {
    /// `of` as seen from `against`.
    #[must_use]
    pub fn of(self, of: f64, against: f64) -> f64 {
        match self {
            Relation::Longer => 100.0 * (of / against - 1.0),
            Relation::Shorter => 100.0 * (1.0 - of / against),
            Relation::Times => of / against,
        }
    }
}

/// What becomes of a row.
#[derive(Debug, Clone, PartialEq)]
pub enum Requested {
    /// This run answers it.
    Run(Question, Quantity),
    /// These two do.
    Compare(Comparison),
    /// The model cannot give it, because of this.
    Skip(String),
}

impl Requested {
    /// The runs that are needed, to be changed by what is known beside the row.
    pub fn questions_mut(&mut self) -> impl Iterator<Item = &mut Question> {
        let (first, second) = match self {
            Requested::Run(question, _) => (Some(question), None),
            Requested::Compare(Comparison { of, against, .. }) => (Some(of), Some(against)),
            Requested::Skip(_) => (None, None),
        };
        first.into_iter().chain(second)
    }

    /// The runs that are needed.
    pub fn questions(&self) -> impl Iterator<Item = &Question> {
        let (first, second) = match self {
            Requested::Run(question, _) => (Some(question), None),
            Requested::Compare(Comparison { of, against, .. }) => (Some(of), Some(against)),
            Requested::Skip(_) => (None, None),
        };
        first.into_iter().chain(second)
    }
}

/// What kind of benchmark a row is of: promises are made and hits are counted by kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// perftest.
    Perftest,
    /// MPI between two ranks, or pairs of them.
    PointToPoint,
    /// Collective operations of MPI.
    Collectives,
    /// NCCL and RCCL.
    Nccl,
    /// Copies and kernels on the GPUs of a node.
    Gpus,
    /// Claims of talks and papers: "up to", generations of an adapter, one way against another.
    Claims,
}

impl Kind {
    /// Every kind, in the order of listings.
    pub const ALL: [Kind; 6] = [Kind::Perftest, Kind::PointToPoint, Kind::Collectives, Kind::Nccl, Kind::Gpus, Kind::Claims];

    /// What people call it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Kind::Perftest => "perftest",
            Kind::PointToPoint => "MPI point to point",
            Kind::Collectives => "MPI collectives",
            Kind::Nccl => "NCCL",
            Kind::Gpus => "GPUs of a node",
            Kind::Claims => "claims",
        }
    }

    /// The kind of a row that asks this.
    #[must_use]
    pub fn of(asked: &Requested, benchmark: &str) -> Kind {
        let (question, compared) = match asked {
            Requested::Run(question, _) => (Some(question), false),
            Requested::Compare(comparison) => (Some(&comparison.of), true),
            Requested::Skip(_) => (None, false),
        };
        let own = tool_of(benchmark).ok().map(|named| named.tool.traits());
        let run = question.and_then(|question| Tool::by_name(question.tool).ok()).map(Tool::traits);
        // What answers a row that names no tool is not what was run there.
        let Some(traits) = run.or(own).filter(|traits| !compared && (own.is_some() || traits.suite == Suite::Gpu)) else {
            return Kind::Claims;
        };
        match traits.suite {
            Suite::Perftest => Kind::Perftest,
            Suite::NcclTests | Suite::OmbXccl | Suite::Hccl => Kind::Nccl,
            Suite::Gpu => Kind::Gpus,
            _ if traits.is_collective() => Kind::Collectives,
            _ => Kind::PointToPoint,
        }
    }
}

/// The metric of a row by its usual name, under which rows are put together: `t_avg[usec]` is a latency, a peak bandwidth a bandwidth.
#[must_use]
pub fn metric_of(row: &Row) -> String {
    names::metric_of(&row.metric)
}

/// Finds the run that answers `row`.
///
/// # Errors
/// A row of a modelled benchmark with a size or a value that no run can have.
pub fn ask(measured: &Measured, row: &Row) -> Result<Requested, MeasuredError> {
    let apart = [gpu::ask, nccl::ask, hccl::ask, broadcast::ask, krylov::ask, generation::ask, sockets::ask, beneath::ask];
    if let Some(asked) = apart.into_iter().find_map(|ask| ask(row)) {
        return Ok(asked);
    }
    let named = match tool_of(&row.benchmark) {
        Ok(named) => named,
        Err(reason) => return Ok(Requested::Skip(reason)),
    };
    if let Some(bytes) = row.message_bytes {
        check_size(measured, row, named.tool, bytes)?;
    }
    let asked = match versus(named, row) {
        Some(asked) => Ok(asked),
        None => single(named, row, &row.variant, &row.metric, &row.unit).map(|(question, quantity)| Requested::Run(question, quantity)),
    };
    let asked = asked.unwrap_or_else(Requested::Skip);
    if row.value <= 0.0 && !matches!(asked, Requested::Skip(_)) {
        let problem = format!("a {} of {} cannot be measured", row.metric, row.value);
        return Err(measured.problem(row, Column::Value, problem, "correct the value or remove the row".to_owned()));
    }
    Ok(asked)
}

/// Whether a row is of a job of any number of nodes and ranks, which its columns have to say.
#[must_use]
pub fn has_job(row: &Row) -> bool {
    let traits = tool_of(&row.benchmark).ok().map(|named| named.tool.traits());
    traits.is_some_and(|traits| matches!(traits.ranks, Ranks::Job(_)))
}

/// The phrases of a row's variant that say nothing of the run.
#[must_use]
pub fn unread(row: &Row) -> Vec<String> {
    if hccl::ask(row).is_some() {
        return Vec::new();
    }
    let words = tool_of(&row.benchmark).ok().and_then(|named| Words::of(&named.tool.traits(), &row.variant).ok());
    words.map(|words| words.unread).unwrap_or_default()
}

/// Two runs for a row of the form `… on vs off`.
fn versus(named: Named, row: &Row) -> Option<Requested> {
    let at = row.variant.to_ascii_lowercase().find(" on vs off")?;
    let (relation, metric, unit) = match (row.metric.to_ascii_lowercase().as_str(), row.unit.as_str()) {
        ("improvement", "%") => (Relation::Shorter, "latency", "us"),
        (metric, "x") if metric.starts_with("throughput ratio") => (Relation::Times, "bandwidth", "MB/s"),
        (metric, unit) => return Some(Requested::Skip(format!("a comparison of two runs has no metric `{metric}` in `{unit}` here"))),
    };
    let side = |word: &str| {
        let variant = format!("{} {word}{}", &row.variant[..at], &row.variant[at + " on vs off".len()..]);
        single(named, row, &variant, metric, unit)
    };
    Some(match (side("on"), side("off")) {
        (Ok((of, quantity)), Ok((against, _))) => Requested::Compare(Comparison { of, against, quantity, relation }),
        (Err(reason), _) | (_, Err(reason)) => Requested::Skip(reason),
    })
}

/// One run for a row, of which the variant, the metric and the unit may be those of one side; why there is none otherwise.
fn single(named: Named, row: &Row, variant: &str, metric: &str, unit: &str) -> Result<(Question, Quantity), String> {
    let (tool, traits) = (named.tool.name(), named.tool.traits());
    let quantity = quantity_of(tool, &traits, metric, unit)?;
    let peak = metric.to_ascii_lowercase().starts_with("peak");
    // What is compared of short messages, without a size, is their latency.
    let bytes = row.message_bytes.or_else(|| (small_messages(row) || metric != row.metric).then_some(SMALL_MESSAGE));
    // A barrier has no message, an update an element.
    let sized = traits.sizes != SizeOption::Fixed;
    if bytes.is_none() && !peak && sized {
        return Err("the row names no message size".to_owned());
    }
    let mut words = Words::of(&traits, variant)?;
    words.options.extend(named.operand.map(str::to_owned));
    let (nodes, ranks) = shape(named.tool, row, &words)?;
    let question = Question {
        cluster: row.cluster.clone(),
        tool,
        options: words.options,
        software: words.software,
        placement: words.placement,
        nodes,
        ranks,
        message_bytes: bytes.filter(|_| !peak && sized),
        gpu_aware: words.gpu_aware,
        gpudirect: words.gpudirect,
        bind: words.bind,
        intra_node: words.intra_node,
        gpus: None,
        column: None,
    };
    Ok((question, quantity))
}

/// Nodes and ranks of the job that the row speaks of; why there is none otherwise.
fn shape(tool: Tool, row: &Row, words: &Words) -> Result<(u32, u32), String> {
    let (name, traits) = (tool.name(), tool.traits());
    if matches!(traits.ranks, Ranks::Job(_)) {
        let (Some(nodes), Some(ranks)) = (row.nodes, row.ranks) else {
            return Err(format!("{name} needs the nodes and the ranks of the row; --nodes and --ppn say what rows do not"));
        };
        if ranks % nodes != 0 {
            return Err(format!("{ranks} ranks do not fill {nodes} nodes evenly"));
        }
        return Ok((nodes, ranks));
    }
    if let (Some(nodes), Some(said)) = (row.nodes, words.nodes)
        && nodes != said
    {
        return Err(format!("the variant speaks of {said} node(s), the column `nodes` of {nodes}"));
    }
    let ranks = row.ranks.or(words.pairs.map(|p| 2 * p)).unwrap_or(2);
    let in_pairs = traits.ranks == Ranks::Pairs;
    if ranks % 2 == 1 || (!in_pairs && ranks != 2) {
        return Err(format!("{name} runs on {} ranks, not {ranks}", if in_pairs { "pairs of" } else { "2" }));
    }
    let within = traits.ranks == Ranks::TwoOnOneNode;
    match row.nodes.or(words.nodes) {
        None | Some(2) if !within => Ok((2, ranks)),
        Some(1) if matches!(traits.suite, Suite::Omb | Suite::OmbXccl) || within => Ok((1, ranks)),
        Some(nodes) if within => Err(format!("{name} runs within 1 node, not {nodes}")),
        Some(nodes) => Err(format!("{name} runs between 2 nodes, not {nodes}")),
        None => Ok((1, ranks)),
    }
}

/// Whether a row speaks of small messages without saying how small.
fn small_messages(row: &Row) -> bool {
    [&row.variant, &row.notes].iter().any(|text| text.to_ascii_lowercase().contains("small message"))
}

/// What stands for "small messages", in bytes: up to 64 every size takes the same time. Basis: assumed.
const SMALL_MESSAGE: u64 = 8;

/// The largest message: 2³¹ bytes, the limit of InfiniBand's message length and of a count in MPI.
pub const LARGEST_MESSAGE: u64 = 1 << 31;

fn check_size(measured: &Measured, row: &Row, tool: Tool, bytes: u64) -> Result<(), MeasuredError> {
    let smallest = if let Tool::Omb(benchmark) = tool { u64::from(benchmark.smallest()) } else { 1 };
    if (smallest..=LARGEST_MESSAGE).contains(&bytes) {
        return Ok(());
    }
    let problem = format!("{} has no message of {bytes} bytes", tool.name());
    Err(measured.problem(row, Column::MessageBytes, problem, format!("give a size from {smallest} to {LARGEST_MESSAGE} bytes")))
}

/// What an environment variable and a choice of algorithm mean to the tool: changes of a question that users and publications give beside rows.
///
/// # Errors
/// A variable that is not modelled, an algorithm for a benchmark without any.
pub(crate) fn set(question: &mut Question, algorithm: Option<&str>, environment: &[(&str, &str)]) -> Result<(), String> {
    let Ok(tool) = Tool::by_name(question.tool) else { return Ok(()) };
    let traits = tool.traits();
    let mut words = Words::default();
    for (name, value) in environment {
        words.variable(&traits, name, value)?;
    }
    if let Some(algorithm) = algorithm {
        words.options.extend(chosen(&traits, question.tool, algorithm)?);
    }
    question.options.append(&mut words.options);
    question.gpudirect = words.gpudirect.or(question.gpudirect);
    question.gpu_aware = words.gpu_aware.or(question.gpu_aware);
    Ok(())
}

/// The options that choose an algorithm.
fn chosen(traits: &Traits, tool: &str, algorithm: &str) -> Result<[String; 2], String> {
    match traits.suite {
        Suite::NcclTests => Ok(["--env".to_owned(), format!("NCCL_ALGO={algorithm}")]),
        Suite::Omb if traits.is_collective() => Ok(["--algorithm".to_owned(), algorithm.to_owned()]),
        _ => Err(format!("{tool} has no choice of algorithms; leave `algorithm` out")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::measured;

    #[test]
    fn claims_about_solvers_name_the_mode() {
        let row = |variant: &str| format!("t,c,Krylov vector ops offload (PETSc/HYPRE),{variant},2,2,,improvement (up to),%,24");
        for (variant, mode) in [("Intel Broadwell + BlueField-3; hybrid CPU+DPU", "hybrid"), ("hybrid with onloading", "hybrid-onload")] {
            let Ok(Requested::Run(question, Quantity::Share { percent })) = asked(&row(variant)) else { panic!("{variant}") };
            assert_eq!((question.tool, question.options[1].as_str(), question.column, percent), ("krylov", mode, Some("saved"), 1.0));
        }
        assert!(matches!(asked(&row("CPU")), Ok(Requested::Skip(_))));
    }

    fn asked(row: &str) -> Result<Requested, MeasuredError> {
        let text = format!("table,cluster,benchmark,variant,nodes,ranks,message_bytes,metric,unit,value\n{row}\n");
        let measured = measured::read("x.csv", text.as_bytes()).unwrap();
        ask(&measured, &measured.rows()[0])
    }
    fn run(row: &str) -> (Question, Quantity) {
        match asked(row).unwrap() {
            Requested::Run(question, quantity) => (question, quantity),
            other => panic!("no single run: {other:?}"),
        }
    }
    fn skipped(row: &str) -> String {
        match asked(row).unwrap() {
            Requested::Skip(reason) => reason,
            other => panic!("not skipped: {other:?}"),
        }
    }

    #[test]
    fn the_published_forms_are_understood() {
        let (question, quantity) = run("t,ri2,ib_send_bw,-a,2,2,4,bandwidth,MiB/s,15.84");
        assert_eq!((question.tool, question.options.len(), question.message_bytes), ("ib_send_bw", 0, Some(4)));
        assert_eq!(quantity, Quantity::Bandwidth { bytes_per_s: 1_048_576.0 });

        let (question, quantity) = run("t,a,osu_mbw_mr,\"Open MPI 4.0.3 UCX, 8 pairs, window 64\",2,16,8,message rate,msg/s,30373260.38");
        assert_eq!(question.software.as_deref(), Some("Open MPI 4.0.3 UCX"));
        assert_eq!((question.ranks, question.options.join(" ").as_str()), (16, "-W 64"));
        assert_eq!(quantity, Quantity::MessageRate { per_s: 1.0 });

        let (question, _) = run("t,o,IMB PingPong,across spine (3 hops),2,2,0,t[usec],us,3.03");
        assert_eq!((question.tool, question.placement), ("osu_latency", Placement::Farthest));
        let (question, _) = run("t,b,osu_bibw,\"HPC-X 2.7 (UCX 1.9), host buffers\",2,2,1,bandwidth,MB/s,5.95");
        assert_eq!(question.software.as_deref(), Some("HPC-X 2.7 (UCX 1.9)"));
        let (question, _) = run("t,b,osu_latency,\"D D, PSM2_GPUDIRECT=0 (cuMemcpy)\",2,2,8,latency,us,27");
        assert_eq!((question.options.join(" ").as_str(), question.gpudirect, question.gpu_aware), ("D D", Some(false), None));
        let (question, _) = run("t,b,mpi_gpu_bw,GPU-aware MPI enabled,1,2,128,bandwidth,GB/s,0.03");
        assert_eq!((question.nodes, question.gpu_aware, question.options.len()), (1, Some(true), 0));
        let (question, _) = run("t,b,osu_bibw,\"D D, Cray MPICH 8.1.32 (PrgEnv-cray)\",2,2,1,bandwidth,MB/s,1.06");
        assert_eq!((question.software.as_deref(), question.options.join(" ").as_str()), (Some("Cray MPICH 8.1.32 (PrgEnv-cray)"), "D D"));
        let (question, _) = run("t,i,osu_bibw,H H,2,2,1,bandwidth,MB/s,8.13");
        assert_eq!(question.software, None);
        let (question, _) = run("t,i,osu_bw,uni-directional peak,2,2,,peak bandwidth,MB/s,12171");
        assert_eq!(question.message_bytes, None);
        let (question, _) = run("t,c,IMB Alltoall,\"IMPI193, host buffers\",4,128,8,t_avg[usec],us,22.5");
        assert_eq!((question.tool, question.nodes, question.ranks, question.software.as_deref()), ("IMB-MPI1", 4, 128, Some("IMPI193")));
        let (question, _) = run("t,i,osu_latency,\"inter-node, small messages\",2,2,,latency,us,3.88");
        assert_eq!(question.message_bytes, Some(8));
    }

    #[test]
    fn rows_may_compare_two_runs() {
        let Ok(Requested::Compare(comparison)) = asked("t,o,osu_latency,\"D D, GPUDirect on vs off\",2,2,4194304,improvement,%,17") else {
            panic!()
        };
        assert_eq!((comparison.of.gpudirect, comparison.against.gpudirect), (Some(true), Some(false)));
        assert_eq!((comparison.relation, comparison.of.message_bytes), (Relation::Shorter, Some(4 << 20)));
        // 27 us against 3.8 us are 86 % less; 100 MB/s against 25 MB/s four times as much.
        assert!((Relation::Shorter.of(3.8, 27.0) - 85.926).abs() < 0.001 && (Relation::Times.of(100.0, 25.0) - 4.0).abs() < 1e-9);
        let Ok(Requested::Compare(comparison)) = asked("t,o,osu_bw,\"D D, GPUDirect on vs off\",2,2,4,throughput ratio (up to),x,4") else {
            panic!()
        };
        assert_eq!((comparison.relation, comparison.of.options.join(" ").as_str()), (Relation::Times, "D D"));
        assert!(skipped("t,o,osu_bw,\"D D, GPUDirect on vs off\",2,2,4,largest size improved,bytes,4").contains("largest size improved"));
        let (question, quantity) = run("t,o,osu_bw,D D,2,2,262144,fraction of line rate,%,90");
        assert_eq!((question.message_bytes, quantity), (Some(262_144), Quantity::OfLine { percent: 1.0 }));
    }

    #[test]
    fn generations_are_asked_for_by_their_adapter() {
        let (question, quantity) = run("t,efa,EFA generation table,Amazon EFA 2nd (2020) generation,2,2,,latency,us,9.5");
        assert_eq!((question.cluster.as_str(), question.tool, question.options.join(" ").as_str()), ("efa-2", "ib_send_lat", "-c SRD"));
        assert_eq!((question.message_bytes, quantity), (Some(8), Quantity::Latency { us: 1.0 }));
        let (question, _) = run("t,efa,EFA generation table,Amazon EFA 3rd (2022) generation,2,2,,bandwidth,Gbit/s,200");
        assert_eq!((question.cluster.as_str(), question.tool, question.message_bytes), ("efa-3", "ib_send_bw", None));
        let Ok(Requested::Compare(comparison)) = asked("t,efa,verbs SRD vs UD latency,AWS c5n.18xlarge,2,2,,overhead (low),%,8") else {
            panic!()
        };
        assert_eq!((comparison.of.options[1].as_str(), comparison.against.options[1].as_str()), ("SRD", "UD"));
        assert!(skipped("t,efa,EFA generation table,Amazon EFA 9th generation,2,2,,latency,us,9.5").contains("which generation"));
    }

    #[test]
    fn kinds_are_those_of_what_was_measured() {
        let kind = |row: &str, benchmark: &str| Kind::of(&asked(row).unwrap(), benchmark);
        assert_eq!(kind("t,c,ib_send_lat,-a,2,2,8,latency,us,1", "ib_send_lat"), Kind::Perftest);
        assert_eq!(kind("t,c,IMB PingPong,x,2,2,8,t[usec],us,1", "IMB PingPong"), Kind::PointToPoint);
        assert_eq!(kind("t,c,IMB Alltoall,x,2,64,8,t_avg[usec],us,1", "IMB Alltoall"), Kind::Collectives);
        assert_eq!(kind("t,c,nvbandwidth,Host to Device,1,1,,bandwidth,GB/s,26", "nvbandwidth"), Kind::Gpus);
        assert_eq!(kind("t,c,HBM bandwidth (BabelStream),Triad,1,1,,bandwidth,TB/s,1", "HBM bandwidth (BabelStream)"), Kind::Gpus);
        assert_eq!(kind("t,efa,EFA generation table,1st,2,2,,latency,us,14", "EFA generation table"), Kind::Claims);
        assert_eq!(kind("t,o,osu_latency,\"D D, GPUDirect on vs off\",2,2,8,improvement,%,80", "osu_latency"), Kind::Claims);
    }

    #[test]
    fn variants_and_columns_that_contradict_are_refused() {
        assert!(skipped("t,c,osu_latency,different sockets,2,2,8,latency,us,1").contains("the variant speaks of 1 node"));
        let (question, _) = run("t,c,osu_latency,different sockets,,,8,latency,us,1");
        assert_eq!((question.nodes, question.bind.as_deref()), (1, Some("socket")));
    }

    #[test]
    fn settings_beside_the_rows_are_those_of_the_tool() {
        let (mut question, _) = run("t,c,osu_latency,x,2,2,8,latency,us,1");
        assert!(set(&mut question, Some("ring"), &[]).unwrap_err().contains("no choice of algorithms"));
        set(&mut question, None, &[("PSM2_GPUDIRECT", "1")]).unwrap();
        assert_eq!(question.gpudirect, Some(true));
        assert!(set(&mut question, None, &[("UCX_TLS", "rc")]).unwrap_err().contains("UCX_TLS=rc"));
    }

    #[test]
    fn options_of_perftest_go_to_the_tool() {
        assert_eq!(run("t,c,ib_write_bw,-a -q 4 -b -n 1000,2,2,64,bandwidth,Gb/s,90").0.options, ["-q", "4", "-b"]);
        assert!(run("t,c,ib_write_bw,two nodes,2,2,64,bandwidth,Gb/s,90").0.options.is_empty());
    }

    #[test]
    fn what_the_model_cannot_give_is_skipped_with_a_reason() {
        assert!(skipped("t,c,osu_unknown,x,2,64,8,latency,us,9").contains("`osu_unknown` is not modelled"));
        assert!(skipped("t,c,osu_bw,H H,2,2,8,latency,us,9").contains("does not give the metric `latency`"));
        assert!(skipped("t,c,osu_bw,H H,2,2,8,bandwidth,furlong/s,9").contains("furlong/s"));
        assert!(skipped("t,c,osu_latency,device buffers,2,2,8,latency,us,9").contains("which buffers are on GPUs"));
        assert!(skipped("t,c,osu_latency,across racks,2,2,,latency,us,9").contains("no message size"));
        assert!(skipped("t,c,IMB Alltoall,IMPI193,3,64,8,t_avg[usec],us,9").contains("do not fill"));
        assert!(skipped("t,c,osu_latency,x,2,3,8,latency,us,9").contains("2 ranks, not 3"));
        assert!(skipped("t,c,ib_send_lat,x,1,2,8,latency,us,9").contains("2 nodes, not 1"));
        assert!(skipped("t,c,mpi_gpu_bw,x,2,2,8,bandwidth,GB/s,9").contains("1 node, not 2"));
    }

    #[test]
    fn sizes_that_no_run_can_have_are_errors() {
        let message = asked("t,c,osu_bw,H H,2,2,0,bandwidth,MB/s,9").unwrap_err().to_string();
        assert!(message.contains("x.csv:2:20: osu_bw has no message of 0 bytes"), "{message}");
        assert!(asked("t,c,osu_bw,H H,2,2,1099511627776,bandwidth,MB/s,9").unwrap_err().to_string().contains("1099511627776"));
        assert!(asked("t,c,osu_latency,H H,2,2,0,latency,us,1.2").is_ok());
        assert!(asked("t,c,osu_latency,H H,2,2,8,latency,us,0").unwrap_err().to_string().contains("cannot be measured"));
    }
}
