//! YAML as a tree in which every value knows where it begins: the first document of a file.
//!
//! Source: YAML 1.2, read by `saphyr_parser`. Not read: aliases and tags, keys that are not texts, keys that stand twice.

use saphyr_parser::{Event, Parser};

use super::{ImportError, Mistake};

/// A value and where it begins.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Node {
    /// The line, counted from 1.
    pub line: u32,
    /// The column in characters, counted from 1.
    pub column: u32,
    /// What stands there.
    pub value: Value,
}

/// What a value is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Value {
    /// Nothing at all.
    #[default]
    Nothing,
    /// A text, a number, true or false: as it is written.
    Text(String),
    /// A list.
    List(Vec<Node>),
    /// A table, in the order of the file.
    Map(Vec<(String, Node)>),
}

/// Something that is not as it should be.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("line {line}: {what} cannot be read")]
pub struct YamlError {
    /// The line, counted from 1.
    pub line: u32,
    /// The column in characters, counted from 1.
    pub column: u32,
    /// What stands there.
    pub what: String,
    /// What to do.
    pub remedy: &'static str,
}

impl From<YamlError> for ImportError {
    fn from(error: YamlError) -> ImportError {
        ImportError::Line { line: error.line, mistake: Mistake::Malformed { what: error.what, remedy: error.remedy } }
    }
}

impl Node {
    pub(super) fn wrong(&self, what: String, remedy: &'static str) -> YamlError {
        YamlError { line: self.line, column: self.column, what, remedy }
    }
    fn unfit(&self, remedy: &'static str) -> YamlError {
        let what = match &self.value {
            Value::Nothing => "nothing",
            Value::Text(_) => "a text",
            Value::List(_) => "a list",
            Value::Map(_) => "a table",
        };
        self.wrong(format!("{what} in the place of something else"), remedy)
    }
    /// The text that stands here.
    ///
    /// # Errors
    /// It is something else; `expected` says what to write.
    pub fn text(&self, expected: &'static str) -> Result<&str, YamlError> {
        if let Value::Text(text) = &self.value { Ok(text) } else { Err(self.unfit(expected)) }
    }
    /// The list that stands here.
    ///
    /// # Errors
    /// As [`Node::text`].
    pub fn list(&self, expected: &'static str) -> Result<&[Node], YamlError> {
        if let Value::List(list) = &self.value { Ok(list) } else { Err(self.unfit(expected)) }
    }
    /// The table that stands here.
    ///
    /// # Errors
    /// As [`Node::text`].
    pub fn map(&self, expected: &'static str) -> Result<&[(String, Node)], YamlError> {
        if let Value::Map(map) = &self.value { Ok(map) } else { Err(self.unfit(expected)) }
    }
}

/// The first document of a text, if it has one.
///
/// # Errors
/// What is not YAML, or not read of it; lists and tables in more levels than `levels`.
pub fn document(text: &str, levels: usize) -> Result<Option<Node>, YamlError> {
    // What is open, outermost first, with the key that waits for its value where it is a table.
    let mut open: Vec<(Node, Option<String>)> = Vec::new();
    for event in Parser::new_from_str(text) {
        let (event, span) = event.map_err(|error| {
            let (line, column) = (error.marker().line() as u32, error.marker().col() as u32 + 1);
            let what = format!("what is not YAML ({})", error.info());
            YamlError { line, column, what, remedy: "correct the indentation and the quotes" }
        })?;
        let at = |value| Node { line: span.start.line() as u32, column: span.start.col() as u32 + 1, value };
        let mut done = match event {
            Event::SequenceStart(..) => {
                open.push((at(Value::List(Vec::new())), None));
                None
            }
            Event::MappingStart(..) => {
                open.push((at(Value::Map(Vec::new())), None));
                None
            }
            Event::SequenceEnd | Event::MappingEnd => open.pop().map(|(node, _)| node),
            Event::Scalar(text, ..) => Some(at(Value::Text(text.into_owned()))),
            Event::Alias(..) => return Err(at(Value::Nothing).wrong("an alias".to_owned(), "write its value in its place")),
            Event::DocumentEnd => break,
            Event::Nothing | Event::StreamStart | Event::StreamEnd | Event::DocumentStart(..) => None,
        };
        if open.len() > levels {
            return Err(at(Value::Nothing).wrong("too many levels".to_owned(), "lists and tables within each other are fewer here"));
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
