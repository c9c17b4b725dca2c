//! Why a question has no answer.

use miette::Diagnostic;
use serde::{Deserialize, Serialize};

/// Why a question has no answer, with the remedy.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[error("{message}")]
pub struct Refused {
    /// What is wrong, with its values.
    pub message: String,
    /// What to do.
    pub help: String,
}

impl Refused {
    /// In words of its own.
    pub fn told(message: impl Into<String>, help: impl Into<String>) -> Refused {
        Refused { message: message.into(), help: help.into() }
    }
    /// The same as an error of the library.
    #[must_use]
    pub fn of(error: &dyn Diagnostic) -> Refused {
        let help = error.help().map_or_else(String::new, |help| help.to_string());
        Refused { message: error.to_string(), help }
    }
}
