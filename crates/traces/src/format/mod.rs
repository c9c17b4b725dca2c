//! One file or folder for each format: its reader, and its writer where it has one.

pub(crate) mod aicb;
pub(crate) mod aicb_write;
pub(crate) mod chakra;
pub(crate) mod goal;
pub(crate) mod kineto;
pub(crate) mod mpi;
pub(crate) mod nccl_inspector;
pub(crate) mod nccl_log;
pub(crate) mod nccl_tuner;
pub(crate) mod pytorch;
pub(crate) mod simai;

use std::collections::BTreeMap;

use crate::Format;
use crate::draft::Draft;
use crate::error::{Position, Problem, TraceError};
use crate::open::{Companions, Part};

/// A file that belongs to a trace and is none.
#[derive(Debug)]
pub(crate) enum Companion {
    /// The process groups of Chakra traces, by name.
    Groups(BTreeMap<String, Vec<u32>>),
    /// What stands beside traces of DUMPI about all ranks.
    DumpiMeta,
}

/// Whether the file is none of the traces, but belongs to them.
pub(crate) fn companion(part: &Part) -> Option<Result<Companion, TraceError>> {
    if part.bytes.starts_with(b"hostname=") && part.bytes.windows(9).any(|window| window == b"numprocs=") {
        return Some(Ok(Companion::DumpiMeta));
    }
    let base = part.name.rsplit('/').next().unwrap_or(&part.name);
    if base.contains("comm_group") && base.ends_with(".json") {
        let groups = serde_json::from_slice(&part.bytes).map(Companion::Groups);
        return Some(groups.map_err(|error| TraceError::json(&part.name, &error)));
    }
    None
}

/// Whether each file of this format is a whole trace.
pub(crate) const fn one_file_each(format: Format) -> bool {
    matches!(format, Format::Goal | Format::GoalBinary | Format::Aicb | Format::SimAi | Format::NcclTuner | Format::Otf2Json)
}

/// Reads the files of one job, each with the rank that its name says.
pub(crate) fn read(
    format: Format,
    parts: Vec<(Part, Option<u32>)>,
    companions: &Companions,
) -> Result<Vec<(Draft, Option<u32>)>, TraceError> {
    let whole = |draft: Draft| vec![(draft, None)];
    match format {
        Format::Dumpi | Format::DumpiAscii | Format::AllProf | Format::Otf2Json => return mpi::read(format, parts).map(whole),
        Format::NcclLog => return nccl_log::read(&parts).map(whole),
        Format::NcclInspector => return nccl_inspector::read(&parts).map(whole),
        _ => {}
    }
    let mut drafts = Vec::new();
    for (part, rank) in parts {
        let draft = match format {
            Format::Chakra => chakra::read(&part, companions)?,
            Format::ChakraJson => chakra::json::read(&part, companions)?,
            Format::Pytorch => pytorch::read(&part)?,
            Format::Kineto => kineto::read(&part)?,
            Format::Aicb => aicb::read(&part)?,
            Format::SimAi => simai::read(&part)?,
            Format::Goal => goal::text::read(&part)?,
            Format::GoalBinary => goal::binary::read(&part)?,
            Format::NcclTuner => nccl_tuner::read(&part)?,
            Format::Otf2 => return Err(otf2(&part.name)),
            Format::Dumpi | Format::DumpiAscii | Format::AllProf | Format::Otf2Json | Format::NcclLog | Format::NcclInspector => continue,
        };
        drafts.push((draft, rank));
    }
    Ok(drafts)
}

/// Archives of OTF2 are read by the library of its authors, which Python has.
fn otf2(file: &str) -> TraceError {
    let instead =
        "pip install fabriscope[otf2], then python3 -m fabriscope.otf2_trace traces.otf2 -o trace.jsonl, and read that".to_owned();
    TraceError::new(file, Position::Whole, Problem::Unsupported { what: "an OTF2 archive".to_owned(), instead })
}

/// Text of a file that has to be text.
pub(crate) fn utf8(part: &Part) -> Result<&str, TraceError> {
    std::str::from_utf8(&part.bytes).map_err(|error| {
        let at = error.valid_up_to();
        let found = crate::error::shown(&part.bytes[at..]);
        TraceError::new(&part.name, Position::Byte(at as u64), Problem::Unexpected { found, expected: "text in UTF-8" })
    })
}

/// An error at a line, from 1.
pub(crate) fn at_line(file: &str, line: usize, found: &str, expected: &'static str) -> TraceError {
    let found = crate::error::shown(found.as_bytes());
    TraceError::new(file, Position::Line(line as u64), Problem::Unexpected { found, expected })
}

/// A number of ranks that is not more than schedules can have.
pub(crate) fn ranks(file: &str, at: Position, what: &'static str, value: u64) -> Result<u32, TraceError> {
    let most = u64::from(fabriscope_schedule::Schedule::MOST_RANKS);
    if value > most { Err(TraceError::new(file, at, Problem::TooLarge { what, value, most })) } else { Ok(value as u32) }
}
