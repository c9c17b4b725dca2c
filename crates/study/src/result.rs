//! What a point gives: samples, or why there are none; and how that is kept.

use fabriscope_report::Outcome;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::key::Key;

/// What a point gives.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct PointResult {
    /// Its numbers, in order.
    pub samples: Vec<Sample>,
    /// Why it could not be run, with the remedy.
    pub error: Option<String>,
}

/// A number of a point.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Sample {
    /// Row of the table that it stands in.
    pub row: u32,
    /// What that row is about: its words, `congestion=dctcp; routing=ecmp`.
    #[serde(default)]
    pub labels: Option<String>,
    /// Size of messages in bytes, where it is one of a size.
    pub bytes: Option<u64>,
    /// What it is: `latency`, `end_ps`, `points.throughput`.
    pub metric: String,
    /// Its unit, where the name does not say it.
    pub unit: Option<String>,
    /// The number. Kept with the digits that give it back exactly.
    #[serde(with = "exact")]
    pub value: f64,
}

/// A number as the shortest text that is read back as the same number.
mod exact {
    use serde::{Deserialize, Deserializer, Serializer, de::Error};

    pub fn serialize<S: Serializer>(value: &f64, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&format!("{value:?}"))
    }
    pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<f64, D::Error> {
        let text = String::deserialize(deserializer)?;
        text.parse().map_err(|_| D::Error::custom(format!("`{text}` is no number")))
    }
}

/// A result as it is kept: with its key, so that a file under a wrong name is found out.
#[derive(Serialize, Deserialize)]
struct Kept {
    key: String,
    result: PointResult,
}

impl PointResult {
    /// A point that could not be run.
    pub(crate) fn failed(message: String) -> PointResult {
        PointResult { samples: Vec::new(), error: Some(message) }
    }

    /// Of the table of a benchmark.
    pub(crate) fn of_bench(outcome: &Outcome) -> PointResult {
        let text = |row: &Value, key: &str| row.get(key).and_then(Value::as_str).map(str::to_owned);
        let sample = |(row, point): (usize, &Value)| {
            Some(Sample {
                row: u32::try_from(row).ok()?,
                labels: None,
                bytes: point.get("bytes").and_then(Value::as_u64),
                metric: text(point, "metric")?,
                unit: text(point, "unit"),
                value: point.get("value").and_then(Value::as_f64)?,
            })
        };
        let points = outcome.get("points").and_then(Value::as_array);
        PointResult { samples: points.into_iter().flatten().enumerate().filter_map(sample).collect(), error: None }
    }

    /// Of a lab: every number that programs read, by its name; of tables by the name of table and column, row by row.
    pub(crate) fn of_lab(outcome: &Outcome) -> PointResult {
        let mut samples = Vec::new();
        let Value::Object(entries) = outcome.data() else { return PointResult::default() };
        for (name, value) in &entries {
            match value {
                Value::Number(number) => samples.extend(sample((0, None), name.clone(), number.as_f64())),
                Value::Array(rows) => {
                    for (row, cells) in rows.iter().enumerate() {
                        let Value::Object(cells) = cells else { continue };
                        let words = cells.iter().filter_map(|(column, cell)| Some(format!("{column}={}", cell.as_str()?)));
                        let labels = Some(words.collect::<Vec<_>>().join("; ")).filter(|labels| !labels.is_empty());
                        let of =
                            |(column, cell): (&String, &Value)| sample((row, labels.clone()), format!("{name}.{column}"), cell.as_f64());
                        samples.extend(cells.iter().filter_map(of));
                    }
                }
                _ => {}
            }
        }
        PointResult { samples, error: None }
    }

    /// As text, to be kept or sent.
    #[must_use]
    pub fn to_text(&self, key: &Key) -> String {
        let kept = Kept { key: key.as_str().to_owned(), result: self.clone() };
        // Text, whole numbers and options always have a JSON form.
        serde_json::to_string(&kept).unwrap_or_default()
    }

    /// The key in a text.
    #[must_use]
    pub(crate) fn key_in(text: &str) -> Option<String> {
        serde_json::from_str::<Kept>(text).ok().map(|kept| kept.key)
    }

    /// From text; nothing if that is no result of this key: half a file, or another one.
    #[must_use]
    pub fn from_text(text: &str, key: &Key) -> Option<PointResult> {
        let kept: Kept = serde_json::from_str(text).ok()?;
        (kept.key == key.as_str()).then_some(kept.result)
    }
}

fn sample((row, labels): (usize, Option<String>), metric: String, value: Option<f64>) -> Option<Sample> {
    Some(Sample { row: u32::try_from(row).ok()?, labels, bytes: None, metric, unit: None, value: value? })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Numbers of a table keep the words of their row.
    #[test]
    fn rows_of_a_lab_say_what_they_are_about() {
        let mut outcome = Outcome::new();
        outcome.set("end_ps", 7);
        outcome.set("runs", serde_json::json!([{ "congestion": "dctcp", "routing": "ecmp", "marks": 3 }, { "marks": 4 }]));
        let found: Vec<_> =
            PointResult::of_lab(&outcome).samples.into_iter().map(|sample| (sample.metric, sample.row, sample.labels)).collect();
        let labels = Some("congestion=dctcp; routing=ecmp".to_owned());
        let expected = [("end_ps", 0, None), ("runs.marks", 0, labels), ("runs.marks", 1, None)];
        assert_eq!(found, expected.map(|(metric, row, labels)| (metric.to_owned(), row, labels)));
    }

    #[test]
    fn what_is_kept_is_read_back_exactly() {
        let values = [0.1 + 0.2, 1e-300, 1.0, f64::MAX, 5e-324, 123_456_789.123_456_79];
        let samples = values.map(|value| Sample { row: 0, labels: None, bytes: Some(8), metric: "latency".to_owned(), unit: None, value });
        let result = PointResult { samples: samples.to_vec(), error: None };
        let (key, other) = (Key::of(&1), Key::of(&2));
        let text = result.to_text(&key);
        assert_eq!(PointResult::from_text(&text, &key), Some(result));
        assert_eq!(PointResult::from_text(&text, &other), None);
        for cut in 0..text.len() {
            assert_eq!(PointResult::from_text(&text[..cut], &key), None);
        }
    }
}
