//! The command line of `spark-shuffle`.

use fabriscope_platform::Target;
use fabriscope_rpc::channel;
use fabriscope_tool::UsageError;
use fabriscope_tool::arguments::{self, Given, Meaning::Usual, Opt, Takes, opt, value};
use fabriscope_units::{Bytes, Rate};

use crate::kind::JobKind;
use crate::partitions::Skew;

/// How reducers get blocks of other executors.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fetch {
    /// Netty over sockets: a request is answered by a handle, then each block is asked for.
    Tcp,
    /// RDMA READs of index and block.
    Get,
    /// A request by an active message; blocks come as messages, eager or by rendezvous.
    ActiveMessage,
}

impl Fetch {
    /// All of them.
    pub const ALL: [Fetch; 3] = [Fetch::Tcp, Fetch::Get, Fetch::ActiveMessage];
    /// What a command line calls it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Fetch::Tcp => "tcp",
            Fetch::Get => "rdma-get",
            Fetch::ActiveMessage => "rdma-am",
        }
    }
}

/// What is asked for.
#[derive(Debug, Clone, PartialEq)]
pub struct Settings {
    pub over: Vec<Fetch>,
    pub kind: JobKind,
    pub data: Bytes,
    pub cores: u32,
    pub maps: u32,
    pub reducers: u32,
    pub skew: Skew,
    /// Drive of every node, by name; nothing where all is in memory.
    pub drive: Option<String>,
    /// `spark.reducer.maxSizeInFlight` and `spark.reducer.maxReqsInFlight`, where they are set.
    pub max_bytes: Option<Bytes>,
    pub max_requests: Option<u32>,
    /// `spark.shuffle.io.serverThreads`, where it is set.
    pub threads: Option<u32>,
    /// Rates of tasks on a core, where they are set.
    pub map_rate: Option<Rate>,
    pub reduce_rate: Option<Rate>,
    pub seed: u64,
}

/// The options of the command line.
pub const OPTIONS: &[Opt] = &[
    value('\0', "over", "tcp|rdma-get|rdma-am", "how blocks are fetched, also several: tcp,rdma-get (default tcp)"),
    value('j', "job", "groupby|sortby|terasort", "the job (default groupby)"),
    value('d', "data", "bytes", "data that are shuffled (default 1G)"),
    value('\0', "cores", "count", "cores of an executor; a node has one executor (default 4)"),
    value('m', "maps", "count", "map tasks (default: all cores)"),
    value('\0', "reducers", "count", "reduce tasks (default: all cores)"),
    value('\0', "skew", "even|zipf-0.5|zipf-1|zipf-1.5|zipf-2", "sizes of partitions (default even)"),
    value('\0', "drive", "drive", "input, shuffle files and output lie on this drive of every node (default: in memory)"),
    value('\0', "max-size-in-flight", "bytes", "spark.reducer.maxSizeInFlight (default 48M)"),
    value('\0', "max-reqs-in-flight", "count", "spark.reducer.maxReqsInFlight (default: no limit)"),
    value('\0', "io-threads", "count", "spark.shuffle.io.serverThreads and clientThreads (default: as many as cores and peers, at most 8)"),
    value('\0', "map-rate", "MB/s", "what a map task makes on a core (default: the job's)"),
    value('\0', "reduce-rate", "MB/s", "what a reduce task takes in on a core (default: the job's)"),
    value('\0', "seed", "number", "of skewed partitions and the order of requests (default 1)"),
    opt('h', "help", Takes::Nothing, Usual, "show this page"),
];

/// Below the help page.
const NOTES: &str = "\n--nodes says how many executors there are. Metrics have the names of Spark's user interface and event log;\n\
    --json and --csv have every task. Rates of tasks are assumed where they are not given: measure yours.\n";

/// Reads the command line.
///
/// # Errors
/// What is wrong with it.
pub fn read(tool: &str, about: &str, args: &[String], target: &Target) -> Result<Settings, UsageError> {
    let parsed = arguments::parse(tool, OPTIONS, args)?;
    parsed.no_operands(tool)?;
    let mut s = Settings {
        over: vec![Fetch::Tcp],
        kind: JobKind::GroupBy,
        data: Bytes::from_mib(1024),
        cores: 4,
        maps: 0,
        reducers: 0,
        skew: Skew::Even,
        drive: None,
        max_bytes: None,
        max_requests: None,
        threads: None,
        map_rate: None,
        reduce_rate: None,
        seed: 1,
    };
    for given in &parsed.options {
        if given.name == "help" {
            return Err(UsageError::Help { text: arguments::help(tool, about, OPTIONS, NOTES) });
        }
        s.apply(given)?;
    }
    let all = target.layout.nodes.saturating_mul(s.cores);
    s.maps = if s.maps == 0 { all } else { s.maps };
    s.reducers = if s.reducers == 0 { all } else { s.reducers };
    s.check(target)?;
    Ok(s)
}

impl Settings {
    fn apply(&mut self, given: &Given) -> Result<(), UsageError> {
        let text = given.value.as_deref().unwrap_or_default();
        let count = |high| arguments::number(given, 1, high).map(|count| count as u32);
        let one_of = |known| UsageError::NotOneOf { option: given.typed.clone(), value: text.to_owned(), known };
        match given.name {
            "over" => {
                let by_name = |name: &str| Fetch::ALL.into_iter().find(|fetch| fetch.name() == name);
                let over: Option<Vec<Fetch>> = text.split(',').map(by_name).collect();
                self.over = over.ok_or_else(|| one_of("tcp, rdma-get, rdma-am"))?;
            }
            "job" => self.kind = JobKind::by_name(text).ok_or_else(|| one_of("groupby, sortby, terasort"))?,
            "data" => self.data = Bytes(arguments::size(&given.typed, text, 1, 1 << 50)?),
            "cores" => self.cores = count(1024)?,
            "maps" => self.maps = count(1 << 16)?,
            "reducers" => self.reducers = count(1 << 16)?,
            "skew" => self.skew = Skew::by_name(text).ok_or_else(|| one_of("even, zipf-0.5, zipf-1, zipf-1.5, zipf-2"))?,
            "drive" => self.drive = Some(text.to_owned()),
            "max-size-in-flight" => self.max_bytes = Some(Bytes(arguments::size(&given.typed, text, 1, 1 << 40)?)),
            "max-reqs-in-flight" => self.max_requests = Some(count(u64::from(u32::MAX))?),
            "io-threads" => self.threads = Some(count(64)?),
            "map-rate" => self.map_rate = Some(rate(given)?),
            "reduce-rate" => self.reduce_rate = Some(rate(given)?),
            "seed" => self.seed = arguments::number(given, 0, u64::MAX)?,
            _ => {}
        }
        Ok(())
    }

    fn check(&self, target: &Target) -> Result<(), UsageError> {
        let conflict = |what: String, remedy: String| Err(UsageError::Conflict { what, remedy });
        let (nodes, per_node) = (target.layout.nodes, target.layout.per_node);
        channel::named_once(&self.over, |fetch| fetch.name())?;
        if per_node != 1 {
            return conflict(format!("--ppn {per_node}: a node has one executor"), "leave --ppn out, and use --cores".to_owned());
        }
        if nodes < 2 {
            return conflict("one executor fetches nothing over the network".to_owned(), "use --nodes 2 or more".to_owned());
        }
        let block = self.data.0 / u64::from(self.maps);
        if block / u64::from(self.reducers) > LONGEST {
            let what = format!("{} maps and {} reducers of {} make blocks above 512 MiB", self.maps, self.reducers, self.data);
            return conflict(what, "use more maps or reducers".to_owned());
        }
        if self.over.iter().any(|over| *over != Fetch::Tcp) {
            channel::has_queue_pairs(target)?;
        }
        if self.drive.is_some() && self.over.contains(&Fetch::Get) {
            let what = "blocks that are got by RDMA READ lie in registered memory, not on a drive".to_owned();
            return conflict(what, "leave --drive out, or use --over rdma-am".to_owned());
        }
        Ok(())
    }
}

fn rate(given: &Given) -> Result<Rate, UsageError> {
    let text = given.value.as_deref().unwrap_or_default();
    match text.parse::<f64>() {
        Ok(number) if (1e-3..=1e6).contains(&number) => Ok(Rate::from_bps((number * 8e6) as u64)),
        _ => Err(UsageError::Conflict {
            what: format!("{} takes MB/s, not `{text}`", given.typed),
            remedy: format!("write for example {} 200", given.typed),
        }),
    }
}

/// The longest block. Basis: assumed, below what a message may be.
const LONGEST: u64 = 1 << 29;
