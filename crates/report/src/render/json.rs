//! For programs: the entries of an outcome by name, its tables as lists of rows.

use super::{RenderError, Renderer};
use crate::outcome::Outcome;

/// JSON with a line end.
#[derive(Debug, Clone, Copy)]
pub struct Json;

impl Renderer for Json {
    fn extension(&self) -> &'static str {
        "json"
    }
    fn render(&self, outcome: &Outcome) -> Result<String, RenderError> {
        Ok(format!("{:#}\n", outcome.data()))
    }
}
