//! `topology.yaml` of Slurm: the tree that is the cluster's default, else the first tree.
//!
//! Source: topology.yaml(5) of Slurm 25.05. A switch may have nothing below it.
//! Not read: topologies of the kinds block, flat, ring and torus3d (they name no switches), anchors and aliases.

use super::subnet::Subnet;
use super::tree::{self, Entries, Entry};
use super::yaml::{self, Node, Value, YamlError};
use super::{ImportError, Mistake, slurm_conf};

/// Whether a line belongs to this format.
pub(super) fn looks_like(line: &str) -> bool {
    let line = line.trim_start_matches(['-', '[', '{', ' ']);
    line.strip_prefix("topology").or_else(|| line.strip_prefix("\"topology\"")).is_some_and(|rest| rest.trim_start().starts_with(':'))
}

/// Reads a file.
pub(super) fn read(text: &str) -> Result<Subnet, ImportError> {
    let Some(document) = yaml::document(text, MOST_NESTED)? else { return Err(ImportError::Empty) };
    let mut trees = Vec::new();
    let mut others = Vec::new();
    for topology in document.list("a list of topologies, each beginning with `- topology: NAME`")? {
        let (mut name, mut default, mut body) = ("", false, None);
        for (key, value) in topology.map("a topology: `topology: NAME`, then `tree:`")? {
            match key.as_str() {
                "topology" => name = value.text("the name of the topology")?,
                "cluster_default" => default = value.text("true or false")?.eq_ignore_ascii_case("true"),
                "tree" => body = Some(value),
                "block" | "flat" | "ring" | "torus3d" => others.push((kind(key), value.line)),
                _ => {
                    return Err(unknown(
                        value,
                        key,
                        "a topology has topology, cluster_default and one of tree, block, flat, ring, torus3d",
                    ));
                }
            }
        }
        trees.extend(body.map(|body| (name, default, body)));
    }
    let chosen = trees.iter().position(|(_, default, _)| *default).unwrap_or(0);
    let Some((_, _, body)) = trees.get(chosen) else {
        return Err(match others.first() {
            Some(&(plugin, line)) => ImportError::Line { line, mistake: Mistake::NoTree { plugin } },
            None => ImportError::Empty,
        });
    };
    let mut entries = Entries::default();
    for (key, value) in body.map("`switches:` and a list")? {
        if key != "switches" {
            return Err(unknown(value, key, "a tree has `switches:` and a list"));
        }
        for switch in value.list("a list of switches, each beginning with `- switch: NAME`")? {
            entries.push(entry(switch)?)?;
        }
    }
    let mut subnet = tree::subnet(&entries)?;
    let left: Vec<&str> = trees.iter().enumerate().filter(|(at, _)| *at != chosen).map(|(_, (name, ..))| *name).collect();
    if !left.is_empty() {
        subnet.notes.push(format!("of several topologies `{}` is read, not `{}`", trees[chosen].0, left.join("`, `")));
    }
    if let Some((plugin, _)) = others.first() {
        subnet.notes.push(format!("a topology/{plugin} in the same file names no switches and is passed over"));
    }
    Ok(subnet)
}

/// The kind of a topology that is not read.
fn kind(key: &str) -> &'static str {
    ["block", "flat", "ring"].into_iter().find(|kind| *kind == key).unwrap_or("torus3d")
}

fn entry(switch: &Node) -> Result<Entry, ImportError> {
    let (mut name, mut children, mut nodes) = (None, None, None);
    for (key, value) in switch.map("a switch: `switch: NAME`, then `children:` or `nodes:`")? {
        match key.as_str() {
            "switch" => name = Some(value.text("the name of the switch")?),
            "children" => children = Some(names(value)?),
            "nodes" => nodes = Some(names(value)?),
            _ => return Err(unknown(value, key, "a switch has switch, and children or nodes")),
        }
    }
    let wrong = |mistake| ImportError::Line { line: switch.line, mistake };
    let unnamed = || Mistake::Malformed { what: "a switch without a name".to_owned(), remedy: "begin it with `- switch: NAME`" };
    let name = name.ok_or_else(|| wrong(unnamed()))?;
    slurm_conf::below(name.to_owned(), switch.line, children.as_deref(), nodes.as_deref()).map_err(wrong)
}

fn unknown(value: &Node, key: &str, remedy: &'static str) -> ImportError {
    value.wrong(format!("the key `{key}`, which is not known here"), remedy).into()
}

/// A list of hosts, as one text or as several.
fn names(value: &Node) -> Result<String, YamlError> {
    const EXPECTED: &str = "write names, such as gpu[01-16]";
    match &value.value {
        Value::List(list) => Ok(list.iter().map(|name| name.text(EXPECTED)).collect::<Result<Vec<_>, _>>()?.join(",")),
        _ => value.text(EXPECTED).map(str::to_owned),
    }
}

/// Levels of lists and tables; a topology needs six.
const MOST_NESTED: usize = 16;
