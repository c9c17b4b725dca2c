//! What is read of each sample: a table that a person can judge. It is `tests/accounts.txt`.

use std::fmt::Write as _;

use fabriscope_traces::{Kind, Trace, read};

use crate::samples;

fn rows(name: &str, trace: &Trace, table: &mut String) {
    let reading = &trace.reading;
    assert_eq!(reading.records, reading.used + reading.left_out_in_all(), "{name}: every record is used or left out");
    let count = |test: &dyn Fn(&Kind) -> bool| trace.all().filter(|(_, record)| test(&record.kind)).count();
    let version = trace.version.as_deref().unwrap_or("-");
    writeln!(table, "{name}").unwrap();
    writeln!(table, "  {} ({version}), trace {}, ranks {} of {}", trace.format, trace.name, trace.ranks.len(), trace.world).unwrap();
    writeln!(table, "  records read {}, used {}, left out {}", reading.records, reading.used, reading.left_out_in_all()).unwrap();
    for (reason, count) in &reading.left_out {
        writeln!(table, "    left out  {count:>6}  {reason}").unwrap();
    }
    for (what, count) in &reading.assumed {
        writeln!(table, "    assumed   {:>6}  {what}", if *count == 0 { "-".to_owned() } else { count.to_string() }).unwrap();
    }
    for (what, count) in &reading.notes {
        writeln!(table, "    note      {count:>6}  {what}").unwrap();
    }
    let (compute, wait) = (count(&|kind| *kind == Kind::Compute), count(&|kind| *kind == Kind::Wait));
    let (collective, send, recv) = (
        count(&|kind| matches!(kind, Kind::Collective(_))),
        count(&|kind| matches!(kind, Kind::Send(_))),
        count(&|kind| matches!(kind, Kind::Recv(_))),
    );
    writeln!(table, "  compute {compute}, collectives {collective}, sends {send}, receives {recv}, waits {wait}").unwrap();
    let bytes: u128 = trace
        .all()
        .map(|(_, record)| match &record.kind {
            Kind::Collective(collective) => collective.bytes.map_or(0, |bytes| u128::from(bytes.0)),
            Kind::Send(message) => u128::from(message.bytes.0),
            _ => 0,
        })
        .sum();
    let dependencies: usize = trace.all().map(|(_, record)| record.after.len()).sum();
    writeln!(table, "  dependencies {dependencies}, bytes of collectives and sends {bytes}").unwrap();
    for (_, group) in trace.groups.iter() {
        writeln!(table, "  group {}: {}", group.name, group.size.map_or("unknown size".to_owned(), |size| format!("{size} ranks")))
            .unwrap();
    }
    let checked = trace.check().map_or_else(
        |error| error.to_string(),
        |checked| {
            format!(
                "{} messages, {} open, {} collectives, {} partial",
                checked.messages, checked.open_messages, checked.collectives, checked.partial_collectives
            )
        },
    );
    writeln!(table, "  matched: {checked}\n").unwrap();
}

#[test]
fn every_sample_is_read_and_its_account_is_pinned() {
    let mut table = String::new();
    for path in samples::all() {
        let name = samples::name(&path);
        match read(&[path]) {
            Ok(traces) => traces.iter().for_each(|trace| rows(&name, trace, &mut table)),
            Err(error) => {
                let text = error.to_string().replace(&samples::folder().display().to_string(), "…");
                let help = miette::Diagnostic::help(&error).map(|help| help.to_string()).unwrap_or_default();
                writeln!(table, "{name}\n  error: {text}\n  help: {help}\n").unwrap();
            }
        }
    }
    samples::pinned("accounts.txt", &table);
}
