//! The files behind `[topology.imported]`: found beside the text that names them, read once when a cluster is resolved.
//!
//! Which hosts in them become nodes is in `hosts`.

mod hosts;

use std::fs::File;
use std::io::{BufReader, Read};
use std::path::Path;

use fabriscope_fabric::topology::Imported;
use fabriscope_fabric::{Topology, import};
use fabriscope_units::Remedy;

use crate::cluster::Cluster;
use crate::document::Document;
use crate::error::Problem;
use crate::group::Written;

/// Notes the folder of the text in which `[topology.imported]` stands; `prefix` leads to the cluster.
pub(crate) fn locate(document: &Document<'_>, prefix: &[&str], cluster: &mut Cluster) {
    if let Topology::Imported(imported) = &mut cluster.topology {
        let path: Vec<&str> = prefix.iter().chain(&["topology", "imported", "file"]).copied().collect();
        imported.set_folder(Path::new(document.file_of(&path)).parent().unwrap_or(Path::new("")).to_owned());
    }
}

/// The nodes of a group: how many, and the hosts that they are, where a file says which there are.
#[derive(Clone, Debug, Default)]
pub(crate) struct Chosen {
    pub nodes: u32,
    pub hosts: Vec<String>,
}

/// Reads the files, and finds the hosts that are the nodes of each group; `nics` are the adapters of a node of each. On other
/// topologies nodes are as many as the cluster says.
pub(crate) fn load(topology: &mut Topology, groups: &[Written<'_>], nics: &[u32]) -> Result<Vec<Chosen>, Problem> {
    let Topology::Imported(imported) = topology else {
        return Ok(groups.iter().map(|group| Chosen { nodes: group.nodes.unwrap_or(0), hosts: Vec::new() }).collect());
    };
    if !imported.is_loaded() {
        fabric(imported)?;
    }
    let (chosen, first) = hosts::choose(imported, groups, nics)?;
    imported.set_first(first);
    imported.set_in_use(chosen.iter().zip(nics).fold(0, |sum, (group, nics)| sum + group.nodes.saturating_mul(*nics)));
    tables(imported)?;
    Ok(chosen)
}

fn fabric(imported: &mut Imported) -> Result<(), Problem> {
    let path = imported.path();
    let told = |message: &str, help: &str| problem("file", &path, (message.to_owned(), help.to_owned()));
    let mut bytes = Vec::new();
    let read = open(&path).and_then(|file| file.take(LARGEST + 1).read_to_end(&mut bytes).map_err(|error| error.to_string()));
    read.map_err(|error| told(&error, "name a fabric as seen from the file that says so"))?;
    if bytes.len() as u64 > LARGEST {
        return Err(told(&format!("it has more than {LARGEST} bytes"), "is it the right file?"));
    }
    let subnet =
        import::text(&bytes).and_then(|text| import::read(&text)).map_err(|error| problem("file", &path, error.halves(OTHERWISE)))?;
    imported.load(subnet).map_err(|error| {
        let (message, help) = error.halves("");
        Problem::at(&["topology", "imported", "uplinks"], message, help)
    })
}

fn tables(imported: &mut Imported) -> Result<(), Problem> {
    let (Some(path), Some(subnet)) = (imported.tables_path(), imported.subnet()) else { return Ok(()) };
    let told = |message: &str, help: &str| problem("tables", &path, (message.to_owned(), help.to_owned()));
    let file = open(&path).map_err(|error| told(&error, "name the tables as seen from the file that says so"))?;
    let lines = import::plain(BufReader::new(file)).map_err(|error| told(&error.to_string(), "name a file that can be read"))?;
    let (tables, _) = import::read_lfts(subnet, lines).map_err(|error| problem("tables", &path, error.halves(OTHERWISE)))?;
    imported.load_tables(tables);
    Ok(())
}

fn open(path: &Path) -> Result<File, String> {
    match std::fs::metadata(path) {
        Ok(metadata) if metadata.is_dir() => Err("is a folder, not a file".to_owned()),
        Ok(_) => File::open(path).map_err(|error| error.to_string()),
        Err(error) => Err(error.to_string()),
    }
}

/// What is wrong with a file, and what to do.
fn problem(key: &str, path: &Path, (message, help): (String, String)) -> Problem {
    Problem::at(&["topology", "imported", key], format!("{}: {message}", path.display()), help)
}

/// What to do where a reader does not say.
const OTHERWISE: &str = "see `fabriscope import FILE`";

/// The largest fabric that is read, in bytes: a hundred times the largest known.
const LARGEST: u64 = 1 << 29;
