//! The numbers of a cluster that may be fitted: those of its parts that are times, rates or shares, with how far each may go.
//!
//! Limits follow from what a number rests on: a standard's is fixed, a datasheet's may be a little different on one machine, a guess may be off by
//! half. Basis of the limits: assumed. Shares stay at or below one.

use std::collections::BTreeSet;

use fabriscope_catalog::{Alteration, Basis, Catalog, Kind, Row};

/// A number that may be fitted.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Candidate {
    pub number: Row,
    pub kind: Kind,
    /// How far its logarithm is expected to be off; what is larger has to be paid for by fitting better.
    pub scale: f64,
    /// The smallest and the largest factor.
    pub limits: (f64, f64),
}

/// The numbers of all parts that these texts of clusters and software name, directly or through their parts.
pub(super) fn of(catalog: &Catalog, texts: &[String], software: &[String]) -> Vec<Candidate> {
    let parts = named(catalog, texts, software);
    let known = catalog.own_numbers().into_iter().filter_map(|number| {
        let kind = KINDS.into_iter().find(|kind| kind.folder() == number.kind)?;
        parts.contains(&(kind, number.part.clone())).then_some(())?;
        candidate(number, kind)
    });
    known.collect()
}

fn candidate(number: Row, kind: Kind) -> Option<Candidate> {
    let (value, unit) = split(&number.value)?;
    let share = unit.starts_with('/');
    if value <= 0.0 || !(share || unit.ends_with('s') && unit.starts_with(' ')) {
        return None;
    }
    let (scale, widest) = match number.basis {
        Basis::Standard => return None,
        Basis::Datasheet => (0.05, 1.15),
        Basis::Measured | Basis::Published => (0.1, 1.3),
        Basis::Fitted => (0.15, 1.6),
        Basis::Estimated | Basis::Assumed => (0.3, 2.0),
    };
    let mut limits = (1.0 / widest, widest);
    if share {
        let whole: f64 = unit[1..].parse().ok()?;
        limits.1 = f64::min(limits.1, whole / value);
        if limits.1 <= 1.0 {
            limits.1 = 1.0;
        }
    }
    Some(Candidate { number, kind, scale, limits })
}

impl Candidate {
    /// The catalogue's number by this factor.
    pub fn by(&self, factor: f64, because: &str) -> Alteration {
        Alteration {
            kind: self.kind,
            part: self.number.part.clone(),
            field: self.number.field.clone(),
            value: scaled(&self.number.value, factor),
            basis: Basis::Fitted,
            because: because.to_owned(),
        }
    }
    /// The factor within the limits.
    pub fn clamped(&self, factor: f64) -> f64 {
        factor.clamp(self.limits.0, self.limits.1)
    }
    /// Part and field, for people.
    pub fn name(&self) -> String {
        format!("{} {}", self.number.part, self.number.field)
    }
}

/// A value by a factor, to a thousandth of itself.
pub(super) fn scaled(value: &str, factor: f64) -> String {
    let Some((number, unit)) = split(value) else { return value.to_owned() };
    if let Some(whole) = unit.strip_prefix('/').and_then(|whole| whole.parse::<f64>().ok()) {
        return format!("{}/10000", (number / whole * factor * 10_000.0).round().min(10_000.0));
    }
    let exact = number * factor;
    let digits = if exact >= 1000.0 {
        0
    } else if exact >= 100.0 {
        1
    } else if exact >= 10.0 {
        2
    } else {
        3
    };
    let text = format!("{exact:.digits$}");
    let text = if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.') } else { &text };
    format!("{text}{unit}")
}

fn split(value: &str) -> Option<(f64, &str)> {
    let end = value.find(|c: char| !(c.is_ascii_digit() || c == '.')).unwrap_or(value.len());
    Some((value[..end].parse().ok()?, &value[end..]))
}

/// Every part that is reached from these.
fn named(catalog: &Catalog, texts: &[String], software: &[String]) -> BTreeSet<(Kind, String)> {
    let mut found = BTreeSet::new();
    let mut open: Vec<String> = texts.to_vec();
    let reach = |name: &str, found: &mut BTreeSet<(Kind, String)>, open: &mut Vec<String>| {
        for kind in Kind::ALL {
            if let Some(text) = catalog.text_of(kind, name)
                && found.insert((kind, name.to_owned()))
            {
                open.push(text.to_owned());
            }
        }
    };
    software.iter().for_each(|name| reach(name, &mut found, &mut open));
    while let Some(text) = open.pop() {
        if let Ok(table) = text.parse::<toml::Table>() {
            words(&toml::Value::Table(table), &mut |word| reach(word, &mut found, &mut open));
        }
    }
    found
}

fn words(value: &toml::Value, each: &mut dyn FnMut(&str)) {
    match value {
        toml::Value::String(word) => each(word),
        toml::Value::Array(values) => values.iter().for_each(|value| words(value, each)),
        toml::Value::Table(table) => table.values().for_each(|value| words(value, each)),
        _ => {}
    }
}

/// Kinds of parts whose numbers are fitted: what a machine is made of. Rules of libraries and clusters themselves are none.
const KINDS: [Kind; 11] = [
    Kind::Nic,
    Kind::Cpu,
    Kind::Pcie,
    Kind::Software,
    Kind::Link,
    Kind::Switch,
    Kind::Cable,
    Kind::Kernel,
    Kind::Gpu,
    Kind::Interconnect,
    Kind::Node,
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_keep_their_units_and_shares_stay_below_one() {
        assert_eq!(scaled("60 ns", 1.1), "66 ns");
        assert_eq!(scaled("2.2 us", 0.9), "1.98 us");
        assert_eq!(scaled("1250 ns", 1.0001), "1250 ns");
        assert_eq!(scaled("77/100", 1.01), "7777/10000");
        assert_eq!(scaled("99/100", 2.0), "10000/10000");
    }

    #[test]
    fn the_numbers_of_a_cluster_are_those_of_its_parts() {
        let catalog = Catalog::embedded().unwrap();
        let text = catalog.text_of(Kind::Cluster, "alaska-roce25").unwrap().to_owned();
        let found = of(&catalog, &[text], &[]);
        let has = |part: &str| found.iter().any(|candidate| candidate.number.part == part);
        assert!(has("connectx-4") && has("openmpi-ucx") && has("ethernet-25g-leaf") && !has("connectx-6"), "{}", found.len());
        assert!(found.iter().all(|candidate| candidate.limits.0 <= 1.0 && candidate.limits.1 >= 1.0));
        assert!(found.iter().all(|candidate| candidate.number.basis != Basis::Standard));
    }
}
