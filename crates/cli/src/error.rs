//! What ends a command early, and how it is told.

use std::io::{self, Write};

use fabriscope_lab::LabError;
pub use fabriscope_report::Verdict;
use miette::{Diagnostic, Report};

/// Why a command did not finish.
#[derive(Debug)]
pub enum Failure {
    /// Broken pipe: the reader of the output closed it before the end.
    ReaderGone,
    /// Something to tell the user.
    Report(Report),
}

/// The exit status of a command that finished.
pub const fn exit_status(verdict: Verdict) -> u8 {
    match verdict {
        Verdict::Good => 0,
        Verdict::Bad => 1,
    }
}

impl From<Report> for Failure {
    fn from(report: Report) -> Failure {
        Failure::Report(report)
    }
}

impl From<LabError> for Failure {
    fn from(error: LabError) -> Failure {
        Failure::of(error)
    }
}

impl Failure {
    /// What to print.
    pub fn into_report(self) -> Report {
        match self {
            Failure::Report(report) => report,
            Failure::ReaderGone => Report::new(Refusal {
                message: "the output was closed before all of it was written".to_owned(),
                help: "to keep a part of it, write it to a file first and cut that".to_owned(),
            }),
        }
    }
    /// A failure of a library, with its own help.
    pub fn of(error: impl Diagnostic + Send + Sync + 'static) -> Failure {
        Failure::Report(Report::new(error))
    }
    /// A failure told in words, with a remedy.
    pub fn told(message: impl Into<String>, help: impl Into<String>) -> Failure {
        Failure::of(Refusal { message: message.into(), help: help.into() })
    }
}

/// An error that only the command line can make.
#[derive(Debug, thiserror::Error, Diagnostic)]
#[error("{message}")]
struct Refusal {
    message: String,
    #[help]
    help: String,
}

/// Prints a report to standard error; where that is closed there is nobody to tell.
pub fn print(report: &Report) {
    let mut text = String::new();
    let handler = handler();
    let told = handler.render_report(&mut text, report.as_ref());
    let text = if told.is_ok() { text } else { format!("error: {report}\n") };
    drop(io::stderr().lock().write_all(text.as_bytes()));
}

fn handler() -> miette::GraphicalReportHandler {
    use miette::{GraphicalReportHandler, GraphicalTheme};
    let theme = match (crate::arguments::Color::stderr(), crate::progress::stderr_is_terminal()) {
        (true, _) => GraphicalTheme::unicode(),
        (false, true) => GraphicalTheme::unicode_nocolor(),
        (false, false) => GraphicalTheme::none(),
    };
    // A log keeps each message on one line, so that it can be searched.
    let width = if crate::progress::stderr_is_terminal() { 120 } else { 4000 };
    GraphicalReportHandler::new_themed(theme).with_width(width).with_links(false)
}
