//! The page itself: one file of HTML with the choices of a catalogue, one of rules, one of script; no build step, nothing from elsewhere.

use std::fmt::Write;

use fabriscope_catalog::{Catalog, CatalogError, Kind};
use fabriscope_report::figure::draw::escaped;
use fabriscope_report::render::html;
use fabriscope_tools::{Suite, Tool};

use crate::change::CHANGES;
use crate::question::PATTERNS;

/// The script.
pub const SCRIPT: &str = include_str!("page/page.js");

/// The page with the clusters, tools and parts of a catalogue.
///
/// # Errors
/// A cluster of the catalogue cannot be read.
pub fn index(catalog: &Catalog) -> Result<String, CatalogError> {
    let page = include_str!("page/index.html");
    Ok(page
        .replace("{{version}}", env!("CARGO_PKG_VERSION"))
        .replace("{{clusters}}", &clusters(catalog)?)
        .replace("{{tools}}", &tools())
        .replace("{{changes}}", &changes(catalog))
        .replace("{{patterns}}", &PATTERNS.iter().map(|pattern| option(pattern.name, pattern.title)).collect::<String>()))
}

/// The rules of pages and pictures, and those of the form.
#[must_use]
pub fn style() -> String {
    format!("{}\n{}", html::style(), include_str!("page/page.css"))
}

fn option(value: &str, words: &str) -> String {
    format!("<option value=\"{}\">{}</option>\n", escaped(value), escaped(words))
}

/// The clusters; of unlike nodes, each group besides.
fn clusters(catalog: &Catalog) -> Result<String, CatalogError> {
    let mut options = String::new();
    for name in catalog.names(Kind::Cluster) {
        let cluster = catalog.cluster(name)?;
        options += &option(name, &format!("{name}: {}", cluster.title));
        for group in &cluster.group {
            options += &option(&format!("{name}:{}", group.name), &format!("{name}:{}", group.name));
        }
    }
    Ok(options)
}

fn tools() -> String {
    let mut groups: Vec<(&str, String)> = Vec::new();
    // Nobody reads files of the server by asking.
    for tool in Tool::all().filter(|tool| !tool.reads_files()) {
        let suite = match tool.traits().suite {
            Suite::Perftest => "perftest",
            Suite::Omb => "OSU Micro-Benchmarks (MPI)",
            Suite::OmbShmem => "OSU Micro-Benchmarks (OpenSHMEM)",
            Suite::OmbXccl => "OSU Micro-Benchmarks (NCCL)",
            Suite::Imb => "Intel MPI Benchmarks",
            Suite::NcclTests => "nccl-tests",
            Suite::Sockets => "sockets",
            Suite::Gpu => "GPUs of a node",
            Suite::Experts => "experts of a model",
            Suite::Hccl => "HCL",
            Suite::Wafer => "wafers",
            Suite::Memory => "memories of a node",
            Suite::Dpu => "engines of DPUs",
            Suite::Single => "others",
        };
        let words = option(tool.name(), &format!("{}: {}", tool.name(), tool.about()));
        match groups.iter_mut().find(|group| group.0 == suite) {
            Some(group) => group.1 += &words,
            None => groups.push((suite, words)),
        }
    }
    groups.iter().fold(String::new(), |mut all, (suite, options)| {
        // Writing to a string cannot fail.
        let _ = writeln!(all, "<optgroup label=\"{suite}\">\n{options}</optgroup>");
        all
    })
}

/// A choice for each part that can be changed.
fn changes(catalog: &Catalog) -> String {
    let mut fields = String::new();
    for change in CHANGES {
        let name = change.name;
        let choices: String = change.choices(catalog).into_iter().map(|word| option(word, word)).collect();
        let _ = writeln!(
            fields,
            "<div>\n<label for=\"{name}\">{}</label>\n<select id=\"{name}\" name=\"{name}\">\n<option value=\"\">as it is</option>\n{choices}</select>\n</div>",
            change.title
        );
    }
    fields
}
