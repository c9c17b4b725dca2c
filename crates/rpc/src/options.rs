//! The command line of `rpc`.

use fabriscope_platform::Target;
use fabriscope_tool::UsageError;
use fabriscope_tool::arguments::{self, Given, Meaning::Usual, Opt, Takes, opt, value};
use fabriscope_units::{Bytes, Span};

use crate::channel::{self, Over};

/// How work of a call is distributed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Service {
    /// Always the same.
    Constant,
    /// Exponentially.
    Exponential,
}

/// How clients make calls.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Load {
    /// Each thread has so many outstanding.
    Closed(u32),
    /// All threads together make so many a second, with exponential times between them.
    Open(f64),
}

/// What is asked for.
#[derive(Debug, Clone, PartialEq)]
pub struct Settings {
    pub over: Vec<Over>,
    pub servers: u32,
    /// Client threads of a node, and threads of a server that read and write messages.
    pub threads: u32,
    pub io_threads: u32,
    pub workers: u32,
    pub service: (Service, Span),
    pub request: Bytes,
    pub reply: Bytes,
    /// Servers that a call asks, and how many of them have to answer.
    pub fan_out: u32,
    pub first: u32,
    pub loads: Vec<Load>,
    /// Calls of each thread that count, and those before them.
    pub calls: u32,
    pub warm_up: u32,
    pub seed: u64,
}

/// The options of the command line.
pub const OPTIONS: &[Opt] = &[
    value('\0', "over", "tcp|rdma-send|rdma-write", "what carries messages, also several: tcp,rdma-send (default tcp)"),
    value('\0', "servers", "count", "nodes that serve, the first ones of --nodes; the others call (default: as many as --fan-out)"),
    value('t', "threads", "count", "client threads on each other node (default 1)"),
    value('\0', "io-threads", "count", "threads of a server that read and write messages (default 1)"),
    value('w', "workers", "count", "threads of a server that do what is asked for (default 4)"),
    value('\0', "service", "constant|exponential", "how the work of a call is distributed (default constant)"),
    value('\0', "service-time", "us", "its mean (default 10)"),
    value('\0', "request", "bytes", "size of a request (default 64)"),
    value('\0', "reply", "bytes", "size of a reply (default 64)"),
    value('k', "fan-out", "count", "servers that each call asks at once (default 1)"),
    value('\0', "first", "count", "a call is over when so many of them have answered (default: all)"),
    value('n', "outstanding", "counts", "calls that a thread has outstanding, also several: 1,4,16 (default 1)"),
    value('r', "rate", "per second", "calls of all threads, at random times instead; also several: 50000,100000"),
    value('c', "calls", "count", "calls of each thread that count (default 2000)"),
    value('\0', "warm-up", "count", "calls before them (default a tenth)"),
    value('\0', "seed", "number", "of random times and choices (default 1)"),
    opt('h', "help", Takes::Nothing, Usual, "show this page"),
];

/// Below the help page.
const NOTES: &str = "\nTimes are from the call until its reply is read; at a given rate from the moment at which the call was due.\n\
    A column says where the mean went, on the way of the reply that ended the call. --nodes says how many nodes there are.\n";

/// Reads the command line.
///
/// # Errors
/// What is wrong with it.
pub fn read(tool: &str, about: &str, args: &[String], target: &Target) -> Result<Settings, UsageError> {
    let parsed = arguments::parse(tool, OPTIONS, args)?;
    parsed.no_operands(tool)?;
    let mut s = Settings {
        over: vec![Over::Tcp],
        servers: 0,
        threads: 1,
        io_threads: 1,
        workers: 4,
        service: (Service::Constant, Span::from_us(10)),
        request: Bytes(64),
        reply: Bytes(64),
        fan_out: 1,
        first: 0,
        loads: Vec::new(),
        calls: 2000,
        warm_up: u32::MAX,
        seed: 1,
    };
    for given in &parsed.options {
        if given.name == "help" {
            return Err(UsageError::Help { text: arguments::help(tool, about, OPTIONS, NOTES) });
        }
        s.apply(given)?;
    }
    if s.servers == 0 {
        s.servers = s.fan_out;
    }
    if s.loads.is_empty() {
        s.loads.push(Load::Closed(1));
    }
    if s.warm_up == u32::MAX {
        s.warm_up = s.calls / 10;
    }
    s.check(target)?;
    if s.first == 0 {
        s.first = s.fan_out;
    }
    Ok(s)
}

impl Settings {
    fn apply(&mut self, given: &Given) -> Result<(), UsageError> {
        let text = given.value.as_deref().unwrap_or_default();
        let count = |high| arguments::number(given, 1, high).map(|count| count as u32);
        let size = || arguments::size(&given.typed, text, 0, 1 << 29).map(Bytes);
        let one_of = |known| UsageError::NotOneOf { option: given.typed.clone(), value: text.to_owned(), known };
        match given.name {
            "over" => {
                let over: Option<Vec<Over>> = text.split(',').map(Over::by_name).collect();
                self.over = over.ok_or_else(|| one_of("tcp, rdma-send, rdma-write"))?;
            }
            "servers" => self.servers = count(MOST)?,
            "threads" => self.threads = count(1024)?,
            "io-threads" => self.io_threads = count(1024)?,
            "workers" => self.workers = count(4096)?,
            "service" => {
                self.service.0 = match text {
                    "constant" => Service::Constant,
                    "exponential" => Service::Exponential,
                    _ => return Err(one_of("constant, exponential")),
                }
            }
            "service-time" => self.service.1 = Span::from_ps((number(given, text, 0.0, 1e6)? * 1e6) as u64),
            "request" => self.request = size()?,
            "reply" => self.reply = size()?,
            "fan-out" => self.fan_out = count(MOST)?,
            "first" => self.first = count(MOST)?,
            "outstanding" => {
                for word in text.split(',') {
                    let one = Given { value: Some(word.to_owned()), ..given.clone() };
                    self.loads.push(Load::Closed(arguments::number(&one, 1, 4096)? as u32));
                }
            }
            "rate" => {
                for word in text.split(',') {
                    self.loads.push(Load::Open(number(given, word, 1e-3, 1e9)?));
                }
            }
            "calls" => self.calls = count(1 << 24)?,
            "warm-up" => self.warm_up = arguments::number(given, 0, 1 << 24)? as u32,
            "seed" => self.seed = arguments::number(given, 0, u64::MAX)?,
            _ => {}
        }
        Ok(())
    }

    fn check(&self, target: &Target) -> Result<(), UsageError> {
        let conflict = |what: String, remedy: String| Err(UsageError::Conflict { what, remedy });
        let (nodes, per_node) = (target.layout.nodes, target.layout.per_node);
        channel::named_once(&self.over, |over| over.name())?;
        if per_node != 1 {
            let what = format!("--ppn {per_node}: a node has one program with threads");
            return conflict(what, "leave --ppn out, and use --threads and --io-threads".to_owned());
        }
        if self.fan_out > self.servers {
            let what = format!("a call that asks {} of {} servers", self.fan_out, self.servers);
            return conflict(what, format!("use --servers {} or a smaller --fan-out", self.fan_out));
        }
        if self.first > self.fan_out {
            let what = format!("a call that waits for {} of {} answers", self.first, self.fan_out);
            return conflict(what, format!("use --first {} or less", self.fan_out));
        }
        if self.servers >= nodes {
            let what = format!("{} nodes that serve among {nodes}, and nobody who calls", self.servers);
            return conflict(what, format!("use --nodes {} or more", self.servers + 1));
        }
        if self.over.iter().any(|over| over.is_rdma()) {
            channel::has_queue_pairs(target)?;
        }
        Ok(())
    }
}

fn number(given: &Given, text: &str, low: f64, high: f64) -> Result<f64, UsageError> {
    match text.parse::<f64>() {
        Ok(number) if number >= low && number <= high => Ok(number),
        _ => Err(UsageError::Conflict {
            what: format!("{} takes a number of {low} to {high}, not `{text}`", given.typed),
            remedy: format!("write for example {} 10", given.typed),
        }),
    }
}

/// Servers of a call: their number goes into a byte of what a message says.
const MOST: u64 = 256;
