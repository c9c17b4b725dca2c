//! The length of a cable in whole millimetres.

use fabriscope_units::Remedy;
use std::fmt;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// The length of a cable.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Length {
    millimetres: u32,
}

/// Why a text is not a length.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error, miette::Diagnostic)]
#[error("`{text}` is not the length of a cable")]
#[diagnostic(help("write it in metres, for example \"3 m\" or \"0.5 m\""))]
pub struct LengthError {
    text: String,
}

impl Length {
    /// `mm` millimetres.
    pub const fn from_mm(mm: u32) -> Length {
        Length { millimetres: mm }
    }
    /// Whole millimetres.
    pub const fn as_mm(self) -> u32 {
        self.millimetres
    }
    /// Reads text such as `"3 m"` or `"0.5 m"`.
    ///
    /// # Errors
    /// Another unit, a negative number, or more digits than a millimetre needs.
    pub fn parse(text: &str) -> Result<Length, LengthError> {
        Self::read(text).ok_or_else(|| LengthError { text: text.to_owned() })
    }

    fn read(text: &str) -> Option<Length> {
        let number = text.trim().strip_suffix('m')?.trim_end();
        let (whole, fraction) = number.split_once('.').unwrap_or((number, "0"));
        let digits = |part: &str| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit());
        if !digits(whole) || !digits(fraction) || fraction.len() > 3 {
            return None;
        }
        let scale = 10u32.pow(3 - fraction.len() as u32);
        let millimetres = whole.parse::<u32>().ok()?.checked_mul(1000)?.checked_add(fraction.parse::<u32>().ok()? * scale)?;
        Some(Length { millimetres })
    }
}

impl fmt::Display for Length {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (whole, rest) = (self.millimetres / 1000, self.millimetres % 1000);
        if rest == 0 {
            return write!(f, "{whole} m");
        }
        write!(f, "{whole}.{} m", format!("{rest:03}").trim_end_matches('0'))
    }
}

impl Serialize for Length {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Length {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Length, D::Error> {
        let text = std::borrow::Cow::<'_, str>::deserialize(deserializer)?;
        Length::parse(&text).map_err(|error| serde::de::Error::custom(error.in_full()))
    }
}

impl schemars::JsonSchema for Length {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Length".into()
    }
    fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
        schemars::json_schema!({
            "type": "string",
            "description": "The length of a cable in metres, such as \"3 m\" or \"0.5 m\".",
            "pattern": r"^\s*[0-9]+(\.[0-9]{1,3})?\s*m\s*$"
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_round_trip() {
        for (text, mm) in [("3 m", 3000), ("0.5m", 500), ("1.25 m", 1250), ("0 m", 0), ("30.007 m", 30_007)] {
            assert_eq!(Length::parse(text), Ok(Length::from_mm(mm)), "{text}");
            assert_eq!(Length::parse(&Length::from_mm(mm).to_string()), Ok(Length::from_mm(mm)));
        }
        for text in ["3", "3 km", "3 mm", "-1 m", ".5 m", "1. m", "0.0001 m", "9999999 m", ""] {
            assert!(Length::parse(text).is_err(), "{text}");
        }
    }
}
