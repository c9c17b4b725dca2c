//! `topology.yaml` of Slurm: the tree that is the cluster's default, else the first tree.
//!
//! Source: topology.yaml(5) of Slurm 25.05. A switch may have nothing below it.
//! Not read: topologies of the kinds block, flat, ring and torus3d (they name no switches), anchors and aliases.

use saphyr_parser::{Event, Parser};

use super::subnet::Subnet;
use super::tree::{self, Entries, Entry};
use super::{ImportError, Mistake, slurm_conf};

/// Whether a line belongs to this format.
pub(super) fn looks_like(line: &str) -> bool {
    let line = line.trim_start_matches(['-', '[', '{', ' ']);
    line.strip_prefix("topology").or_else(|| line.strip_prefix("\"topology\"")).is_some_and(|rest| rest.trim_start().starts_with(':'))
}

/// Reads a file.
pub(super) fn read(text: &str) -> Result<Subnet, ImportError> {
    let Some(document) = document(text)? else { return Err(ImportError::Empty) };
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
                _ => return Err(value.unknown(key, "a topology has topology, cluster_default and one of tree, block, flat, ring, torus3d")),
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
            return Err(value.unknown(key, "a tree has `switches:` and a list"));
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
            "children" => children = Some(value.names()?),
            "nodes" => nodes = Some(value.names()?),
            _ => return Err(value.unknown(key, "a switch has switch, and children or nodes")),
        }
    }
    let wrong = |mistake| ImportError::Line { line: switch.line, mistake };
    let unnamed = || Mistake::Malformed { what: "a switch without a name".to_owned(), remedy: "begin it with `- switch: NAME`" };
    let name = name.ok_or_else(|| wrong(unnamed()))?;
    slurm_conf::below(name.to_owned(), switch.line, children.as_deref(), nodes.as_deref()).map_err(wrong)
}

/// A value and where it begins.
#[derive(Debug, Default)]
struct Node {
    line: u32,
    value: Value,
}

#[derive(Debug, Default)]
enum Value {
    #[default]
    Nothing,
    Text(String),
    List(Vec<Node>),
    Map(Vec<(String, Node)>),
}

impl Node {
    fn wrong(&self, what: String, remedy: &'static str) -> ImportError {
        ImportError::Line { line: self.line, mistake: Mistake::Malformed { what, remedy } }
    }
    fn unknown(&self, key: &str, remedy: &'static str) -> ImportError {
        self.wrong(format!("the key `{key}`, which is not known here"), remedy)
    }
    fn unfit(&self, remedy: &'static str) -> ImportError {
        let what = match &self.value {
            Value::Nothing => "nothing",
            Value::Text(_) => "a text",
            Value::List(_) => "a list",
            Value::Map(_) => "a table",
        };
        self.wrong(format!("{what} in the place of something else"), remedy)
    }
    fn text(&self, expected: &'static str) -> Result<&str, ImportError> {
        if let Value::Text(text) = &self.value { Ok(text) } else { Err(self.unfit(expected)) }
    }
    fn list(&self, expected: &'static str) -> Result<&[Node], ImportError> {
        if let Value::List(list) = &self.value { Ok(list) } else { Err(self.unfit(expected)) }
    }
    fn map(&self, expected: &'static str) -> Result<&[(String, Node)], ImportError> {
        if let Value::Map(map) = &self.value { Ok(map) } else { Err(self.unfit(expected)) }
    }
    /// A list of hosts, as one text or as several.
    fn names(&self) -> Result<String, ImportError> {
        const EXPECTED: &str = "write names, such as gpu[01-16]";
        match &self.value {
            Value::List(list) => Ok(list.iter().map(|name| name.text(EXPECTED)).collect::<Result<Vec<_>, _>>()?.join(",")),
            _ => self.text(EXPECTED).map(str::to_owned),
        }
    }
}

/// The first document.
fn document(text: &str) -> Result<Option<Node>, ImportError> {
    // What is open, outermost first, with the key that waits for its value where it is a table.
    let mut open: Vec<(Node, Option<String>)> = Vec::new();
    for event in Parser::new_from_str(text) {
        let (event, span) = event.map_err(|error| {
            let what = format!("what is not YAML ({})", error.info());
            ImportError::Line {
                line: error.marker().line() as u32,
                mistake: Mistake::Malformed { what, remedy: "correct the indentation and the quotes" },
            }
        })?;
        let line = span.start.line() as u32;
        let mut done = match event {
            Event::SequenceStart(..) => {
                open.push((Node { line, value: Value::List(Vec::new()) }, None));
                None
            }
            Event::MappingStart(..) => {
                open.push((Node { line, value: Value::Map(Vec::new()) }, None));
                None
            }
            Event::SequenceEnd | Event::MappingEnd => open.pop().map(|(node, _)| node),
            Event::Scalar(text, ..) => Some(Node { line, value: Value::Text(text.into_owned()) }),
            Event::Alias(..) => {
                return Err(Node { line, value: Value::Nothing }.wrong("an alias".to_owned(), "write its value in its place"));
            }
            Event::DocumentEnd => break,
            Event::Nothing | Event::StreamStart | Event::StreamEnd | Event::DocumentStart(..) => None,
        };
        if open.len() > MOST_NESTED {
            return Err(Node { line, value: Value::Nothing }.wrong("too many levels".to_owned(), "a topology has at most six"));
        }
        let Some((parent, key)) = open.last_mut() else {
            match done {
                Some(node) => return Ok(Some(node)),
                None => continue,
            }
        };
        let Some(node) = done.take() else { continue };
        match (&mut parent.value, key.take(), node) {
            (Value::List(list), _, node) => list.push(node),
            (Value::Map(map), Some(key), node) if map.iter().any(|(known, _)| *known == key) => {
                return Err(node.wrong(format!("the key `{key}` twice"), "remove one of them"));
            }
            (Value::Map(map), Some(key), node) => map.push((key, node)),
            (Value::Map(_), None, Node { value: Value::Text(text), .. }) => *key = Some(text),
            (_, _, node) => return Err(node.unfit("keys are texts")),
        }
    }
    Ok(None)
}

/// Levels of lists and tables; a topology needs six.
const MOST_NESTED: usize = 16;
