//! Nodes for the commands: parts of the catalogue, the nodes of clusters, and files that other tools wrote.

pub mod path;
pub mod text;

use fabriscope_units::Remedy;
use miette::Diagnostic;
use std::path::Path;

use fabriscope_catalog::{AnyPart, Kind, LinkSpeed, Node};
use fabriscope_machine::Machine;
use fabriscope_machine::import::{self, NodeFile, Rates};
use fabriscope_units::Rate;

use crate::command::import::text_of;
use crate::context::Context;
use crate::error::Failure;

/// A node and where it comes from.
pub struct Source {
    /// What it is, in one line.
    pub title: String,
    pub machine: Machine,
    /// Rate of an adapter's port, where the machine does not say it.
    pub port: Option<Rate>,
}

impl Source {
    /// The node that a person means: a file about one, a part, the node of a cluster.
    pub fn of(name: &str, context: &Context) -> Result<Source, Failure> {
        let path = Path::new(name);
        if path.is_file() && !fabriscope_catalog::is_cluster_file(path) {
            let text = text_of(path)?;
            let file = parse(path, &text, &rates(context)?)?;
            return Ok(Source {
                title: format!("{}: {} of {}", path.display(), file.format, file.host),
                machine: file.machine,
                port: None,
            });
        }
        let catalog = context.catalog()?;
        if let Ok(AnyPart::Node(part)) = catalog.part(Kind::Node, name) {
            return Source::of_part(&part.name, &part.title, context);
        }
        // What is neither is told as a cluster that does not exist.
        let cluster = context.alike(name)?;
        let machine = cluster.sole().node.machine().map_err(|error| wrong(name, &error))?;
        let port = Some(cluster.sole().link.data_rate());
        Ok(Source { title: format!("a node of {}: {}", cluster.name, cluster.title), machine, port })
    }
    /// A node of the catalogue.
    pub fn of_part(name: &str, title: &str, context: &Context) -> Result<Source, Failure> {
        let node = Node { part: Some(name.to_owned()), ..Node::default() };
        let catalog = context.catalog()?;
        let node = catalog.resolve_node(&node).map_err(Failure::of)?;
        let port = node.nic.speeds.iter().filter_map(|speed| catalog.link(speed).ok()).map(LinkSpeed::data_rate).max();
        let machine = node.machine().map_err(|error| wrong(name, &error))?;
        Ok(Source { title: format!("{name}: {title}"), machine, port })
    }
}

/// What files about nodes leave out.
pub fn rates(context: &Context) -> Result<Rates, Failure> {
    context.catalog()?.node_file_rates(RATES).map_err(Failure::of)
}

/// The node in a text that was read from `path`.
pub fn parse(path: &Path, text: &str, rates: &Rates) -> Result<NodeFile, Failure> {
    let mut file = import::read(text, rates).map_err(|error| wrong(&path.display().to_string(), &error))?;
    if file.host.is_empty() {
        // gpu01.nccl.xml is of gpu01.
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        file.host = name.split('.').next().unwrap_or_default().to_owned();
    }
    Ok(file)
}

/// What is wrong with a node, and what to do.
pub fn wrong(name: &str, error: &dyn Diagnostic) -> Failure {
    let (message, help) = error.halves("see `fabriscope import --help`");
    Failure::told(format!("{name}: {message}"), help)
}

/// The part of the catalogue with what files leave out.
const RATES: &str = "nccl";
