//! Names of benchmarks, metrics and units as people write them: `OSU MPI Latency Test`, `nccl_allreduce`, `latency median`, `GB/sec`.
//!
//! A name counts as that of a tool if it is the same without blanks, dashes and capitals, or by one of the habits below. What is near to none
//! gets the nearest as a suggestion. Percentiles and extremes of a metric are refused: the noise of a machine is not modelled.

use fabriscope_tools::{Measures, Operation, Ranks, Suite, Tool, Traits};

use super::Quantity;

/// Letters and digits in lower case: `OSU-MBW_MR` and `osu_mbw_mr` are one name.
pub(super) fn plain(name: &str) -> String {
    name.chars().filter(char::is_ascii_alphanumeric).map(|c| c.to_ascii_lowercase()).collect()
}

/// What a row's benchmark is run as.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Named {
    /// The tool.
    pub tool: Tool,
    /// The operand that the tool needs, IMB's operation.
    pub operand: Option<&'static str>,
}

/// The tool that a table names, if its rows can be answered; why they cannot.
pub(super) fn tool_of(benchmark: &str) -> Result<Named, String> {
    let name = benchmark.trim().rsplit('/').next().unwrap_or_default();
    // What stands in brackets, or behind the name as options, is no part of it.
    let name = name.split(" (").next().unwrap_or_default().split(" -").next().unwrap_or_default();
    let wanted = plain(name);
    let known = |wanted: &str| Tool::all().find(|tool| plain(tool.name()) == wanted);
    if let Some(named) = imb(&wanted) {
        return Ok(named);
    }
    if let Some(tool) = super::beneath::tool_of(benchmark).and_then(|name| Tool::by_name(name).ok()) {
        return Ok(Named { tool, operand: None });
    }
    let habits =
        [wanted.clone(), osu_title(&wanted), nccl_habit(&wanted), xccl_habit(&wanted), format!("ib{wanted}"), without(&wanted, "perftest")];
    let found = habits.iter().find_map(|habit| known(habit));
    match found {
        Some(tool) if is_answered(&tool.traits()) => Ok(Named { tool, operand: None }),
        Some(tool) => Err(format!("`{}` gives no value that tables compare", tool.name())),
        None => Err(unknown(benchmark, name)),
    }
}

fn unknown(benchmark: &str, name: &str) -> String {
    let nearest = match Tool::by_name(&name.to_ascii_lowercase().replace([' ', '-'], "_")) {
        Err(fabriscope_tools::UsageError::UnknownTool { nearest, .. }) => nearest,
        _ => "osu_latency",
    };
    format!("the benchmark `{benchmark}` is not modelled; the nearest is `{nearest}` (`fabriscope bench` lists all)")
}

/// Messages, what perftest has, operations that a program waits for, those of NCCL, bytes on sockets.
fn is_answered(traits: &Traits) -> bool {
    match (traits.suite, traits.operation) {
        (Suite::Perftest | Suite::NcclTests | Suite::Hccl | Suite::Sockets, _) | (Suite::Omb | Suite::OmbXccl, Operation::Message) => true,
        (Suite::Omb, Operation::Put | Operation::Get | Operation::Accumulate | Operation::GetAccumulate | Operation::SingleUpdate) => true,
        (Suite::Omb, Operation::Collective(_)) => traits.measures == Measures::Latency,
        (_, Operation::Message) => traits.ranks == Ranks::TwoOnOneNode,
        _ => false,
    }
}

/// `IMB Alltoall`, `IMB-MPI1 PingPong`, `Intel MPI Benchmarks Allreduce`; PingPong times the exchange of `osu_latency`.
fn imb(wanted: &str) -> Option<Named> {
    let rest = ["intelmpibenchmarks", "intelmpibenchmark", "imbmpi1", "imb"].into_iter().find_map(|prefix| wanted.strip_prefix(prefix))?;
    let named = |name: &str| Tool::all().find(|tool| tool.name() == name);
    if rest == "pingpong" {
        return Some(Named { tool: named("osu_latency")?, operand: None });
    }
    let mut known = Tool::all().filter(|tool| tool.traits().is_collective() && is_answered(&tool.traits()));
    let word = known.find_map(|tool| tool.name().strip_prefix("osu_").filter(|word| plain(word) == rest))?;
    Some(Named { tool: named("IMB-MPI1")?, operand: Some(word) })
}

/// The titles that the OSU benchmarks print: `OSU MPI Bi-Directional Bandwidth Test`.
fn osu_title(wanted: &str) -> String {
    let Some(title) = wanted.strip_prefix("osumpi").or_else(|| wanted.strip_prefix("osu")) else { return String::new() };
    let title = title.strip_suffix("test").unwrap_or(title);
    let name = match title {
        "bandwidth" => "bw",
        "bidirectionalbandwidth" | "bibandwidth" => "bibw",
        "multiplebandwidthmessagerate" | "messagerate" => "mbwmr",
        "multilatency" | "multipairlatency" => "multilat",
        "alltoallpersonalizedexchange" => "alltoall",
        other => other.strip_suffix("latency").filter(|rest| !rest.is_empty()).unwrap_or(other),
    };
    format!("osu{name}")
}

/// `nccl_allreduce`, `NCCL all-reduce`, `rccl-tests all_gather`: the program of nccl-tests for the operation.
fn nccl_habit(wanted: &str) -> String {
    let rest = ["nccltests", "rccltests", "nccltest", "nccl", "rccl"].into_iter().find_map(|prefix| wanted.strip_prefix(prefix));
    let Some(rest) = rest else { return String::new() };
    let rest = rest.strip_suffix("perf").or_else(|| rest.strip_suffix("test")).unwrap_or(rest);
    format!("{}perf", if rest == "bcast" { "broadcast" } else { rest })
}

/// The collective operations of OMB over NCCL (`osu_xccl_allreduce`, `osu_nccl_allreduce`) time what nccl-tests times.
fn xccl_habit(wanted: &str) -> String {
    let Some(rest) = ["osuxccl", "osunccl", "osurccl"].into_iter().find_map(|prefix| wanted.strip_prefix(prefix)) else {
        return String::new();
    };
    match rest {
        "latency" | "bw" | "bibw" => format!("osuxccl{rest}"),
        "bcast" => "broadcastperf".to_owned(),
        operation => format!("{operation}perf"),
    }
}

fn without(wanted: &str, prefix: &str) -> String {
    wanted.strip_prefix(prefix).unwrap_or_default().to_owned()
}

/// A metric by its usual name: what its rows are grouped under.
pub(super) fn metric_of(metric: &str) -> String {
    let plain_name = plain(metric);
    match family(&plain_name) {
        Some(Family::Time) if plain_name == "time" => "time".to_owned(),
        Some(Family::Time) => "latency".to_owned(),
        Some(Family::Bandwidth) => "bandwidth".to_owned(),
        Some(Family::Rate) => "message rate".to_owned(),
        None => metric.trim().to_ascii_lowercase(),
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Family {
    Time,
    Bandwidth,
    Rate,
}

fn family(plain_name: &str) -> Option<Family> {
    let bare = UNITS_IN_NAMES.into_iter().find_map(|unit| plain_name.strip_suffix(unit)).unwrap_or(plain_name);
    let bare = MEANS.into_iter().fold(bare, |name, word| name.strip_prefix(word).or_else(|| name.strip_suffix(word)).unwrap_or(name));
    match bare {
        "latency" | "lat" | "t" | "time" | "ttypical" | "tavg" => Some(Family::Time),
        "bandwidth" | "bw" | "peakbandwidth" | "peakbw" | "throughput" | "busbw" | "busbandwidth" => Some(Family::Bandwidth),
        "messagerate" | "messages" | "message" | "msgrate" | "mr" => Some(Family::Rate),
        _ => None,
    }
}

/// Words for the middle of many values: the model has one value. Basis: what tables of measurements say.
const MEANS: [&str; 6] = ["median", "average", "avg", "mean", "typical", "oneway"];
/// Units that stand behind a metric's name, `latency (us)`, `t[usec]`, `messages/s`.
const UNITS_IN_NAMES: [&str; 10] = ["usec", "us", "ms", "ns", "mbs", "gbs", "gbits", "gbps", "pers", "s"];
/// Percentiles and extremes.
const SPREAD: [&str; 10] = ["p99", "p95", "p90", "p50to", "99", "95", "max", "tail", "jitter", "std"];

/// What a tool of `traits` gives of this name in this unit; why it does not.
pub(super) fn quantity_of(tool: &str, traits: &Traits, metric: &str, unit: &str) -> Result<Quantity, String> {
    let (name, unit) = (plain(metric), unit.trim());
    let gives_time = traits.measures == Measures::Latency;
    let none = || format!("{tool} does not give the metric `{metric}` in `{unit}`");
    let quantity = match family(&name) {
        Some(Family::Time) if gives_time => time(unit),
        Some(Family::Bandwidth) if !gives_time => bandwidth(unit),
        Some(Family::Rate) if !gives_time => rate(unit),
        None if name == "fractionoflinerate" && !gives_time && unit == "%" => Some(Quantity::OfLine { percent: 1.0 }),
        None if SPREAD.iter().any(|word| name.contains(word)) => {
            return Err(format!("`{metric}`: the spread of many runs is not modelled; compare a median or an average"));
        }
        _ => None,
    };
    quantity.ok_or_else(none)
}

/// Microseconds in a unit of time.
pub(super) fn time(unit: &str) -> Option<Quantity> {
    let us = match unit {
        "ns" | "nsec" => 1e-3,
        "us" | "usec" | "µs" | "μs" | "microseconds" => 1.0,
        "ms" | "msec" => 1e3,
        "s" | "sec" | "seconds" => 1e6,
        _ => return None,
    };
    Some(Quantity::Latency { us })
}

/// Bytes a second in a unit of bandwidth.
pub(super) fn bandwidth(unit: &str) -> Option<Quantity> {
    let bytes_per_s = match unit {
        "B/s" => 1.0,
        "b/s" | "bit/s" => 1.0 / 8.0,
        "kb/s" | "kbit/s" => 1e3 / 8.0,
        "Tb/s" | "Tbit/s" => 1e12 / 8.0,
        "kB/s" => 1e3,
        "MB/s" | "MB/sec" | "MBps" => 1e6,
        "GB/s" | "GB/sec" | "GBps" => 1e9,
        "TB/s" => 1e12,
        "KiB/s" => 1024.0,
        "MiB/s" | "MiB/sec" => 1_048_576.0,
        "GiB/s" | "GiB/sec" => 1_073_741_824.0,
        "Mb/s" | "Mbit/s" | "Mbps" => 1e6 / 8.0,
        "Gb/s" | "Gbit/s" | "Gb/sec" | "Gbps" => 1e9 / 8.0,
        _ => return None,
    };
    Some(Quantity::Bandwidth { bytes_per_s })
}

fn rate(unit: &str) -> Option<Quantity> {
    let per_s = match unit {
        "msg/s" | "msgs/s" | "messages/s" | "messages/sec" | "1/s" => 1.0,
        "Kmsg/s" | "kmsg/s" => 1e3,
        "Mpps" | "Mmsg/s" | "Mmsgs/s" | "M/s" => 1e6,
        _ => return None,
    };
    Some(Quantity::MessageRate { per_s })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tool(benchmark: &str) -> String {
        match tool_of(benchmark) {
            Ok(named) => format!("{} {}", named.tool.name(), named.operand.unwrap_or_default()).trim().to_owned(),
            Err(reason) => reason,
        }
    }

    #[test]
    fn names_of_benchmarks_as_people_write_them() {
        for (written, meant) in [
            ("osu_latency", "osu_latency"),
            ("OSU-Latency", "osu_latency"),
            ("./osu_bibw", "osu_bibw"),
            ("OSU MPI Latency Test", "osu_latency"),
            ("OSU MPI Bi-Directional Bandwidth Test", "osu_bibw"),
            ("OSU MPI Allreduce Latency Test", "osu_allreduce"),
            ("nccl_allreduce", "all_reduce_perf"),
            ("NCCL all-reduce", "all_reduce_perf"),
            ("nccl-tests all_gather_perf", "all_gather_perf"),
            ("rccl sendrecv", "sendrecv_perf"),
            ("osu_xccl_bw", "osu_xccl_bw"),
            ("osu_nccl_latency", "osu_xccl_latency"),
            ("IMB-MPI1 PingPong", "osu_latency"),
            ("IMB Alltoall", "IMB-MPI1 alltoall"),
            ("imb_allreduce", "IMB-MPI1 allreduce"),
            ("write_bw", "ib_write_bw"),
            ("ib_write_bw -a", "ib_write_bw"),
            ("perftest ib_send_lat", "ib_send_lat"),
        ] {
            assert_eq!(tool(written), meant, "{written}");
        }
        assert!(tool("osu_latncy").contains("the nearest is `osu_latency`"), "{}", tool("osu_latncy"));
        assert!(tool("osu_iallreduce").contains("no value that tables compare"));
    }

    #[test]
    fn collective_operations_of_omb_over_nccl_are_run() {
        // By a tool of that name, where there is one, or by the one of nccl-tests that times the same.
        for (written, operation) in [("osu_xccl_allreduce", "allreduce"), ("osu_nccl_reduce_scatter", "reducescatter")] {
            assert!(plain(&tool(written)).contains(operation), "{}", tool(written));
        }
    }

    #[test]
    fn metrics_and_units_as_people_write_them() {
        let traits = |name: &str| Tool::by_name(name).unwrap().traits();
        let latency = |metric: &str, unit: &str| quantity_of("osu_latency", &traits("osu_latency"), metric, unit);
        for metric in
            ["latency", "Latency", "latency median", "median latency", "avg latency", "latency (us)", "t_avg[usec]", "t[usec]", "t_typical"]
        {
            assert_eq!(latency(metric, "us"), Ok(Quantity::Latency { us: 1.0 }), "{metric}");
            assert_eq!(metric_of(metric), "latency", "{metric}");
        }
        for metric in ["latency p99", "max latency", "tail latency"] {
            assert!(latency(metric, "us").unwrap_err().contains("spread"), "{metric}");
        }
        assert!(latency("bandwidth", "MB/s").is_err());
        assert!(latency("latency", "furlong").is_err());
        let bandwidth = |metric: &str, unit: &str| quantity_of("osu_bw", &traits("osu_bw"), metric, unit);
        for metric in ["bandwidth", "peak bandwidth", "BW average", "Bandwidth (MB/s)", "throughput"] {
            assert_eq!(bandwidth(metric, "MB/s"), Ok(Quantity::Bandwidth { bytes_per_s: 1e6 }), "{metric}");
        }
        assert_eq!(bandwidth("messages/s", "msg/s"), Ok(Quantity::MessageRate { per_s: 1.0 }));
        assert_eq!(bandwidth("fraction of line rate", "%"), Ok(Quantity::OfLine { percent: 1.0 }));
        assert_eq!(
            (metric_of("Message rate").as_str(), metric_of("time").as_str(), metric_of("Improvement").as_str()),
            ("message rate", "time", "improvement")
        );
    }
}
