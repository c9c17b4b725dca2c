//! The catalogue as it would be without the tables of one machine: a prediction of that machine by what others and vendors say.
//!
//! Every number whose source or note names one of the machine's tables gives way to that of the part it rests on (`base`), where that one does not
//! rest on the same tables; or to what stands for it in `validation/priors.toml`, a vendor's figure or a plain estimate. Where there is neither, the
//! number stays, and is told as kept. Parts that take a number over take over what replaces it.
//!
//! Not modelled: choices that have no number (which switch, how many levels), and what a person who knew a table built without citing it.

use std::collections::{BTreeMap, BTreeSet};

use fabriscope_catalog::{Alteration, Basis, Catalog, CatalogError, Kind, Row};
use fabriscope_report::Measured;
use serde::Deserialize;

use crate::error::LabError;

/// What would stand in the catalogue without published tables: by folder, part and field.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(transparent)]
pub struct Priors(BTreeMap<String, BTreeMap<String, BTreeMap<String, Prior>>>);

/// One number without the table that it rests on.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
struct Prior {
    value: toml::Value,
    basis: Basis,
    #[serde(default)]
    source: String,
    #[serde(default)]
    note: String,
}

impl Priors {
    /// Reads a file's text; `file` is the name that messages give it.
    ///
    /// # Errors
    /// Not TOML, a folder that is none, a key that is unknown; the message shows the line.
    pub fn parse(file: &str, text: &str) -> Result<Priors, LabError> {
        let refused = |what: String| {
            LabError::refused(format!("{file}: {what}"), "write [folder.part] and below it field = { value = …, basis = … }")
        };
        let priors: Priors = toml::from_str(text).map_err(|cause| refused(cause.to_string()))?;
        let unknown = priors.0.keys().find(|folder| kind_of(folder).is_none());
        unknown.map_or(Ok(()), |folder| Err(refused(format!("`{folder}` is no kind of part")))).map(|()| priors)
    }

    /// Every number that is there: kind, part, field.
    pub fn all(&self) -> impl Iterator<Item = (Kind, &str, &str)> {
        self.0.iter().flat_map(|(folder, parts)| {
            let kind = kind_of(folder).expect("folders were looked at when the file was read");
            parts.iter().flat_map(move |(part, fields)| fields.keys().map(move |field| (kind, part.as_str(), field.as_str())))
        })
    }

    fn of(&self, row: &Row) -> Option<&Prior> {
        self.0.get(row.kind)?.get(&row.part)?.get(&row.field)
    }
}

fn kind_of(folder: &str) -> Option<Kind> {
    Kind::ALL.into_iter().find(|kind| kind.folder() == folder)
}

/// The machines of the tables, each with its tables.
#[must_use]
pub fn machines(files: &[Measured]) -> BTreeMap<String, BTreeSet<String>> {
    let mut machines: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for row in files.iter().flat_map(Measured::rows) {
        machines.entry(row.cluster.clone()).or_default().insert(row.table.clone());
    }
    machines
}

/// A number that names a table, and what takes its place without it.
#[derive(Debug, Clone, PartialEq)]
pub struct Replacement {
    /// The number.
    pub number: Row,
    /// What takes its place; nothing where the number is kept.
    pub by: Option<Alteration>,
}

/// The numbers that files of the catalogue write and that name one of `tables`, and what takes their place.
#[must_use]
pub fn replacements(catalog: &Catalog, priors: &Priors, tables: &[&str]) -> Vec<Replacement> {
    let own = catalog.own_numbers();
    let citing = own.into_iter().filter(|row| !row.cites(tables).is_empty());
    citing.map(|number| Replacement { by: instead(catalog, priors, tables, &number), number }).collect()
}

fn instead(catalog: &Catalog, priors: &Priors, tables: &[&str], number: &Row) -> Option<Alteration> {
    let kind = kind_of(number.kind)?;
    let by = |value: String, basis, because| {
        Some(Alteration { kind, part: number.part.clone(), field: number.field.clone(), value, basis, because })
    };
    if let Some(prior) = priors.of(number) {
        let value = prior.value.as_str().map_or_else(|| prior.value.to_string(), str::to_owned);
        let because = [prior.source.as_str(), &prior.note].into_iter().filter(|words| !words.is_empty()).collect::<Vec<_>>().join("; ");
        return by(value, prior.basis, because);
    }
    // Up the chain of bases to the first that does not rest on the same tables.
    let mut part = number.part.clone();
    loop {
        part = catalog.base_of(kind, &part)?;
        let row = catalog.number(kind, &part, &number.field)?;
        if row.cites(tables).is_empty() {
            return by(row.value, row.basis, format!("as {part}"));
        }
        if let Some(prior) = priors.of(&Row { part: part.clone(), ..row }) {
            let value = prior.value.as_str().map_or_else(|| prior.value.to_string(), str::to_owned);
            return by(value, prior.basis, format!("as {part} without the tables"));
        }
    }
}

/// The catalogue with the replacements in it.
///
/// # Errors
/// A value that does not fit where it goes.
pub fn without(catalog: &Catalog, replacements: &[Replacement]) -> Result<Catalog, CatalogError> {
    let alterations: Vec<Alteration> = replacements.iter().filter_map(|replacement| replacement.by.clone()).collect();
    catalog.altered(&alterations)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::published;

    fn catalog() -> Catalog {
        Catalog::embedded().unwrap()
    }

    fn of(tables: &[&str], part: &str, field: &str) -> Option<Alteration> {
        let found = replacements(&catalog(), &published::priors().unwrap(), tables);
        found.into_iter().find(|replacement| replacement.number.part == part && replacement.number.field == field)?.by
    }

    #[test]
    fn a_part_gives_way_to_the_one_it_rests_on() {
        let by = of(&["oci-optimized3-imb-pingpong"], "ethernet-100g-leaf", "latency").unwrap();
        let sn2410 = catalog().number(Kind::Switch, "sn2410", "latency").unwrap();
        assert_eq!((by.value, by.basis, by.because.as_str()), (sn2410.value, sn2410.basis, "as sn2410"));
        // Another machine's tables leave it alone.
        assert_eq!(of(&["ri2-ib_write_lat"], "ethernet-100g-leaf", "latency"), None);
    }

    #[test]
    fn a_part_that_rests_on_none_gives_way_to_its_prior() {
        let by = of(&["ri2-ib_write_lat"], "connectx-5", "tx_latency").unwrap();
        assert_ne!(by.value, "210 ns");
        assert!(!by.because.is_empty());
    }

    #[test]
    fn machines_can_be_left_out() {
        leaves_out_every(4);
    }

    #[test]
    #[ignore = "half a minute: all machines"]
    fn every_machine_can_be_left_out() {
        leaves_out_every(1);
    }

    fn leaves_out_every(step: usize) {
        let (catalog, priors) = (catalog(), published::priors().unwrap());
        for (machine, tables) in machines(&published::tables().unwrap()).into_iter().step_by(step) {
            let tables: Vec<&str> = tables.iter().map(String::as_str).collect();
            let found = replacements(&catalog, &priors, &tables);
            let altered = without(&catalog, &found).unwrap_or_else(|error| panic!("{machine}: {error}"));
            assert!(altered.check().is_empty(), "{machine}");
            for Replacement { number, by } in &found {
                let now = altered.number(kind_of(number.kind).unwrap(), &number.part, &number.field).unwrap();
                let expected = by.as_ref().map_or(number.basis, |by| by.basis);
                assert_eq!(now.basis, expected, "{machine}: {} {}", number.part, number.field);
                assert!(
                    by.is_none() || now.cites(&tables).is_empty(),
                    "{machine}: {} {} still rests on the tables",
                    number.part,
                    number.field
                );
            }
        }
    }

    #[test]
    fn every_prior_is_of_a_number_that_rests_on_a_table() {
        let (catalog, priors, files) = (catalog(), published::priors().unwrap(), published::tables().unwrap());
        let tables: BTreeSet<&str> = files.iter().flat_map(|file| file.rows().iter().map(|row| row.table.as_str())).collect();
        let tables: Vec<&str> = tables.into_iter().collect();
        let own = catalog.own_numbers();
        for (kind, part, field) in priors.all() {
            let row = own.iter().find(|row| row.kind == kind.folder() && row.part == part && row.field == field);
            let row = row.unwrap_or_else(|| panic!("{part} writes no number `{field}`"));
            assert!(!row.cites(&tables).is_empty(), "{part} {field} rests on no table");
        }
    }

    #[test]
    fn a_wrong_file_is_refused_with_its_name() {
        let told = |text: &str| Priors::parse("p.toml", text).unwrap_err().to_string();
        assert!(told("[nic.connectx-5]\nx = { value = 1, basis = \"assumed\" }\n").contains("p.toml: `nic` is no kind of part"));
        assert!(told("[nics.connectx-5]\nx = { value = 1, basis = \"guessed\" }\n").contains("guessed"));
    }
}
