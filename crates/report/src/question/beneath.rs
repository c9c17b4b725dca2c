//! Programs of the layers between MPI and verbs: ucx_perftest and fi_pingpong, answered by the benchmark that times the same exchange.
//!
//! Messages with tags and active messages of UCX are those of `osu_latency` and `osu_bw`, in which what MPI adds is contained; puts are RDMA writes.
//! fi_pingpong's endpoints are queue pairs where the provider is verbs or efa: `msg` is RC, `dgram` UD, `rdm` of efa SRD.
//! Not modelled: gets, synchronous sends and streams of UCX; `rdm` over other providers.

use super::names::{bandwidth, plain, time};
use super::words::phrases;
use super::{Quantity, Question, Requested};
use crate::measured::Row;

/// The run that answers a row of such a program; none for other rows.
pub(super) fn ask(row: &Row) -> Option<Requested> {
    let name = row.benchmark.trim().to_ascii_lowercase();
    let answered = match (name.strip_prefix("ucx_perftest"), plain(&name).as_str()) {
        (Some(test), _) => ucx(test.trim(), row),
        (None, "fipingpong") => libfabric(row),
        _ => return None,
    };
    Some(answered.map_or_else(Requested::Skip, |(question, quantity)| Requested::Run(question, quantity)))
}

/// The tool that stands for a program of these.
pub(super) fn tool_of(benchmark: &str) -> Option<&'static str> {
    let name = benchmark.trim().to_ascii_lowercase();
    match name.strip_prefix("ucx_perftest") {
        Some(test) => stands_for(test.trim()),
        None => (plain(&name) == "fipingpong").then_some("ib_send_lat"),
    }
}

fn stands_for(test: &str) -> Option<&'static str> {
    Some(match test {
        "tag_lat" | "ucp_am_lat" | "am_lat" => "osu_latency",
        "tag_bw" | "ucp_am_bw" | "am_bw" => "osu_bw",
        "ucp_put_lat" | "put_lat" => "ib_write_lat",
        "ucp_put_bw" | "put_bw" => "ib_write_bw",
        _ => return None,
    })
}

fn ucx(test: &str, row: &Row) -> Result<(Question, Quantity), String> {
    if test.is_empty() {
        return Err("which test of ucx_perftest it was is not said; keep the box above the numbers, or the command".to_owned());
    }
    let tool = stands_for(test).ok_or_else(|| format!("the test `{test}` of ucx_perftest is not modelled; tag, am and put are"))?;
    let mut options: Vec<String> = Vec::new();
    for phrase in phrases(&row.variant) {
        match phrase {
            "D D" if tool.starts_with("osu_") => options.extend(["D", "D"].map(str::to_owned)),
            _ => return Err(format!("`{phrase}` changes the run in a way that is not read; say it by --settings, or leave it out")),
        }
    }
    if tool == "osu_bw" {
        options.extend(["-W", WINDOW].map(str::to_owned));
    }
    let none = || format!("{test} does not give the metric `{}` in `{}`", row.metric, row.unit);
    let quantity = match (row.metric.as_str(), tool.ends_with("bw")) {
        ("latency", false) => time(&row.unit),
        ("bandwidth", true) => bandwidth(&row.unit),
        ("message rate", true) if tool == "ib_write_bw" => Some(Quantity::MessageRate { per_s: 1.0 }),
        _ => None,
    };
    question(row, tool, options, quantity.ok_or_else(none)?)
}

fn libfabric(row: &Row) -> Result<(Question, Quantity), String> {
    let (mut provider, mut endpoint) = ("", "dgram");
    for phrase in phrases(&row.variant) {
        match phrase.split_once(' ') {
            Some(("provider", name)) => provider = name,
            Some(("endpoint", kind)) => endpoint = kind,
            _ => return Err(format!("`{phrase}` changes the run in a way that is not read; leave it out")),
        }
    }
    let service = match (endpoint, provider) {
        ("rdm", "efa") => "SRD",
        ("dgram", _) => "UD",
        ("msg", _) => "RC",
        _ => return Err(format!("endpoints `{endpoint}` of `{provider}` are not modelled; `msg` and `dgram` are, and `rdm` of efa")),
    };
    let quantity = Some(&row.metric).filter(|metric| *metric == "latency").and_then(|_| time(&row.unit));
    let none =
        || format!("fi_pingpong does not give the metric `{}` in `{}`: its throughput is the size by the time", row.metric, row.unit);
    question(row, "ib_send_lat", vec!["-c".to_owned(), service.to_owned()], quantity.ok_or_else(none)?)
}

fn question(row: &Row, tool: &'static str, options: Vec<String>, quantity: Quantity) -> Result<(Question, Quantity), String> {
    let bytes = row.message_bytes.filter(|bytes| *bytes > 0).ok_or("the row names no message size")?;
    let question =
        Question { cluster: row.cluster.clone(), tool, options, nodes: 2, ranks: 2, message_bytes: Some(bytes), ..Question::default() };
    Ok((question, quantity))
}

/// Messages in flight of its bandwidth tests. Basis: the tool's default.
const WINDOW: &str = "32";
