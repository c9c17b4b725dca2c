//! Elements of accumulates, and what is done with them.
//!
//! Source: MPI 4.1, §12.3.4 (predefined operations, `MPI_REPLACE`, `MPI_NO_OP`).
//! Modelled: the arithmetic of the types below, wrapping where integers overflow.
//! Not modelled: derived data types, logical operations, `MPI_MINLOC` and `MPI_MAXLOC`.

/// A data type of MPI.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Datatype {
    /// `MPI_CHAR`.
    Char,
    /// `MPI_INT`.
    Int,
    /// `MPI_LONG_LONG`.
    LongLong,
    /// `MPI_FLOAT`.
    Float,
    /// `MPI_DOUBLE`.
    Double,
}

/// What an accumulate does with an element of the target and one of the origin.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reduction {
    /// `MPI_SUM`.
    Sum,
    /// `MPI_PROD`.
    Product,
    /// `MPI_MIN`.
    Min,
    /// `MPI_MAX`.
    Max,
    /// `MPI_REPLACE`.
    Replace,
    /// `MPI_NO_OP`.
    Nothing,
}

impl Datatype {
    /// Every one.
    pub const ALL: [Datatype; 5] = [Datatype::Char, Datatype::Int, Datatype::LongLong, Datatype::Float, Datatype::Double];

    /// As MPI calls it.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Datatype::Char => "MPI_CHAR",
            Datatype::Int => "MPI_INT",
            Datatype::LongLong => "MPI_LONG_LONG",
            Datatype::Float => "MPI_FLOAT",
            Datatype::Double => "MPI_DOUBLE",
        }
    }
    /// Bytes of an element.
    #[must_use]
    pub fn bytes(self) -> u32 {
        match self {
            Datatype::Char => 1,
            Datatype::Int | Datatype::Float => 4,
            Datatype::LongLong | Datatype::Double => 8,
        }
    }
    /// Whether atomics of adapters know it: whole numbers of 4 and 8 bytes.
    #[must_use]
    pub fn is_atomic(self) -> bool {
        matches!(self, Datatype::Int | Datatype::LongLong)
    }

    /// Does `reduction` with each element of `target` and the one of `origin` in its place.
    pub(crate) fn reduce(self, reduction: Reduction, target: &mut [u8], origin: &[u8]) {
        macro_rules! each {
            ($number:ty, $sum:expr, $product:expr) => {
                for (here, there) in target.chunks_exact_mut(size_of::<$number>()).zip(origin.chunks_exact(size_of::<$number>())) {
                    let number = |bytes: &[u8]| <$number>::from_ne_bytes(bytes.try_into().expect("chunks of an element"));
                    let (old, new): ($number, $number) = (number(here), number(there));
                    let result: $number = match reduction {
                        Reduction::Sum => $sum(old, new),
                        Reduction::Product => $product(old, new),
                        Reduction::Min => {
                            if new < old {
                                new
                            } else {
                                old
                            }
                        }
                        Reduction::Max => {
                            if new > old {
                                new
                            } else {
                                old
                            }
                        }
                        Reduction::Replace => new,
                        Reduction::Nothing => old,
                    };
                    here.copy_from_slice(&result.to_ne_bytes());
                }
            };
        }
        match self {
            Datatype::Char => each!(i8, i8::wrapping_add, i8::wrapping_mul),
            Datatype::Int => each!(i32, i32::wrapping_add, i32::wrapping_mul),
            Datatype::LongLong => each!(i64, i64::wrapping_add, i64::wrapping_mul),
            Datatype::Float => each!(f32, |a: f32, b: f32| a + b, |a: f32, b: f32| a * b),
            Datatype::Double => each!(f64, |a: f64, b: f64| a + b, |a: f64, b: f64| a * b),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_operation_on_whole_numbers() {
        // 7 of the target and -3 of the origin; a char of 127 and 1 wraps.
        let results = [Reduction::Sum, Reduction::Product, Reduction::Min, Reduction::Max, Reduction::Replace, Reduction::Nothing];
        let of = |reduction| {
            let mut target = 7i32.to_ne_bytes();
            Datatype::Int.reduce(reduction, &mut target, &(-3i32).to_ne_bytes());
            i32::from_ne_bytes(target)
        };
        assert_eq!(results.map(of), [4, -21, -3, 7, -3, 7]);
        let mut chars = [127u8, 1];
        Datatype::Char.reduce(Reduction::Sum, &mut chars, &[1, 1]);
        assert_eq!(chars, [128, 2]);
    }

    #[test]
    fn fractions_add() {
        let mut target: Vec<u8> = [1.5f64, 2.0].iter().flat_map(|x| x.to_ne_bytes()).collect();
        let origin: Vec<u8> = [0.25f64, -2.0].iter().flat_map(|x| x.to_ne_bytes()).collect();
        Datatype::Double.reduce(Reduction::Sum, &mut target, &origin);
        let sums: Vec<f64> = target.chunks(8).map(|b| f64::from_ne_bytes(b.try_into().unwrap())).collect();
        assert_eq!(sums, [1.75, 0.0]);
    }
}
