//! Raw outputs of benchmark programs as measured rows: the log of a job, as the tools and their launcher left it.
//!
//! What a text is of is seen by what stands in it, never by the name of its file. Several runs, also of several tools, may follow each other,
//! with anything between them; each becomes a table of its own. What launchers put in front of lines (`[1,0]<stdout>:`) is taken off, and lines
//! of different ranks are kept apart. JSON documents of the tools may stand between. A row that cannot be read is told with its line, and the
//! others go on.
//!
//! Read: perftest, the OSU benchmarks, IMB, nccl-tests and rccl-tests, ucx_perftest, fi_pingpong, iperf3, netperf: text of old and new releases,
//! JSON and CSV where they write it. A tool is one file and one line of [`FORMATS`].
//! Not read: what the output does not say: the cluster, and mostly the nodes.

mod columns;
mod document;
mod fi_pingpong;
mod imb;
mod iperf3;
mod launch;
mod line;
mod nccl_tests;
mod netperf;
mod omb;
mod perftest;
mod rows;
mod ucx_perftest;

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::measured::{BadRow, Row};
use document::{Document, Documents};
use launch::Launch;
use line::Line;
use rows::Rows;

pub(crate) use rows::number;

/// A tool whose output is read.
trait Format: Sync {
    /// The run that begins with this line, if one does.
    fn begins(&self, line: &Line<'_>, rows: &mut Rows<'_>) -> Option<Box<dyn Run>>;
    /// Takes a JSON document of the tool; whether it is one.
    fn document(&self, document: &Document<'_>, rows: &mut Rows<'_>) -> bool {
        let _ = (document, rows);
        false
    }
}

/// One output on its way to rows.
trait Run {
    /// Reads a line below the one it began with. Lines of no meaning are passed over.
    fn line(&mut self, line: &Line<'_>, rows: &mut Rows<'_>);
    /// The output is over: the file ends, or another run begins.
    fn end(&mut self, rows: &mut Rows<'_>);
}

/// Every tool. One that begins with a line that several know is taken by the first.
const FORMATS: [&dyn Format; 8] = [
    &perftest::Perftest,
    &omb::Omb,
    &imb::Imb,
    &nccl_tests::NcclTests,
    &ucx_perftest::UcxPerftest,
    &fi_pingpong::FiPingpong,
    &iperf3::Iperf3,
    &netperf::Netperf,
];

/// The tools, for people.
pub(crate) const TOOLS: &str = "the OSU benchmarks, IMB, nccl-tests, rccl-tests, perftest, ucx_perftest, fi_pingpong, iperf3 or netperf";

/// The rows of a raw output, and those that could not be read; none where no tool's output stands in the text.
pub(crate) fn read(file: &str, text: &Arc<String>) -> Option<(Vec<Row>, Vec<BadRow>)> {
    let mut rows = Rows::new(file, text);
    let mut documents = Documents::of(text);
    // The run of each rank whose lines the launcher marked; that of unmarked lines under the empty mark.
    let mut plain: Option<Box<dyn Run>> = None;
    let mut marked: BTreeMap<&str, Box<dyn Run>> = BTreeMap::new();
    let mut lines = line::lines(text);
    while let Some(line) = lines.next() {
        if let Some(document) = documents.at(&line) {
            if FORMATS.iter().any(|format| format.document(&document, &mut rows)) {
                document.tell_end(&mut rows);
                lines.skip_to(document.end());
            }
            continue;
        }
        if let Some(launch) = Launch::of(line.text) {
            rows.launch = Some(launch);
        }
        let begun = FORMATS.iter().find_map(|format| format.begins(&line, &mut rows));
        let run = if line.mark.is_empty() { &mut plain } else { &mut None };
        match (begun, line.mark.is_empty()) {
            (Some(begun), true) => {
                if let Some(mut ended) = run.replace(begun) {
                    ended.end(&mut rows);
                }
            }
            (Some(begun), false) => {
                if let Some(mut ended) = marked.insert(line.mark, begun) {
                    ended.end(&mut rows);
                }
            }
            (None, plain) => {
                if let Some(run) = if plain { run.as_mut() } else { marked.get_mut(line.mark) } {
                    run.line(&line, &mut rows);
                }
            }
        }
    }
    plain.into_iter().chain(marked.into_values()).for_each(|mut run| run.end(&mut rows));
    rows.done()
}
