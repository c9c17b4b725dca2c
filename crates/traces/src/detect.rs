//! Which format a file has, by its content.

use std::fmt;
use std::path::Path;

use crate::bytes::Cursor;
use crate::error::{Position, Problem, TraceError, shown};
use crate::open::Part;

macro_rules! formats {
    ($($variant:ident, $name:literal, $document:literal;)*) => {
        /// The formats that are read.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum Format {
            $(#[doc = $document] $variant,)*
        }
        impl Format {
            /// All of them.
            pub const ALL: &'static [Format] = &[$(Format::$variant),*];
            /// Its name in tables and messages.
            #[must_use]
            pub const fn name(self) -> &'static str {
                match self { $(Format::$variant => $name,)* }
            }
        }
    };
}

formats! {
    Chakra, "Chakra", "MLCommons Chakra execution trace, protobuf.";
    ChakraJson, "Chakra JSON", "Its JSON twin (`workload_graph`), in all spellings of keys.";
    Pytorch, "PyTorch ET", "PyTorch execution trace.";
    Kineto, "Kineto", "Kineto, the PyTorch profiler: Chrome's trace events.";
    NcclLog, "NCCL log", "What NCCL prints with NCCL_DEBUG=INFO and NCCL_DEBUG_SUBSYS=COLL.";
    NcclInspector, "NCCL Inspector", "JSON lines of the profiler plugin NCCL Inspector.";
    NcclTuner, "NCCL tuner", "CSV of measured choices that NCCL's example tuner plugin reads.";
    Aicb, "AICB", "AICB workload, CSV: the calls of each rank (physical).";
    SimAi, "SimAI", "SimAI and AICB workload, text: the layers of a model (analytical).";
    Goal, "GOAL", "GOAL, text.";
    GoalBinary, "GOAL binary", "GOAL, as LogGOPSim's txt2bin writes it.";
    AllProf, "liballprof", "MPI trace of liballprof.";
    Dumpi, "DUMPI", "MPI trace of sst-dumpi, binary.";
    DumpiAscii, "DUMPI ASCII", "The same as dumpi2ascii prints it.";
    Otf2, "OTF2", "An archive of Open Trace Format 2, which Python's otf2 has to convert.";
    Otf2Json, "OTF2 converted", "Open Trace Format 2 as `python3 -m fabriscope.otf2_trace` converts it.";
}

impl fmt::Display for Format {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// The format of a file; of an archive or folder that of its first member which has one.
///
/// # Errors
/// A file that cannot be read or unpacked; one of no format known here.
pub fn detect(path: &Path) -> Result<Format, TraceError> {
    let parts = crate::open::parts(path)?;
    match parts.iter().find_map(|part| format_of(part).ok()) {
        Some(format) => Ok(format),
        None => Err(unknown(parts.first(), &path.display().to_string())),
    }
}

/// The format of what a file holds.
pub(crate) fn format_of(part: &Part) -> Result<Format, TraceError> {
    if part.bytes.is_empty() {
        return Err(TraceError::new(&part.name, Position::Whole, Problem::Empty));
    }
    binary(part).or_else(|| text(&part.bytes)).or_else(|| chakra(part)).ok_or_else(|| unknown(Some(part), &part.name))
}

fn unknown(part: Option<&Part>, file: &str) -> TraceError {
    let problem = match part {
        Some(part) if !part.bytes.is_empty() => Problem::UnknownFormat { start: shown(&part.bytes) },
        _ => Problem::Empty,
    };
    TraceError::new(part.map_or(file, |part| &part.name), Position::Whole, problem)
}

fn binary(part: &Part) -> Option<Format> {
    let bytes = &part.bytes;
    if bytes.starts_with(&[0xff, 0xaa, 0xdd, 0x44]) {
        Some(Format::Dumpi)
    } else if bytes.starts_with(&4223_u64.to_le_bytes()) {
        Some(Format::GoalBinary)
    } else if bytes.get(2..6) == Some(b"OTF2") {
        Some(Format::Otf2)
    } else {
        None
    }
}

fn text(bytes: &[u8]) -> Option<Format> {
    let begin = bytes.strip_prefix(&[0xef, 0xbb, 0xbf]).unwrap_or(bytes);
    let begin = begin.trim_ascii_start();
    match begin.first()? {
        b'{' | b'[' => json(begin),
        _ => lines(begin),
    }
}

/// JSON by a key that only this format has. Keys may stand anywhere; the first that is found decides.
fn json(bytes: &[u8]) -> Option<Format> {
    if bytes.starts_with(b"[rank") {
        return Some(Format::Aicb);
    }
    const KEYS: [(&[u8], Format); 8] = [
        (b"\"otf2_trace\"", Format::Otf2Json),
        (b"\"workload_graph\"", Format::ChakraJson),
        (b"\"traceEvents\"", Format::Kineto),
        (b"\"coll_perf\"", Format::NcclInspector),
        (b"\"p2p_perf\"", Format::NcclInspector),
        (b"\"inspector_output_format_version\"", Format::NcclInspector),
        (b"\"nodes\"", Format::Pytorch),
        (b"\"ph\"", Format::Kineto),
    ];
    let quotes = bytes.iter().enumerate().filter(|(_, byte)| **byte == b'"').map(|(at, _)| &bytes[at..]);
    quotes.flat_map(|from| KEYS.iter().filter(move |(key, _)| from.starts_with(key))).next().map(|(_, format)| *format)
}

fn lines(bytes: &[u8]) -> Option<Format> {
    /// Basis: estimated; logs begin with what other programs print.
    const LOOKED_AT: usize = 1 << 20;
    let text = String::from_utf8_lossy(&bytes[..bytes.len().min(LOOKED_AT)]);
    let first = text.lines().next()?;
    if first.starts_with("comm_type,") {
        return Some(Format::Aicb);
    }
    if first.starts_with("collective,") && first.contains("size_bytes") || first.starts_with("coll_type,") {
        return Some(Format::NcclTuner);
    }
    let word = first.split_ascii_whitespace().next()?;
    if first.contains("model_parallel_NPU_group") || SIMAI.contains(&word) {
        return Some(Format::SimAi);
    }
    for line in text.lines() {
        let line = line.trim_start();
        let call = line.starts_with("MPI_") || line.starts_with("MPIO_");
        if line.starts_with("num_ranks") {
            return Some(Format::Goal);
        } else if call && line.contains(" entering at walltime ") {
            return Some(Format::DumpiAscii);
        } else if call && line.split(':').count() >= 3 {
            return Some(Format::AllProf);
        } else if line.contains("NCCL INFO") {
            return Some(Format::NcclLog);
        }
    }
    None
}

/// Chakra has no magic number: its first message has to be one of metadata, and a second one has to follow or nothing.
fn chakra(part: &Part) -> Option<Format> {
    let mut cursor = Cursor::new(&part.name, &part.bytes);
    let length = cursor.varint("a length").ok()?;
    let message = cursor.part(usize::try_from(length).ok()?, "a message").ok()?;
    crate::format::chakra::is_metadata(message).then_some(Format::Chakra)
}

/// How workloads of ASTRA-sim and SimAI begin.
const SIMAI: [&str; 9] = [
    "HYBRID_TRANSFORMER_FWD_IN_BCKWD",
    "HYBRID_TRANSFORMER",
    "HYBRID_DATA_MODEL",
    "HYBRID_MODEL_DATA",
    "HYBRID_DLRM",
    "HYBRID_DLRM_ENHANCED",
    "DATA",
    "MODEL",
    "MICRO",
];
