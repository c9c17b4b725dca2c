//! The command line: what HPL.dat says, as options.

use crate::broadcast::Broadcast;
use crate::error::HplError;
use crate::grid::Mapping;
use crate::run::broadcast_of;
use crate::swap::Swap;

/// What was asked for; the rest is chosen by the machine.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Options {
    /// Unknowns.
    pub unknowns: Option<u64>,
    /// Columns of a panel.
    pub block: Option<u32>,
    /// Rows of processes.
    pub rows: Option<u32>,
    /// Columns of processes.
    pub columns: Option<u32>,
    /// In which order processes fill the grid.
    pub mapping: Option<Mapping>,
    /// Processes of a node.
    pub per_node: Option<u32>,
    /// Whether workers on the DPUs move panels.
    pub offload: Option<bool>,
    /// Share of the memory that the matrix fills, in percent.
    pub memory: Option<u32>,
    /// How panels are broadcast.
    pub broadcast: Option<Broadcast>,
    /// How rows change places.
    pub swap: Option<Swap>,
    /// Whether the next panel is factored during the update.
    pub look_ahead: Option<bool>,
    /// Help is wanted.
    pub help: bool,
}

/// The options, with one line on each.
pub const OPTIONS: &[(&str, &str)] = &[
    ("-N N", "unknowns (default: those whose matrix fills --memory of the memory)"),
    ("-NB NB", "columns of a panel (default: 512 on GPUs, 256 on processors)"),
    ("-P P", "rows of processes (default: the grid that is nearest to a square)"),
    ("-Q Q", "columns of processes"),
    ("--pmap 0..1", "order of processes in the grid, by rows or by columns (default: a rectangle on each node)"),
    ("--per-node COUNT", "processes of a node (default: one for each GPU, or for each processor)"),
    ("--offload dpu|none", "who moves panels during the update: workers on the DPUs, or the host (default: none)"),
    ("--memory PERCENT", "share of the memory that the matrix fills (default: 90)"),
    ("--bcast 0..5", "broadcast of panels: 1ring, 1ringM, 2ring, 2ringM, long, longM (default: 1)"),
    ("--swap 0..2", "swaps of rows: binary exchange, long, mix with 64 columns (default: 1)"),
    ("--depth 0..1", "panels that are factored ahead (default: 1)"),
    ("--help, -h", "this text"),
];

/// Reads the options of a command line.
///
/// # Errors
/// An option that the program does not have, a value that is none.
pub fn read(words: &[String]) -> Result<Options, HplError> {
    let mut found = Options::default();
    let mut words = words.iter();
    while let Some(word) = words.next() {
        let (name, given) = match word.split_once('=') {
            Some((name, value)) => (name, Some(value.to_owned())),
            None => (word.as_str(), None),
        };
        if matches!(name, "--help" | "-h") {
            return Ok(Options { help: true, ..found });
        }
        let Some(option) = NAMES.iter().find(|known| **known == name) else {
            return Err(HplError::Option { option: word.clone() });
        };
        let value = given.or_else(|| words.next().cloned()).unwrap_or_default();
        let number = |least: u64, most: u64, remedy: &'static str| match value.parse::<u64>() {
            Ok(number) if (least..=most).contains(&number) => Ok(number),
            _ => Err(HplError::Value { option, value: value.clone(), remedy }),
        };
        let small = |remedy| number(1, u64::from(u32::MAX), remedy).map(|number| number as u32);
        match *option {
            "-N" => found.unknowns = Some(number(1, u64::MAX, "give the number of unknowns, as -N 100000")?),
            "-NB" => found.block = Some(small("give the columns of a panel, as -NB 256")?),
            "-P" => found.rows = Some(small("give the rows of processes, as -P 8")?),
            "-Q" => found.columns = Some(small("give the columns of processes, as -Q 8")?),
            "--memory" => found.memory = Some(number(1, 100, "give a share in percent, as --memory 90")? as u32),
            "--pmap" => {
                found.mapping = Some([Mapping::Rows, Mapping::Columns][number(0, 1, "give the number of HPL.dat, 0 or 1")? as usize]);
            }
            "--per-node" => found.per_node = Some(small("give the processes of a node, as --per-node 32")?),
            "--offload" => {
                found.offload = match value.as_str() {
                    "dpu" => Some(true),
                    "none" => Some(false),
                    _ => return Err(HplError::Value { option, value, remedy: "give dpu or none" }),
                }
            }
            "--bcast" => found.broadcast = broadcast_of(number(0, 5, "give the number of HPL.dat, 0 to 5")?),
            "--swap" => {
                let variants = [Swap::BinaryExchange, Swap::Long, Swap::Mix(THRESHOLD)];
                found.swap = Some(variants[number(0, 2, "give the number of HPL.dat, 0 to 2")? as usize]);
            }
            _ => found.look_ahead = Some(number(0, 1, "give 0 or 1")? == 1),
        }
    }
    Ok(found)
}

const NAMES: [&str; 11] = ["-N", "-NB", "-P", "-Q", "--pmap", "--per-node", "--offload", "--memory", "--bcast", "--swap", "--depth"];
/// Columns up to which rows are exchanged by halves. Basis: published, HPL.dat as it comes.
const THRESHOLD: u32 = 64;

#[cfg(test)]
mod tests {
    use super::*;
    use fabriscope_units::Remedy;

    fn of(line: &str) -> Result<Options, HplError> {
        read(&line.split_whitespace().map(str::to_owned).collect::<Vec<_>>())
    }

    #[test]
    fn options_of_xhpl() {
        let read = of("-N 1000 -NB=64 -P 2 -Q 4 --bcast 4 --swap 2 --depth 0").unwrap();
        assert_eq!((read.unknowns, read.block, read.rows, read.columns), (Some(1000), Some(64), Some(2), Some(4)));
        assert_eq!((read.broadcast, read.swap, read.look_ahead), (Some(Broadcast::Long), Some(Swap::Mix(64)), Some(false)));
        let read = of("-P 31 -Q 32 --per-node 32 --pmap 1 --offload dpu").unwrap();
        assert_eq!((read.per_node, read.mapping, read.offload), (Some(32), Some(Mapping::Columns), Some(true)));
        assert!(of("-h").unwrap().help);
    }

    #[test]
    fn bad_options_say_what_to_write() {
        assert_eq!(of("-X 3").unwrap_err().to_string(), "there is no option `-X`");
        assert_eq!(of("-N").unwrap_err().to_string(), "`` is no value for -N");
        assert_eq!(of("-N ten").unwrap_err().remedy().unwrap(), "give the number of unknowns, as -N 100000");
        assert_eq!(of("--offload gpu").unwrap_err().remedy().unwrap(), "give dpu or none");
        assert!(of("--bcast 9").is_err());
        assert!(of("-P 0").is_err());
    }
}
