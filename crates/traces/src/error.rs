//! Why a file cannot be read, where, and what to do.

use std::fmt;

/// Where in a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Position {
    /// The file as a whole.
    Whole,
    /// A line, from 1.
    Line(u64),
    /// A line and a column, from 1.
    LineColumn(u64, u64),
    /// A byte, from 0; of what a compressed file holds.
    Byte(u64),
    /// A record, from 0 in the order of the file.
    Record(u64),
}

/// A file that cannot be read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error, miette::Diagnostic)]
#[error("{file}{at}: {problem}")]
#[diagnostic(forward(problem))]
pub struct TraceError {
    /// The file, and the member of an archive.
    pub file: String,
    /// Where in it.
    pub at: Position,
    /// What is wrong there.
    pub problem: Problem,
}

/// What is wrong with a file.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error, miette::Diagnostic)]
#[non_exhaustive]
pub enum Problem {
    /// The system does not give the file.
    #[error("cannot be read ({what})")]
    #[diagnostic(help("check the path and its permissions"))]
    Unreadable {
        /// What the system says.
        what: String,
    },
    /// Nothing in it.
    #[error("is empty")]
    #[diagnostic(help("give a file with records"))]
    Empty,
    /// An archive of nothing, or a file that stands beside traces only.
    #[error("there is no trace in it")]
    #[diagnostic(help("give the files of the ranks"))]
    NoTrace,
    /// Compressed data or an archive that is damaged.
    #[error("the {container} is damaged ({what})")]
    #[diagnostic(help("copy or make the file again"))]
    Damaged {
        /// gzip or tar.
        container: &'static str,
        /// What is wrong.
        what: String,
    },
    /// None of the formats.
    #[error("is none of the formats known here (it begins with {start})")]
    #[diagnostic(help("give a Chakra, PyTorch, Kineto, NCCL, AICB, SimAI, GOAL, liballprof, DUMPI or OTF2 file"))]
    UnknownFormat {
        /// How it begins.
        start: String,
    },
    /// The file ends within a record.
    #[error("the file ends within {what}")]
    #[diagnostic(help("is it cut off? copy it again"))]
    Ended {
        /// What should be there.
        what: &'static str,
    },
    /// Something else was due.
    #[error("found {found}")]
    #[diagnostic(help("expected {expected}"))]
    Unexpected {
        /// What stands there.
        found: String,
        /// What would be accepted.
        expected: &'static str,
    },
    /// JSON that is not well-formed or of another shape.
    #[error("the JSON breaks here ({what})")]
    #[diagnostic(help("is the file cut off, or written by another tool?"))]
    Json {
        /// What the reader of JSON says.
        what: String,
    },
    /// A number that is too large to be meant.
    #[error("{what} is {value}")]
    #[diagnostic(help("at most {most} can be read, is the file damaged?"))]
    TooLarge {
        /// Of what.
        what: &'static str,
        /// The number.
        value: u64,
        /// The most there can be.
        most: u64,
    },
    /// Two records with one number.
    #[error("record {id} stands there a second time")]
    #[diagnostic(help("numbers have to be unique within a rank, write the trace again"))]
    Duplicate {
        /// The number.
        id: u64,
    },
    /// A file of a rank that is already there.
    #[error("rank {rank} was already read from {other}")]
    #[diagnostic(help("give one file for each rank"))]
    RankTwice {
        /// The rank.
        rank: u32,
        /// The other file.
        other: String,
    },
    /// Part of the format that is not read.
    #[error("{what} cannot be read here")]
    #[diagnostic(help("{instead}"))]
    Unsupported {
        /// What it is.
        what: String,
        /// What to do.
        instead: String,
    },
}

impl TraceError {
    pub(crate) fn new(file: &str, at: Position, problem: Problem) -> TraceError {
        TraceError { file: file.to_owned(), at, problem }
    }
    /// From a reader of JSON, which counts lines and columns.
    pub(crate) fn json(file: &str, error: &serde_json::Error) -> TraceError {
        let text = error.to_string();
        let what = text.split(" at line ").next().unwrap_or(&text).replace(';', ",");
        let at = if error.line() == 0 { Position::Whole } else { Position::LineColumn(error.line() as u64, error.column() as u64) };
        TraceError::new(file, at, Problem::Json { what })
    }
}

impl fmt::Display for Position {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Position::Whole => Ok(()),
            Position::Line(line) => write!(f, ", line {line}"),
            Position::LineColumn(line, column) => write!(f, ", line {line}, column {column}"),
            Position::Byte(byte) => write!(f, ", byte {byte}"),
            Position::Record(record) => write!(f, ", record {record}"),
        }
    }
}

/// What stands in a file, as a message shows it: short, and without what a terminal would act on.
pub(crate) fn shown(bytes: &[u8]) -> String {
    /// Basis: estimated, what fits into a line of a message.
    const MOST: usize = 24;
    let short = &bytes[..bytes.len().min(MOST)];
    let text: String = String::from_utf8_lossy(short).chars().flat_map(char::escape_default).collect();
    if bytes.len() > MOST { format!("`{text}…`") } else { format!("`{text}`") }
}
