//! A TOML document of one or several texts, with every value knowing where it stands.
//!
//! A part may rest on another (`base`), a lab may include files. The texts are numbered through one after
//! the other, so that a span of the merged table still finds its file, line and column.

use std::ops::Range;

use serde::de::DeserializeOwned;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

use crate::deserialize;
use crate::error::{Fault, Problem};
use crate::suggest;

/// Tables of a choice: a later one replaces the earlier one as a whole.
const CHOICES: [&str; 5] = ["topology", "routing", "workload", "qos", "scale_up"];

#[derive(Clone, Copy, Debug)]
struct Text<'t> {
    file: &'t str,
    text: &'t str,
    start: usize,
}

/// One or several texts merged into one table.
#[derive(Clone, Debug)]
pub struct Document<'t> {
    texts: Vec<Text<'t>>,
    /// The text that was asked for: what it rests on comes before, what its tables rest on comes after.
    asked: usize,
    table: DeTable<'t>,
}

impl<'t> Document<'t> {
    /// Reads `text`, which is what `file` holds.
    ///
    /// # Errors
    /// What is not TOML.
    pub fn parse(file: &'t str, text: &'t str) -> Result<Document<'t>, Box<Fault>> {
        let table = DeTable::parse(text).map_err(|error| {
            let span = error.span().unwrap_or(0..0);
            Fault::new(file, text, span, error.message().to_owned(), "correct the TOML syntax here".to_owned())
        })?;
        Ok(Document { texts: vec![Text { file, text, start: 0 }], asked: 0, table: table.into_inner() })
    }

    /// The document with `base` under it: own keys win, tables are merged, numbers and choices replaced whole.
    #[must_use]
    pub fn over(self, base: Document<'t>) -> Document<'t> {
        self.on(base, Choices::Replaced)
    }

    /// The document with `base` under it, of which single keys are set: keys of a choice as well, where the choice stays.
    #[must_use]
    pub fn set_in(self, base: Document<'t>) -> Document<'t> {
        self.on(base, Choices::Entered)
    }

    fn on(mut self, mut base: Document<'t>, choices: Choices) -> Document<'t> {
        let end = base.texts.last().map_or(0, |text| text.start + text.text.len() + 1);
        for text in &mut self.texts {
            text.start += end;
        }
        merge(&mut base.table, moved(self.table, end), choices);
        base.asked = base.texts.len() + self.asked;
        base.texts.append(&mut self.texts);
        base
    }

    /// Takes a text out of the document, with its place; an error if the value is something else.
    pub(crate) fn take_text(&mut self, key: &str) -> Result<Option<Spanned<String>>, Box<Fault>> {
        let Some(value) = self.table.remove(key) else { return Ok(None) };
        let span = value.span();
        match value.into_inner() {
            DeValue::String(text) => Ok(Some(Spanned::new(span, text.into_owned()))),
            _ => Err(self.fault(span, format!("`{key}` is not a text"), format!("write {key} = \"name\""))),
        }
    }

    /// Whether there is something under `key`.
    pub(crate) fn has(&self, key: &str) -> bool {
        self.table.contains_key(key)
    }

    /// The document without the table under `inner` of the table under `outer`.
    pub(crate) fn without(mut self, outer: &str, inner: &str) -> Document<'t> {
        if let Some(DeValue::Table(table)) = self.table.get_mut(outer).map(Spanned::get_mut) {
            table.remove(inner);
        }
        self
    }

    /// Takes a list of texts out of the document, with their places.
    ///
    /// # Errors
    /// The value is something else.
    pub fn take_texts(&mut self, key: &str) -> Result<Vec<Spanned<String>>, Box<Fault>> {
        let Some(value) = self.table.remove(key) else { return Ok(Vec::new()) };
        let wrong = |span| self.fault(span, format!("`{key}` is not a list of texts"), format!("write {key} = [\"file.toml\"]"));
        let span = value.span();
        let DeValue::Array(items) = value.into_inner() else { return Err(wrong(span)) };
        let mut texts = Vec::new();
        for item in items {
            let span = item.span();
            match item.into_inner() {
                DeValue::String(text) => texts.push(Spanned::new(span, text.into_owned())),
                _ => return Err(wrong(span)),
            }
        }
        Ok(texts)
    }

    /// The table under `key` as a document of its own, if there is one.
    pub fn table(&self, key: &str) -> Option<Document<'t>> {
        let table = self.table.get(key)?.get_ref().as_table()?.clone();
        Some(Document { texts: self.texts.clone(), asked: self.asked, table })
    }

    /// Puts `inner`, made from [`Document::table`], in the place of the table under `key`.
    pub fn set_table(&mut self, key: &str, inner: Document<'t>) {
        // `inner` numbers its texts anew, with what it rests on before its own: the others follow.
        let own = self.texts[self.asked].start;
        let by = inner.texts[inner.asked].start - own;
        let Some(slot) = self.table.remove_entry(key).map(|(key, value)| (Spanned::new(shift(key.span(), by), key.into_inner()), value))
        else {
            return;
        };
        let mut table = moved(std::mem::take(&mut self.table), by);
        let (key, value) = slot;
        table.insert(key, Spanned::new(shift(value.span(), by), DeValue::Table(inner.table)));
        *self = Document { texts: inner.texts, asked: inner.asked, table };
    }

    /// Reads the table into a typed value.
    ///
    /// # Errors
    /// A key that is unknown or missing, a value of the wrong type.
    pub fn read<T: DeserializeOwned>(&self) -> Result<T, Box<Fault>> {
        deserialize::from_table(&self.table).map_err(|wrong| {
            let (message, help) = suggest::explain(&wrong.message);
            self.fault(wrong.span.unwrap_or(NOWHERE), message, help)
        })
    }

    /// A fault at `span` of the merged texts; `NOWHERE` is the start of the file that was asked for.
    pub fn fault(&self, span: Range<usize>, message: String, help: String) -> Box<Fault> {
        let own = self.texts[self.asked];
        if span == NOWHERE {
            return Fault::new(own.file, own.text, 0..0, message, help);
        }
        let text = self.texts.iter().rev().find(|text| text.start <= span.start).unwrap_or(&own);
        let start = span.start.saturating_sub(text.start);
        Fault::new(text.file, text.text, start..span.end.saturating_sub(text.start), message, help)
    }

    /// The file in which the value stands that `path` leads to, or as near as the document has it.
    pub fn file_of(&self, path: &[&str]) -> &'t str {
        let span = self.span_of(path.iter().copied());
        let own = self.texts[self.asked];
        if span == NOWHERE {
            return own.file;
        }
        self.texts.iter().rev().find(|text| text.start <= span.start).unwrap_or(&own).file
    }

    /// The fault of a problem: at the value that its path leads to, or as near as the document has it.
    pub fn fault_of(&self, problem: Problem) -> Box<Fault> {
        self.fault(self.span_of(problem.path.iter().map(String::as_str)), problem.message, problem.help)
    }

    /// Where the value stands that `path` leads to, if it is there.
    pub(crate) fn place_of(&self, path: &[&str]) -> Option<Range<usize>> {
        let (last, tables) = path.split_last()?;
        let mut table = &self.table;
        for key in tables {
            table = table.get(*key)?.get_ref().as_table()?;
        }
        table.get(*last).map(Spanned::span)
    }

    /// Where the value stands that `path` leads to, or as near as the document has it.
    fn span_of<'p>(&self, path: impl Iterator<Item = &'p str>) -> Range<usize> {
        let (mut span, mut value) = (NOWHERE, None::<&DeValue<'t>>);
        for key in path {
            let below = match value {
                None if span == NOWHERE => self.table.get(key),
                Some(DeValue::Table(table)) => table.get(key),
                Some(DeValue::Array(items)) => key.parse::<usize>().ok().and_then(|number| items.get(number)),
                _ => None,
            };
            let Some(below) = below else { break };
            (span, value) = (below.span(), Some(below.get_ref()));
        }
        span
    }
}

/// The span of what has no place of its own, such as a key that is missing at the top.
const NOWHERE: Range<usize> = usize::MAX..usize::MAX;

/// The same table with every span moved by `by`.
fn moved(table: DeTable<'_>, by: usize) -> DeTable<'_> {
    table.into_iter().map(|(key, value)| (Spanned::new(shift(key.span(), by), key.into_inner()), moved_value(value, by))).collect()
}

fn moved_value(value: Spanned<DeValue<'_>>, by: usize) -> Spanned<DeValue<'_>> {
    let span = shift(value.span(), by);
    let value = match value.into_inner() {
        DeValue::Table(table) => DeValue::Table(moved(table, by)),
        DeValue::Array(items) => DeValue::Array(items.into_iter().map(|item| moved_value(item, by)).collect()),
        plain => plain,
    };
    Spanned::new(span, value)
}

fn shift(span: Range<usize>, by: usize) -> Range<usize> {
    span.start + by..span.end + by
}

/// What becomes of a table that names a choice, such as `[topology.fat_tree]`, where another one lies over it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Choices {
    /// The one above is the choice.
    Replaced,
    /// Keys of the one above take the place of its own.
    Entered,
}

fn merge<'t>(under: &mut DeTable<'t>, over: DeTable<'t>, choices: Choices) {
    for (key, value) in over {
        let name = key.get_ref().as_ref();
        let whole = (CHOICES.contains(&name) && choices == Choices::Replaced) || value.get_ref().get("value").is_some();
        if !whole
            && value.get_ref().is_table()
            && let Some(DeValue::Table(old)) = under.get_mut(name).map(Spanned::get_mut)
        {
            if let DeValue::Table(new) = value.into_inner() {
                merge(old, new, choices);
            }
            continue;
        }
        // The map would keep the old key with its old place.
        under.remove(name);
        under.insert(key, value);
    }
}
