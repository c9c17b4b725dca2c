//! Parameters that a model declares and a catalogue's part has among its own keys.
//!
//! A model writes the table of its parameters once, as a macro that hands it on: to [`bare!`](crate::bare), which makes the struct that the
//! model computes with, and to a macro of the catalogue, which adds a key with an origin for each to a part. Where the parameters are a
//! table of their own in the part, [`parameters!`](crate::parameters) is simpler.

/// The struct of bare values of a table of parameters: a field for each value, those that may be left out with the value that they then
/// have, and a nested struct of parameters for each table.
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
///             tables {}
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
    (
        { $(#[$about:meta])* pub struct $Name:ident }
        values { $( $(#[$value_about:meta])* $value:ident: $Value:ty, )* }
        optional { $( $(#[$optional_about:meta])* $optional:ident: $Optional:ty = $default:expr, )* }
        tables { $( $(#[$table_about:meta])* $table:ident: $Table:ident, )* }
    ) => {
        $(#[$about])*
        pub struct $Name {
            $( $(#[$value_about])* pub $value: $Value, )*
            $( $(#[$optional_about])* pub $optional: $Optional, )*
            $( $(#[$table_about])* pub $table: Option<$Table>, )*
        }
    };
}
