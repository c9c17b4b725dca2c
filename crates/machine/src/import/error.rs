//! Why a file is not a node.

use crate::builder::MachineError;

/// Why a file cannot be read as a node.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error, miette::Diagnostic)]
#[non_exhaustive]
pub enum ImportError {
    /// None of the formats.
    #[error("the file is none of the formats known here")]
    #[diagnostic(help("give what `lstopo --of xml` or `nvidia-smi topo -m` prints, or a file that NCCL_TOPO_DUMP_FILE names"))]
    Unknown,
    /// Not well-formed.
    #[error("line {line}: the XML ends or breaks here ({what})")]
    #[diagnostic(help("is the file cut off?"))]
    NotXml {
        /// Counted from 1.
        line: u32,
        /// What the reader of XML says.
        what: String,
    },
    /// XML of something else.
    #[error("line {line}: <{root}> is XML of another kind")]
    #[diagnostic(help("give what `lstopo --of xml` prints (<topology>) or a file that NCCL_TOPO_DUMP_FILE names (<system>)"))]
    OtherSchema {
        /// Counted from 1.
        line: u32,
        /// Its first element.
        root: String,
    },
    /// A version nobody knows.
    #[error("line {line}: version {found} of {format} is not read here, only {known}")]
    #[diagnostic(help("write the file with a tool of that version"))]
    Version {
        /// Counted from 1.
        line: u32,
        /// Whose version.
        format: &'static str,
        /// What stands there.
        found: String,
        /// What is read.
        known: &'static str,
    },
    /// Nothing in it.
    #[error("the file describes no processor")]
    #[diagnostic(help("is it complete?"))]
    Empty,
    /// A line that is wrong.
    #[error("line {line}: {mistake}")]
    #[diagnostic(forward(mistake))]
    Line {
        /// Counted from 1.
        line: u32,
        /// What is wrong.
        mistake: Mistake,
    },
    /// What was read makes no machine.
    #[error(transparent)]
    #[diagnostic(transparent)]
    Machine(#[from] MachineError),
}

/// What is wrong with a line.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error, miette::Diagnostic)]
#[non_exhaustive]
pub enum Mistake {
    /// An attribute that has to be there.
    #[error("<{element}> has no `{attribute}`")]
    #[diagnostic(help("{expected}"))]
    Missing {
        /// The element.
        element: String,
        /// The attribute.
        attribute: &'static str,
        /// What it would say.
        expected: &'static str,
    },
    /// A value that cannot be read.
    #[error("`{text}` is no {what}")]
    #[diagnostic(help("{expected}"))]
    Value {
        /// What stands there.
        text: String,
        /// What should.
        what: &'static str,
        /// What would be accepted.
        expected: &'static str,
    },
    /// A device twice.
    #[error("`{id}` was described before, in line {before}")]
    #[diagnostic(help("each device stands in the file once: remove one of them"))]
    Twice {
        /// Its address or name.
        id: String,
        /// Where it stands first.
        before: u32,
    },
    /// A link to nowhere.
    #[error("the link leads to `{target}`, which the file does not describe")]
    #[diagnostic(help("is the file cut off, or a device missing?"))]
    NoSuchTarget {
        /// Its address.
        target: String,
    },
    /// Two rows that disagree.
    #[error("{from} has {there} to {to}, but line {before} has {back} the other way")]
    #[diagnostic(help("both are the same path: correct one of them"))]
    Disagree {
        /// The device of this row.
        from: String,
        /// The other.
        to: String,
        /// What this row says.
        there: String,
        /// What the other row says.
        back: String,
        /// Where the other row is.
        before: u32,
    },
    /// Rows or cells that are missing.
    #[error("{what} {found} of {wanted}")]
    #[diagnostic(help("is the file cut off?"))]
    Short {
        /// What is counted.
        what: String,
        /// How many there are.
        found: usize,
        /// How many there should be.
        wanted: usize,
    },
    /// No path.
    #[error("no path leads from {gpu} to any adapter: GPUDirect and staging both need one")]
    #[diagnostic(help("correct its row, or remove the GPU"))]
    NoWay {
        /// The GPU.
        gpu: String,
    },
    /// Several hosts in one file.
    #[error("the file describes several hosts (`host_hash`)")]
    #[diagnostic(help("give one file for each: set NCCL_MNNVL_ENABLE=0 when writing it"))]
    SeveralHosts,
    /// Too much of something.
    #[error("more than {most} {what}")]
    #[diagnostic(help("no node has so many: is this the right file?"))]
    TooMany {
        /// Of what.
        what: &'static str,
        /// How many are accepted.
        most: usize,
    },
}

impl Mistake {
    pub(super) fn at(self, line: u32) -> ImportError {
        ImportError::Line { line, mistake: self }
    }
}
