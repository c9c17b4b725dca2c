//! A number together with where it came from.
//!
//! Every hardware or software number of the catalogue is written
//! `latency = { value = "620 ns", basis = "datasheet", source = "…" }`; a number without origin does not load.

use std::fmt;
use std::ops::Deref;

use fabriscope_units::{Bytes, Form, Value};
use schemars::JsonSchema;
use serde::de::{self, Deserializer, MapAccess, Visitor};
use serde::{Deserialize, Serialize};

/// How far a number can be trusted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Basis {
    /// From the vendor's datasheet or manual.
    Datasheet,
    /// Fixed by a standard (InfiniBand, IEEE 802.3, PCI Express).
    Standard,
    /// Measured directly by someone who published how.
    Measured,
    /// Stated in a paper, a source code or a talk, without the measurement itself.
    Published,
    /// Chosen so that a published table comes out; `source` names the table.
    Fitted,
    /// Derived by reasoning from other numbers; `note` says how.
    Estimated,
    /// Not known; `note` says why this value.
    Assumed,
}

impl Basis {
    /// Every basis, from the most to the least trustworthy.
    pub const ALL: [Basis; 7] =
        [Basis::Datasheet, Basis::Standard, Basis::Measured, Basis::Published, Basis::Fitted, Basis::Estimated, Basis::Assumed];

    /// The word used in files.
    pub const fn name(self) -> &'static str {
        match self {
            Basis::Datasheet => "datasheet",
            Basis::Standard => "standard",
            Basis::Measured => "measured",
            Basis::Published => "published",
            Basis::Fitted => "fitted",
            Basis::Estimated => "estimated",
            Basis::Assumed => "assumed",
        }
    }
    /// A number of this basis explains itself in `note` instead of naming a `source`.
    const fn explains_itself(self) -> bool {
        matches!(self, Basis::Estimated | Basis::Assumed)
    }
}

impl fmt::Display for Basis {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// A value, what it rests on, and where that can be looked up.
///
/// Dereferences to the value: `nic.tx_latency.as_ps()`, `*nic.tx_latency`.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Sourced<T> {
    /// The value with its unit.
    pub value: T,
    /// What the value rests on.
    pub basis: Basis,
    /// Where to look it up; for `fitted` the table it was fitted to.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub source: String,
    /// How it was derived, or why it was assumed.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub note: String,
}

impl<T> Sourced<T> {
    /// A value made up by the caller, for parts built in code (tests, examples).
    pub fn assumed(value: T, note: &str) -> Sourced<T> {
        Sourced { value, basis: Basis::Assumed, source: String::new(), note: note.to_owned() }
    }
}

/// The form of parameters in part files: each value with its origin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stated;

impl Form for Stated {
    type Of<T: Value> = Sourced<T>;
    type Size = Sourced<Bytes>;

    fn value<T: Value>(stated: &Sourced<T>) -> T {
        stated.value
    }
    fn size(stated: &Sourced<Bytes>) -> u32 {
        stated.value.saturating_u32()
    }
}

impl<T> Deref for Sourced<T> {
    type Target = T;
    fn deref(&self) -> &T {
        &self.value
    }
}

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Sourced<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_struct("Sourced", FIELDS, SourcedVisitor(std::marker::PhantomData))
    }
}

const FIELDS: &[&str] = &["value", "basis", "source", "note"];

/// The same fields as [`Sourced`], before their agreement is checked.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Parts<T> {
    value: T,
    basis: Basis,
    #[serde(default)]
    source: String,
    #[serde(default)]
    note: String,
}

struct SourcedVisitor<T>(std::marker::PhantomData<T>);

impl<T> SourcedVisitor<T> {
    fn bare<E: de::Error>(text: impl fmt::Display) -> E {
        E::custom(format!("the value {text} stands alone; write {{ value = {text}, basis = \"datasheet\", source = \"…\" }}"))
    }
}

impl<'de, T: Deserialize<'de>> Visitor<'de> for SourcedVisitor<T> {
    type Value = Sourced<T>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a number with its origin, { value = …, basis = \"datasheet\", source = \"…\" }")
    }
    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Sourced<T>, A::Error> {
        let Parts { value, basis, source, note } = Parts::deserialize(de::value::MapAccessDeserializer::new(map))?;
        if basis.explains_itself() && note.trim().is_empty() {
            return Err(de::Error::custom(format!("a value that is `{basis}` needs a `note`; say in it why it is this one, note = \"…\"")));
        }
        if !basis.explains_itself() && source.trim().is_empty() {
            let what = if basis == Basis::Fitted { "the table it was fitted to" } else { "where it can be looked up" };
            return Err(de::Error::custom(format!("a value that is `{basis}` needs a `source`; name in it {what}, source = \"…\"")));
        }
        Ok(Sourced { value, basis, source, note })
    }
    fn visit_str<E: de::Error>(self, text: &str) -> Result<Sourced<T>, E> {
        Err(Self::bare(format_args!("\"{text}\"")))
    }
    fn visit_i64<E: de::Error>(self, number: i64) -> Result<Sourced<T>, E> {
        Err(Self::bare(number))
    }
    fn visit_u64<E: de::Error>(self, number: u64) -> Result<Sourced<T>, E> {
        Err(Self::bare(number))
    }
    fn visit_f64<E: de::Error>(self, number: f64) -> Result<Sourced<T>, E> {
        Err(Self::bare(number))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use fabriscope_units::Span;

    #[derive(Debug, Deserialize)]
    struct Holder {
        latency: Sourced<Span>,
    }

    fn read(text: &str) -> Result<Sourced<Span>, String> {
        toml::from_str::<Holder>(text).map(|h| h.latency).map_err(|e| e.message().to_owned())
    }

    #[test]
    fn an_origin_is_demanded() {
        let ok = read(r#"latency = { value = "620 ns", basis = "datasheet", source = "brief" }"#).unwrap();
        assert_eq!((*ok, ok.basis), (Span::from_ns(620), Basis::Datasheet));
        assert!(read(r#"latency = "620 ns""#).unwrap_err().contains("stands alone; write { value = \"620 ns\""));
        assert!(read(r#"latency = { value = "620 ns", basis = "assumed" }"#).unwrap_err().contains("needs a `note`"));
        assert!(read(r#"latency = { value = "620 ns", basis = "fitted" }"#).unwrap_err().contains("the table it was fitted to"));
        assert!(read(r#"latency = { value = "620 ns", basis = "measured", note = "x" }"#).unwrap_err().contains("needs a `source`"));
        assert!(read(r#"latency = { value = "620", basis = "assumed", note = "x" }"#).unwrap_err().contains("no unit"));
    }
}
