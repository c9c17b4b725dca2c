//! Parts some of whose keys are the parameters of a model, declared there.

/// A part with its own keys and with those of a table of parameters, each value with its origin; `costs -> Costs` names the method that gives
/// the bare values of the table.
macro_rules! part {
    (
        { $(#[$about:meta])* pub struct $Part:ident { $($own:tt)* } $bare:ident -> $Bare:ident }
        values { $( $(#[$value_about:meta])* $value:ident: $Value:ty, )* }
        optional { $( $(#[$optional_about:meta])* $optional:ident: $Optional:ty = $default:expr, )* }
        tables { $( $(#[$table_about:meta])* $table:ident: $Table:ident, )* }
    ) => {
        $(#[$about])*
        #[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
        #[serde(deny_unknown_fields)]
        pub struct $Part {
            $($own)*
            $( $(#[$value_about])* pub $value: $crate::Sourced<$Value>, )*
            $(
                $(#[$optional_about])*
                #[serde(default, skip_serializing_if = "Option::is_none")]
                pub $optional: Option<$crate::Sourced<$Optional>>,
            )*
            $(
                $(#[$table_about])*
                #[serde(default, skip_serializing_if = "Option::is_none")]
                pub $table: Option<$Table<$crate::sourced::Stated>>,
            )*
        }

        impl $Part {
            /// The bare values that the model computes with.
            #[must_use]
            pub fn $bare(&self) -> $Bare {
                $Bare {
                    $( $value: self.$value.value, )*
                    $( $optional: self.$optional.as_ref().map_or($default, |stated| stated.value), )*
                    $( $table: self.$table.as_ref().map($Table::plain), )*
                }
            }
        }
    };
}

pub(super) use part;
