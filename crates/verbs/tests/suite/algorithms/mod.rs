//! Every congestion control of the catalogue: no list by hand, so that a new one is in every suite.

use std::collections::BTreeMap;
use std::path::Path;

use fabriscope_units::{Bytes, Form, Value};
use fabriscope_verbs::cc::{Algorithm, Credit, Scheme};
use proptest::prelude::*;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A number of a part file; what it rests on is none of a test's business.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
struct Number<T> {
    value: T,
}

#[derive(Clone, Copy, Debug, PartialEq)]
struct WithOrigin;

impl Form for WithOrigin {
    type Of<T: Value> = Number<T>;
    type Size = Number<Bytes>;

    fn value<T: Value>(stated: &Number<T>) -> T {
        stated.value
    }
    fn size(stated: &Number<Bytes>) -> u32 {
        stated.value.saturating_u32()
    }
}

/// The controls of `catalog/congestion`, by the name of the file; those that change another one of these are left out.
pub fn published() -> BTreeMap<String, Algorithm> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../catalog/congestion");
    let mut found = BTreeMap::new();
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let mut part: toml::Table = std::fs::read_to_string(&path).unwrap().parse().unwrap();
        if part.contains_key("base") {
            continue;
        }
        let algorithm: Algorithm<WithOrigin> = part.remove("algorithm").unwrap().try_into().unwrap();
        found.insert(path.file_stem().unwrap().to_str().unwrap().to_owned(), algorithm.plain());
    }
    for name in Algorithm::<WithOrigin>::NAMES {
        assert!(found.values().any(|algorithm| algorithm.name() == *name), "no part of the catalogue has `{name}`");
    }
    found
}

/// Those that do, or do not, make senders wait for credit of their receivers.
pub fn with(credit: Credit) -> Vec<Algorithm> {
    published().into_values().filter(|algorithm| algorithm.signals().credit == credit).collect()
}

/// One of them, with numbers between half and twice the published ones where these still have a meaning.
pub fn near(algorithms: Vec<Algorithm>) -> impl Strategy<Value = Algorithm> {
    (prop::sample::select(algorithms), prop::collection::vec(0.5f64..2.0, 16)).prop_map(|(algorithm, factors)| {
        let mut fields = serde_json::to_value(algorithm).unwrap();
        scale(&mut fields, &mut factors.iter().copied().cycle());
        let changed: Algorithm = serde_json::from_value(fields).unwrap();
        if changed.check().is_ok() { changed } else { algorithm }
    })
}

fn scale(value: &mut serde_json::Value, factors: &mut impl Iterator<Item = f64>) {
    match value {
        serde_json::Value::Object(fields) => fields.values_mut().for_each(|field| scale(field, factors)),
        serde_json::Value::Number(number) => {
            let factor = factors.next().unwrap();
            *value = match number.as_u64() {
                Some(whole) => (((whole as f64 * factor) as u64).max(1)).into(),
                None => (number.as_f64().unwrap() * factor).into(),
            };
        }
        _ => {}
    }
}
