//! Files to go on from: the cluster of an imported fabric (`fabriscope import FILE -o mine.toml`), the part of an imported node.

use std::path::{Component, Path, PathBuf};

use fabriscope_catalog::draft::{self, Draft, DraftRequest};
use fabriscope_fabric::import::Subnet;
use fabriscope_machine::import::NodeFile;

use super::Args;
use crate::context::Context;
use crate::error::Failure;

/// The cluster file that is to be written at `path`.
pub fn cluster(args: &Args, subnet: &Subnet, path: &Path, context: &Context) -> Result<Draft, Failure> {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let name = path.file_stem().map(|stem| stem.to_string_lossy().into_owned()).unwrap_or_default();
    let word = |c: char| if c.is_ascii_alphanumeric() || c == '-' || c == '_' || c == '.' { c } else { '-' };
    let request = DraftRequest {
        name: name.chars().map(word).collect(),
        folder: folder.to_owned(),
        file: as_seen_from(folder, &args.file)?,
        tables: args.tables.as_deref().map(|tables| as_seen_from(folder, tables)).transpose()?,
        node: args.node.clone(),
        hosts: args.hosts.clone(),
    };
    draft::cluster(context.catalog()?, subnet, &request).map_err(Failure::of)
}

/// The part that is to be written at `path`, which is in the folder `nodes` of parts of one's own; and what to do next.
pub fn node(args: &Args, file: &NodeFile, path: &Path, context: &Context) -> Result<(String, String), Failure> {
    let name = path.file_stem().map(|stem| stem.to_string_lossy().into_owned()).unwrap_or_default();
    let text = draft::node(context.catalog()?, file, &name, args.node.as_deref()).map_err(Failure::of)?;
    let parts = path.parent().filter(|folder| folder.ends_with("nodes")).and_then(Path::parent);
    let next = match parts {
        Some(parts) => {
            let parts = if parts.as_os_str().is_empty() { Path::new(".") } else { parts };
            format!("fabriscope import FABRIC --node {name} --catalog {} -o mine.toml", parts.display())
        }
        None => format!("put it into a folder of parts: PARTS/nodes/{name}.toml, and name that by --catalog PARTS"),
    };
    Ok((text, format!("# {}: a node of the catalogue\n# next: {next}\n", path.display())))
}

/// What to do next with a cluster.
pub fn next(draft: &Draft, path: &Path) -> String {
    let on = path.display();
    let tool = if draft.gpus { "all_reduce_perf" } else { "osu_latency" };
    let nodes = draft.nodes;
    format!("# {on}: {nodes} nodes\n# next: fabriscope bench {tool} --on {on} --hosts '{}'\n", draft.some_hosts)
}

/// A file as seen from a folder.
fn as_seen_from(folder: &Path, file: &Path) -> Result<String, Failure> {
    let whole = |path: &Path| {
        std::fs::canonicalize(path)
            .map_err(|cause| Failure::told(format!("{}: {cause}", path.display()), "choose a folder and a file that exist"))
    };
    let (folder, file) = (whole(folder)?, whole(file)?);
    let common = folder.components().zip(file.components()).take_while(|(one, other)| one == other).count();
    let up = folder.components().skip(common).map(|_| Component::ParentDir);
    let path: PathBuf = up.chain(file.components().skip(common)).collect();
    // Folders are apart by a slash in files that others read, too.
    let parts: Vec<String> = path.components().map(|part| part.as_os_str().to_string_lossy().into_owned()).collect();
    Ok(parts.join("/"))
}
