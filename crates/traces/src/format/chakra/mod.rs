//! MLCommons Chakra execution traces: protobuf, one file for each rank.
//!
//! Source: mlcommons/chakra, `et_def.proto` (tag v0.0.4, and the messages of traces with the schema of PyTorch before it, which number their
//! fields alike); the attributes are those that ASTRA-sim's feeder reads.
//! Modelled: nodes that compute, collectives, messages; process groups of `comm_group.json`; dependencies `data_deps`, or `ctrl_deps` in a file
//! that has no others.
//! Not modelled: `ctrl_deps` beside `data_deps`, which name the caller; memory as such; shapes of tensors.

pub(crate) mod json;
mod node;
mod write;

use crate::bytes::Cursor;
use crate::draft::Draft;
use crate::error::TraceError;
use crate::open::{Companions, Part};

use node::{Node, Value};

pub(crate) use node::in_name;

pub use write::{ChakraFiles, write};

/// Whether a message is the metadata with which a trace begins.
pub(crate) fn is_metadata(message: Cursor<'_>) -> bool {
    metadata(message).is_ok()
}

/// Reads the trace of one rank.
pub(crate) fn read(part: &Part, companions: &Companions) -> Result<Draft, TraceError> {
    let mut draft = Draft::of_file();
    let mut cursor = Cursor::new(&part.name, &part.bytes);
    let first = message(&mut cursor)?;
    draft.version = Some(metadata(first)?);
    let mut nodes = Vec::new();
    while !cursor.is_over() {
        nodes.push(node(message(&mut cursor)?)?);
    }
    node::records(&part.name, nodes, companions, &mut draft)?;
    Ok(draft)
}

fn message<'a>(cursor: &mut Cursor<'a>) -> Result<Cursor<'a>, TraceError> {
    let length = cursor.varint("the length of a message")?;
    let length = cursor.count(length, 1, "the length of a message")?;
    cursor.part(length, "a message")
}

/// A field of a message.
enum Field<'a> {
    Number(u64),
    Fixed(u64),
    Bytes(Cursor<'a>, &'a [u8]),
}

fn field<'a>(cursor: &mut Cursor<'a>) -> Result<(u64, Field<'a>), TraceError> {
    let tag = cursor.varint("the tag of a field")?;
    let value = match tag & 7 {
        0 => Field::Number(cursor.varint("a number")?),
        1 => Field::Fixed(cursor.u64_le("a number of eight bytes")?),
        2 => {
            let length = cursor.varint("the length of a field")?;
            let length = cursor.count(length, 1, "the length of a field")?;
            let bytes = cursor.clone().take(length, "a field")?;
            Field::Bytes(cursor.part(length, "a field")?, bytes)
        }
        5 => Field::Fixed(u64::from(cursor.u32_le("a number of four bytes")?)),
        _ => return Err(cursor.unexpected("a field of protobuf")),
    };
    if tag >> 3 == 0 {
        return Err(cursor.unexpected("a field with a number"));
    }
    Ok((tag >> 3, value))
}

/// The version that the metadata state: their own, or the attribute `schema` of older traces.
fn metadata(mut cursor: Cursor<'_>) -> Result<String, TraceError> {
    let (mut version, mut schema) = (None, None);
    while !cursor.is_over() {
        match field(&mut cursor)? {
            (1, Field::Bytes(inner, bytes)) => version = Some(text(&inner, bytes)?),
            (2, Field::Bytes(inner, _)) => {
                if let (name, Value::Text(value)) = attribute(inner)?
                    && name == "schema"
                {
                    schema = Some(format!("PyTorch {value}"));
                }
            }
            _ => return Err(cursor.unexpected("metadata: a version or an attribute")),
        }
    }
    Ok(version.or(schema).unwrap_or_else(|| "unstated".to_owned()))
}

fn text(cursor: &Cursor<'_>, bytes: &[u8]) -> Result<String, TraceError> {
    String::from_utf8(bytes.to_vec()).map_err(|_| cursor.unexpected("text in UTF-8"))
}

fn node(mut cursor: Cursor<'_>) -> Result<Node, TraceError> {
    let mut node = Node::default();
    while !cursor.is_over() {
        match field(&mut cursor)? {
            (1, Field::Number(id)) => node.id = id,
            (2, Field::Bytes(inner, bytes)) => node.name = text(&inner, bytes)?,
            (3, Field::Number(kind)) => node.kind = kind,
            (4, Field::Number(id)) => node.control.push(id),
            (5, Field::Number(id)) => node.data.push(id),
            (4, Field::Bytes(inner, _)) => numbers(inner, &mut node.control)?,
            (5, Field::Bytes(inner, _)) => numbers(inner, &mut node.data)?,
            (6, Field::Number(us)) => node.start_us = Some(us),
            (7, Field::Number(us)) => node.duration_us = Some(us),
            (8 | 9, Field::Bytes(..)) => {}
            (10, Field::Bytes(inner, _)) => {
                let (name, value) = attribute(inner)?;
                node.set(&name, value);
            }
            (1..=10, _) => return Err(cursor.unexpected("the field of a node in its type")),
            _ => {}
        }
    }
    Ok(node)
}

fn numbers(mut cursor: Cursor<'_>, into: &mut Vec<u64>) -> Result<(), TraceError> {
    while !cursor.is_over() {
        into.push(cursor.varint("a number")?);
    }
    Ok(())
}

/// An attribute: its name and its value, whose type the number of its field says.
fn attribute(mut cursor: Cursor<'_>) -> Result<(String, Value), TraceError> {
    let (mut name, mut value) = (String::new(), Value::Other);
    while !cursor.is_over() {
        value = match field(&mut cursor)? {
            (1, Field::Bytes(inner, bytes)) => {
                name = text(&inner, bytes)?;
                continue;
            }
            (3, Field::Fixed(bits)) => Value::Float(f64::from_bits(bits)),
            (5, Field::Fixed(bits)) => Value::Float(f64::from(f32::from_bits(bits as u32))),
            (15 | 17, Field::Number(zigzag)) => Value::Int((zigzag >> 1) as i64 ^ -((zigzag & 1) as i64)),
            (7 | 9 | 11 | 13 | 27, Field::Number(number)) => Value::Int(number as i64),
            (21 | 25, Field::Fixed(number)) => Value::Int(number as i64),
            (19, Field::Fixed(number)) => Value::Int(number as i64),
            (23, Field::Fixed(number)) => Value::Int(i64::from(number as u32 as i32)),
            (29, Field::Bytes(inner, bytes)) => Value::Text(text(&inner, bytes)?),
            _ => continue,
        };
    }
    Ok((name, value))
}
