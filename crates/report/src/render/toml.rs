//! For the next step: the TOML file that a person goes on from, such as a cluster of an imported fabric.

use super::{RenderError, Renderer};
use crate::outcome::Outcome;

/// A TOML file to begin with.
#[derive(Debug, Clone, Copy)]
pub struct Toml;

impl Renderer for Toml {
    fn extension(&self) -> &'static str {
        "toml"
    }
    fn render(&self, outcome: &Outcome) -> Result<String, RenderError> {
        outcome.draft().map(str::to_owned).ok_or(RenderError::NoDraft)
    }
}
