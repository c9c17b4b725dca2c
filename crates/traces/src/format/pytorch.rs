//! PyTorch execution traces: the operators of a process, in which collectives are `record_param_comms`.
//!
//! Source: PyTorch, `execution_trace_observer.cpp`; schemas 1.0.1 (keys of a node flat), 1.0.2-chakra.0.0.4 to 1.1.1-chakra.0.0.4 (`inputs`,
//! `outputs`, `attrs`). From 1.0.3 on attributes say collective, elements and process group; before, the arguments of the operator do.
//! Modelled: collectives and waits in the order of their threads, the process groups of `process_group:init`.
//! Not modelled: operators that compute: the format has no times. Times are those of a Kineto trace of the same run.

use std::collections::BTreeMap;

use fabriscope_units::Bytes;
use serde::Deserialize;
use serde_json::Value as Json;

use crate::draft::{Draft, RankDraft};
use crate::error::{Position, Problem, TraceError};
use crate::open::Part;
use crate::{After, Collective, Element, Group, GroupId, Kind, Message, Operation, Record, RecordId, order};

#[derive(Deserialize)]
struct File {
    schema: String,
    nodes: Vec<Node>,
}

#[derive(Deserialize)]
struct Node {
    id: u64,
    name: String,
    #[serde(default)]
    inputs: Json,
    #[serde(default)]
    input_types: Json,
    #[serde(default)]
    outputs: Json,
    #[serde(default)]
    output_types: Json,
    #[serde(default)]
    attrs: Vec<Attribute>,
    #[serde(default)]
    tid: Option<u32>,
}

#[derive(Deserialize)]
struct Attribute {
    name: String,
    #[serde(default)]
    value: Json,
}

/// Reads the trace of one process.
pub(crate) fn read(part: &Part) -> Result<Draft, TraceError> {
    let file: File = serde_json::from_slice(&part.bytes).map_err(|error| TraceError::json(&part.name, &error))?;
    if !file.schema.starts_with("1.") {
        let found = format!("schema {}", crate::error::shown(file.schema.as_bytes()));
        return Err(TraceError::new(&part.name, Position::Whole, Problem::Unexpected { found, expected: "a schema 1.x" }));
    }
    let mut draft = Draft::of_file();
    draft.version = Some(file.schema);
    let mut reader = Reader { groups: BTreeMap::new(), last: BTreeMap::new(), works: BTreeMap::new(), records: Vec::new() };
    for node in file.nodes.iter().filter(|node| node.name.contains("process_group:init")) {
        reader.init(node, &mut draft);
    }
    for node in &file.nodes {
        reader.node(node, &mut draft);
    }
    if reader.records.is_empty() {
        draft.reading.note("no collective in this file");
    }
    order::settle(&part.name, &mut reader.records, &mut draft.reading)?;
    draft.ranks.push(RankDraft { rank: None, file: part.name.clone(), records: reader.records, epoch_ns: None });
    Ok(draft)
}

struct Reader {
    /// Process groups by name and by the number of their backend.
    groups: BTreeMap<String, GroupId>,
    /// The last record of each thread.
    last: BTreeMap<u32, After>,
    /// Collectives by sequence number and group, for those that wait for them.
    works: BTreeMap<(i64, String), RecordId>,
    records: Vec<Record>,
}

impl Node {
    fn attribute(&self, names: &[&str]) -> Option<&Json> {
        self.attrs.iter().find(|attribute| names.contains(&attribute.name.as_str())).map(|attribute| &attribute.value)
    }
    fn thread(&self) -> u32 {
        let attribute = self.attribute(&["tid"]).and_then(Json::as_u64).and_then(|tid| u32::try_from(tid).ok());
        self.tid.or(attribute).unwrap_or(0)
    }
    /// The arguments: a list, or `values` of an object.
    fn values(of: &Json) -> &[Json] {
        of.get("values").unwrap_or(of).as_array().map_or(&[], Vec::as_slice)
    }
    fn types<'a>(of: &'a Json, flat: &'a Json) -> &'a [Json] {
        of.get("types").unwrap_or(flat).as_array().map_or(&[], Vec::as_slice)
    }
    /// Bytes and type of the tensors among the arguments.
    fn tensors(of: &Json, flat_types: &Json) -> (u64, Option<Element>) {
        let bytes = Node::values(of).iter().map(tensor_bytes).fold(0, u64::saturating_add);
        let element = Node::types(of, flat_types).iter().filter_map(Json::as_str).find_map(|text| {
            let (_, inner) = text.split_once("Tensor(")?;
            Element::named(inner.split(')').next()?)
        });
        (bytes, element)
    }
}

impl Reader {
    /// Takes the process groups that a node tells in a string of JSON.
    fn init(&mut self, node: &Node, draft: &mut Draft) {
        for text in Node::values(&node.inputs).iter().filter_map(Json::as_str) {
            let Ok(Json::Array(groups)) = serde_json::from_str(text) else { continue };
            for group in &groups {
                let Some(name) = group.get("pg_name").and_then(word) else { continue };
                let size = group.get("group_size").and_then(Json::as_u64).and_then(|size| u32::try_from(size).ok());
                let listed: Option<Vec<u32>> = group.get("ranks").and_then(ranks).filter(|ranks: &Vec<u32>| !ranks.is_empty());
                let known = listed.map_or_else(|| Group::unknown(&name, size), |ranks| Group::of(&name, ranks));
                if name == "0" && size.is_some_and(|size| size <= fabriscope_schedule::Schedule::MOST_RANKS) {
                    draft.world = draft.world.max(size.unwrap_or(0));
                }
                let id = draft.groups.add(known);
                if let Some(backend) = group.get("backend_id").and_then(word) {
                    self.groups.insert(format!("backend {backend}"), id);
                }
                self.groups.insert(name, id);
            }
        }
    }

    fn node(&mut self, node: &Node, draft: &mut Draft) {
        if node.name.contains("process_group:init") {
            draft.reading.used();
        } else if node.name == "record_param_comms" {
            self.comms(node, draft);
        } else if node.name.starts_with("nccl:") || node.name.starts_with("c10d::") {
            draft.reading.left("the same collective, as another layer calls it");
        } else {
            draft.reading.left("operators on the host, without a time");
        }
    }

    fn comms(&mut self, node: &Node, draft: &mut Draft) {
        let values = Node::values(&node.inputs);
        let stated = node.attribute(&["collective_name", "comms_name", "collective name"]).and_then(Json::as_str);
        let at = values.iter().position(Json::is_string);
        let Some(name) = stated.or_else(|| values.get(at?).and_then(Json::as_str)).map(str::to_owned) else {
            return draft.reading.left("record_param_comms without the name of a collective");
        };
        // Before the name stand: tensors, sequence number, number or name and description of the group, rank in it.
        let numbers: Vec<i64> = values.iter().take(at.unwrap_or(0)).filter_map(Json::as_i64).collect();
        let sequence = numbers.first().copied().unwrap_or(-1);
        let backend = numbers.get(1).map(|id| format!("backend {id}"));
        let group_name = node.attribute(&["pg_name"]).and_then(word).or(backend).unwrap_or_default();
        let group = self.groups.get(&group_name).copied().or_else(|| {
            let size = node.attribute(&["pg_size"]).and_then(Json::as_u64).and_then(|size| u32::try_from(size).ok());
            (!group_name.is_empty() && !group_name.starts_with("backend ")).then(|| draft.groups.add(Group::unknown(&group_name, size)))
        });
        let thread = node.thread();
        let last = self.last.get(&thread).copied();
        if matches!(name.as_str(), "wait" | "init" | "barrier_wait") {
            // Waits name the collective by its number; the group's number is 0 in some versions.
            let work =
                self.works.iter().rev().find(|((number, of), _)| *number == sequence && (of == &group_name || numbers.get(1) == Some(&0)));
            let Some(work) = work.map(|(_, id)| *id).filter(|_| name == "wait") else {
                return draft.reading.left(format!("`{name}` of no collective in the file"));
            };
            let record = Record::new(node.id, name, Kind::Wait).after(last).after([After::End(work)]).on(thread);
            return self.push(record, thread, draft);
        }
        let Some(kind) = kind(node, &name, group, draft) else { return };
        let record = Record::new(node.id, name, kind).after(last).on(thread);
        self.works.insert((sequence, group_name), record.id);
        self.push(record, thread, draft);
    }

    fn push(&mut self, record: Record, thread: u32, draft: &mut Draft) {
        draft.reading.used();
        // Collectives are called without waiting for them; a wait follows, and holds the thread.
        let after = if record.kind == Kind::Wait { After::End(record.id) } else { After::Start(record.id) };
        self.last.insert(thread, after);
        self.records.push(record);
    }
}

/// The collective or message; None where it is left out, which is counted.
fn kind(node: &Node, name: &str, group: Option<GroupId>, draft: &mut Draft) -> Option<Kind> {
    let (sent, element) = Node::tensors(&node.inputs, &node.input_types);
    let (received, other) = Node::tensors(&node.outputs, &node.output_types);
    let stated = node.attribute(&["dtype"]).and_then(Json::as_str).and_then(Element::named);
    let element = stated.or(element).or(other);
    let elements = |names: &[&str]| Some(node.attribute(names)?.as_u64()?.saturating_mul(element?.bytes));
    let sent = elements(&["in_msg_nelems"]).unwrap_or(sent);
    let received = elements(&["out_msg_nelems"]).unwrap_or(received);
    let word = name.trim_end_matches('_');
    if let "send" | "recv" = word {
        let peer = node.attribute(&["dst_rank", "src_rank", "peer"]).and_then(Json::as_u64).and_then(|peer| u32::try_from(peer).ok());
        let Some(peer) = peer.filter(|peer| *peer < fabriscope_schedule::Schedule::MOST_RANKS) else {
            draft.reading.left("messages without their peer");
            return None;
        };
        let message = Message { peer: Some(peer), tag: Some(0), bytes: Bytes(sent.max(received)), group };
        return Some(if word == "send" { Kind::Send(message) } else { Kind::Recv(message) });
    }
    let Some(operation) = Operation::named(name) else {
        draft.reading.left(format!("`{}` is no collective known here", name.chars().take(40).collect::<String>()));
        return None;
    };
    let bytes = Some(Bytes(sent.max(received)));
    let root = node.attribute(&["root_rank", "root"]).and_then(Json::as_u64).and_then(|root| u32::try_from(root).ok());
    Some(Kind::Collective(Collective { operation, bytes, element, group, root }))
}

/// Bytes of a tensor `[id, storage, offset, elements, bytes of one, device]`, or of a list of such.
fn tensor_bytes(value: &Json) -> u64 {
    let Some(items) = value.as_array() else { return 0 };
    match items.as_slice() {
        [id, _, _, elements, size, device] if id.is_u64() && device.is_string() => {
            elements.as_u64().unwrap_or(0).saturating_mul(size.as_u64().unwrap_or(0))
        }
        items => items.iter().map(tensor_bytes).fold(0, u64::saturating_add),
    }
}

fn word(value: &Json) -> Option<String> {
    match value {
        Json::String(text) => Some(text.clone()),
        Json::Number(number) => Some(number.to_string()),
        _ => None,
    }
}

fn ranks(value: &Json) -> Option<Vec<u32>> {
    let most = fabriscope_schedule::Schedule::MOST_RANKS;
    value.as_array()?.iter().map(|rank| u32::try_from(rank.as_u64()?).ok().filter(|rank| *rank < most)).collect()
}
