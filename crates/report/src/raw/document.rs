//! JSON documents that stand in a log, or are the file.
//!
//! Every byte is parsed as JSON once: where a document does not go on, the next is looked for behind that place. One that the file cuts off is
//! closed behind its last whole value, and told.

use serde_json::Value;

use super::line::Line;
use super::rows::{Position, Rows, Sheet};

/// A document.
pub(super) struct Document<'a> {
    /// What it says.
    pub value: Value,
    text: &'a str,
    /// Where it begins.
    begin: Position,
    /// The line on which the file cuts it off.
    cut: Option<usize>,
}

/// The documents of a text.
pub(super) struct Documents<'a> {
    text: &'a str,
    /// Up to where the text was parsed.
    parsed: usize,
}

impl<'a> Documents<'a> {
    pub fn of(text: &'a str) -> Documents<'a> {
        Documents { text, parsed: 0 }
    }

    /// The document that begins on this line.
    pub fn at(&mut self, line: &Line<'_>) -> Option<Document<'a>> {
        let first = line.text.trim_start();
        if line.offset < self.parsed
            || !line.mark.is_empty()
            || !first.starts_with('{')
            || !(first.len() == 1 || first[1..].trim_start().starts_with('"'))
        {
            return None;
        }
        let rest = &self.text[line.offset..];
        let begin = Position::from(line);
        let mut stream = serde_json::Deserializer::from_str(rest).into_iter::<Value>();
        match stream.next() {
            Some(Ok(value)) => {
                let text = &rest[..stream.byte_offset()];
                self.parsed = line.offset + text.len();
                Some(Document { value, text, begin, cut: None })
            }
            Some(Err(error)) if error.is_eof() => {
                self.parsed = self.text.len();
                let value = closed(rest).and_then(|text| serde_json::from_str(&text).ok())?;
                Some(Document { value, text: rest, begin, cut: Some(line.number + error.line().max(1) - 1) })
            }
            Some(Err(error)) => {
                // The column is that of the byte that does not belong there.
                let before: usize = rest.split_inclusive('\n').take(error.line().saturating_sub(1)).map(str::len).sum();
                self.parsed = line.offset + (before + error.column()).min(rest.len());
                None
            }
            None => None,
        }
    }
}

impl Document<'_> {
    /// Where it begins.
    pub fn begin(&self) -> Position {
        self.begin
    }
    /// Behind its last byte.
    pub fn end(&self) -> usize {
        self.begin.offset + self.text.len()
    }
    /// The place of the next key of this name from `cursor` on, which moves behind it.
    pub fn place(&self, cursor: &mut Cursor, key: &str) -> Position {
        let name = format!("\"{key}\"");
        let Some(found) = self.text.get(cursor.at..).and_then(|rest| rest.find(&name)) else { return self.begin };
        let at = cursor.at + found;
        let passed = &self.text[cursor.at..at];
        cursor.lines += passed.bytes().filter(|byte| *byte == b'\n').count();
        cursor.begin = passed.rfind('\n').map_or(cursor.begin, |feed| cursor.at + feed + 1);
        cursor.at = at + name.len();
        Position { line: self.begin.line + cursor.lines, offset: self.begin.offset + cursor.begin, ended: true }
    }
    /// Tells where the file cuts it off.
    pub fn tell_end(&self, rows: &mut Rows<'_>) {
        if let Some(line) = self.cut {
            let offset = self.text.rfind('\n').map_or(0, |feed| feed + 1);
            let at = Position { line, offset: self.begin.offset + offset, ended: false };
            let problem = "the JSON document ends in the middle; what stands whole above is read".to_owned();
            rows.fault(&mut Sheet::of("json"), at, problem, "copy the whole file".to_owned());
        }
    }
}

/// How far the places of a document were looked for.
#[derive(Debug, Default)]
pub(super) struct Cursor {
    at: usize,
    lines: usize,
    /// Where the line begins.
    begin: usize,
}

/// A document that is cut off, closed behind its last whole value.
fn closed(text: &str) -> Option<String> {
    let (mut open, mut quoted, mut escaped) = (Vec::new(), false, false);
    let mut whole: Option<(usize, Vec<char>)> = None;
    for (at, c) in text.char_indices() {
        if quoted {
            (quoted, escaped) = (escaped || c != '"', !escaped && c == '\\');
            continue;
        }
        match c {
            '"' => quoted = true,
            '{' => open.push('}'),
            '[' => open.push(']'),
            '}' | ']' => {
                open.pop();
                whole = Some((at + 1, open.clone()));
            }
            // What stands in front of a comma is whole; depth is bounded by the parser's own limit.
            ',' if open.len() < DEEPEST => whole = Some((at, open.clone())),
            _ => {}
        }
        if open.len() > DEEPEST {
            return None;
        }
    }
    let (end, open) = whole?;
    Some(text[..end].chars().chain(open.into_iter().rev()).collect())
}

/// Documents of tools nest less deeply. Basis: assumed.
const DEEPEST: usize = 64;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_cut_off_is_closed() {
        let cut = r#"{"a": [{"b": 1, "c": "x}"}, {"b": 2, "c": "#;
        let value: Value = serde_json::from_str(&closed(cut).unwrap()).unwrap();
        assert_eq!(value, serde_json::json!({"a": [{"b": 1, "c": "x}"}, {"b": 2}]}));
        assert_eq!(closed("{"), None);
    }
}
