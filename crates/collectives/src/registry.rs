//! How an operation registers its algorithms: one line each.

/// Declares the algorithms of an operation as `Algorithm`: for each its file, name, parameters and rounds.
///
/// A line of the table is all that an algorithm needs besides its file. The table becomes the modules, the enum, `ALL` (each
/// with its usual parameters, which the suites go through), `named`, `names`, `Display` and the dispatch to the rounds.
///
/// ```text
/// /// What it does.                                   the description
/// [mod ring] RingSegmented {                          the file, if another algorithm does not name it already
///     /// The most of a block that goes in a phase.
///     segment: Bytes = Bytes::from_mib(1), size()     parameter, usual value, how `Name` reads it (and its least value)
/// } = "ring_segmented" => ring::rounds(rank, …);      the name, and the rounds by parameters and arguments
/// ```
macro_rules! algorithms {
    (
        $(#[$about:meta])*
        enum Algorithm $(also named by $other:path, as $others:literal)?;
        $(#[$promise:meta])*
        $visibility:vis fn $rounds_of:ident($($argument:ident: $kind:ty),+);

        $(
            $(#[$doc:meta])*
            $([mod $file:ident])? $variant:ident
            $({ $($(#[$meaning:meta])* $field:ident: $type:ty = $usual:expr, $reader:ident($($bound:expr)?) $(, unless $omitted:expr)?);+ })?
            = $name:literal => $rounds:expr;
        )+
    ) => {
        $($(mod $file;)?)+

        $(#[$about])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub enum Algorithm {
            $($(#[$doc])* $variant $({ $($(#[$meaning])* $field: $type,)+ })?,)+
        }

        impl Algorithm {
            /// Each with its usual parameters.
            pub const ALL: &'static [Algorithm] = &[$(Algorithm::$variant $({ $($field: $usual),+ })?),+];

            /// What [`Algorithm::named`] reads.
            #[must_use]
            pub fn names() -> String {
                let names: &[(&str, &[&str])] = &[$(($name, &[$($(stringify!($field)),+)?])),+];
                let others: &[&str] = &[$($others)?];
                $crate::names::listed(names, others)
            }
            /// The algorithm of this name, as it is written or without its parameters, which are the usual ones then.
            #[must_use]
            pub fn named(text: &str) -> Option<Algorithm> {
                #[allow(unused_mut, reason = "where no algorithm has parameters")]
                let mut name = $crate::names::Name::read(text)?;
                let algorithm = match name.word {
                    $($name => Algorithm::$variant $({ $($field: name.$reader($($bound,)? $usual)?),+ })?,)+
                    _ => {
                        let others: &[fn(&str) -> Option<Algorithm>] = &[$($other)?];
                        return others.iter().find_map(|other| other(text));
                    }
                };
                name.end(algorithm)
            }
            $(#[$promise])*
            #[allow(clippy::wrong_self_convention, reason = "named after the rank that the rounds start from")]
            $visibility fn $rounds_of(self, $($argument: $kind),+) -> $crate::round::Rounds {
                match self {
                    $(Algorithm::$variant $({ $($field),+ })? => Box::new($rounds),)+
                }
            }
        }

        impl std::fmt::Display for Algorithm {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                match self {
                    $(Algorithm::$variant $({ $($field),+ })? => {
                        $crate::names::write(f, $name, &[$($($crate::names::parameter($field, &[$($omitted)?])),+)?])
                    })+
                }
            }
        }
    };
}

pub(crate) use algorithms;
