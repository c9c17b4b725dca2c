//! What is wrong with a run of HPL.

use miette::Diagnostic;

/// Why HPL does not run.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error, Diagnostic)]
#[non_exhaustive]
pub enum HplError {
    /// No system, or one too large.
    #[error("a system of {unknowns} unknowns")]
    #[diagnostic(code(hpl::unknowns), help("give -N from 1 to {most}"))]
    Unknowns {
        /// Unknowns.
        unknowns: u64,
        /// How many may be.
        most: u64,
    },
    /// Panels that are wider than the matrix, or have no columns.
    #[error("panels of {block} columns in a system of {unknowns} unknowns")]
    #[diagnostic(code(hpl::block), help("give -NB from 1 to {unknowns}"))]
    Block {
        /// Columns of a panel.
        block: u32,
        /// Unknowns.
        unknowns: u64,
    },
    /// Too many panels.
    #[error("{unknowns} unknowns in panels of {block} columns are too many steps")]
    #[diagnostic(code(hpl::steps), help("give -NB {needed} or more"))]
    Steps {
        /// Unknowns.
        unknowns: u64,
        /// Columns of a panel.
        block: u32,
        /// What would do.
        needed: u64,
    },
    /// A grid without processes.
    #[error("a grid of {rows} x {columns} processes")]
    #[diagnostic(code(hpl::grid), help("give -P and -Q of at least 1"))]
    Grid {
        /// Rows.
        rows: u32,
        /// Columns.
        columns: u32,
    },
    /// A grid that does not fit the machine.
    #[error("a grid of {rows} x {columns} processes on a machine of {processes}")]
    #[diagnostic(code(hpl::processes), help("give -P and -Q whose product is {processes} or less, or more --nodes"))]
    Processes {
        /// Rows.
        rows: u32,
        /// Columns.
        columns: u32,
        /// How many there are.
        processes: u64,
    },
    /// An option that the program does not have.
    #[error("there is no option `{option}`")]
    #[diagnostic(code(hpl::option), help("`fabriscope bench hpl --help` lists the options"))]
    Option {
        /// What was written.
        option: String,
    },
    /// A value that is no number, or out of range.
    #[error("`{value}` is no value for {option}")]
    #[diagnostic(code(hpl::value), help("{remedy}"))]
    Value {
        /// The option.
        option: &'static str,
        /// What was written.
        value: String,
        /// What it takes.
        remedy: &'static str,
    },
}
