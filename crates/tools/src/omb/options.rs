//! The options of the OSU point-to-point benchmarks, resolved.
//!
//! Source: OMB 7.4 (format: docs/formats.md).
//! The iterations default to fewer than the tool's, because every one of them repeats exactly here: 100 with 10 for
//! warm-up up to 8192 bytes, then 20 with 2. `-i` and `-x` set the tool's own, 10000/100 and 1000/10 for latency.

use fabriscope_catalog::{Accumulate, Rendezvous};
use fabriscope_mpi::{Buffer, Datatype, OffloadSettings, Update};
use fabriscope_platform::Target;
use fabriscope_tool::arguments::Meaning::{Refused, Usual};
use fabriscope_tool::arguments::{self, Given, Opt, Takes, opt};
use fabriscope_tool::{Ranks, UsageError, mpi_for};

use super::benchmark::{Benchmark, Body};
use super::buffers::Buffers;
use super::sync::Sync;
use crate::osu::{self, Repeats};
use fabriscope_tool::offload::{OFFLOAD, OffloadOptions, WORKERS, needs_keys};

pub(crate) const OPTIONS: &[Opt] = &[
    osu::message_size("smallest and largest message in bytes"),
    osu::iterations("measured iterations (default 100, 20 above 8192 bytes; the real tool's are 10000/1000 for latency)"),
    osu::warm_up("iterations before the measurement (default 10, 2 above 8192 bytes)"),
    osu::full("also print the iterations"),
    osu::window("messages in flight (bandwidth tests; default 64)"),
    osu::pairs("pairs of ranks (osu_mbw_mr, osu_multi_lat; default 1)"),
    opt('V', "vary-window", Takes::Nothing, Refused("one table per window: run once for each -W"), ""),
    opt('c', "validation", Takes::Nothing, Usual, "add the column of validation; the transport of a simulated NIC cannot corrupt data"),
    opt('z', "tail-lat", Takes::Optional("p1,p2,…"), Usual, "add percentiles over the iterations (default 50,90,99)"),
    opt('w', "win-option", Takes::Value("type"), Usual, "window of the one-sided benchmarks: allocate"),
    opt(
        's',
        "sync-option",
        Takes::Value("call"),
        Usual,
        "what ends an operation of the one-sided benchmarks: flush (default), flush_local, lock, lock_all, pscw (osu_put_bibw), fence",
    ),
    osu::HELP,
    osu::VERSION,
    opt('b', "buffer-num", Takes::Value("single|multiple"), Refused("copies cost the same from one buffer or many; leave -b out"), ""),
    opt('d', "accelerator", Takes::Value("type"), Usual, "where buffers on a device come from: cuda, rocm, openacc, managed (with D or M)"),
    opt('D', "ddt", Takes::Value("type"), Refused("derived data types are not modelled; leave -D out"), ""),
    opt('G', "graph", Takes::Value("tty,png,pdf"), Refused("the table is the output; draw it from the data"), ""),
    osu::no_memory_limit("no memory is allocated; use -m for the largest message"),
    opt('P', "papi", Takes::Value("events"), Refused("there are no hardware counters; leave -P out"), ""),
    opt(
        'T',
        "type",
        Takes::Value("type"),
        Usual,
        "elements of accumulates: mpi_char (default), mpi_int, mpi_long_long (default of one element), mpi_float, mpi_double",
    ),
    OFFLOAD,
    WORKERS,
];

const NOTES: &str = "\nIn the steady state iterations repeat: once six in a row of all pairs, with more than 8192 bytes (two of 64 MiB and more),\n\
are alike within a part in 2000, most of them to the picosecond, the rest are counted, not simulated, unless packets or\n\
counters are taken down. The defaults of -i and -x are small; for the tool's own give -i 10000 -x 100 (latency) or\n\
-i 100 -x 10 (bandwidth).\n";

/// A resolved command line.
#[derive(Debug, Clone, PartialEq)]
pub struct Settings {
    /// The benchmark.
    pub benchmark: &'static Benchmark,
    /// Message sizes in bytes, in order.
    pub sizes: Vec<u32>,
    /// How often each size is sent, as far as that was given.
    pub(crate) repeats: Repeats,
    /// Messages in flight.
    pub window: u32,
    /// Pairs of ranks.
    pub pairs: u32,
    /// More columns.
    pub full: bool,
    /// The column of validation.
    pub validate: bool,
    /// Percentiles to print, as typed.
    pub tails: Vec<f64>,
    /// Where the buffers are.
    pub buffers: Buffers,
    /// What ends a one-sided operation.
    pub sync: Sync,
    /// The elements of an update.
    pub datatype: Datatype,
    /// Workers on the DPU that carry the messages.
    pub offload: Option<OffloadSettings>,
}

impl Settings {
    /// Reads the options of `benchmark` on a machine like `target`.
    ///
    /// # Errors
    /// An unknown, refused or contradictory option; a number out of its range; a cluster without MPI.
    pub fn parse(benchmark: &'static Benchmark, args: &[String], target: &Target) -> Result<Settings, UsageError> {
        let tool = benchmark.name;
        let parsed = arguments::parse(tool, OPTIONS, args)?;
        let smallest = benchmark.smallest();
        let mut s = Settings {
            benchmark,
            sizes: sizes(benchmark.sweep.0, benchmark.sweep.1),
            repeats: Repeats::default(),
            window: WINDOW,
            pairs: 1,
            full: false,
            validate: false,
            tails: Vec::new(),
            buffers: Buffers::default(),
            sync: Sync::of(benchmark),
            datatype: if benchmark.update().is_some_and(Update::is_single) { Datatype::LongLong } else { Datatype::Char },
            offload: None,
        };
        let mut asked = OffloadOptions::default();
        for given in &parsed.options {
            match given.name {
                "offload" | "workers" => asked.take(given)?,
                _ => s.apply(given, smallest)?,
            }
        }
        if let Some(update) = benchmark.update() {
            s.sizes.retain(|size| size % s.datatype.bytes() == 0);
            if update.is_single() {
                s.sizes = vec![s.datatype.bytes()];
            }
            if s.sizes.is_empty() {
                let what = format!("none of the sizes is a whole number of elements of {}", s.datatype.name());
                return Err(UsageError::Conflict { what, remedy: format!("give -m {0}: for sizes from {0} bytes on", s.datatype.bytes()) });
            }
        }
        let accelerator = parsed.options.iter().rfind(|given| given.name == "accelerator");
        let device = vec!["D".to_owned(); 2];
        let operands = if benchmark.is_within_a_node() && parsed.operands.is_empty() { &device } else { &parsed.operands };
        s.buffers = Buffers::parse(tool, accelerator, operands, target)?;
        s.offload = asked.settle(tool, (false, true), s.pairs, mpi_for(tool, target)?, target)?;
        s.check_offload(tool)?;
        if benchmark.one_sided().is_some() {
            s.check_one_sided(tool, target)?;
        }
        Ok(s)
    }

    /// Whether workers have a way for these messages.
    fn check_offload(&self, tool: &str) -> Result<(), UsageError> {
        let Some(offload) = &self.offload else { return Ok(()) };
        let (what, remedy) = match (self.benchmark.one_sided().is_some(), offload.staged) {
            _ if [true, false].into_iter().any(|sends| self.buffers.of(sends) != Buffer::Host) => {
                ("workers on a DPU reach no memory of GPUs", "use buffers in host memory")
            }
            _ if self.benchmark.update().is_some() => ("workers on a DPU do puts and gets, and no updates", "leave --offload out"),
            (true, true) => return Err(needs_keys(tool)),
            _ if self.window > MOST_OFFLOADED => ("a rank hands over 2048 messages at a time at the most", "use a smaller window: -W"),
            _ => return Ok(()),
        };
        Err(UsageError::Conflict { what: format!("{tool} --offload: {what}"), remedy: remedy.to_owned() })
    }

    /// Whether the library has a way for one-sided operations.
    fn check_one_sided(&self, tool: &str, target: &Target) -> Result<(), UsageError> {
        let on_host = self.buffers.of(true) == Buffer::Host && self.buffers.of(false) == Buffer::Host;
        if self.benchmark.update().is_some() {
            let rules = target.mpi.as_ref().and_then(|mpi| mpi.one_sided.as_ref());
            let Some(rules) = rules else {
                let what = format!("{tool} needs to know how the library does accumulates, and the cluster's software does not say");
                return Err(UsageError::Conflict { what, remedy: "choose software with an [mpi.one_sided] table".to_owned() });
            };
            if !on_host {
                let what = format!("{tool}: accumulates in the memory of GPUs are not modelled");
                return Err(UsageError::Conflict { what, remedy: "use buffers in host memory: H H".to_owned() });
            }
            let psm2 = target.mpi.as_ref().is_some_and(|mpi| mpi.psm2.is_some());
            if target.layout.nodes > 1 && *rules.accumulate == Accumulate::ActiveMessage && !psm2 {
                return Ok(());
            }
        }
        let (what, remedy) = if target.layout.nodes == 1 {
            if on_host && target.mpi.as_ref().is_some_and(|mpi| mpi.shared_memory.is_some()) {
                return Ok(());
            }
            ("shared memory and host buffers within a node", "choose a library with [mpi.shared_memory], and buffers in host memory")
        } else {
            let mpi = target.mpi.as_ref().filter(|mpi| mpi.psm2.is_none() && mpi.rendezvous != Rendezvous::Send);
            if mpi.is_some() && !self.buffers.staged {
                return Ok(());
            }
            ("RDMA between two nodes", "choose a cluster whose library moves long messages by RDMA, or one node: --nodes 1")
        };
        Err(UsageError::Conflict { what: format!("{tool} needs {what}"), remedy: remedy.to_owned() })
    }

    fn apply(&mut self, given: &Given, smallest: u32) -> Result<(), UsageError> {
        let bandwidth_only = |s: &Settings| {
            let what = format!("{} is an option of the bandwidth benchmarks", given.typed);
            let conflict = UsageError::Conflict { what, remedy: "leave it out, or use osu_bw".to_owned() };
            if s.benchmark.body == Body::PingPong || s.benchmark.is_latency() { Err(conflict) } else { Ok(()) }
        };
        let single = self.benchmark.update().is_some_and(Update::is_single);
        match given.name {
            "message-size" if single => {
                let what = format!("{}: {} is of one element", given.typed, self.benchmark.name);
                return Err(UsageError::Conflict { what, remedy: "leave it out; -T sets the element".to_owned() });
            }
            "message-size" => self.sizes = osu::size_range(given, smallest, LARGEST)?,
            "iterations" | "warmup" => self.repeats.take(given, MOST_ITERATIONS)?,
            "full" => self.full = true,
            "window-size" => {
                bandwidth_only(self)?;
                self.window = arguments::number(given, 1, 65_536)? as u32;
            }
            "pairs" if self.benchmark.ranks == Ranks::Pairs => self.pairs = arguments::number(given, 1, 1024)? as u32,
            "pairs" => {
                let what = format!("{} is an option of osu_mbw_mr and osu_multi_lat", given.typed);
                return Err(UsageError::Conflict { what, remedy: "leave it out, or use osu_mbw_mr".to_owned() });
            }
            "win-option" | "sync-option" => {
                if self.benchmark.one_sided().is_none() {
                    let what = format!("{} is an option of the one-sided benchmarks", given.typed);
                    return Err(UsageError::Conflict { what, remedy: "leave it out, or use osu_put_latency".to_owned() });
                }
                let value = given.value.clone().unwrap_or_default();
                let refused = |known| UsageError::NotOneOf { option: given.typed.clone(), value: value.clone(), known };
                match given.name {
                    "win-option" if value == "allocate" => {}
                    "win-option" => return Err(refused("allocate")),
                    _ => self.sync = Sync::by_name(&value, self.benchmark).map_err(refused)?,
                }
            }
            "type" if self.benchmark.update().is_none() => {
                let reason = "all data is sent as MPI_CHAR; leave -T out";
                return Err(UsageError::NoMeaning { option: given.typed.clone(), reason });
            }
            "type" => {
                let value = given.value.clone().unwrap_or_default();
                let found = Datatype::ALL.into_iter().find(|datatype| datatype.name().eq_ignore_ascii_case(&value));
                let known = "mpi_char, mpi_int, mpi_long_long, mpi_float, mpi_double";
                self.datatype = found.ok_or(UsageError::NotOneOf { option: given.typed.clone(), value, known })?;
            }
            "validation" => self.validate = true,
            "tail-lat" => self.tails = percentiles(given)?,
            "help" => {
                let text = arguments::help(self.benchmark.name, self.benchmark.about, OPTIONS, NOTES);
                return Err(UsageError::Help { text });
            }
            "version" => return Err(UsageError::Help { text: format!("{} v7.4\n", self.benchmark.title("")) }),
            _ => {}
        }
        Ok(())
    }

    /// Messages of which fewer iterations are made.
    pub(super) fn is_large(&self, size: u32) -> bool {
        size > LARGE
    }
    /// Measured iterations of a size.
    #[must_use]
    pub fn iterations(&self, size: u32) -> u32 {
        self.repeats.iterations.unwrap_or(if self.is_large(size) { ITERATIONS_LARGE } else { ITERATIONS })
    }
    /// Iterations before those.
    #[must_use]
    pub fn warm_up(&self, size: u32) -> u32 {
        self.repeats.warm_up.unwrap_or(if self.is_large(size) { WARM_UP_LARGE } else { WARM_UP })
    }
}

/// Zero, if wanted, and the powers of two from the first not below `min`.
fn sizes(min: u32, max: u32) -> Vec<u32> {
    let zero = (min == 0).then_some(0);
    zero.into_iter().chain((0..32).map(|power| 1 << power).filter(|size| (min..=max).contains(size))).collect()
}

fn percentiles(given: &Given) -> Result<Vec<f64>, UsageError> {
    let Some(text) = given.value.as_deref() else {
        return Ok(vec![50.0, 90.0, 99.0]);
    };
    let percentile = |part: &str| part.trim().parse().ok().filter(|p: &f64| (0.0..=100.0).contains(p) && *p > 0.0);
    let wrong =
        || UsageError::NotOneOf { option: given.typed.clone(), value: text.to_owned(), known: "numbers above 0 up to 100, as 50,90,99" };
    text.split(',').map(|part| percentile(part).ok_or_else(wrong)).collect()
}

/// Iterations up to [`LARGE`] bytes. Basis: assumed; a whole default run takes a few seconds.
const ITERATIONS: u32 = 100;
/// Warm-up for those.
const WARM_UP: u32 = 10;
/// Iterations above.
const ITERATIONS_LARGE: u32 = 20;
/// Warm-up for those.
const WARM_UP_LARGE: u32 = 2;
/// Where messages are large, in bytes (basis: the tool).
const LARGE: u32 = 8192;
/// Largest message by default, in bytes (basis: the tool).
const LARGEST: u32 = 4 << 20;
/// Largest number of iterations.
const MOST_ITERATIONS: u64 = 100_000_000;
/// Messages in flight (basis: the tool).
const WINDOW: u32 = 64;
/// Messages in flight that a rank hands over (basis: assumed, half of its send queue).
const MOST_OFFLOADED: u32 = 2048;

#[cfg(test)]
mod tests {
    use fabriscope_units::Remedy;

    use super::*;

    fn given(value: &str) -> Given {
        Given { name: "message-size", typed: "-m".to_owned(), value: Some(value.to_owned()) }
    }

    #[test]
    fn sizes_double() {
        assert_eq!(sizes(0, 4), [0, 1, 2, 4]);
        assert_eq!(sizes(1, LARGEST).len(), 23);
        assert_eq!(osu::size_range(&given("4"), 0, LARGEST).unwrap(), [0, 1, 2, 4]);
        assert_eq!(osu::size_range(&given("3:20"), 0, LARGEST).unwrap(), [3, 6, 12]);
        assert_eq!(osu::size_range(&given("1M:"), 1, LARGEST).unwrap(), [1 << 20, 2 << 20, 4 << 20]);
        assert!(osu::size_range(&given("8:4"), 1, LARGEST).unwrap_err().in_full().contains("4:8"));
        let message = osu::size_range(&given("1099511627776"), 1, LARGEST).unwrap_err().in_full();
        assert!(message.contains("1 to 1073741824"), "{message}");
        assert!(osu::size_range(&given("0"), 1, LARGEST).is_err());
    }

    #[test]
    fn tails_are_percentages() {
        assert_eq!(percentiles(&Given { value: None, ..given("") }).unwrap(), [50.0, 90.0, 99.0]);
        assert_eq!(percentiles(&given("99.9")).unwrap(), [99.9]);
        assert!(percentiles(&given("101")).is_err() && percentiles(&given("a")).is_err() && percentiles(&given("NaN")).is_err());
    }
}
