//! The form in which the parameters of a model stand: bare values for the model, values with their origin in a catalogue.
//!
//! A struct of parameters is declared once, generic over its [`Form`], by [`parameters!`](crate::parameters). The model computes
//! with `Parameters` (its default form is [`Plain`]); who reads files instantiates the same struct with a form of its own, whose
//! values carry what they rest on, and calls `plain()` where the model begins.

use std::fmt::Debug;

use schemars::JsonSchema;
use serde::Serialize;
use serde::de::DeserializeOwned;

/// What can be the value of a parameter: copied, compared, printed, read and written.
pub trait Value: Copy + Debug + PartialEq + Serialize + DeserializeOwned + JsonSchema {}

impl<T: Copy + Debug + PartialEq + Serialize + DeserializeOwned + JsonSchema> Value for T {}

/// How each value of a struct of parameters is held.
pub trait Form: Clone + Debug + PartialEq {
    /// A value of type `T` in this form.
    type Of<T: Value>: Clone + Debug + PartialEq + Serialize + DeserializeOwned + JsonSchema;

    /// The bare value.
    fn value<T: Value>(stated: &Self::Of<T>) -> T;
}

/// Bare values: what a model computes with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Plain;

impl Form for Plain {
    type Of<T: Value> = T;

    fn value<T: Value>(stated: &T) -> T {
        *stated
    }
}

/// Declares a struct of parameters that is generic over its [`Form`](crate::Form), with its reading, writing and JSON schema under
/// the given name, and `plain()`, its bare values. Fields behind `optional` are structs of parameters themselves.
///
/// The crate that calls it depends on `serde` and `schemars`.
///
/// ```
/// use fabriscope_units::{Span, parameters};
///
/// parameters! {
///     /// What a timer does.
///     pub struct Parameters as "Timer" {
///         /// How long it waits.
///         pub wait: Span,
///     }
/// }
/// let plain: Parameters = Parameters { wait: Span::from_us(3) };
/// assert_eq!(plain.plain().wait, Span::from_us(3));
/// ```
#[macro_export]
macro_rules! parameters {
    (
        $(#[$about:meta])*
        pub struct $name:ident as $schema:literal {
            $( $(#[$field_about:meta])* pub $field:ident: $value:ty, )*
            $( optional { $( $(#[$part_about:meta])* pub $part:ident: $inner:ident :: $Inner:ident, )* } )?
        }
    ) => {
        $(#[$about])*
        #[derive(Clone, Debug, PartialEq, ::serde::Serialize, ::serde::Deserialize, ::schemars::JsonSchema)]
        #[serde(deny_unknown_fields, bound = "F: ::fabriscope_units::Form")]
        #[schemars(bound = "F: ::fabriscope_units::Form", rename = $schema)]
        pub struct $name<F: $crate::Form = $crate::Plain> {
            $( $(#[$field_about])* pub $field: F::Of<$value>, )*
            $( $(
                $(#[$part_about])*
                #[serde(default, skip_serializing_if = "Option::is_none")]
                pub $part: Option<$inner::$Inner<F>>,
            )* )?
        }

        impl Copy for $name {}

        impl<F: $crate::Form> $name<F> {
            /// The bare values.
            #[must_use]
            pub fn plain(&self) -> $name {
                $name {
                    $( $field: F::value(&self.$field), )*
                    $( $( $part: self.$part.as_ref().map($inner::$Inner::plain), )* )?
                }
            }
        }
    };
}

#[cfg(test)]
mod tests {
    use serde::Deserialize;

    use super::*;
    use crate::Span;

    /// A value with a word about it.
    #[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
    #[serde(deny_unknown_fields)]
    struct Noted<T> {
        value: T,
        note: String,
    }

    #[derive(Clone, Copy, Debug, PartialEq)]
    struct WithNotes;

    impl Form for WithNotes {
        type Of<T: Value> = Noted<T>;

        fn value<T: Value>(stated: &Noted<T>) -> T {
            stated.value
        }
    }

    mod inner {
        crate::parameters! {
            /// Part of another.
            pub struct Inner as "Inner" {
                /// A share.
                pub share: f64,
            }
        }
    }

    crate::parameters! {
        /// Has a part.
        pub struct Outer as "Outer" {
            /// A time.
            pub wait: Span,
            optional {
                /// Its part.
                pub part: inner::Inner,
            }
        }
    }

    fn noted(text: &str) -> Result<Outer<WithNotes>, String> {
        serde_json::from_str(text).map_err(|error| error.to_string())
    }

    #[test]
    fn a_struct_is_read_in_either_form() {
        let plain: Outer = serde_json::from_str(r#"{"wait": "3 us", "part": {"share": 0.5}}"#).unwrap();
        let with = noted(r#"{"wait": {"value": "3 us", "note": "x"}, "part": {"share": {"value": 0.5, "note": "y"}}}"#).unwrap();
        assert_eq!(with.plain(), plain);
        assert_eq!(plain.plain(), plain);
        assert_eq!(noted(r#"{"wait": {"value": "3 us", "note": "x"}}"#).unwrap().plain().part, None);
    }

    #[test]
    fn unknown_and_missing_keys_are_errors_in_either_form() {
        assert!(noted(r#"{"wait": {"value": "3 us", "note": "x"}, "weight": 1}"#).unwrap_err().contains("unknown field `weight`"));
        assert!(noted("{}").unwrap_err().contains("missing field `wait`"));
        assert!(serde_json::from_str::<Outer>(r#"{"wait": "3 us", "weight": 1}"#).is_err());
    }

    #[test]
    fn the_schema_has_the_given_name() {
        assert_eq!(Outer::<WithNotes>::schema_name(), "Outer");
        let schema = serde_json::to_value(schemars::schema_for!(Outer<WithNotes>)).unwrap();
        assert_eq!(schema["additionalProperties"], false);
        assert_eq!(schema["properties"]["wait"]["description"], "A time.");
    }
}
