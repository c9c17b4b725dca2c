//! Nodes of a Chakra trace, from protobuf or JSON, as records.

use fabriscope_units::{Bytes, Span, Time};

use crate::draft::{Draft, RankDraft};
use crate::error::{Position, Problem, TraceError};
use crate::format::Companion;
use crate::open::Companions;
use crate::order;
use crate::{After, Collective, Element, Group, GroupId, Kind, Message, Operation, Record, RecordId};

/// What an attribute holds.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Value {
    Int(i64),
    Float(f64),
    Text(String),
    Other,
}

/// A node with what is used of it.
#[derive(Debug, Default)]
pub(super) struct Node {
    pub id: u64,
    pub name: String,
    pub kind: u64,
    pub control: Vec<u64>,
    pub data: Vec<u64>,
    pub start_us: Option<u64>,
    pub duration_us: Option<u64>,
    pub is_cpu_op: Option<bool>,
    pub comm_type: Option<i64>,
    pub comm_size: Option<i64>,
    pub source: Option<i64>,
    pub destination: Option<i64>,
    pub tag: Option<i64>,
    pub root: Option<i64>,
    pub stream: Option<i64>,
    pub group: Option<String>,
    pub element: Option<Element>,
}

impl Value {
    fn int(&self) -> Option<i64> {
        match self {
            Value::Int(number) => Some(*number),
            Value::Float(number) if number.fract() == 0.0 && number.abs() < 9e15 => Some(*number as i64),
            Value::Text(text) => text.parse().ok(),
            _ => None,
        }
    }
}

impl Node {
    /// Takes an attribute under any of its names; others are not used.
    pub(super) fn set(&mut self, name: &str, value: Value) {
        let key: String = name.chars().filter(|letter| *letter != '_').map(|letter| letter.to_ascii_lowercase()).collect();
        match key.as_str() {
            "iscpuop" => self.is_cpu_op = value.int().map(|flag| flag != 0),
            "commtype" | "collectivecommtype" => {
                let named =
                    |word: &str| COMM_TYPES.iter().position(|operation| Operation::named(word) == Some(*operation)).map(|at| at as i64);
                self.comm_type = match &value {
                    Value::Text(word) => value.int().or_else(|| named(word)),
                    other => other.int(),
                }
            }
            "commsize" => self.comm_size = value.int(),
            "commsrc" => self.source = value.int(),
            "commdst" => self.destination = value.int(),
            "commtag" => self.tag = value.int(),
            "root" | "commroot" => self.root = value.int(),
            "tid" | "stream" => self.stream = value.int(),
            "pgname" => {
                self.group = match value {
                    Value::Text(name) => Some(name),
                    other => other.int().map(|number| number.to_string()),
                }
                .filter(|name| !name.is_empty());
            }
            "dtype" | "commdtype" => {
                if let Value::Text(name) = value {
                    self.element = Element::named(&name);
                }
            }
            _ => {}
        }
    }
}

/// Makes the records of a rank.
pub(super) fn records(file: &str, nodes: Vec<Node>, companions: &Companions, draft: &mut Draft) -> Result<(), TraceError> {
    let by_data = nodes.iter().any(|node| !node.data.is_empty());
    let earliest = nodes.iter().filter_map(|node| node.start_us).min();
    let mut records = Vec::with_capacity(nodes.len());
    for (at, node) in nodes.into_iter().enumerate() {
        let kind = kind(file, at, &node, companions, draft)?;
        let Some(kind) = kind else { continue };
        if by_data && !node.control.is_empty() {
            draft.reading.assume("nodes wait for their data_deps, ctrl_deps name the caller");
        } else if !by_data && !node.control.is_empty() {
            draft.reading.assume("nodes wait for their ctrl_deps, the file has no data_deps");
        }
        let waits = if by_data { node.data } else { node.control };
        let mut record = Record::new(node.id, node.name, kind).after(waits.into_iter().map(|id| After::End(RecordId(id))));
        record.duration = node.duration_us.map(Span::from_us_saturating);
        record.lane = node.stream.and_then(|stream| u32::try_from(stream).ok()).unwrap_or(0);
        if let (Some(start), Some(earliest)) = (node.start_us, earliest) {
            record.start = Some(Time::ZERO.saturating_add(Span::from_us_saturating(start - earliest)));
        }
        draft.reading.used();
        records.push(record);
    }
    order::settle(file, &mut records, &mut draft.reading)?;
    order::note_loose_collectives(&records, &mut draft.reading);
    let epoch_ns = earliest.map(|us| us.saturating_mul(1000));
    draft.ranks.push(RankDraft { rank: None, file: file.to_owned(), records, epoch_ns });
    Ok(())
}

/// What a node is; None where it is left out, which is counted.
fn kind(file: &str, at: usize, node: &Node, companions: &Companions, draft: &mut Draft) -> Result<Option<Kind>, TraceError> {
    let position = Position::Record(at as u64 + 1);
    let bytes = node.comm_size.and_then(|size| u64::try_from(size).ok()).map(Bytes);
    match node.kind {
        METADATA => {
            draft.reading.left("metadata");
            Ok(None)
        }
        MEM_LOAD | MEM_STORE => {
            draft.reading.assume("loads and stores of remote memory last as long as they were recorded");
            Ok(Some(Kind::Compute))
        }
        COMP => Ok(Some(Kind::Compute)),
        COMM_SEND | COMM_RECV => {
            let peer = if node.kind == COMM_SEND { node.destination } else { node.source };
            let Some((peer, bytes)) = peer.and_then(|peer| u64::try_from(peer).ok()).zip(bytes) else {
                draft.reading.left("a message without peer or size");
                return Ok(None);
            };
            let peer = crate::format::ranks(file, position, "the peer of a message", peer)?;
            let message = Message { peer: Some(peer), tag: node.tag.map(|tag| tag as u32), bytes, group: None };
            Ok(Some(if node.kind == COMM_SEND { Kind::Send(message) } else { Kind::Recv(message) }))
        }
        COMM_COLL if node.comm_type.is_none() && node.is_cpu_op == Some(true) => {
            draft.reading.assume("calls of collectives on the host are computation, the operation is that of the kernel");
            Ok(Some(Kind::Compute))
        }
        COMM_COLL => Ok(Some(collective(file, position, node, bytes, companions, draft)?)),
        other => {
            let found = format!("node type {other}");
            Err(TraceError::new(file, position, Problem::Unexpected { found, expected: "a node type from 1 to 7" }))
        }
    }
}

fn collective(
    file: &str,
    position: Position,
    node: &Node,
    bytes: Option<Bytes>,
    companions: &Companions,
    draft: &mut Draft,
) -> Result<Kind, TraceError> {
    let stated = match node.comm_type {
        Some(number) => {
            let known = usize::try_from(number).ok().and_then(|number| COMM_TYPES.get(number));
            let unknown = || Problem::Unexpected { found: format!("collective type {number}"), expected: "one from 0 to 9" };
            Some(*known.ok_or_else(|| TraceError::new(file, position, unknown()))?)
        }
        None => None,
    };
    let operation = match stated.or_else(|| in_name(&node.name)) {
        Some(operation) => operation,
        None => {
            draft.reading.assume("collectives without a type, and whose name says none, are computation");
            return Ok(Kind::Compute);
        }
    };
    if stated.is_none() {
        draft.reading.assume("the operation is taken from the name of the kernel");
    }
    if bytes.is_none() {
        draft.reading.note("collectives without a size");
    }
    let group = node.group.as_ref().map(|name| group_of(name, companions, draft));
    if group.is_none() {
        draft.reading.assume("collectives without a process group are of all ranks");
    }
    let root = node.root.and_then(|root| u32::try_from(root).ok());
    Ok(Kind::Collective(Collective { operation, bytes, element: node.element, group, root }))
}

fn group_of(name: &str, companions: &Companions, draft: &mut Draft) -> GroupId {
    let listed = companions.iter().find_map(|(_, companion)| match companion {
        Companion::Groups(groups) => groups.get(name),
        Companion::DumpiMeta => None,
    });
    let group = listed.map_or_else(|| Group::unknown(name, None), |ranks| Group::of(name, ranks.clone()));
    if listed.is_none() {
        draft.reading.note(format!("no comm_group.json says who is in process group {name}"));
    }
    draft.groups.add(group)
}

/// The operation that the name of a kernel or call says: `ncclDevKernel_AllReduce_Sum_f32_RING_LL`, `c10d::allreduce_`.
pub(crate) fn in_name(name: &str) -> Option<Operation> {
    let mut words = name.split(|letter: char| !letter.is_ascii_alphanumeric() && letter != '_');
    let word = words.find(|word| !word.is_empty() && *word != "c10d" && *word != "nccl")?;
    Operation::named(word).or_else(|| word.split('_').find_map(Operation::named))
}

/// Saturating conversion of whole microseconds, which a damaged file may have any number of.
trait FromUs {
    fn from_us_saturating(us: u64) -> Span;
}
impl FromUs for Span {
    fn from_us_saturating(us: u64) -> Span {
        Span::from_ps(us.saturating_mul(1_000_000))
    }
}

/// `CollectiveCommType` in the order of its numbers.
pub(super) const COMM_TYPES: [Operation; 10] = [
    Operation::AllReduce,
    Operation::Reduce,
    Operation::AllGather,
    Operation::Gather,
    Operation::Scatter,
    Operation::Broadcast,
    Operation::AllToAll,
    Operation::ReduceScatter,
    Operation::ReduceScatter,
    Operation::Barrier,
];
// `NodeType`.
pub(super) const METADATA: u64 = 1;
pub(super) const MEM_LOAD: u64 = 2;
pub(super) const MEM_STORE: u64 = 3;
pub(super) const COMP: u64 = 4;
pub(super) const COMM_SEND: u64 = 5;
pub(super) const COMM_RECV: u64 = 6;
pub(super) const COMM_COLL: u64 = 7;
