//! What can be wrong with a command line; every message says what to type instead.

/// Why a tool cannot run with the given arguments.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error, miette::Diagnostic)]
#[non_exhaustive]
pub enum UsageError {
    /// No such tool.
    #[error("there is no tool `{name}`")]
    #[diagnostic(help("the nearest is `{nearest}`"))]
    UnknownTool {
        /// The name as given.
        name: String,
        /// The tool whose name is most like it.
        nearest: &'static str,
    },
    /// An option the tool does not have.
    #[error("{tool} has no option {option}")]
    #[diagnostic(help("the nearest is {nearest}"))]
    Unknown {
        /// The tool.
        tool: String,
        /// The option as typed.
        option: String,
        /// The option whose name is most like it.
        nearest: String,
    },
    /// The beginning of several long names.
    #[error("{option} is short for several options: {candidates}")]
    #[diagnostic(help("write one of them out"))]
    Ambiguous {
        /// The option as typed.
        option: String,
        /// What it may stand for.
        candidates: String,
    },
    /// An option at the end of the line that needs a value.
    #[error("{option} needs a value: {option} <{what}>")]
    MissingValue {
        /// The option as typed.
        option: String,
        /// What the value is.
        what: &'static str,
    },
    /// A switch with a value.
    #[error("{option} takes no value, but `{value}` was given")]
    #[diagnostic(help("leave `={value}` out"))]
    UnwantedValue {
        /// The option as typed.
        option: String,
        /// The value as typed.
        value: String,
    },
    /// The value is not a whole number.
    #[error("{option} takes a whole number, not `{value}`")]
    NotANumber {
        /// The option as typed.
        option: String,
        /// The value as typed.
        value: String,
    },
    /// The value is not a size.
    #[error("{option} takes a size, not `{value}`")]
    #[diagnostic(help("write bytes as 65536, 64K (K, M, G: powers of 1024), 64KiB or 64kB"))]
    NotASize {
        /// The option as typed.
        option: String,
        /// The value as typed.
        value: String,
    },
    /// The number is too small or too large.
    #[error("{option} {value} is out of range")]
    #[diagnostic(help("give {low} to {high}"))]
    OutOfRange {
        /// The option as typed.
        option: String,
        /// The number.
        value: u64,
        /// The smallest that is accepted.
        low: u64,
        /// The largest that is accepted.
        high: u64,
    },
    /// The value is not one of a list.
    #[error("{option} takes one of {known}, not `{value}`")]
    NotOneOf {
        /// The option as typed.
        option: String,
        /// The value as typed.
        value: String,
        /// The values that are accepted.
        known: &'static str,
    },
    /// An option of the real tool that would change nothing in a simulation, or that is not modelled.
    #[error("{option} has no meaning here: {reason}")]
    NoMeaning {
        /// The option as typed.
        option: String,
        /// Why, and what to do instead.
        reason: &'static str,
    },
    /// Options that exclude each other, or an option that this tool of the family does not have.
    #[error("{what}")]
    #[diagnostic(help("{remedy}"))]
    Conflict {
        /// What does not fit.
        what: String,
        /// What to type instead.
        remedy: String,
    },
    /// Words that are neither options nor a server's name.
    #[error("`{operand}` is not an option of {tool}")]
    #[diagnostic(help("the simulated cluster provides both ends, so leave it out"))]
    Operand {
        /// The tool.
        tool: String,
        /// The word as given.
        operand: String,
    },
    /// Not an error: the help page or the version was asked for.
    #[error("{text}")]
    Help {
        /// What to print.
        text: String,
    },
}
