//! Nodes for the commands: out of files that other tools wrote.

pub mod text;

use std::path::Path;

use fabriscope_machine::import::{self, NodeFile, Rates};

use crate::context::Context;
use crate::error::Failure;

/// What files about nodes leave out.
pub fn rates(context: &Context) -> Result<Rates, Failure> {
    context.catalog()?.node_file_rates(RATES).map_err(Failure::of)
}

/// The node in a text that was read from `path`.
pub fn parse(path: &Path, text: &str, rates: &Rates) -> Result<NodeFile, Failure> {
    let mut file = import::read(text, rates).map_err(|error| {
        let message = error.to_string();
        let (message, help) = message.split_once("; ").unwrap_or((&message, "see `fabriscope import --help`"));
        Failure::told(format!("{}: {message}", path.display()), help)
    })?;
    if file.host.is_empty() {
        // gpu01.nccl.xml is of gpu01.
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        file.host = name.split('.').next().unwrap_or_default().to_owned();
    }
    Ok(file)
}

/// The part of the catalogue with what files leave out.
const RATES: &str = "nccl";
