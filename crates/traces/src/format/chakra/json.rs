//! The JSON twin of Chakra traces: `{"workload_graph": [node, …]}`.
//!
//! Source: the files of mlcommons/chakra `tests/data`, whose keys are spelt `Id` and `data_deps` and `ctrlDeps` within one file; the JSON form of
//! protobuf, where numbers of 64 bits are strings and attributes a list.
//! Modelled: as the protobuf form. Keys are compared without case and underscores.

use serde_json::Value as Json;

use super::node::{self, Node, Value};
use crate::draft::Draft;
use crate::error::{Position, Problem, TraceError};
use crate::open::{Companions, Part};

/// Reads the trace of one rank.
pub(crate) fn read(part: &Part, companions: &Companions) -> Result<Draft, TraceError> {
    let mut draft = Draft::of_file();
    let file: Json = serde_json::from_slice(&part.bytes).map_err(|error| TraceError::json(&part.name, &error))?;
    let graph = file.get("workload_graph").and_then(Json::as_array).ok_or_else(|| {
        let problem = Problem::Unexpected { found: "no list `workload_graph`".to_owned(), expected: "the nodes of the trace" };
        TraceError::new(&part.name, Position::Whole, problem)
    })?;
    draft.version = file.get("schema").or_else(|| file.get("version")).and_then(Json::as_str).map(str::to_owned);
    let mut nodes = Vec::with_capacity(graph.len());
    for (at, value) in graph.iter().enumerate() {
        nodes.push(node(&part.name, at, value)?);
    }
    node::records(&part.name, nodes, companions, &mut draft)?;
    Ok(draft)
}

fn node(file: &str, at: usize, value: &Json) -> Result<Node, TraceError> {
    let wrong = |found: String, expected| TraceError::new(file, Position::Record(at as u64 + 1), Problem::Unexpected { found, expected });
    let Some(object) = value.as_object() else { return Err(wrong(short(value), "a node with its keys")) };
    let mut node = Node::default();
    let mut id = None;
    for (name, value) in object {
        let key: String = name.chars().filter(|letter| *letter != '_').map(|letter| letter.to_ascii_lowercase()).collect();
        let number = || whole(value).ok_or_else(|| wrong(format!("{name}: {}", short(value)), "a whole number that is not negative"));
        match key.as_str() {
            "id" => id = Some(number()?),
            "name" => node.name = value.as_str().unwrap_or_default().to_owned(),
            "nodetype" | "type" => node.kind = kind(value).ok_or_else(|| wrong(format!("{name}: {}", short(value)), "a node type"))?,
            "ctrldeps" => node.control = list(value).ok_or_else(|| wrong(format!("{name}: {}", short(value)), "a list of node ids"))?,
            "datadeps" => node.data = list(value).ok_or_else(|| wrong(format!("{name}: {}", short(value)), "a list of node ids"))?,
            "starttimemicros" | "starttime" => node.start_us = Some(number()?),
            "durationmicros" | "runtime" | "duration" => node.duration_us = Some(number()?),
            "attr" | "attrs" => attributes(value, &mut node),
            _ => node.set(name, convert(value)),
        }
    }
    node.id = id.ok_or_else(|| wrong("a node without id".to_owned(), "an id in each node"))?;
    Ok(node)
}

/// A list of `{"name": …, "int64Val": …}`.
fn attributes(value: &Json, node: &mut Node) {
    for attribute in value.as_array().into_iter().flatten().filter_map(Json::as_object) {
        let Some(name) = attribute.get("name").and_then(Json::as_str) else { continue };
        if let Some((_, value)) = attribute.iter().find(|(key, _)| key.to_ascii_lowercase().ends_with("val") || *key == "value") {
            node.set(name, convert(value));
        }
    }
}

fn convert(value: &Json) -> Value {
    match value {
        Json::Bool(flag) => Value::Int(i64::from(*flag)),
        Json::Number(number) => number.as_i64().map_or_else(|| number.as_f64().map_or(Value::Other, Value::Float), Value::Int),
        Json::String(text) => Value::Text(text.clone()),
        _ => Value::Other,
    }
}

fn whole(value: &Json) -> Option<u64> {
    match value {
        Json::Number(number) => number.as_u64().or_else(|| number.as_f64().filter(|n| *n >= 0.0 && *n < 1.8e19).map(|n| n as u64)),
        Json::String(text) => text.parse().ok(),
        _ => None,
    }
}

fn list(value: &Json) -> Option<Vec<u64>> {
    match value {
        Json::Array(items) => items.iter().map(whole).collect(),
        other => whole(other).map(|id| vec![id]),
    }
}

fn kind(value: &Json) -> Option<u64> {
    const NAMES: [&str; 8] = [
        "INVALID_NODE",
        "METADATA_NODE",
        "MEM_LOAD_NODE",
        "MEM_STORE_NODE",
        "COMP_NODE",
        "COMM_SEND_NODE",
        "COMM_RECV_NODE",
        "COMM_COLL_NODE",
    ];
    match value {
        Json::String(name) => NAMES.iter().position(|known| known == name).map(|at| at as u64).or_else(|| name.parse().ok()),
        other => whole(other),
    }
}

fn short(value: &Json) -> String {
    crate::error::shown(value.to_string().as_bytes())
}
