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
    /// A size that is stated in [`Bytes`](crate::Bytes) and counted in 32 bits.
    type Size: Clone + Debug + PartialEq + Serialize + DeserializeOwned + JsonSchema;

    /// The bare value.
    fn value<T: Value>(stated: &Self::Of<T>) -> T;
    /// The bare size in bytes; the largest number for what is longer.
    fn size(stated: &Self::Size) -> u32;
}

/// Bare values: what a model computes with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Plain;

impl Form for Plain {
    type Of<T: Value> = T;
    type Size = u32;

    fn value<T: Value>(stated: &T) -> T {
        *stated
    }
    fn size(stated: &u32) -> u32 {
        *stated
    }
}

/// Declares a struct of parameters that is generic over its [`Form`](crate::Form), with its reading, writing and JSON schema under
/// the given name, and `plain()`, its bare values. A word before a field says what it is:
///
/// | field | stated | bare |
/// |---|---|---|
/// | `pub wait: Span` | a value with its origin | the value |
/// | `pub limit: u32 from Bytes` | a size with its origin | the same in bytes |
/// | `optional pub …` | the same, or nothing | `Option` of it |
/// | `choice pub kind: Kind` | the value alone, which has no origin | the same |
/// | `table pub part: inner::Inner` | a struct of parameters | its bare values |
/// | `optional table pub …` | the same, or nothing | `Option` of it |
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
///         /// What it waits after that; nothing where nothing is said.
///         optional pub rest: Span,
///     }
/// }
/// let plain: Parameters = Parameters { wait: Span::from_us(3), rest: None };
/// assert_eq!(plain.plain().wait, Span::from_us(3));
/// ```
#[macro_export]
macro_rules! parameters {
    ($(#$about:tt)* pub struct $name:ident as $schema:literal { $($fields:tt)* }) => {
        $crate::parameters! { @field { $(#$about)* $name $schema } {} $($fields)* }
    };
    // One field after the other becomes { its attributes, its name, its type, its kind }.
    (@field $head:tt { $($done:tt)* } $(#$about:tt)* optional table pub $field:ident: $($Table:ident)::+, $($rest:tt)*) => {
        $crate::parameters! { @field $head { $($done)* {
            [$(#$about)* #[serde(default, skip_serializing_if = "Option::is_none")]] $field [Option<$($Table)::+<F>>] optional_table
        } } $($rest)* }
    };
    (@field $head:tt { $($done:tt)* } $(#$about:tt)* table pub $field:ident: $($Table:ident)::+, $($rest:tt)*) => {
        $crate::parameters! { @field $head { $($done)* { [$(#$about)*] $field [$($Table)::+<F>] table } } $($rest)* }
    };
    (@field $head:tt { $($done:tt)* } $(#$about:tt)* optional pub $field:ident: u32 from Bytes, $($rest:tt)*) => {
        $crate::parameters! { @field $head { $($done)* {
            [$(#$about)* #[serde(default, skip_serializing_if = "Option::is_none")]] $field [Option<F::Size>] optional_size
        } } $($rest)* }
    };
    (@field $head:tt { $($done:tt)* } $(#$about:tt)* optional pub $field:ident: $value:ty, $($rest:tt)*) => {
        $crate::parameters! { @field $head { $($done)* {
            [$(#$about)* #[serde(default, skip_serializing_if = "Option::is_none")]] $field [Option<F::Of<$value>>] optional
        } } $($rest)* }
    };
    (@field $head:tt { $($done:tt)* } $(#$about:tt)* choice pub $field:ident: $value:ty, $($rest:tt)*) => {
        $crate::parameters! { @field $head { $($done)* { [$(#$about)*] $field [$value] choice } } $($rest)* }
    };
    (@field $head:tt { $($done:tt)* } $(#$about:tt)* pub $field:ident: u32 from Bytes, $($rest:tt)*) => {
        $crate::parameters! { @field $head { $($done)* { [$(#$about)*] $field [F::Size] size } } $($rest)* }
    };
    (@field $head:tt { $($done:tt)* } $(#$about:tt)* pub $field:ident: $value:ty, $($rest:tt)*) => {
        $crate::parameters! { @field $head { $($done)* { [$(#$about)*] $field [F::Of<$value>] value } } $($rest)* }
    };
    (
        @field { $(#$about:tt)* $name:ident $schema:literal }
        { $( { [$($field_about:tt)*] $field:ident [$($type:tt)*] $kind:ident } )* }
    ) => {
        $(#$about)*
        #[derive(Clone, Debug, PartialEq, ::serde::Serialize, ::serde::Deserialize, ::schemars::JsonSchema)]
        #[serde(deny_unknown_fields, bound = "F: ::fabriscope_units::Form")]
        #[schemars(bound = "F: ::fabriscope_units::Form", rename = $schema)]
        pub struct $name<F: $crate::Form = $crate::Plain> {
            $( $($field_about)* pub $field: $($type)*, )*
        }

        impl ::core::marker::Copy for $name {}

        impl<F: $crate::Form> $name<F> {
            /// The bare values.
            #[must_use]
            pub fn plain(&self) -> $name {
                $name { $( $field: $crate::plain_value!($kind F self.$field), )* }
            }
        }
    };
}

/// The bare value of a field of [`parameters!`](crate::parameters).
#[doc(hidden)]
#[macro_export]
macro_rules! plain_value {
    (value $F:ident $field:expr) => {
        $F::value(&$field)
    };
    (size $F:ident $field:expr) => {
        $F::size(&$field)
    };
    (optional $F:ident $field:expr) => {
        $field.as_ref().map($F::value)
    };
    (optional_size $F:ident $field:expr) => {
        $field.as_ref().map($F::size)
    };
    (choice $F:ident $field:expr) => {
        $field
    };
    (table $F:ident $field:expr) => {
        $field.plain()
    };
    (optional_table $F:ident $field:expr) => {
        $field.as_ref().map(|table| table.plain())
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
        type Size = Noted<crate::Bytes>;

        fn value<T: Value>(stated: &Noted<T>) -> T {
            stated.value
        }
        fn size(stated: &Noted<crate::Bytes>) -> u32 {
            stated.value.saturating_u32()
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
            /// Its part.
            optional table pub part: inner::Inner,
        }
    }

    crate::parameters! {
        /// Has a field of each kind.
        pub struct Every as "Every" {
            /// A size.
            pub limit: u32 from Bytes,
            /// A choice.
            choice pub on: bool,
            /// A time.
            optional pub rest: Span,
            /// A size.
            optional pub most: u32 from Bytes,
            /// A part that is always there.
            table pub part: inner::Inner,
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
    fn each_kind_of_field_has_its_bare_value() {
        let part = r#""part": {"share": {"value": 0.5, "note": "y"}}"#;
        let read = |text: String| serde_json::from_str::<Every<WithNotes>>(&text).unwrap().plain();
        let least = read(format!(r#"{{"limit": {{"value": "4 KiB", "note": "x"}}, "on": true, {part}}}"#));
        let share = inner::Inner { share: 0.5 };
        assert_eq!(least, Every { limit: 4096, on: true, rest: None, most: None, part: share });
        let more = r#""rest": {"value": "2 us", "note": "z"}, "most": {"value": "8 GiB", "note": "z"}"#;
        let most = read(format!(r#"{{"limit": {{"value": "4 KiB", "note": "x"}}, "on": false, {more}, {part}}}"#));
        // More than 32 bits count is as much as they count.
        assert_eq!(most, Every { limit: 4096, on: false, rest: Some(Span::from_us(2)), most: Some(u32::MAX), part: share });
    }

    #[test]
    fn the_schema_has_the_given_name() {
        assert_eq!(Outer::<WithNotes>::schema_name(), "Outer");
        let schema = serde_json::to_value(schemars::schema_for!(Outer<WithNotes>)).unwrap();
        assert_eq!(schema["additionalProperties"], false);
        assert_eq!(schema["properties"]["wait"]["description"], "A time.");
    }
}
