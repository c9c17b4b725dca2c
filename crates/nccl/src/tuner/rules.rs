//! The file by which NCCL's example tuner chooses (`NCCL_TUNER_CONFIG_FILE`): a line for each range of sizes.
//!
//! `collective,min_bytes,max_bytes,algorithm,protocol,channels,nodes,ranks[,operations[,registered]]`; -1 stands for any, of channels for
//! as many as the library takes. The first line that fits and can be done here counts; where none fits, the library chooses.
//!
//! Source: NCCL, plugins/tuner/example (plugin.c, nccl_tuner.conf, README.md).
//! Modelled: reading and writing; names that the plugin does not know, which it takes for an all-reduce, Ring or Simple, are refused.
//! Not modelled: `pat`, which is read and written and never fits; that the plugin says one channel where its file says -1 or nothing, against
//! its own description.

use std::fmt;
use std::str::FromStr;

use fabriscope_units::Bytes;

use crate::algorithm::{Algorithm, Operation, Protocol};
use crate::error::NcclError;

/// A line of the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rule {
    /// Of which operation.
    pub operation: Operation,
    /// The smallest size.
    pub least: Bytes,
    /// The largest size.
    pub most: Bytes,
    /// The algorithm; `None` is `pat`.
    pub algorithm: Option<Algorithm>,
    /// The protocol.
    pub protocol: Protocol,
    /// Channels; as many as the library takes where not said.
    pub channels: Option<u32>,
    /// Nodes of the communicator; any where not said.
    pub nodes: Option<u32>,
    /// Its ranks.
    pub ranks: Option<u32>,
    /// Operations for each channel of the group that the operation is in.
    pub operations: Option<u32>,
    /// Whether buffers are registered.
    pub registered: Option<bool>,
}

/// The lines of such a file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Rules {
    /// In the order of the file.
    pub rules: Vec<Rule>,
}

impl Rules {
    /// Reads a file; `file` is its name in messages. Empty lines and those that begin with `#` say nothing.
    ///
    /// # Errors
    /// The first line that cannot be read.
    pub fn parse(file: &str, text: &str) -> Result<Rules, NcclError> {
        let said = |(_, line): &(u64, &str)| !line.is_empty() && !line.starts_with('#');
        let lines = (1..).zip(text.lines().map(str::trim)).filter(said);
        let read =
            |(number, line): (u64, &str)| line.parse().map_err(|what| NcclError::TunerLine { file: file.to_owned(), line: number, what });
        Ok(Rules { rules: lines.map(read).collect::<Result<_, _>>()? })
    }
}

impl fmt::Display for Rules {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.rules.iter().try_for_each(|rule| writeln!(f, "{rule}"))
    }
}

impl Rule {
    /// Whether it is for this operation, size and communicator: one operation at a time, in buffers that are not registered.
    pub(super) fn fits(&self, operation: Operation, bytes: Bytes, (nodes, ranks): (u32, u32)) -> bool {
        self.operation == operation
            && (self.least..=self.most).contains(&bytes)
            && self.nodes.is_none_or(|own| own == nodes)
            && self.ranks.is_none_or(|own| own == ranks)
            && self.operations.is_none_or(|own| own == 1)
            && self.registered != Some(true)
    }
}

/// What is wrong with a line, and what to write.
impl FromStr for Rule {
    type Err = String;
    fn from_str(line: &str) -> Result<Rule, String> {
        let fields: Vec<&str> = line.split(',').map(str::trim).collect();
        if !(8..=10).contains(&fields.len()) {
            return Err(format!("{} fields, write 8 to 10: {FIELDS}", fields.len()));
        }
        let bytes = |at: usize| fields[at].parse::<u64>().map(Bytes).map_err(|_| unlike(fields[at], NAMES[at], "bytes as a whole number"));
        let count = |at: usize, least: u32| match fields.get(at).map(|field| (field.parse::<i64>(), field)) {
            None | Some((Ok(-1), _)) => Ok(None),
            Some((Ok(number), _)) if number >= i64::from(least) && number <= i64::from(u32::MAX) => Ok(Some(number as u32)),
            Some((_, field)) => Err(unlike(field, NAMES[at], &format!("a number from {least} on, or -1"))),
        };
        let registered = match count(9, 0)? {
            None => None,
            Some(number @ 0..=1) => Some(number == 1),
            Some(_) => return Err(unlike(fields[9], NAMES[9], "0, 1 or -1")),
        };
        let rule = Rule {
            operation: word(fields[0], NAMES[0], &OPERATIONS)?,
            least: bytes(1)?,
            most: bytes(2)?,
            algorithm: word(fields[3], NAMES[3], &ALGORITHMS)?,
            protocol: word(fields[4], NAMES[4], &PROTOCOLS)?,
            channels: count(5, 1)?,
            nodes: count(6, 1)?,
            ranks: count(7, 1)?,
            operations: count(8, 1)?,
            registered,
        };
        if rule.least > rule.most {
            return Err(format!("min_bytes {} is more than max_bytes {}, write the smaller one first", rule.least.0, rule.most.0));
        }
        Ok(rule)
    }
}

impl fmt::Display for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let any = |value: Option<u32>| value.map_or(-1, i64::from);
        write!(f, "{},{},{},", name(&OPERATIONS, self.operation), self.least.0, self.most.0)?;
        write!(f, "{},{},", name(&ALGORITHMS, self.algorithm), name(&PROTOCOLS, self.protocol))?;
        write!(f, "{},{},{},", any(self.channels), any(self.nodes), any(self.ranks))?;
        write!(f, "{},{}", any(self.operations), any(self.registered.map(u32::from)))
    }
}

fn unlike(field: &str, name: &str, expected: &str) -> String {
    let short: String = field.chars().take(40).collect();
    format!("{name} is `{short}`, write {expected}")
}

fn word<T: Copy>(field: &str, what: &str, known: &[(&str, T)]) -> Result<T, String> {
    let names = || known.iter().map(|(name, _)| *name).collect::<Vec<_>>().join(", ");
    known
        .iter()
        .find(|(name, _)| *name == field)
        .map(|(_, value)| *value)
        .ok_or_else(|| unlike(field, what, &format!("one of {}", names())))
}

fn name<T: Copy + PartialEq>(known: &[(&'static str, T)], value: T) -> &'static str {
    known.iter().find(|(_, own)| *own == value).map_or("-1", |(name, _)| *name)
}

const FIELDS: &str = "collective,min_bytes,max_bytes,algorithm,protocol,channels,nodes,ranks,operations,registered";
const NAMES: [&str; 10] =
    ["collective", "min_bytes", "max_bytes", "algorithm", "protocol", "channels", "nodes", "ranks", "operations", "registered"];
const OPERATIONS: [(&str, Operation); 5] = [
    ("broadcast", Operation::Broadcast),
    ("reduce", Operation::Reduce),
    ("allgather", Operation::AllGather),
    ("reducescatter", Operation::ReduceScatter),
    ("allreduce", Operation::AllReduce),
];
const ALGORITHMS: [(&str, Option<Algorithm>); 7] = [
    ("tree", Some(Algorithm::Tree)),
    ("ring", Some(Algorithm::Ring)),
    ("collnet_direct", Some(Algorithm::CollnetDirect)),
    ("collnet_chain", Some(Algorithm::CollnetChain)),
    ("nvls", Some(Algorithm::Nvls)),
    ("nvls_tree", Some(Algorithm::NvlsTree)),
    ("pat", None),
];
const PROTOCOLS: [(&str, Protocol); 3] = [("ll", Protocol::Ll), ("ll128", Protocol::Ll128), ("simple", Protocol::Simple)];
