//! `topology.conf` of Slurm's `topology/tree`: which nodes and switches are below each switch.
//!
//! Source: topology.conf(5) of Slurm 25.05. Keys in any case, `#` begins a comment, `\` at the end continues a line,
//! values may stand between quotes. `LinkSpeed` is passed over, as Slurm does.
//! Not read: files of `topology/block` and `topology/ring` (refused: they name no switches), `Include`.

use super::subnet::Subnet;
use super::tree::{self, Entries, Entry};
use super::{ImportError, Mistake, hostlist};

/// Whether a line belongs to this format.
pub(super) fn looks_like(line: &str) -> bool {
    let word = line.split('=').next().unwrap_or("").trim_end();
    line.contains('=') && FIRST_KEYS.iter().any(|key| word.eq_ignore_ascii_case(key))
}

/// Keys that begin a line.
const FIRST_KEYS: [&str; 4] = ["SwitchName", "BlockName", "BlockSizes", "RingName"];

/// Reads a file.
pub(super) fn read(text: &str) -> Result<Subnet, ImportError> {
    let mut entries = Entries::default();
    let mut lines = text.lines().zip(1u32..);
    while let Some((line, number)) = lines.next() {
        let mut line = without_comment(line).trim().to_owned();
        while let Some(open) = line.strip_suffix('\\') {
            line = open.to_owned();
            let Some((more, _)) = lines.next() else { break };
            line += without_comment(more).trim_end();
        }
        if line.trim().is_empty() {
            continue;
        }
        entries.push(entry(&line, number).map_err(|mistake| ImportError::Line { line: number, mistake })?)?;
    }
    tree::subnet(&entries)
}

fn without_comment(line: &str) -> &str {
    line.split('#').next().unwrap_or("")
}

fn entry(line: &str, number: u32) -> Result<Entry, Mistake> {
    if line.split_whitespace().next().is_some_and(|word| word.eq_ignore_ascii_case("include")) {
        return Err(Mistake::Malformed { what: "an `Include`".to_owned(), remedy: "put the lines of the other file in its place" });
    }
    let (mut switch, mut children, mut nodes) = (None, None, None);
    for (key, value) in pairs(line)? {
        let place = match key.to_ascii_lowercase().as_str() {
            "switchname" => &mut switch,
            "switches" => &mut children,
            "nodes" => &mut nodes,
            "linkspeed" => continue,
            "blockname" | "blocksizes" => return Err(Mistake::NoTree { plugin: "block" }),
            "ringname" => return Err(Mistake::NoTree { plugin: "ring" }),
            _ => {
                let remedy = "a line has SwitchName, Switches or Nodes, and LinkSpeed";
                return Err(Mistake::Malformed { what: format!("the key `{key}`, which topology/tree does not have"), remedy });
            }
        };
        if place.replace(value).is_some() {
            return Err(Mistake::Malformed { what: format!("`{key}` twice in one line"), remedy: "join the two lists with a comma" });
        }
    }
    let Some(switch) = switch else {
        return Err(Mistake::Malformed {
            what: "a line without SwitchName".to_owned(),
            remedy: "begin it with SwitchName=, or join it to the line before",
        });
    };
    below(switch, number, children.as_deref(), nodes.as_deref())
}

/// The entry of a switch; names are lists of hosts.
pub(super) fn below(switch: String, line: u32, children: Option<&str>, nodes: Option<&str>) -> Result<Entry, Mistake> {
    if switch.is_empty() || switch.contains(['[', ']', ',']) {
        let remedy = "each switch has a line of its own, with a name without brackets and commas";
        return Err(Mistake::Malformed { what: format!("`{switch}` as the name of a switch"), remedy });
    }
    let remedy = "give each switch either the switches below it or its nodes";
    match (children, nodes) {
        (None, None) => Err(Mistake::Malformed { what: format!("`{switch}` with nothing below it"), remedy }),
        (Some(_), Some(_)) => Err(Mistake::Malformed { what: format!("`{switch}` with switches and nodes below it"), remedy }),
        (Some(list), None) => Ok(Entry { switch, line, children: hostlist::expand(list)?, nodes: Vec::new() }),
        (None, Some(list)) => Ok(Entry { switch, line, children: Vec::new(), nodes: hostlist::expand(list)? }),
    }
}

/// `Key=value` with optional blanks around the sign and quotes around the value.
fn pairs(line: &str) -> Result<Vec<(&str, String)>, Mistake> {
    let mut pairs = Vec::new();
    let mut rest = line.trim();
    while !rest.is_empty() {
        let broken = || Mistake::Malformed {
            what: format!("`{}`", rest.chars().take(40).collect::<String>()),
            remedy: "write Key=value, separated by blanks",
        };
        let (key, tail) = rest.split_once('=').ok_or_else(broken)?;
        let key = key.trim_end();
        if key.is_empty() || key.contains(char::is_whitespace) {
            return Err(broken());
        }
        let tail = tail.trim_start();
        let (value, tail) = match tail.strip_prefix('"') {
            Some(quoted) => quoted.split_once('"').ok_or_else(broken)?,
            None => tail.split_at(tail.find(char::is_whitespace).unwrap_or(tail.len())),
        };
        pairs.push((key, value.to_owned()));
        rest = tail.trim_start();
    }
    Ok(pairs)
}
