//! `topology.conf` of Slurm's `topology/tree`, and what `scontrol show topology` prints of it: which nodes and switches are
//! below each switch.
//!
//! ```text
//! SwitchName=s0 Nodes=gpu[01-16]                                     topology.conf
//! SwitchName=s0 Level=0 LinkSpeed=1 Nodes=gpu[01-16]                 scontrol show topology
//! SwitchName=s2 Level=1 LinkSpeed=1 Nodes=gpu[01-32] Switches=s[0-1]     its nodes are all that are below
//! ```
//!
//! Source: topology.conf(5) of Slurm 25.05; Slurm's `topology_tree.c` (`_print_topo_record`) and `switch_record.c` (what its
//! reader takes). Keys in any case, `#` begins a comment, `\` at the end continues a line, values may stand between quotes.
//! `LinkSpeed` is passed over, as Slurm does; so is `Level`, which follows from what is below. A switch may have nothing below it.
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
    let (mut switch, mut children, mut nodes, mut printed) = (None, None, None, false);
    for (key, value) in pairs(line)? {
        let place = match key.to_ascii_lowercase().as_str() {
            "switchname" => &mut switch,
            "switches" => &mut children,
            "nodes" => &mut nodes,
            "linkspeed" => continue,
            "level" => {
                printed = true;
                continue;
            }
            "blockname" | "blocksizes" => return Err(Mistake::NoTree { plugin: "block" }),
            "ringname" => return Err(Mistake::NoTree { plugin: "ring" }),
            _ => {
                let remedy = "a line has SwitchName, Switches or Nodes, and LinkSpeed; printed by scontrol also Level";
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
    let [children, nodes] = [children, nodes].map(|list: Option<String>| list.filter(|list| !list.is_empty()));
    // What scontrol prints of a switch above others has the nodes of all of them.
    let all = if printed && children.is_some() { nodes.as_deref().map(hostlist::expand).transpose()? } else { None };
    let own = if all.is_some() { None } else { nodes.as_deref() };
    Ok(Entry { all, ..below(switch, number, children.as_deref(), own)? })
}

/// The entry of a switch; names are lists of hosts.
pub(super) fn below(switch: String, line: u32, children: Option<&str>, nodes: Option<&str>) -> Result<Entry, Mistake> {
    if switch.is_empty() || switch.contains(['[', ']', ',']) {
        let remedy = "each switch has a line of its own, with a name without brackets and commas";
        return Err(Mistake::Malformed { what: format!("`{switch}` as the name of a switch"), remedy });
    }
    if children.is_some() && nodes.is_some() {
        let remedy = "give each switch either the switches below it or its nodes, as Slurm wants it";
        return Err(Mistake::Malformed { what: format!("`{switch}` with switches and nodes below it"), remedy });
    }
    let names = |list: Option<&str>| list.map_or(Ok(Vec::new()), hostlist::expand);
    Ok(Entry { switch, line, children: names(children)?, nodes: names(nodes)?, all: None })
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
        let apart = tail.starts_with(char::is_whitespace);
        let tail = tail.trim_start();
        let word = tail.split_at(tail.find(char::is_whitespace).unwrap_or(tail.len()));
        let (value, tail) = match tail.strip_prefix('"') {
            Some(quoted) => quoted.split_once('"').ok_or_else(broken)?,
            // `Nodes= Switches=s1`: nothing, and the next key.
            None if apart && word.0.contains('=') => ("", tail),
            None => word,
        };
        pairs.push((key, value.to_owned()));
        rest = tail.trim_start();
    }
    Ok(pairs)
}
