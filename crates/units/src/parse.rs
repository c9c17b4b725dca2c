//! Reading and printing quantities: exact decimal arithmetic, no floating point.

use std::fmt;

/// Why a text is not a quantity; every remedy says what to write instead.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error, miette::Diagnostic)]
#[non_exhaustive]
pub enum UnitError {
    /// The number stands alone.
    #[error("`{text}` has no unit")]
    #[diagnostic(help("write {what} with its unit, for example \"{example}\""))]
    NoUnit {
        /// The text as given.
        text: String,
        /// The kind of quantity.
        what: &'static str,
        /// A text that would be accepted.
        example: String,
    },
    /// The unit belongs to another quantity, or to none.
    #[error("`{unit}` is not a unit of {what}")]
    #[diagnostic(help("use one of {known}"))]
    UnknownUnit {
        /// The unit as given.
        unit: String,
        /// The kind of quantity.
        what: &'static str,
        /// The units that are accepted.
        known: String,
    },
    /// `KB`: 1000 to some, 1024 to others.
    #[error("`{unit}` is ambiguous")]
    #[diagnostic(help("write `KiB` for 1024 bytes or `kB` for 1000 bytes"))]
    Ambiguous {
        /// The unit as given.
        unit: String,
    },
    /// No number, or a negative one.
    #[error("`{text}` is not {what}")]
    #[diagnostic(help("write a number and a unit, for example \"{example}\""))]
    NoNumber {
        /// The text as given.
        text: String,
        /// The kind of quantity.
        what: &'static str,
        /// A text that would be accepted.
        example: &'static str,
    },
    /// More digits after the point than the smallest unit can hold.
    #[error("`{text}` is finer than the smallest step of {what}")]
    #[diagnostic(help("use fewer decimals or a larger number"))]
    TooFine {
        /// The text as given.
        text: String,
        /// The kind of quantity.
        what: &'static str,
    },
    /// Beyond 2⁶⁴ of the smallest unit.
    #[error("`{text}` is larger than {what} can be")]
    TooLarge {
        /// The text as given.
        text: String,
        /// The kind of quantity.
        what: &'static str,
    },
}

/// Reads `<decimal number> <unit>` into the smallest unit.
pub(crate) fn quantity(text: &str, what: &'static str, example: &'static str, units: &[(&str, u128)]) -> Result<u64, UnitError> {
    let trimmed = text.trim();
    let split = trimmed.find(|c: char| !(c.is_ascii_digit() || c == '.' || c == '_')).unwrap_or(trimmed.len());
    let (number, unit) = (&trimmed[..split], trimmed[split..].trim());
    let no_number = || UnitError::NoNumber { text: text.to_owned(), what, example };
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    if !whole.starts_with(|c: char| c.is_ascii_digit()) || fraction.contains(['.', '_']) || (number.contains('.') && fraction.is_empty()) {
        return Err(no_number());
    }
    if unit.is_empty() {
        let example = format!("{number} {}", example.split(' ').nth(1).unwrap_or_default());
        return Err(UnitError::NoUnit { text: text.to_owned(), what, example });
    }
    let Some(&(_, scale)) = units.iter().find(|(name, _)| *name == unit) else {
        if unit.starts_with("KB") {
            return Err(UnitError::Ambiguous { unit: unit.to_owned() });
        }
        let known = units.iter().map(|(name, _)| *name).collect::<Vec<_>>().join(", ");
        return Err(UnitError::UnknownUnit { unit: unit.to_owned(), what, known });
    };
    let too_large = || UnitError::TooLarge { text: text.to_owned(), what };
    let too_fine = || UnitError::TooFine { text: text.to_owned(), what };
    let whole: u128 = whole.replace('_', "").parse().map_err(|_| too_large())?;
    let fraction = fraction.trim_end_matches('0');
    if fraction.len() > 18 {
        return Err(too_fine());
    }
    let digits: u128 = if fraction.is_empty() { 0 } else { fraction.parse().map_err(|_| no_number())? };
    let decimals = 10u128.pow(fraction.len() as u32);
    let parts = digits * scale;
    if !parts.is_multiple_of(decimals) {
        return Err(too_fine());
    }
    let total = whole.checked_mul(scale).and_then(|w| w.checked_add(parts / decimals)).ok_or_else(too_large)?;
    u64::try_from(total).map_err(|_| too_large())
}

/// Prints a value exactly in the largest unit that it reaches.
pub(crate) fn print(f: &mut fmt::Formatter<'_>, value: u64, units: &[(&str, u64)]) -> fmt::Result {
    let (unit, scale) = units.iter().find(|(_, scale)| value >= *scale).or(units.last()).copied().expect("the table of units is not empty");
    let (whole, rest) = (value / scale, value % scale);
    if rest == 0 {
        return write!(f, "{whole} {unit}");
    }
    let width = scale.ilog10() as usize;
    let fraction = format!("{rest:0width$}");
    write!(f, "{whole}.{} {unit}", fraction.trim_end_matches('0'))
}

/// Serialises a quantity as its text and describes it in a JSON schema.
macro_rules! text_serde {
    ($name:ident, $description:literal, $pattern:literal) => {
        impl std::str::FromStr for $name {
            type Err = $crate::UnitError;
            fn from_str(text: &str) -> Result<Self, Self::Err> {
                $name::parse(text)
            }
        }
        impl serde::Serialize for $name {
            fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.collect_str(self)
            }
        }
        impl<'de> serde::Deserialize<'de> for $name {
            fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                struct Text;
                impl serde::de::Visitor<'_> for Text {
                    type Value = $name;
                    fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                        f.write_str($description)
                    }
                    fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<$name, E> {
                        $name::parse(text).map_err(|error| E::custom($crate::Remedy::in_full(&error)))
                    }
                }
                deserializer.deserialize_str(Text)
            }
        }
        impl schemars::JsonSchema for $name {
            fn schema_name() -> std::borrow::Cow<'static, str> {
                stringify!($name).into()
            }
            fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
                schemars::json_schema!({ "type": "string", "description": $description, "pattern": $pattern })
            }
        }
    };
}
pub(crate) use text_serde;
