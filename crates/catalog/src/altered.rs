//! Numbers one by one: where each was written, which published table it cites, and the catalogue with some of them changed.
//!
//! A part that rests on another (`base`) has its numbers too; here a number belongs to the file that writes it, so that changing it changes
//! every part that takes it over. What stands in lists and in tables of several lines is no single number and is left alone.

use std::collections::BTreeSet;
use std::sync::Arc;

use crate::catalog::{Catalog, Source};
use crate::document::Document;
use crate::error::{CatalogError, Problem};
use crate::part::Kind;
use crate::sourced::Basis;
use crate::table::Row;

/// Another number in the place of one that a file writes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Alteration {
    /// The kind of the part.
    pub kind: Kind,
    /// The part in whose file the number stands.
    pub part: String,
    /// The keys that lead to it, `root_complex.max_payload`.
    pub field: String,
    /// What stands there instead, with its unit.
    pub value: String,
    /// What that rests on.
    pub basis: Basis,
    /// Where it comes from, and why it is taken.
    pub because: String,
}

impl Row {
    /// Which of `tables` the number names in its source or its note, in their order.
    pub fn cites<'t>(&self, tables: &[&'t str]) -> Vec<&'t str> {
        tables.iter().copied().filter(|table| names(&self.source, table) || names(&self.note, table)).collect()
    }
}

/// Whether `text` holds `name` as a word of its own: names have letters, digits, `-` and `_` in them.
fn names(text: &str, name: &str) -> bool {
    let of_name = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
    text.match_indices(name).any(|(at, _)| {
        let (before, after) = (text[..at].chars().next_back(), text[at + name.len()..].chars().next());
        !before.is_some_and(of_name) && !after.is_some_and(of_name)
    })
}

impl Catalog {
    /// The number of a part, wherever it comes from.
    pub fn number(&self, kind: Kind, part: &str, field: &str) -> Option<Row> {
        self.part(kind, part).ok()?.numbers().into_iter().find(|row| row.field == field)
    }

    /// Every number that the file of its own part writes, by kind and name: none is there twice because a part rests on another.
    pub fn own_numbers(&self) -> Vec<Row> {
        let own = |part: &crate::catalog::AnyPart| {
            let document = self.text_of(part.kind(), part.name()).and_then(|text| Document::parse("", text).ok());
            let mut rows = part.numbers();
            rows.retain(|row| document.as_ref().is_some_and(|document| document.place_of(&keys(&row.field)).is_some()));
            rows
        };
        self.parts().flat_map(own).collect()
    }

    /// The name of the part that a part rests on.
    pub fn base_of(&self, kind: Kind, part: &str) -> Option<String> {
        let mut document = Document::parse("", self.text_of(kind, part)?).ok()?;
        document.take_text("base").ok()?.map(toml::Spanned::into_inner)
    }

    /// The catalogue with other numbers in the place of some.
    ///
    /// # Errors
    /// A number that its part's file does not write, or not on one line; a value that does not fit.
    pub fn altered(&self, alterations: &[Alteration]) -> Result<Catalog, CatalogError> {
        let mut altered = self.clone();
        let mut touched = BTreeSet::new();
        for alteration in alterations {
            let key = (alteration.kind, alteration.part.clone());
            let source = self.sources.get(&key).ok_or_else(|| missing(alteration, "there is no such part"))?;
            let text = altered.sources.get(&key).map_or(source.text.as_str(), |source| source.text.as_str());
            let text = spliced(&source.file, text, alteration)?;
            Arc::make_mut(&mut altered.sources).insert(key.clone(), Source { file: source.file.clone(), text });
            touched.insert(key);
        }
        // Who rests on a changed part has changed, and so on.
        let before = self.sources.keys().filter_map(|(kind, part)| Some(((*kind, part.clone()), (*kind, self.base_of(*kind, part)?))));
        let bases: Vec<_> = before.collect();
        loop {
            let found = bases.iter().filter(|(part, base)| touched.contains(base) && !touched.contains(part));
            let more: Vec<_> = found.map(|(part, _)| part.clone()).collect();
            if more.is_empty() {
                break;
            }
            touched.extend(more);
        }
        if touched.iter().any(|(kind, _)| *kind == Kind::Decisions) {
            touched.extend(self.sources.keys().filter(|(kind, _)| *kind == Kind::Software).cloned());
        }
        // Software looks at decisions.
        let (decisions, others): (Vec<_>, Vec<_>) = touched.into_iter().partition(|(kind, _)| *kind == Kind::Decisions);
        for key in decisions.into_iter().chain(others) {
            let Some(source) = altered.sources.get(&key) else { continue };
            let part = altered.parse_part_in(key.0, &key.1, &source.file, &source.text)?;
            Arc::make_mut(&mut altered.parts).insert(key, part);
        }
        Ok(altered)
    }
}

fn keys(field: &str) -> Vec<&str> {
    field.split('.').collect()
}

fn missing(alteration: &Alteration, message: &str) -> CatalogError {
    let Alteration { kind, part, field, .. } = alteration;
    let help = format!("`fabriscope parts {part}` lists its numbers, `fabriscope show {part}` its file");
    CatalogError::Impossible { cluster: part.clone(), message: format!("the {kind} has no number `{field}` to change: {message}"), help }
}

/// The text with another number in the place of the one that it writes.
fn spliced(file: &str, text: &str, alteration: &Alteration) -> Result<String, CatalogError> {
    let document = Document::parse(file, text)?;
    let place = document.place_of(&keys(&alteration.field)).ok_or_else(|| missing(alteration, "its file does not write it"))?;
    if !text.get(place.clone()).is_some_and(|number| number.starts_with('{')) {
        return Err(missing(alteration, "it does not stand on one line as { value = …, basis = … }"));
    }
    let (basis, because) = (alteration.basis.name(), toml::Value::String(alteration.because.clone()));
    // Numbers and truths stand bare, all else in quotes.
    let bare = alteration.value.parse::<f64>().is_ok() || matches!(alteration.value.as_str(), "true" | "false");
    let value = if bare { alteration.value.clone() } else { toml::Value::String(alteration.value.clone()).to_string() };
    let mut changed = text.to_owned();
    changed.replace_range(place, &format!("{{ value = {value}, basis = \"{basis}\", source = {because}, note = {because} }}"));
    Document::parse(file, &changed).map_err(|fault| {
        let problem =
            Problem::at(&[], format!("`{}` cannot stand in the place of `{}`", alteration.value, alteration.field), fault.help.clone());
        CatalogError::from(document.fault_of(problem))
    })?;
    Ok(changed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_is_named_as_a_word() {
        let row = |source: &str, note: &str| Row {
            kind: "nics",
            part: String::new(),
            field: String::new(),
            value: String::new(),
            basis: Basis::Estimated,
            source: source.to_owned(),
            note: note.to_owned(),
        };
        let tables = ["a-osu_bw", "a-osu_bw_mr", "b"];
        assert_eq!(row("tables a-osu_bw, b", "").cites(&tables), ["a-osu_bw", "b"]);
        assert_eq!(row("", "peak (a-osu_bw_mr): 5").cites(&tables), ["a-osu_bw_mr"]);
        assert!(row("xa-osu_bw", "bb, b-").cites(&tables).is_empty());
    }
}
