//! The ratio of ports towards the endpoints to ports away from them, such as 2:1.

use fabriscope_units::Remedy;
use std::fmt;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// Ports down to ports up of a switch, in lowest terms; 1:1 keeps the full bisection bandwidth.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Oversubscription {
    down: u32,
    up: u32,
}

/// Why a text is not a ratio.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error, miette::Diagnostic)]
#[error("`{text}` is not a ratio of ports down to ports up")]
#[diagnostic(help("write two whole numbers from 1 to 65535, for example \"2:1\""))]
pub struct OversubscriptionError {
    text: String,
}

impl Oversubscription {
    /// Ports down, in lowest terms.
    pub const fn down(self) -> u32 {
        self.down
    }
    /// Ports up, in lowest terms.
    pub const fn up(self) -> u32 {
        self.up
    }
    /// Reads text such as `"2:1"`.
    ///
    /// # Errors
    /// Anything but two positive whole numbers and a colon.
    pub fn parse(text: &str) -> Result<Oversubscription, OversubscriptionError> {
        let number = |part: &str| part.trim().parse::<u16>().ok().map(u32::from).filter(|&number| number > 0);
        let ratio = text.split_once(':').and_then(|(down, up)| Some((number(down)?, number(up)?)));
        let (down, up) = ratio.ok_or_else(|| OversubscriptionError { text: text.to_owned() })?;
        let common = greatest_common_divisor(down, up);
        Ok(Oversubscription { down: down / common, up: up / common })
    }
    /// The largest split of `ports` into down and up at this ratio; zeros where not even one share fits.
    pub(super) fn split(self, ports: u32) -> (u32, u32) {
        let shares = ports / (self.down + self.up);
        (self.down * shares, self.up * shares)
    }
    /// The ports up that belong to `down` ports down, where that is a whole number; what 32 bits do not hold is more than any switch has, and is
    /// refused as such.
    pub(super) fn up_for(self, down: u32) -> Option<u32> {
        let product = u64::from(down) * u64::from(self.up);
        (product % u64::from(self.down) == 0).then(|| u32::try_from(product / u64::from(self.down)).unwrap_or(u32::MAX))
    }
    /// The ports down that belong to `up` ports up, where that is a whole number.
    pub(super) fn down_for(self, up: u32) -> Option<u32> {
        Oversubscription { down: self.up, up: self.down }.up_for(up)
    }
}

fn greatest_common_divisor(a: u32, b: u32) -> u32 {
    if b == 0 { a } else { greatest_common_divisor(b, a % b) }
}

impl Default for Oversubscription {
    /// 1:1, the full bisection bandwidth.
    fn default() -> Oversubscription {
        Oversubscription { down: 1, up: 1 }
    }
}

impl fmt::Display for Oversubscription {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.down, self.up)
    }
}

impl std::str::FromStr for Oversubscription {
    type Err = OversubscriptionError;
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Oversubscription::parse(text)
    }
}

impl Serialize for Oversubscription {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Oversubscription {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Oversubscription, D::Error> {
        let text = std::borrow::Cow::<'_, str>::deserialize(deserializer)?;
        Oversubscription::parse(&text).map_err(|error| serde::de::Error::custom(error.in_full()))
    }
}

impl schemars::JsonSchema for Oversubscription {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Oversubscription".into()
    }
    fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
        schemars::json_schema!({
            "type": "string",
            "description": "Ports towards the endpoints to ports away from them, such as \"2:1\".",
            "pattern": r"^\s*[0-9]+\s*:\s*[0-9]+\s*$"
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_in_lowest_terms() {
        for (text, ratio) in [("2:1", "2:1"), ("24:12", "2:1"), (" 3 : 2 ", "3:2"), ("1:1", "1:1"), ("1:2", "1:2")] {
            assert_eq!(Oversubscription::parse(text).unwrap().to_string(), ratio);
        }
        for text in ["2", "2:0", "0:1", "2:1:1", "2.5:1", "-2:1", "70000:1", ""] {
            assert!(Oversubscription::parse(text).unwrap_err().in_full().contains("2:1"), "{text}");
        }
    }

    #[test]
    fn splits_a_switch() {
        let ratio = |text| Oversubscription::parse(text).unwrap();
        assert_eq!(ratio("2:1").split(36), (24, 12));
        assert_eq!(ratio("2:1").split(40), (26, 13));
        assert_eq!(ratio("3:2").split(4), (0, 0));
        assert_eq!((ratio("2:1").up_for(24), ratio("2:1").up_for(25), ratio("2:1").down_for(12)), (Some(12), None, Some(24)));
    }
}
