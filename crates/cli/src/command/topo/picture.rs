//! The fabric as a file: drawn, or for other tools.

use fabriscope_units::Remedy;
use std::path::Path;

use fabriscope_fabric::export;
use fabriscope_fabric::picture::{Picture, svg};

use super::examine::Examined;
use super::source::Source;
use crate::error::Failure;
use crate::output::write_file;

/// What a file holds, by its extension.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    Svg,
    Dot,
    Graphml,
}

impl Format {
    /// The picture that the name of a file asks for; none where it asks for the result.
    pub fn of(path: &Path) -> Result<Option<Format>, Failure> {
        match path.extension().and_then(|extension| extension.to_str()) {
            Some("svg") => Ok(Some(Format::Svg)),
            Some("dot" | "gv") => Ok(Some(Format::Dot)),
            Some("graphml") => Ok(Some(Format::Graphml)),
            Some("json" | "csv" | "txt") => Ok(None),
            _ => {
                let message = format!("{}: the name does not say which kind of picture", path.display());
                Err(Failure::told(message, "end it in .svg, .dot or .graphml; or, for the result, in .json, .csv or .txt"))
            }
        }
    }
}

/// Draws.
pub fn write(path: &Path, format: Format, source: &Source, examined: &Examined) -> Result<(), Failure> {
    let text = match format {
        Format::Svg => drawn(source, examined)?,
        Format::Dot | Format::Graphml => {
            let (subnet, links) = source.subnet();
            let loads = &examined.pressure.links;
            // The busier direction of each cable.
            let load = |link: fabriscope_fabric::LinkId| loads[link.index()].max(loads[link.reverse().index()]);
            let loads: Vec<Option<f64>> = links.into_iter().map(|link| link.map(load)).collect();
            if format == Format::Dot { export::dot_with_loads(&subnet, &loads) } else { export::graphml_with_loads(&subnet, &loads) }
        }
    };
    write_file(path, &text)
}

fn drawn(source: &Source, examined: &Examined) -> Result<String, Failure> {
    let mut caption = vec![source.fabric.to_string()];
    let worst = examined.pressure.worst();
    caption.push(format!("{} traffic, routing {}: the busiest link has a load of {worst:.2}", examined.pattern, examined.routing));
    let title = Path::new(&source.name).file_name().map_or_else(|| source.name.clone(), |name| name.to_string_lossy().into_owned());
    let picture = Picture { title: &title, caption: &caption, loads: Some(&examined.pressure.links) };
    svg(&source.fabric, &picture).map_err(|error| {
        let (message, help) = error.halves("write .dot or .graphml");
        Failure::told(format!("{}: {message}", source.name), help)
    })
}
