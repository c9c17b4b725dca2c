//! Parts some of whose keys are the parameters of a model, declared there.

/// A part with its own keys and with those of a table of parameters ([`fabriscope_units::bare`] says of which sections), each value with
/// its origin; `costs -> Costs` names the method that gives the bare values of the table. Keys of its own that stand behind those of the
/// table follow in a second pair of braces.
macro_rules! part {
    // One section after the other becomes keys: { its attributes, its name, its type, its kind, its value where nothing is said }.
    (@section $head:tt { $($done:tt)* } values { $( $(#$about:tt)* $key:ident: $Type:ty, )* } $($rest:tt)*) => {
        part! { @section $head { $($done)* $( { [$(#$about)*] $key [$crate::Sourced<$Type>] value [] } )* } $($rest)* }
    };
    (@section $head:tt { $($done:tt)* } sizes { $( $(#$about:tt)* $key:ident, )* } $($rest:tt)*) => {
        part! { @section $head { $($done)* $( {
            [$(#$about)*] $key [$crate::Sourced<fabriscope_units::Bytes>] size []
        } )* } $($rest)* }
    };
    (@section $head:tt { $($done:tt)* } optional { $( $(#$about:tt)* $key:ident: $Type:ty = $default:expr, )* } $($rest:tt)*) => {
        part! { @section $head { $($done)* $( {
            [$(#$about)* #[serde(default, skip_serializing_if = "Option::is_none")]] $key [Option<$crate::Sourced<$Type>>] optional [$default]
        } )* } $($rest)* }
    };
    (@section $head:tt { $($done:tt)* } optional_sizes { $( $(#$about:tt)* $key:ident = $default:expr, )* } $($rest:tt)*) => {
        part! { @section $head { $($done)* $( {
            [$(#$about)* #[serde(default, skip_serializing_if = "Option::is_none")]]
            $key [Option<$crate::Sourced<fabriscope_units::Bytes>>] optional_size [$default]
        } )* } $($rest)* }
    };
    (@section $head:tt { $($done:tt)* } unset { $( $(#$about:tt)* $key:ident: $Type:ty, )* } $($rest:tt)*) => {
        part! { @section $head { $($done)* $( {
            [$(#$about)* #[serde(default, skip_serializing_if = "Option::is_none")]] $key [Option<$crate::Sourced<$Type>>] unset []
        } )* } $($rest)* }
    };
    (@section $head:tt { $($done:tt)* } choices { $( $(#$about:tt)* $key:ident: $Type:ty, )* } $($rest:tt)*) => {
        part! { @section $head { $($done)* $( { [$(#$about)*] $key [$Type] choice [] } )* } $($rest)* }
    };
    (@section $head:tt { $($done:tt)* } defaults { $( $(#$about:tt)* $key:ident: $Type:ty, )* } $($rest:tt)*) => {
        part! { @section $head { $($done)* $( { [$(#$about)* #[serde(default)]] $key [$Type] choice [] } )* } $($rest)* }
    };
    (@section $head:tt { $($done:tt)* } tables { $( $(#$about:tt)* $key:ident: $Table:ident, )* } $($rest:tt)*) => {
        part! { @section $head { $($done)* $( {
            [$(#$about)* #[serde(default, skip_serializing_if = "Option::is_none")]]
            $key [Option<$Table<$crate::sourced::Stated>>] table []
        } )* } $($rest)* }
    };
    (
        @section { $(#$about:tt)* pub struct $Part:ident { $($own:tt)* } $bare:ident -> $Bare:ident { $($behind:tt)* } }
        { $( { [$($key_about:tt)*] $key:ident [$($Type:tt)*] $kind:ident [$($default:expr)?] } )* }
    ) => {
        $(#$about)*
        #[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
        #[serde(deny_unknown_fields)]
        pub struct $Part {
            $($own)*
            $( $($key_about)* pub $key: $($Type)*, )*
            $($behind)*
        }

        impl $Part {
            /// The bare values that the model computes with.
            #[must_use]
            pub fn $bare(&self) -> $Bare {
                $Bare { $( $key: part!(@bare $kind self.$key, $($default)?), )* }
            }
        }
    };
    (@bare value $key:expr,) => { $key.value };
    (@bare size $key:expr,) => { $key.value.saturating_u32() };
    (@bare optional $key:expr, $default:expr) => { $key.as_ref().map_or($default, |stated| stated.value) };
    (@bare optional_size $key:expr, $default:expr) => { $key.as_ref().map_or($default, |stated| stated.value.saturating_u32()) };
    (@bare unset $key:expr,) => { $key.as_ref().map(|stated| stated.value) };
    (@bare choice $key:expr,) => { $key };
    (@bare table $key:expr,) => { $key.as_ref().map(|table| table.plain()) };
    ({ $(#$about:tt)* pub struct $Part:ident { $($own:tt)* } $bare:ident -> $Bare:ident $({ $($behind:tt)* })? } $($sections:tt)*) => {
        part! {
            @section { $(#$about)* pub struct $Part { $($own)* } $bare -> $Bare { $($($behind)*)? } } {} $($sections)*
        }
    };
}

pub(super) use part;
