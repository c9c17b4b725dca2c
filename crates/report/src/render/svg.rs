//! The pictures of an outcome, below each other, as SVG.

use super::{RenderError, Renderer};
use crate::figure::draw;
use crate::outcome::Outcome;

/// Pictures that scale.
#[derive(Debug, Clone, Copy)]
pub struct Svg;

impl Renderer for Svg {
    fn extension(&self) -> &'static str {
        "svg"
    }
    fn render(&self, outcome: &Outcome) -> Result<String, RenderError> {
        if outcome.figures().is_empty() {
            return Err(RenderError::NoFigure);
        }
        Ok(draw::svg(outcome.figures()))
    }
}
