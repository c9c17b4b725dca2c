//! Values of options that are words of a lab: one list of names for both, here with `-` where a lab has `_`, and what the schema says of each.

use std::ffi::OsStr;
use std::marker::PhantomData;

use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use clap::error::ErrorKind;
use schemars::JsonSchema;
use serde::de::DeserializeOwned;
use serde_json::Value;

/// Reads one of the words of `T`, an enum of a lab.
#[derive(Clone)]
pub struct Words<T>(PhantomData<fn() -> T>);

/// A parser for an option whose values are the words of `T`.
pub fn words<T>() -> Words<T> {
    Words(PhantomData)
}

impl<T: DeserializeOwned + JsonSchema + Clone + Send + Sync + 'static> TypedValueParser for Words<T> {
    type Value = T;

    fn parse_ref(&self, command: &clap::Command, option: Option<&clap::Arg>, value: &OsStr) -> Result<T, clap::Error> {
        let word = PossibleValuesParser::new(values::<T>()).parse_ref(command, option, value)?;
        serde_json::from_value(Value::String(word.replace('-', "_")))
            .map_err(|_| clap::Error::new(ErrorKind::InvalidValue).with_cmd(command))
    }

    fn possible_values(&self) -> Option<Box<dyn Iterator<Item = PossibleValue> + '_>> {
        Some(Box::new(values::<T>().into_iter()))
    }
}

fn values<T: JsonSchema>() -> Vec<PossibleValue> {
    let schema = schemars::schema_for!(T).to_value();
    let text = |value: &Value, key: &str| value.get(key).and_then(Value::as_str).unwrap_or_default().to_owned();
    let named = |value: &Value| {
        PossibleValue::new(text(value, "const").replace('_', "-")).help(text(value, "description").trim_end_matches('.').to_owned())
    };
    schema.get("oneOf").and_then(Value::as_array).into_iter().flatten().map(named).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use fabriscope_lab::{Graphed, Order, Overlap, Recomputed, Scores, Shared, Strategy};

    fn read<T: DeserializeOwned + JsonSchema + Clone + Send + Sync + 'static>(word: &str) -> Option<T> {
        words::<T>().parse_ref(&clap::Command::new("train"), None, OsStr::new(word)).ok()
    }

    /// Every name that help shows is read; names of labs with `_` are not among them.
    #[test]
    fn words_of_a_lab_are_values_of_an_option() {
        assert_eq!(read("zero-bubble"), Some(Order::ZeroBubble));
        assert_eq!(read("1f1b"), Some(Order::OneForwardOneBackward));
        assert_eq!(read("full-iteration"), Some(Graphed::FullIteration));
        assert_eq!(read::<Graphed>("full_iteration"), None);
        fn all<T: DeserializeOwned + JsonSchema + Clone + Send + Sync + 'static>() -> usize {
            let names = values::<T>();
            assert!(names.iter().all(|name| read::<T>(name.get_name()).is_some() && name.get_help().is_some()), "{names:?}");
            names.len()
        }
        let counts = [all::<Overlap>(), all::<Recomputed>(), all::<Scores>(), all::<Shared>(), all::<Strategy>()];
        assert_eq!(counts, [5, 3, 3, 4, 2]);
    }
}
