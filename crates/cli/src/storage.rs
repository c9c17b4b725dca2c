//! The question about a program on a parallel file system, as `bench` and `explain` ask it.

use fabriscope::{Storage, StorageTool};

use crate::context::Context;
use crate::error::Failure;

/// What the command line says beside the tool's own options.
#[derive(Debug, Default)]
pub struct Mounted<'a> {
    /// `--fs`.
    pub file_system: Option<&'a str>,
    /// `--nodes`.
    pub nodes: Option<u32>,
    /// `--ppn`.
    pub per_node: Option<u32>,
}

/// The question.
pub fn question<'c>(
    tool: StorageTool,
    on: &str,
    (mounted, options): (Mounted<'_>, Vec<String>),
    context: &'c Context,
) -> Result<Storage<'c>, Failure> {
    let mut question = fabriscope::storage(tool, on).catalog(context.catalog()?).args(options);
    if let Some(name) = mounted.file_system {
        question = question.file_system(name);
    }
    if let Some(nodes) = mounted.nodes {
        question = question.nodes(nodes);
    }
    if let Some(ranks) = mounted.per_node {
        question = question.ranks_per_node(ranks);
    }
    Ok(question)
}
