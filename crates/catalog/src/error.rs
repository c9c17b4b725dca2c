//! What can be wrong with a file, and how it is told: file, line, column, what to do.

use std::fmt;
use std::path::PathBuf;

use miette::{Diagnostic, LabeledSpan, NamedSource, SourceCode, SourceSpan};

use crate::part::Kind;

/// A contradiction inside a part, at a path of keys; the loader turns the path into a line and column.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// The keys that lead to the offending value.
    pub path: Vec<String>,
    /// What is wrong, with the values.
    pub message: String,
    /// What to do.
    pub help: String,
}

impl Problem {
    /// A problem with the value that `path` leads to.
    pub fn at(path: &[&str], message: impl Into<String>, help: impl Into<String>) -> Problem {
        Problem { path: path.iter().map(|&key| key.to_owned()).collect(), message: message.into(), help: help.into() }
    }
    /// The same problem of a table that lies under `prefix`.
    #[must_use]
    pub fn under(mut self, prefix: &str) -> Problem {
        self.path.insert(0, prefix.to_owned());
        self
    }
}

/// Something wrong at a place in a file.
#[derive(Clone, Debug)]
pub struct Fault {
    /// The file, as it was named.
    pub file: String,
    /// The line, counted from 1.
    pub line: usize,
    /// The column in characters, counted from 1.
    pub column: usize,
    /// What is wrong, with the values.
    pub message: String,
    /// What to do; may be empty.
    pub help: String,
    span: SourceSpan,
    text: NamedSource<String>,
}

impl Fault {
    /// A fault at the bytes `span` of `text`, which is what `file` holds.
    pub(crate) fn new(file: &str, text: &str, span: std::ops::Range<usize>, message: String, help: String) -> Box<Fault> {
        let mut start = span.start.min(text.len());
        while !text.is_char_boundary(start) {
            start -= 1;
        }
        let mut end = span.end.clamp(start, text.len());
        while !text.is_char_boundary(end) {
            end += 1;
        }
        // A table's span covers all its lines; the first one is enough to point at.
        end = text[start..end].find('\n').map_or(end, |newline| start + newline);
        let before = &text[..start];
        Box::new(Fault {
            file: file.to_owned(),
            line: before.matches('\n').count() + 1,
            column: before.chars().rev().take_while(|&c| c != '\n').count() + 1,
            message,
            help,
            span: (start, end - start).into(),
            text: NamedSource::new(file, text.to_owned()).with_language("toml"),
        })
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}:{}: {}", self.file, self.line, self.column, self.message)
    }
}

impl std::error::Error for Fault {}

impl Diagnostic for Fault {
    fn code<'a>(&'a self) -> Option<Box<dyn fmt::Display + 'a>> {
        Some(Box::new("catalog::fault"))
    }
    fn help<'a>(&'a self) -> Option<Box<dyn fmt::Display + 'a>> {
        if self.help.is_empty() { None } else { Some(Box::new(&self.help)) }
    }
    fn source_code(&self) -> Option<&dyn SourceCode> {
        Some(&self.text)
    }
    fn labels(&self) -> Option<Box<dyn Iterator<Item = LabeledSpan> + '_>> {
        Some(Box::new(std::iter::once(LabeledSpan::new_primary_with_span(Some("here".to_owned()), self.span))))
    }
}

/// Why a part, a cluster or a lab could not be had.
#[derive(Clone, Debug, thiserror::Error, Diagnostic)]
#[non_exhaustive]
pub enum CatalogError {
    /// Something is wrong at a place in a file.
    #[error(transparent)]
    #[diagnostic(transparent)]
    Fault(Box<Fault>),
    /// A file cannot be read.
    #[error("{}: {reason}", path.display())]
    #[diagnostic(code(catalog::unreadable), help("check that the file exists and that you may read it"))]
    Unreadable {
        /// The file or folder.
        path: PathBuf,
        /// What the operating system says.
        reason: String,
    },
    /// A file is not text.
    #[error("{}: byte {offset} is not UTF-8 text", path.display())]
    #[diagnostic(code(catalog::not_text), help("parts, clusters and labs are TOML files; save this one as UTF-8, or name another"))]
    NotText {
        /// The file.
        path: PathBuf,
        /// The first byte that does not belong.
        offset: usize,
    },
    /// A file is far larger than any part.
    #[error("{}: {size} bytes are more than the {limit} that a TOML file here may have", path.display())]
    #[diagnostic(code(catalog::too_large), help("is this the right file? The largest part has a few kilobytes"))]
    TooLarge {
        /// The file.
        path: PathBuf,
        /// Its size in bytes.
        size: u64,
        /// The largest size that is read, in bytes.
        limit: u64,
    },
    /// A folder of the catalogue that names no kind.
    #[error("{}: `{folder}` is no kind of part", path.display())]
    #[diagnostic(
        code(catalog::unknown_folder),
        help("the folders of parts are {}; flow-sizes beside them", Kind::ALL.map(Kind::folder).join(", "))
    )]
    UnknownFolder {
        /// The folder.
        path: PathBuf,
        /// Its name.
        folder: String,
    },
    /// No part of that name.
    #[error("there is no {kind} called `{name}`")]
    #[diagnostic(code(catalog::unknown_part), help("{help}"))]
    UnknownPart {
        /// The kind of part.
        kind: Kind,
        /// The name as given.
        name: String,
        /// The nearest names, or all.
        help: String,
    },
    /// No part of that name, of any kind.
    #[error("there is no part called `{name}`")]
    #[diagnostic(code(catalog::unknown_name), help("{help}"))]
    UnknownName {
        /// The name as given.
        name: String,
        /// The nearest names.
        help: String,
    },
    /// Parts that rest on each other in a cycle.
    #[error("the {kind} `{}` rests on itself: {}", chain[0], chain.join(" -> "))]
    #[diagnostic(code(catalog::base_cycle), help("remove one `base` of the cycle"))]
    BaseCycle {
        /// The kind of part.
        kind: Kind,
        /// The names, the first one repeated at the end.
        chain: Vec<String>,
    },
    /// Labs that include each other in a cycle.
    #[error("the file `{}` includes itself: {}", chain[0], chain.join(" -> "))]
    #[diagnostic(code(catalog::include_cycle), help("remove one `include` of the cycle"))]
    IncludeCycle {
        /// The files, the first one repeated at the end.
        chain: Vec<String>,
    },
    /// A target that is not `name`, `file.toml` or either with `:nodes`.
    #[error("`{text}` is not a cluster: {reason}")]
    #[diagnostic(
        code(catalog::bad_target),
        help("write a name or a file, with the number of nodes if you like: `ri2`, `ri2:4`, `my/cluster.toml:2`")
    )]
    BadTarget {
        /// The text as given.
        text: String,
        /// What is wrong with it.
        reason: String,
    },
    /// The number of nodes asked for on the command line does not fit the cluster.
    #[error("{cluster}: {message}")]
    #[diagnostic(code(catalog::impossible), help("{help}"))]
    Impossible {
        /// The cluster.
        cluster: String,
        /// What is wrong, with the values.
        message: String,
        /// What to do.
        help: String,
    },
}

impl From<Box<Fault>> for CatalogError {
    fn from(fault: Box<Fault>) -> CatalogError {
        CatalogError::Fault(fault)
    }
}
