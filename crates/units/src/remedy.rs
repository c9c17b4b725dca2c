//! The two halves of an error: `Display` says what is wrong, [`miette::Diagnostic::help`] what to do about it.
//!
//! An enum of errors keeps both side by side: `#[error("… is taken")]` and below it `#[diagnostic(help("choose another"))]`. Where one
//! line is all that there is room for, [`Remedy::in_full`] joins them.

use miette::Diagnostic;

/// What every error with a remedy can be asked for.
pub trait Remedy: Diagnostic {
    /// What to do about it, if the error says so.
    fn remedy(&self) -> Option<String> {
        self.help().map(|help| help.to_string())
    }
    /// What is wrong, and what to do about it: `otherwise` if the error does not say.
    fn halves(&self, otherwise: &str) -> (String, String) {
        (self.to_string(), self.remedy().unwrap_or_else(|| otherwise.to_owned()))
    }
    /// What is wrong and what to do, on one line: `what is wrong; what to do`.
    fn in_full(&self) -> String {
        match self.help() {
            Some(help) => format!("{self}; {help}"),
            None => self.to_string(),
        }
    }
}

impl<E: Diagnostic + ?Sized> Remedy for E {}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Rate, UnitError};

    #[test]
    fn an_error_tells_its_halves_apart_and_together() {
        let error = Rate::parse("400").unwrap_err();
        assert_eq!(error.to_string(), "`400` has no unit");
        assert_eq!(error.remedy().as_deref(), Some("write a rate with its unit, for example \"400 Gb/s\""));
        assert_eq!(error.in_full(), "`400` has no unit; write a rate with its unit, for example \"400 Gb/s\"");
        let large = UnitError::TooLarge { text: "9 Tb/s".to_owned(), what: "a rate" };
        assert_eq!((large.remedy(), large.in_full()), (None, large.to_string()));
    }
}
