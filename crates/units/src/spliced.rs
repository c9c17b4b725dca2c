//! Parameters that a model declares and a catalogue's part has among its own keys.
//!
//! A model writes the table of its parameters once, as a macro that hands it on: to [`bare!`](crate::bare), which makes the struct that the
//! model computes with, and to a macro of the catalogue, which adds a key with an origin for each to a part. Where the parameters are a
//! table of their own in the part, [`parameters!`](crate::parameters) is simpler.

/// The struct of bare values of a table of parameters. The table has sections, in any order and as often as it takes:
///
/// | section | stated | bare |
/// |---|---|---|
/// | `values { wait: Span, }` | a value with its origin | the value |
/// | `sizes { header, }` | a size with its origin | the same in bytes, `u32` |
/// | `optional { slack: Span = Span::ZERO, }` | a value, or nothing | the value, or this one |
/// | `optional_sizes { limit = u32::MAX, }` | a size, or nothing | the same in bytes, or this one |
/// | `unset { build: Span, }` | a value, or nothing | `Option` of it |
/// | `choices { kind: Kind, }` | the value alone, which has no origin | the same |
/// | `defaults { marks: bool, }` | the same, or nothing | the value, or the default of its type |
/// | `tables { contexts: ContextLimits, }` | a struct of [`parameters!`](crate::parameters), or nothing | `Option` of its bare values |
///
/// ```
/// use fabriscope_units::Span;
///
/// macro_rules! timer_parameters {
///     ($($with:ident)::+ { $($given:tt)* }) => {
///         $($with)::+! {
///             { $($given)* }
///             values {
///                 /// How long it waits.
///                 wait: Span,
///             }
///             optional {
///                 /// What it takes besides.
///                 slack: Span = Span::ZERO,
///             }
///         }
///     };
/// }
/// timer_parameters! {
///     fabriscope_units::bare {
///         /// What a timer takes.
///         #[derive(Debug)]
///         pub struct TimerCosts
///     }
/// }
/// let costs = TimerCosts { wait: Span::from_us(3), slack: Span::ZERO };
/// assert_eq!(costs.wait + costs.slack, Span::from_us(3));
/// ```
#[macro_export]
macro_rules! bare {
    // One section after the other becomes fields: { its attributes, its name, its type }.
    (@section $head:tt { $($done:tt)* } values { $( $(#$about:tt)* $field:ident: $Type:ty, )* } $($rest:tt)*) => {
        $crate::bare! { @section $head { $($done)* $( { [$(#$about)*] $field [$Type] } )* } $($rest)* }
    };
    (@section $head:tt { $($done:tt)* } sizes { $( $(#$about:tt)* $field:ident, )* } $($rest:tt)*) => {
        $crate::bare! { @section $head { $($done)* $( { [$(#$about)*] $field [u32] } )* } $($rest)* }
    };
    (@section $head:tt { $($done:tt)* } optional { $( $(#$about:tt)* $field:ident: $Type:ty = $default:expr, )* } $($rest:tt)*) => {
        $crate::bare! { @section $head { $($done)* $( { [$(#$about)*] $field [$Type] } )* } $($rest)* }
    };
    (@section $head:tt { $($done:tt)* } optional_sizes { $( $(#$about:tt)* $field:ident = $default:expr, )* } $($rest:tt)*) => {
        $crate::bare! { @section $head { $($done)* $( { [$(#$about)*] $field [u32] } )* } $($rest)* }
    };
    (@section $head:tt { $($done:tt)* } unset { $( $(#$about:tt)* $field:ident: $Type:ty, )* } $($rest:tt)*) => {
        $crate::bare! { @section $head { $($done)* $( { [$(#$about)*] $field [Option<$Type>] } )* } $($rest)* }
    };
    (@section $head:tt { $($done:tt)* } choices { $( $(#$about:tt)* $field:ident: $Type:ty, )* } $($rest:tt)*) => {
        $crate::bare! { @section $head { $($done)* $( { [$(#$about)*] $field [$Type] } )* } $($rest)* }
    };
    (@section $head:tt { $($done:tt)* } defaults { $( $(#$about:tt)* $field:ident: $Type:ty, )* } $($rest:tt)*) => {
        $crate::bare! { @section $head { $($done)* $( { [$(#$about)*] $field [$Type] } )* } $($rest)* }
    };
    (@section $head:tt { $($done:tt)* } tables { $( $(#$about:tt)* $field:ident: $Table:ident, )* } $($rest:tt)*) => {
        $crate::bare! { @section $head { $($done)* $( { [$(#$about)*] $field [Option<$Table>] } )* } $($rest)* }
    };
    (
        @section { $(#$about:tt)* pub struct $Name:ident { $($own:tt)* } }
        { $( { [$($field_about:tt)*] $field:ident [$($Type:tt)*] } )* }
    ) => {
        $(#$about)*
        pub struct $Name {
            $($own)*
            $( $($field_about)* pub $field: $($Type)*, )*
        }
    };
    ({ $(#$about:tt)* pub struct $Name:ident } $($sections:tt)*) => {
        $crate::bare! { @section { $(#$about)* pub struct $Name {} } {} $($sections)* }
    };
}
