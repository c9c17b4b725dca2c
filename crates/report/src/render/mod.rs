//! Formats of an outcome: one file each, and one line in [`FORMATS`].

mod csv;
pub mod html;
mod json;
pub mod png;
pub mod records;
mod svg;
mod text;
mod toml;

use std::path::Path;

use crate::outcome::Outcome;

pub use csv::Csv;
pub use html::Html;
pub use json::Json;
pub use png::Png;
pub use svg::Svg;
pub use text::Text;
pub use toml::Toml;

/// A format of outcomes.
pub trait Renderer: Sync {
    /// What file names of the format end in.
    fn extension(&self) -> &'static str;
    /// The outcome in this format.
    ///
    /// # Errors
    /// An outcome that has nothing to show in this format.
    fn render(&self, outcome: &Outcome) -> Result<String, RenderError>;
    /// The bytes of a file in this format.
    ///
    /// # Errors
    /// As [`Renderer::render`].
    fn bytes(&self, outcome: &Outcome) -> Result<Vec<u8>, RenderError> {
        self.render(outcome).map(String::into_bytes)
    }
    /// Whether it shows the figures of an outcome.
    fn draws(&self) -> bool {
        matches!(self.extension(), "svg" | "png" | "html")
    }
}

/// Every format that a file name can ask for.
pub const FORMATS: [&dyn Renderer; 7] = [&Text, &Json, &Csv, &Svg, &Png, &Html, &Toml];

/// Why an outcome cannot be shown in a format.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error, miette::Diagnostic)]
#[non_exhaustive]
pub enum RenderError {
    /// Nothing to draw.
    #[error("there is nothing to draw here")]
    #[diagnostic(help(
        "benchmarks, validations, explanations, loops and flows have pictures; name a file .txt, .json, .csv or .html for other results"
    ))]
    NoFigure,
    /// An image of points has no text.
    #[error("a PNG is not text")]
    #[diagnostic(help("write it to a file: -o FILE.png"))]
    NotText,
    /// Nothing to go on from.
    #[error("there is no TOML file to begin with here")]
    #[diagnostic(help("`fabriscope import` of a fabric or a node writes one; name a file .txt, .json or .csv for results"))]
    NoDraft,
    /// No table.
    #[error("there is no table here to write as CSV")]
    #[diagnostic(help("write text or JSON: a file .txt or .json"))]
    NoTable,
    /// The picture cannot be drawn.
    #[error("the pictures cannot be drawn: {reason}")]
    #[diagnostic(help("write a table or --json"))]
    Undrawn {
        /// What the drawing library says.
        reason: String,
    },
}

/// The format that a file's name asks for; text where its ending names none.
#[must_use]
pub fn for_file(path: &Path) -> &'static dyn Renderer {
    let extension = path.extension().and_then(|extension| extension.to_str()).unwrap_or_default();
    FORMATS.into_iter().find(|format| format.extension() == extension).unwrap_or(&Text)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::grid::{Cell, Column, Grid};

    fn outcome() -> Outcome {
        let mut points = Grid::new([Column::number("load", "load"), Column::words("who, what", "who")]);
        points.push([Cell::number(0.5, 3), Cell::word("a, b")]);
        let mut outcome = Outcome::new();
        outcome.note("title").set("seed", 1).text("\n").keyed_table("points", points).note("next: more");
        outcome
    }

    #[test]
    fn every_format_shows_the_same_outcome() {
        assert_eq!(Text.render(&outcome()).unwrap(), "# title\n\nload   who, what\n0.500  a, b\n# next: more\n");
        assert_eq!(
            Json.render(&outcome()).unwrap(),
            "{\n  \"seed\": 1,\n  \"points\": [\n    {\n      \"load\": 0.5,\n      \"who\": \"a, b\"\n    }\n  ]\n}\n"
        );
        assert_eq!(Csv.render(&outcome()).unwrap(), "load,who\n0.5,\"a, b\"\n");
        assert_eq!(Svg.render(&outcome()), Err(RenderError::NoFigure));
        assert_eq!(Toml.render(&outcome()), Err(RenderError::NoDraft));
        assert_eq!(Toml.render(outcome().begin("name = \"a\"\n")).unwrap(), "name = \"a\"\n");
    }

    #[test]
    fn a_file_is_of_the_format_of_its_name() {
        for (name, extension) in [
            ("a.json", "json"),
            ("a.csv", "csv"),
            ("a.svg", "svg"),
            ("b.png", "png"),
            ("b.html", "html"),
            ("a.toml", "toml"),
            ("a.txt", "txt"),
            ("a", "txt"),
            ("a.md", "txt"),
        ] {
            assert_eq!(for_file(Path::new(name)).extension(), extension);
        }
    }
}
