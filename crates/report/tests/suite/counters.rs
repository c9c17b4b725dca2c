//! Files of counters, read back by others: Parquet by its library, OpenMetrics by the client library of Prometheus; and the
//! table of names in the docs.
#![expect(clippy::disallowed_methods, reason = "UPDATE_GOLDEN writes the pinned file anew")]

use std::io::Write;
use std::process::{Command, Stdio};

use fabriscope_engine::{Counter, CounterPlace, Counters};
use fabriscope_report::counters::names::names;
use fabriscope_report::counters::{At, Dialect, Readings, Site};
use fabriscope_units::{Span, Time};
use parquet::file::reader::{FileReader, SerializedFileReader};
use parquet::record::RowAccessor;

/// Port 0 of a node and port 1 of a switch whose name has to be escaped, over three intervals of a microsecond.
fn readings(dialect: Dialect, every: Option<Span>) -> Readings {
    let mut counters = Counters::new(every);
    let at = |ns| Time::ZERO + Span::from_ns(ns);
    for (ns, packets) in [(100, 2), (900, 1), (2500, 3)] {
        let bin = counters.bin(at(ns));
        for (here, counter, amount) in [
            (0, Counter::XmitPackets, packets),
            (0, Counter::XmitBytes, 4118 * packets),
            (1, Counter::RcvPackets, packets),
            (1, Counter::RcvBytes, 4118 * packets),
            (0, Counter::XmitWait, 1_500_000 * packets),
            (1, Counter::TxPause(3), packets),
            (0, Counter::RxPause(3), packets),
        ] {
            counters.add(CounterPlace::Port(here), counter, bin, amount);
        }
        counters.add(CounterPlace::Adapter(0), Counter::OutOfSequence, bin, packets);
    }
    let site = |place| match place {
        CounterPlace::Port(0) => {
            Site { at: At::AdapterPort, instance: "node 0".into(), device: "mlx5_0".into(), port: "1".into(), rate: 1 << 37 }
        }
        CounterPlace::Port(_) => {
            Site { at: At::SwitchPort, instance: "leaf \"a\\b\"\n".into(), device: String::new(), port: "1".into(), rate: 1 << 37 }
        }
        CounterPlace::Adapter(_) => {
            Site { at: At::Adapter, instance: "node 0".into(), device: "mlx5_0".into(), port: String::new(), rate: 1 << 37 }
        }
    };
    Readings::new(&counters, dialect, 2_600_000, site).unwrap()
}

const DIALECTS: [Dialect; 5] = [Dialect::InfiniBand, Dialect::Roce, Dialect::OmniPath, Dialect::Efa, Dialect::Slingshot];

/// What the parser of Prometheus' client library makes of a file: a line for each sample, or its complaint.
fn parsed(text: &str) -> Result<String, String> {
    const SCRIPT: &str = "
import sys
from prometheus_client.openmetrics.parser import text_string_to_metric_families as parse
for family in parse(sys.stdin.read()):
    for sample in family.samples:
        labels = ','.join(f'{k}={v!r}' for k, v in sorted(sample.labels.items()))
        print(family.type, family.unit or '-', sample.name, labels, int(sample.value), sample.timestamp, sep='|')
";
    // The one of the system has it where Debian installed it.
    let has = |python: &&str| {
        let asked = Command::new(python).args(["-c", "import prometheus_client"]).stderr(Stdio::null()).status();
        asked.is_ok_and(|status| status.success())
    };
    let python = ["python3", "/usr/bin/python3"].into_iter().find(has);
    let python = python.expect("Prometheus' client judges OpenMetrics; install it: apt-get install python3-prometheus-client");
    let mut child =
        Command::new(python).args(["-c", SCRIPT]).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    child.stdin.take().unwrap().write_all(text.as_bytes()).unwrap();
    let output = child.wait_with_output().unwrap();
    if output.status.success() {
        Ok(String::from_utf8(output.stdout).unwrap())
    } else {
        Err(String::from_utf8_lossy(&output.stderr).into_owned())
    }
}

fn openmetrics(readings: &Readings) -> String {
    let mut bytes = Vec::new();
    readings.openmetrics(&mut bytes).unwrap();
    String::from_utf8(bytes).unwrap()
}

#[test]
fn prometheus_reads_what_is_written() {
    for dialect in DIALECTS {
        for every in [None, Some(Span::from_us(1))] {
            let text = openmetrics(&readings(dialect, every));
            assert!(text.ends_with("\n# EOF\n"));
            let samples = parsed(&text).unwrap_or_else(|complaint| panic!("{dialect:?}: {complaint}\n{text}"));
            assert_eq!(samples.lines().count(), text.lines().filter(|line| !line.starts_with('#')).count());
            assert!(
                samples.lines().all(|line| line.starts_with("counter|") && line.split('|').nth(2).unwrap().ends_with("_total")),
                "{samples}"
            );
        }
    }
    // A byte has its unit; a microsecond is a second; values only grow; quotes, backslashes and line ends survive.
    let samples = parsed(&openmetrics(&readings(Dialect::InfiniBand, Some(Span::from_us(1))))).unwrap();
    let sent = "counter|bytes|node_infiniband_port_data_transmitted_bytes_total|device='mlx5_0',instance='node 0',port='1'";
    for (value, time) in [(3 * 4118, "1.000000000"), (3 * 4118, "2.000000000"), (6 * 4118, "3.000000000")] {
        assert!(samples.lines().any(|line| line == format!("{sent}|{value}|{time}")), "{samples}");
    }
    assert!(samples.contains(r#"instance='leaf "a\\b"\n',port='1'|6|"#), "{samples}");
    // The judge is strict: what breaks the format is refused.
    let good = openmetrics(&readings(Dialect::Roce, Some(Span::from_us(1))));
    for (from, to) in
        [("# EOF\n", ""), ("_total{", "{"), (" 3.000000", " 0.500000"), (" counter", " kounter"), ("# UNIT node", "# UNIT nod")]
    {
        let bad = good.replacen(from, to, 1);
        assert!(bad != good && parsed(&bad).is_err(), "{from:?} -> {to:?} is taken");
    }
}

/// A row of a Parquet file: time, instance, device, port, counter, unit, value.
type Row = (i64, String, String, String, String, String, i64);

fn parquet_rows(readings: &Readings) -> Vec<Row> {
    let mut bytes = Vec::new();
    readings.parquet(&mut bytes).unwrap();
    let reader = SerializedFileReader::new(bytes::Bytes::from(bytes)).unwrap();
    let row = |row: parquet::record::Row| {
        let text = |column| row.get_string(column).unwrap().clone();
        (row.get_long(0).unwrap(), text(1), text(2), text(3), text(4), text(5), row.get_long(6).unwrap())
    };
    reader.get_row_iter(None).unwrap().map(|found| row(found.unwrap())).collect()
}

#[test]
fn parquet_and_csv_hold_the_same_rows() {
    for dialect in DIALECTS {
        for every in [None, Some(Span::from_us(1))] {
            let readings = readings(dialect, every);
            let rows = parquet_rows(&readings);
            let mut csv = Vec::new();
            readings.csv(&mut csv).unwrap();
            let read: Vec<Row> = csv::Reader::from_reader(&csv[..]).deserialize().map(Result::unwrap).collect();
            assert_eq!(read, rows, "{dialect:?}");
            assert_eq!(rows.len(), readings.all.len() * every.map_or(1, |_| 3));
        }
    }
    let rows = parquet_rows(&readings(Dialect::InfiniBand, Some(Span::from_us(1))));
    let words: Vec<(i64, i64)> = rows.iter().filter(|row| row.4 == "port_xmit_data").map(|row| (row.0, row.6)).collect();
    assert_eq!(words, [(1_000_000, 3 * 4118 / 4), (2_000_000, 3 * 4118 / 4), (3_000_000, 6 * 4118 / 4)]);
    let sums = parquet_rows(&readings(Dialect::InfiniBand, None));
    assert!(sums.iter().all(|row| row.0 == 2_600_000), "sums have the time of the end");
}

#[test]
fn octets_of_ethernet_include_the_fcs() {
    let total = |dialect, name: &str| {
        let readings = readings(dialect, None);
        readings.all.iter().find(|reading| reading.name == name).map(fabriscope_report::counters::Reading::total)
    };
    assert_eq!(total(Dialect::Roce, "port_xmit_data"), Some(6 * 4118 / 4));
    assert_eq!(total(Dialect::Roce, "tx_bytes_phy"), Some(6 * (4118 + 4)));
    assert_eq!(total(Dialect::Roce, "SAI_PORT_STAT_IF_IN_OCTETS"), Some(6 * (4118 + 4)));
    assert_eq!(total(Dialect::Roce, "rx_prio3_pause"), Some(6));
    assert_eq!(total(Dialect::OmniPath, "PortXmitData"), Some(6 * 4118 / 8));
    assert_eq!(total(Dialect::InfiniBand, "port_xmit_wait"), Some(9000));
}

#[test]
fn too_many_values_are_refused() {
    let mut counters = Counters::new(Some(Span::from_ps(1)));
    let bin = counters.bin(Time::ZERO + Span::from_us(100));
    counters.add(CounterPlace::Adapter(0), Counter::RxPackets, bin, 1);
    let site = |_| Site { at: At::Adapter, instance: "node 0".into(), device: String::new(), port: String::new(), rate: 1 };
    let error = Readings::new(&counters, Dialect::Efa, 0, site).unwrap_err();
    assert_eq!((error.readings, error.intervals), (1, 100_000_001));
}

/// Every counter that has a name somewhere, with priority 0 where it has one.
const COUNTERS: [Counter; 47] = [
    Counter::XmitBytes,
    Counter::RcvBytes,
    Counter::XmitPackets,
    Counter::RcvPackets,
    Counter::XmitBytesAt(0),
    Counter::RcvBytesAt(0),
    Counter::XmitPacketsAt(0),
    Counter::RcvPacketsAt(0),
    Counter::XmitWait,
    Counter::RcvErrors,
    Counter::RcvDiscards,
    Counter::XmitDiscards,
    Counter::LinkDowned,
    Counter::SymbolErrors,
    Counter::LinkRecoveries,
    Counter::XmitConstraints,
    Counter::RcvConstraints,
    Counter::Trims,
    Counter::XmitMarks,
    Counter::TxPause(0),
    Counter::RxPause(0),
    Counter::TxPauseTime(0),
    Counter::RxPauseTime(0),
    Counter::TxPackets,
    Counter::TxPayload,
    Counter::RxPackets,
    Counter::RxPayload,
    Counter::Retransmissions,
    Counter::RetransmittedPayload,
    Counter::WriteRequests,
    Counter::ReadRequests,
    Counter::AtomicRequests,
    Counter::OutOfSequence,
    Counter::DuplicateRequest,
    Counter::OutOfBuffer,
    Counter::PacketSeqErr,
    Counter::ImpliedNakSeqErr,
    Counter::RnrNakRetryErr,
    Counter::RemoteAccessErr,
    Counter::RemoteInvalidRequest,
    Counter::LocalAckTimeoutErr,
    Counter::ReqCqeError,
    Counter::ReqCqeFlushError,
    Counter::RespCqeError,
    Counter::RespCqeFlushError,
    Counter::RcvMarks,
    Counter::CnpSent,
];

/// A row of names for each counter that any of `columns` has.
fn names_table(heads: &[&str], columns: &[(Dialect, At)]) -> String {
    let mut text = format!("| {} |\n|{}\n", heads.join(" | "), "---|".repeat(heads.len()));
    for counter in COUNTERS.into_iter().chain([Counter::CnpHandled]) {
        let cell = |(dialect, at): &(Dialect, At)| {
            let found = names(*dialect, *at, counter);
            let one = |name: &fabriscope_report::counters::names::Name| {
                let unit = name.unit.symbol();
                let text = name.name.replace('#', "N");
                if unit.is_empty() { format!("`{text}`") } else { format!("`{text}` ({unit})") }
            };
            // What adds the FCS of a frame to a name above is no name of its own.
            found.iter().filter(|name| name.scale == 1).map(one).collect::<Vec<_>>().join(", ")
        };
        let cells: Vec<String> = columns.iter().map(cell).collect();
        if cells.iter().any(|cell| !cell.is_empty()) {
            text += &format!("| {} |\n", cells.join(" | "));
        }
    }
    text
}

/// The tables in docs/counters.md are those of the code. `UPDATE_GOLDEN=1` writes them.
#[test]
fn the_names_in_the_docs() {
    let ports = [
        (Dialect::InfiniBand, At::AdapterPort),
        (Dialect::Roce, At::AdapterPort),
        (Dialect::Roce, At::SwitchPort),
        (Dialect::OmniPath, At::AdapterPort),
        (Dialect::Slingshot, At::AdapterPort),
        (Dialect::Efa, At::AdapterPort),
    ];
    let adapters = [
        (Dialect::InfiniBand, At::Adapter),
        (Dialect::Roce, At::Adapter),
        (Dialect::OmniPath, At::Adapter),
        (Dialect::Slingshot, At::Adapter),
        (Dialect::Efa, At::Adapter),
    ];
    let tables = [
        names_table(&["InfiniBand", "RoCE adapter", "Ethernet switch (SAI)", "Omni-Path", "Cassini", "EFA"], &ports),
        names_table(&["InfiniBand", "RoCE", "Omni-Path", "Cassini", "EFA"], &adapters),
    ];
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/counters.md");
    let mut docs = std::fs::read_to_string(path).unwrap();
    for (number, table) in tables.iter().enumerate() {
        let (begin, end) = (format!("<!-- names {number} -->\n"), "<!-- end -->\n");
        let from = docs.find(&begin).expect("the docs have a place for the table") + begin.len();
        let to = from + docs[from..].find(end).expect("the place has an end");
        if std::env::var_os("UPDATE_GOLDEN").is_some() {
            docs.replace_range(from..to, table);
            std::fs::write(path, &docs).unwrap();
        } else {
            assert_eq!(&docs[from..to], table, "docs/counters.md has other names; UPDATE_GOLDEN=1 writes those of the code");
        }
    }
}

/// Every metric that the board for Grafana asks for is one that some machine's counters are written under, and the other way round every
/// kind of machine has some of them.
#[test]
fn the_board_names_metrics_that_are_written() {
    let board = include_str!("../../../../dashboards/fabriscope.json");
    let board: serde_json::Value = serde_json::from_str(board).unwrap();
    let panels = board["panels"].as_array().unwrap();
    let asked: Vec<&str> =
        panels.iter().flat_map(|panel| panel["targets"].as_array().into_iter().flatten()).map(|t| t["expr"].as_str().unwrap()).collect();
    let asked: Vec<String> = asked.iter().map(|expr| expr.split(['(', '{']).nth(1).unwrap().to_owned()).collect();
    assert!(asked.len() > 20, "{asked:?}");
    let dialects = [Dialect::InfiniBand, Dialect::Roce, Dialect::OmniPath, Dialect::Efa, Dialect::Slingshot];
    let metrics = |dialect| -> Vec<String> {
        let places = [At::AdapterPort, At::SwitchPort, At::Adapter];
        let names = places.into_iter().flat_map(|at| COUNTERS.into_iter().chain([Counter::CnpHandled]).map(move |counter| (at, counter)));
        names.flat_map(|(at, counter)| names_of(dialect, at, counter)).collect()
    };
    let all: Vec<Vec<String>> = dialects.into_iter().map(metrics).collect();
    for metric in &asked {
        assert!(all.iter().flatten().any(|known| known == metric), "{metric} is written by no machine");
    }
    for (dialect, known) in dialects.iter().zip(&all) {
        assert!(asked.iter().any(|metric| known.contains(metric)), "{dialect:?} shows nothing");
    }
}

/// The metrics of a counter in a file, of priority 0.
fn names_of(dialect: Dialect, at: At, counter: Counter) -> Vec<String> {
    names(dialect, at, counter).iter().map(|name| format!("{}_total", name.metric.replace('#', "0"))).collect()
}
