//! Collective operations, and the types of their elements, under the names of all formats.

use std::fmt;

use fabriscope_units::Bytes;

use crate::GroupId;

/// An operation of all members of a group.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Collective {
    /// Which one.
    pub operation: Operation,
    /// The longest buffer of a rank, as benchmarks count it: what an all-gather receives, what a reduce-scatter sends, otherwise what is sent.
    /// None where the file does not say.
    pub bytes: Option<Bytes>,
    /// The type of the elements.
    pub element: Option<Element>,
    /// Who takes part; all ranks of the job without a group.
    pub group: Option<GroupId>,
    /// The root within the group, of operations that have one.
    pub root: Option<u32>,
}

macro_rules! operations {
    ($($variant:ident, $name:literal, $document:literal;)*) => {
        /// Which operation.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum Operation {
            $(#[doc = $document] $variant,)*
        }
        impl Operation {
            /// All of them.
            pub const ALL: &'static [Operation] = &[$(Operation::$variant),*];
            /// As this project writes it.
            #[must_use]
            pub const fn name(self) -> &'static str {
                match self { $(Operation::$variant => $name,)* }
            }
        }
    };
}

operations! {
    AllReduce, "all_reduce", "Everybody gets the reduction.";
    Reduce, "reduce", "The root gets the reduction.";
    AllGather, "all_gather", "Everybody gets what everybody has.";
    AllGatherV, "all_gatherv", "The same with a length of each rank.";
    Gather, "gather", "The root gets what everybody has.";
    GatherV, "gatherv", "The same with a length of each rank.";
    Scatter, "scatter", "Everybody gets its piece of the root's.";
    ScatterV, "scatterv", "The same with a length of each rank.";
    Broadcast, "broadcast", "Everybody gets what the root has.";
    AllToAll, "all_to_all", "Everybody sends a piece to everybody.";
    AllToAllV, "all_to_allv", "The same with a length of each pair.";
    ReduceScatter, "reduce_scatter", "Everybody gets its piece of the reduction.";
    ReduceScatterV, "reduce_scatterv", "The same with a length of each rank.";
    Scan, "scan", "Each gets the reduction of those up to it.";
    ExScan, "exscan", "Each gets the reduction of those before it.";
    Barrier, "barrier", "Nobody goes on before all are there.";
}

impl Operation {
    /// The operation that a format calls so, in whatever case and with or without underscores: `AllReduce`, `all_reduce_`, `ALLREDUCE`,
    /// `_allgather_base`, `MPI_Alltoallv`.
    #[must_use]
    pub fn named(text: &str) -> Option<Operation> {
        let mut word: String = text.chars().filter(char::is_ascii_alphanumeric).map(|letter| letter.to_ascii_lowercase()).collect();
        for prefix in ["mpi", "c10d", "nccl"] {
            if let Some(rest) = word.strip_prefix(prefix) {
                word = rest.to_owned();
            }
        }
        Some(match word.as_str() {
            "allreduce" | "allreducecoalesced" => Operation::AllReduce,
            "reduce" => Operation::Reduce,
            "allgather" | "allgatherbase" | "allgatherintotensor" | "allgatherintotensorcoalesced" | "allgathercoalesced" => {
                Operation::AllGather
            }
            "allgatherv" => Operation::AllGatherV,
            "gather" => Operation::Gather,
            "gatherv" => Operation::GatherV,
            "scatter" => Operation::Scatter,
            "scatterv" => Operation::ScatterV,
            "broadcast" | "bcast" | "broadcastoop" => Operation::Broadcast,
            "alltoall" | "alltoallbase" | "alltoallsingle" => Operation::AllToAll,
            "alltoallv" | "alltoallw" => Operation::AllToAllV,
            "reducescatter" | "reducescatterbase" | "reducescattertensor" | "reducescattertensorcoalesced" | "reducescatterblock" => {
                Operation::ReduceScatter
            }
            "reducescatterv" => Operation::ReduceScatterV,
            "scan" => Operation::Scan,
            "exscan" => Operation::ExScan,
            "barrier" => Operation::Barrier,
            _ => return None,
        })
    }
    /// Whether all ranks of the group give the same length.
    #[must_use]
    pub const fn same_length(self) -> bool {
        use Operation as O;
        !matches!(self, O::AllGatherV | O::GatherV | O::ScatterV | O::AllToAllV | O::ReduceScatterV)
    }
}

impl fmt::Display for Operation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// The type of elements: what they are, where that is known, and how long each is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Element {
    /// Its name: `float32`, `int64`, `opaque`.
    pub name: &'static str,
    /// Bytes of one.
    pub bytes: u64,
}

/// Name of the type, bytes, and how PyTorch, Chakra and NCCL call it in lower case.
const ELEMENTS: &[(&str, u64, &[&str])] = &[
    ("int8", 1, &["int8", "char", "signed char", "i8", "ncclint8", "ncclchar"]),
    ("uint8", 1, &["uint8", "byte", "unsigned char", "u8", "nccluint8", "bool"]),
    ("int16", 2, &["int16", "short", "short int"]),
    ("int32", 4, &["int32", "int", "i32", "ncclint32", "ncclint"]),
    ("uint32", 4, &["uint32", "u32", "nccluint32"]),
    ("int64", 8, &["int64", "long", "long int", "i64", "ncclint64"]),
    ("uint64", 8, &["uint64", "u64", "nccluint64"]),
    ("float16", 2, &["float16", "half", "c10::half", "fp16", "f16", "ncclfloat16", "ncclhalf"]),
    ("bfloat16", 2, &["bfloat16", "c10::bfloat16", "bf16", "ncclbfloat16"]),
    ("float32", 4, &["float32", "float", "fp32", "f32", "ncclfloat32", "ncclfloat"]),
    ("float64", 8, &["float64", "double", "fp64", "f64", "ncclfloat64", "nccldouble"]),
    ("float8", 1, &["float8_e4m3fn", "float8_e5m2", "c10::float8_e4m3fn", "c10::float8_e5m2", "ncclfloat8e4m3", "ncclfloat8e5m2"]),
];

/// The numbers of `ncclDataType_t`, from 0.
const NCCL_TYPES: [&str; 12] = [
    "int8",
    "uint8",
    "int32",
    "uint32",
    "int64",
    "uint64",
    "float16",
    "float32",
    "float64",
    "bfloat16",
    "ncclfloat8e4m3",
    "ncclfloat8e5m2",
];

impl Element {
    /// The type of this name in PyTorch, Chakra or NCCL.
    #[must_use]
    pub fn named(text: &str) -> Option<Element> {
        let word = text.to_ascii_lowercase();
        ELEMENTS.iter().find(|(_, _, names)| names.contains(&word.as_str())).map(|(name, bytes, _)| Element { name, bytes: *bytes })
    }
    /// The type of this number in NCCL.
    #[must_use]
    pub fn of_nccl(number: u64) -> Option<Element> {
        Element::named(NCCL_TYPES.get(usize::try_from(number).ok()?)?)
    }
    /// A type of which only the length is known, such as a derived type of MPI.
    #[must_use]
    pub const fn opaque(bytes: u64) -> Element {
        Element { name: "opaque", bytes }
    }
}
