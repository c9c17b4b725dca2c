//! Raw outputs of tools: a file of each in two releases, read into rows that stand in `raw/rows.txt`; what logs do to them; and their size.

use std::fmt::Write;
use std::path::Path;

use fabriscope_report::measured::{read, read_all};
use fabriscope_report::validate::{Answer, Detail, Refusal, validate};
use fabriscope_report::{Measured, Question, Terms};
use proptest::prelude::*;

fn folder() -> std::path::PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/raw")
}

/// The files, in the order of their names.
fn files() -> Vec<(String, Vec<u8>)> {
    let entries = std::fs::read_dir(folder()).unwrap().map(|entry| entry.unwrap().path());
    let mut files: Vec<_> = entries.filter(|path| path.file_name().unwrap() != "rows.txt").collect();
    files.sort();
    files.iter().map(|path| (path.file_name().unwrap().to_str().unwrap().to_owned(), std::fs::read(path).unwrap())).collect()
}

/// Rows and faults as lines for people.
fn told(measured: &Measured) -> String {
    let or_dash = |count: Option<u64>| count.map_or_else(|| "-".to_owned(), |count| count.to_string());
    let mut text = String::new();
    for row in measured.rows() {
        let shape = format!("{}x{}", or_dash(row.nodes.map(u64::from)), or_dash(row.ranks.map(u64::from)));
        let _ = writeln!(
            text,
            "{:>4} {} | {} | {} | {shape} | {} B | {} {} {}",
            measured.line(row),
            row.table,
            row.benchmark,
            row.variant,
            or_dash(row.message_bytes),
            row.metric,
            row.value,
            row.unit
        );
    }
    for fault in measured.faults() {
        let _ = writeln!(text, "{:>4} {} | {}", fault.line, fault.table.as_deref().unwrap_or("?"), fault.error.in_full());
    }
    text
}

#[test]
fn the_outputs_of_every_tool_become_rows() {
    let mut text = String::new();
    for (name, bytes) in files() {
        let measured = read_all(&name, &bytes).unwrap_or_else(|error| panic!("{name}: {error}"));
        let _ = write!(text, "{name}\n{}\n", told(&measured));
    }
    let expected = std::fs::read_to_string(folder().join("rows.txt")).unwrap_or_default();
    assert!(text == expected, "tests/raw/rows.txt would be:\n{text}");
}

/// What an output means does not depend on how its lines end, on a mark of their rank, nor on noise around them.
#[test]
fn logs_may_be_messy() {
    for (name, bytes) in files() {
        let text = String::from_utf8(bytes).unwrap();
        let values = |text: &str| -> Vec<(String, Option<u64>, String, f64)> {
            let measured = read_all(&name, text.as_bytes()).unwrap_or_else(|error| panic!("{name}: {error}"));
            measured.rows().iter().map(|row| (row.table.clone(), row.message_bytes, row.metric.clone(), row.value)).collect()
        };
        let plain = values(&text);
        assert_eq!(values(&format!("\u{feff}{}", text.replace('\n', "\r\n"))), plain, "{name}");
        let noise = "Warning: Permanently added 'node02'\n[node01:77] mca_base: none\n\n";
        assert_eq!(values(&format!("{noise}{text}{noise}")), plain, "{name}");
        if !text.contains("\n{") && !text.starts_with('{') && !text.starts_with("[rank") {
            let marked: String = text.lines().map(|line| format!("[1,0]<stdout>:{line}\n")).collect();
            assert_eq!(values(&marked), plain, "{name}");
        }
    }
}

/// Mixed tools, several runs of one, and a file that ends somewhere.
#[test]
fn files_may_be_mixed_and_cut_off() {
    let all: Vec<(String, String)> = files().into_iter().map(|(name, bytes)| (name, String::from_utf8(bytes).unwrap())).collect();
    let together: String = all.iter().map(|(_, text)| text.as_str()).chain(all.iter().map(|(_, text)| text.as_str())).collect();
    let measured = read_all("run.log", together.as_bytes()).unwrap();
    let alone: usize = all.iter().map(|(name, text)| read_all(name, text.as_bytes()).unwrap().rows().len()).sum();
    assert_eq!(measured.rows().len(), 2 * alone);
    let mut tables: Vec<&str> = measured.rows().iter().map(|row| row.table.as_str()).collect();
    tables.dedup();
    assert!(tables.contains(&"run-osu_latency") && tables.contains(&"run-osu_latency-2"), "{tables:?}");

    let omb =
        "\n# OSU MPI Latency Test v7.4\n# Size         Avg Latency(us)\n8                         1.22\n16                        1.2";
    let cut = read_all("cut.log", omb.as_bytes()).unwrap();
    assert_eq!(cut.rows().len(), 1);
    assert!(cut.faults()[0].error.in_full().contains("the file ends in the middle of this row"), "{}", told(&cut));
    let none = read_all("cut.log", b"# OSU MPI Latency Test v7.4\n# Size         Avg Latency(us)\n").unwrap();
    assert!(none.faults()[0].error.in_full().contains("ends before its first row"), "{}", told(&none));

    // A document keeps what stood whole in it.
    let (_, json) = all.iter().find(|(name, _)| name == "nccl.json").unwrap();
    let at = json.rfind("\"in_place\"").unwrap();
    let cut = read_all("nccl.json", &json.as_bytes()[..at + 20]).unwrap();
    assert_eq!(cut.rows().len(), 9, "{}", told(&cut));
    assert!(cut.faults()[0].error.in_full().contains("ends in the middle"), "{}", told(&cut));
}

#[test]
fn what_no_tool_printed_is_refused_with_what_is_read() {
    let error = read("notes.txt", b"dear diary\ntoday 8 1.2\n").unwrap_err().in_full();
    assert!(error.contains("the output of the OSU benchmarks, IMB"), "{error}");
}

#[test]
fn tables_of_spreadsheets_are_read() {
    let head = "table;cluster;benchmark;message_bytes;metric;unit;value";
    let text = format!("\u{feff}{head}\r\nt;ri2;osu_bw;8;bandwidth;MB/s;12,5\r\nt;ri2;osu_bw;16;bandwidth;MB/s;1.234,5\r\n");
    let measured = read_all("t.csv", text.as_bytes()).unwrap();
    assert_eq!(measured.rows().iter().map(|row| row.value).collect::<Vec<_>>(), [12.5]);
    assert!(measured.faults()[0].error.to_string().contains("t.csv:3:32: `1.234,5` is not a number"), "{}", measured.faults()[0].error);
    let tabs = text.replace(';', "\t");
    assert_eq!(read_all("t.csv", tabs.as_bytes()).unwrap().rows().len(), 1);
}

/// A million rows, right and wrong ones, in the time that a linear reader takes.
#[test]
#[ignore = "seconds: a million rows"]
fn a_million_rows_are_read_at_once() {
    let rows = |row: &str| row.repeat(1_000_000);
    let omb = format!("# OSU MPI Latency Test v7.4\n# Size         Avg Latency(us)\n{}", rows("8                         1.22\n"));
    assert_eq!(read_all("a", omb.as_bytes()).unwrap().rows().len(), 1_000_000);
    let wrong = omb.replace("1.22", "nan");
    assert_eq!(read_all("a", wrong.as_bytes()).unwrap().faults().len(), 1_000_000);
    let csv = format!("table,cluster,benchmark,message_bytes,metric,unit,value\n{}", rows("t,c,osu_bw,8,bandwidth,MB/s,one\n"));
    assert_eq!(read_all("a", csv.as_bytes()).unwrap().faults().len(), 1_000_000);
    let json =
        format!("{{\"config\": {{}}, \"results\": [{}]}}", rows("{\"size\": 8, \"out_of_place\": {\"time\": 1.5}},").trim_end_matches(','));
    assert_eq!(read_all("a", json.as_bytes()).unwrap().rows().len(), 1_000_000);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// Whatever is cut out of outputs and put together is read without a panic, and every row is told in figures.
    #[test]
    fn pieces_of_outputs_are_read(cuts in proptest::collection::vec((0usize..64, 0usize..4000, 0usize..900), 1..5)) {
        let all = files();
        let mut bytes = Vec::new();
        for (file, from, length) in cuts {
            let (_, piece) = &all[file % all.len()];
            let from = from.min(piece.len());
            bytes.extend_from_slice(&piece[from..(from + length).min(piece.len())]);
        }
        let Ok(measured) = read_all("x.log", &bytes) else { return Ok(()) };
        prop_assert!(measured.rows().iter().all(|row| row.value.is_finite() && !row.table.is_empty()));
        let none = |_: &Question| -> Result<Answer, Refusal> { Err(Refusal::Skip("no".to_owned())) };
        let report = validate(&[measured], &[], &Terms::default(), &none);
        prop_assert!(!report.outcome(Detail::Points).data().is_null());
    }
}
