//! Which program, with which options, gives a measured value.
//!
//! Modelled: perftest (`ib_{send,write,read,atomic}_{lat,bw}`), OMB point to point (`osu_latency`, `osu_bw`,
//! `osu_bibw`, `osu_mbw_mr`, `osu_multi_lat`) and collectives, IMB PingPong, which times the same exchange as `osu_latency`, IMB's collectives. A perftest row's
//! variant holds the options of the tool; an OMB row's variant names the library, the buffers and the placement
//! in words, of which those below are understood; "small messages" without a size are of 8 bytes.
//!
//! Not modelled: everything else; such a row is skipped, and the reason is counted.

mod broadcast;
mod gpu;
mod krylov;

use fabriscope_tools::{Measures, Operation, Ranks, Suite, Tool, Traits};

use crate::measured::{Column, Measured, MeasuredError, Row};

/// What to run for one measured value. Rows with equal questions are answered by one run.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Question {
    /// The cluster that the row names.
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
}

/// What becomes of a row.
#[derive(Debug, Clone, PartialEq)]
pub enum Requested {
    /// This run answers it.
    Run(Question, Quantity),
    /// The model cannot give it, because of this.
    Skip(String),
}

/// Finds the run that answers `row`.
///
/// # Errors
/// A row of a modelled benchmark with a size or a value that no run can have.
pub fn ask(measured: &Measured, row: &Row) -> Result<Requested, MeasuredError> {
    if let Some(asked) = gpu::ask(row).or_else(|| broadcast::ask(row)).or_else(|| krylov::ask(row)) {
        return Ok(asked);
    }
    let Some(program) = tool_of(&row.benchmark) else {
        return Ok(Requested::Skip(format!("the benchmark `{}` is not modelled", row.benchmark)));
    };
    let (tool, traits) = (program.name(), program.traits());
    let Some(quantity) = quantity_of(&traits, &row.metric, &row.unit) else {
        return Ok(Requested::Skip(format!("{tool} does not give the metric `{}` in `{}`", row.metric, row.unit)));
    };
    if row.value <= 0.0 {
        let problem = format!("a {} of {} cannot be measured", row.metric, row.value);
        return Err(measured.problem(row, Column::Value, problem, "correct the value or remove the row".to_owned()));
    }
    if let Some(bytes) = row.message_bytes {
        check_size(measured, row, program, bytes)?;
    }
    let peak = row.metric.to_ascii_lowercase().starts_with("peak");
    let bytes = row.message_bytes.or_else(|| small_messages(row).then_some(SMALL_MESSAGE));
    if bytes.is_none() && !peak {
        return Ok(Requested::Skip("the row names no message size".to_owned()));
    }
    let mut words = Words::of(&traits, &row.variant);
    words.options.extend(operation_of_imb(&row.benchmark).filter(|_| traits.suite == Suite::Imb).map(str::to_owned));
    if let Some(reason) = words.not_modelled {
        return Ok(Requested::Skip(reason));
    }
    let (nodes, ranks) = match shape(program, row, words.pairs) {
        Ok(shape) => shape,
        Err(reason) => return Ok(Requested::Skip(reason)),
    };
    let question = Question {
        cluster: row.cluster.clone(),
        tool,
        options: words.options,
        software: words.software,
        placement: words.placement,
        nodes,
        ranks,
        message_bytes: bytes.filter(|_| !peak),
        gpu_aware: words.gpu_aware,
        gpudirect: words.gpudirect,
        gpus: None,
        column: None,
    };
    Ok(Requested::Run(question, quantity))
}

/// Nodes and ranks of the job that the row speaks of; why there is none otherwise.
fn shape(tool: Tool, row: &Row, pairs: Option<u32>) -> Result<(u32, u32), String> {
    let (name, traits) = (tool.name(), tool.traits());
    if matches!(traits.ranks, Ranks::Job(_)) {
        let (Some(nodes), Some(ranks)) = (row.nodes, row.ranks) else {
            return Err(format!("{name} needs the nodes and the ranks of the row"));
        };
        if ranks % nodes != 0 {
            return Err(format!("{ranks} ranks do not fill {nodes} nodes evenly"));
        }
        return Ok((nodes, ranks));
    }
    let ranks = row.ranks.or(pairs.map(|p| 2 * p)).unwrap_or(2);
    let in_pairs = traits.ranks == Ranks::Pairs;
    if ranks % 2 == 1 || (!in_pairs && ranks != 2) {
        return Err(format!("{name} runs on {} ranks, not {ranks}", if in_pairs { "pairs of" } else { "2" }));
    }
    let within = traits.ranks == Ranks::TwoOnOneNode;
    match row.nodes {
        None | Some(2) if !within => Ok((2, ranks)),
        Some(1) if traits.suite == Suite::Omb || within => Ok((1, ranks)),
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

/// The tool that a table names, if its rows can be answered.
fn tool_of(benchmark: &str) -> Option<Tool> {
    let name = benchmark.trim().to_ascii_lowercase();
    let named = |name: &str| Tool::all().find(|tool| tool.name() == name);
    if matches!(name.as_str(), "imb pingpong" | "imb-mpi1 pingpong" | "imb-pingpong") {
        return named("osu_latency");
    }
    if operation_of_imb(&name).is_some() {
        return named("IMB-MPI1");
    }
    named(&name).filter(|tool| is_answered(&tool.traits()))
}

/// Messages, what perftest has, and collective operations that a program waits for.
fn is_answered(traits: &Traits) -> bool {
    match (traits.suite, traits.operation) {
        (Suite::Perftest, _) | (Suite::Omb, Operation::Message) => true,
        (Suite::Omb, Operation::Collective(_)) => traits.measures == Measures::Latency,
        (_, Operation::Message) => traits.ranks == Ranks::TwoOnOneNode,
        _ => false,
    }
}

/// The operation of a benchmark of IMB: `Alltoall` of `IMB-MPI1 Alltoall`.
fn operation_of_imb(benchmark: &str) -> Option<&str> {
    let name = benchmark.trim();
    let rest = ["imb-mpi1 ", "imb ", "imb-"].into_iter().find_map(|prefix| {
        name.get(..prefix.len()).filter(|head| head.eq_ignore_ascii_case(prefix)).and_then(|_| name.get(prefix.len()..))
    })?;
    let known = Tool::all().filter(|tool| tool.traits().is_collective() && is_answered(&tool.traits()));
    let mut known = known.filter_map(|tool| tool.name().strip_prefix("osu_"));
    known.any(|word| word.eq_ignore_ascii_case(rest)).then_some(rest)
}

fn quantity_of(traits: &Traits, metric: &str, unit: &str) -> Option<Quantity> {
    let metric = metric.to_ascii_lowercase();
    let gives_time = traits.measures == Measures::Latency;
    match metric.as_str() {
        "latency" | "t[usec]" | "time" | "t_avg" | "t_avg[usec]" | "t_typical" if gives_time => {
            let us = match unit {
                "ns" => 1e-3,
                "us" | "usec" | "µs" => 1.0,
                "ms" => 1e3,
                "s" => 1e6,
                _ => return None,
            };
            Some(Quantity::Latency { us })
        }
        "bandwidth" | "peak bandwidth" | "bw" | "bw average" if !gives_time => {
            let bytes_per_s = match unit {
                "B/s" => 1.0,
                "MB/s" | "MB/sec" => 1e6,
                "GB/s" => 1e9,
                "MiB/s" | "MiB/sec" => 1_048_576.0,
                "GiB/s" => 1_073_741_824.0,
                "Mb/s" | "Mbit/s" => 1e6 / 8.0,
                "Gb/s" | "Gbit/s" | "Gb/sec" => 1e9 / 8.0,
                _ => return None,
            };
            Some(Quantity::Bandwidth { bytes_per_s })
        }
        "message rate" | "messages/s" | "msgrate" if !gives_time => {
            let per_s = match unit {
                "msg/s" | "messages/s" | "1/s" => 1.0,
                "Mpps" | "Mmsg/s" => 1e6,
                _ => return None,
            };
            Some(Quantity::MessageRate { per_s })
        }
        _ => None,
    }
}

/// What the words of a variant mean.
#[derive(Default)]
struct Words {
    options: Vec<String>,
    software: Option<String>,
    placement: Placement,
    pairs: Option<u32>,
    not_modelled: Option<String>,
    gpu_aware: Option<bool>,
    gpudirect: Option<bool>,
}

impl Words {
    fn of(traits: &Traits, variant: &str) -> Words {
        let mut words = Words::default();
        let lower = variant.to_ascii_lowercase();
        let places: Vec<&str> = variant.split([',', ';', ' ']).filter(|word| matches!(*word, "D" | "H" | "M" | "MD" | "MH")).collect();
        match places[..] {
            [] | ["H", "H"] if lower.contains("device buffers") || lower.contains("cuda") => {
                words.not_modelled = Some("which buffers are on GPUs is not said".to_owned());
            }
            [sender, receiver] if places != ["H", "H"] => words.options.extend([sender.to_owned(), receiver.to_owned()]),
            _ => {}
        }
        let switch = |on: &str, off: &str| if lower.contains(off) { Some(false) } else { lower.contains(on).then_some(true) };
        words.gpu_aware = switch("gpu-aware mpi enabled", "gpu-aware mpi disabled");
        words.gpudirect = switch("psm2_gpudirect=1", "psm2_gpudirect=0");
        if traits.suite == Suite::Perftest {
            words.perftest(variant);
        } else {
            words.library(variant, &lower);
            words.window(&lower);
        }
        if lower.contains("same leaf") || lower.contains("same switch") || lower.contains("1 hop") {
            words.placement = Placement::SameSwitch;
        } else if lower.contains("across spine") || lower.contains("3 hops") || lower.contains("5 hops") {
            words.placement = Placement::Farthest;
        }
        words
    }

    /// The options of the tool stand in the variant; `-a`, `-s` and `-F` say nothing beyond the row's size.
    fn perftest(&mut self, variant: &str) {
        let mut given = variant.split_whitespace();
        while let Some(word) = given.next() {
            match word {
                "-a" | "--all" | "-F" => {}
                "-s" | "--size" | "-n" | "--iters" => drop(given.next()),
                _ => self.options.push(word.to_owned()),
            }
        }
        if self.options.iter().any(|o| !o.starts_with('-')) && !variant.trim_start().starts_with('-') {
            self.options.clear();
        }
    }

    fn library(&mut self, variant: &str, lower: &str) {
        const LIBRARIES: [&str; 10] =
            ["mvapich", "open mpi", "openmpi", "hpc-x", "hpcx", "intel mpi", "intelmpi", "impi", "mpich", "cray mpi"];
        let found = LIBRARIES.iter().filter_map(|name| lower.find(name)).min();
        self.software = found.and_then(|at| variant.get(at..)).map(|rest| rest.split([',', ';']).next().unwrap_or(rest).trim().to_owned());
    }

    fn window(&mut self, lower: &str) {
        for phrase in lower.split([',', ';']).map(str::trim) {
            let mut words = phrase.split_whitespace();
            match (words.next(), words.next(), words.next()) {
                (Some("window"), Some(size), None) if size.parse::<u32>().is_ok() => {
                    self.options.extend(["-W".to_owned(), size.to_owned()])
                }
                (Some(count), Some("pairs" | "pair"), None) => self.pairs = count.parse().ok(),
                _ => {}
            }
        }
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
            Requested::Skip(reason) => panic!("skipped: {reason}"),
        }
    }
    fn skipped(row: &str) -> String {
        match asked(row).unwrap() {
            Requested::Skip(reason) => reason,
            Requested::Run(question, _) => panic!("not skipped: {question:?}"),
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
