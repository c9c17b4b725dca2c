//! Elements of XML with the lines they stand in, and their attributes as values.

use std::borrow::Cow;

use roxmltree::{Document, Node, ParsingOptions};

use super::error::{ImportError, Mistake};

/// An element and the document it is of.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct Element<'d> {
    node: Node<'d, 'd>,
}

/// The document in `text`.
pub(super) fn document(text: &str) -> Result<Document<'_>, ImportError> {
    let options = ParsingOptions { allow_dtd: true, nodes_limit: MOST_NODES, ..ParsingOptions::default() };
    Document::parse_with_options(text, options)
        .map_err(|error| ImportError::NotXml { line: error.pos().row, what: error.to_string().replace(';', ",") })
}

/// The text with blanks for what is in comments: RCCL's files have lines of dashes there, which XML forbids and NCCL's reader takes.
pub(super) fn without_comments(text: &str) -> Cow<'_, str> {
    if !text.contains(OPENING) {
        return Cow::Borrowed(text);
    }
    let mut plain = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((before, comment)) = rest.split_once(OPENING) {
        // One without an end stays, for the reader of XML to say so.
        let Some((inside, after)) = comment.split_once("-->") else { break };
        plain.push_str(before);
        plain.push_str(OPENING);
        plain.extend(inside.chars().map(|c| if matches!(c, '\n' | '\r') { c } else { ' ' }));
        plain.push_str("-->");
        rest = after;
    }
    Cow::Owned(plain + rest)
}

const OPENING: &str = "<!--";

impl<'d> Element<'d> {
    /// The first element of a document.
    pub(super) fn root(document: &'d Document<'d>) -> Element<'d> {
        Element { node: document.root_element() }
    }
    pub(super) fn name(self) -> &'d str {
        self.node.tag_name().name()
    }
    pub(super) fn line(self) -> u32 {
        self.node.document().text_pos_at(self.node.range().start).row
    }
    pub(super) fn children(self) -> impl Iterator<Item = Element<'d>> {
        self.node.children().filter(Node::is_element).map(|node| Element { node })
    }
    pub(super) fn below(self) -> impl Iterator<Item = Element<'d>> {
        self.node.descendants().filter(Node::is_element).map(|node| Element { node })
    }
    pub(super) fn parent(self) -> Option<Element<'d>> {
        self.node.parent_element().map(|node| Element { node })
    }
    pub(super) fn text(self) -> &'d str {
        self.node.text().unwrap_or_default()
    }
    pub(super) fn says(self, attribute: &str) -> Option<&'d str> {
        self.node.attribute(attribute)
    }
    /// All attributes but those of `known`, as they stand there, without blanks around them.
    pub(super) fn rest(self, known: &[&str]) -> Vec<(String, String)> {
        let rest = self.node.attributes().filter(|attribute| !known.contains(&attribute.name()));
        rest.map(|attribute| (attribute.name().to_owned(), attribute.value().trim().to_owned())).collect()
    }
    pub(super) fn wrong(self, mistake: Mistake) -> ImportError {
        mistake.at(self.line())
    }
    pub(super) fn needed(self, attribute: &'static str, expected: &'static str) -> Result<&'d str, ImportError> {
        self.says(attribute).ok_or_else(|| self.wrong(Mistake::Missing { element: self.name().to_owned(), attribute, expected }))
    }
    /// A whole number, where there is one.
    pub(super) fn number(self, attribute: &str) -> Result<Option<u32>, ImportError> {
        self.parsed(attribute, "whole number", "use digits, such as 0 or 16", |text| text.parse().ok())
    }
    /// A number in hexadecimal digits, with 0x or without, where there is one.
    pub(super) fn hex(self, attribute: &str) -> Result<Option<u64>, ImportError> {
        self.parsed(attribute, "hexadecimal number", "use digits such as 0x15b3", hex)
    }
    /// A value, where there is one.
    pub(super) fn parsed<T>(
        self,
        attribute: &str,
        what: &'static str,
        expected: &'static str,
        read: impl Fn(&str) -> Option<T>,
    ) -> Result<Option<T>, ImportError> {
        let Some(text) = self.says(attribute).map(str::trim) else { return Ok(None) };
        read(text).map(Some).ok_or_else(|| self.wrong(Mistake::Value { text: text.to_owned(), what, expected }))
    }
}

/// A number in hexadecimal digits.
pub(super) fn hex(text: &str) -> Option<u64> {
    u64::from_str_radix(text.strip_prefix("0x").unwrap_or(text), 16).ok()
}

/// Elements that a file may have; the largest known nodes have some ten thousand in hwloc.
const MOST_NODES: u32 = 1 << 20;
