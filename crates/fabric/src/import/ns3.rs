//! `topology.txt` of the ns-3 simulators: HPCC and those made from it (astra-sim's ns-3 backend), and SimAI.
//!
//! ```text
//! 4 1 3                      nodes, switches, links     | SimAI: nodes, GPUs of a server, NVLink switches, switches,
//! 3                          numbers of the switches    |        links, kind of GPU
//! 0 3 100Gbps 0.001ms 0      from, to, rate, delay, error rate
//! ```
//!
//! Source: the readers of HPCC (`third.cc`) and SimAI, and their example files.
//! Read: rates; parallel links, which HPCC itself makes one. Ports are numbered in the order of the lines. What follows the last
//! link of which the head speaks is passed over, as by the simulators: files of HPCC end with lines that explain them.
//! Not read: delays (cables get those of the cluster), error rates, and the NVLink switches of SimAI with their links: a
//! GPU does not forward from one network into the other, so they are a fabric of their own.

use fabriscope_units::Rate;

use super::subnet::{Kind, Subnet};
use super::{ImportError, Mistake, edges};

/// Whether the first lines are a head, the numbers of switches, and links with rates.
pub(super) fn looks_like(text: &str) -> bool {
    let mut lines = text.lines().map(str::trim).filter(|line| !line.is_empty());
    let whole = |word: &str| word.parse::<u32>().is_ok();
    let head: Vec<&str> = lines.next().unwrap_or("").split_whitespace().collect();
    let is_head = match head.len() {
        3 => head.iter().all(|word| whole(word)),
        6 => head[..5].iter().all(|word| whole(word)),
        _ => false,
    };
    // A file cut off after its head is still this format.
    is_head && lines.take(1).all(|line| line.split_whitespace().all(whole))
}

/// Reads a file.
pub(super) fn read(text: &str) -> Result<Subnet, ImportError> {
    let mut lines = text.lines().map(str::trim).zip(1u32..).filter(|(line, _)| !line.is_empty());
    let head = Head::read(lines.next().ok_or(ImportError::Empty)?)?;
    let cut = || wrong(head.line, "the end of the file in the place of the numbers of the switches".to_owned(), "is it cut off?");
    let (listed, listed_line) = lines.next().ok_or_else(cut)?;
    let mut listed = listed.to_owned();
    let mut lines = lines.peekable();
    // The simulators read number after number, on however many lines.
    let more = |listed: &str| (listed.split_whitespace().count() as u64) < head.switches;
    let whole = |line: &str| line.split_whitespace().all(|word| word.parse::<u32>().is_ok());
    while let Some((line, _)) = lines.next_if(|(line, _)| more(&listed) && whole(line)) {
        listed = format!("{listed} {line}");
    }
    let kinds = head.kinds(&listed, listed_line)?;
    let mut subnet = Subnet::default();
    let device = |(node, kind): (usize, &NodeKind)| match kind {
        NodeKind::Host => Some(subnet.add(Kind::Adapter, format!("host{node}"), head.line)),
        NodeKind::Switch => Some(subnet.add(Kind::Switch, format!("switch{node}"), listed_line)),
        NodeKind::NvLink => None,
    };
    let devices: Vec<Option<u32>> = kinds.iter().enumerate().map(device).collect();
    let (mut last, mut read, mut inner) = (listed_line, 0, 0);
    for (line, number) in lines {
        if read == head.links {
            subnet.skip(number, line);
            continue;
        }
        let (from, to, rate) = link(line, number, head.nodes)?;
        (last, read) = (number, read + 1);
        match (devices[from as usize], devices[to as usize]) {
            (Some(from), Some(to)) => subnet.connect([from, to], Some(rate), number)?,
            _ => inner += 1,
        }
    }
    if read != head.links {
        let what = format!("{read} links in the place of the {} that line {} promises", head.links, head.line);
        return Err(wrong(last, what, "is the file cut off?"));
    }
    if !subnet.unread.is_empty() {
        subnet
            .notes
            .push(format!("what follows the {} links that line {} promises is not read, as by the simulators", head.links, head.line));
    }
    subnet.notes.push("delays and error rates of the file are not read; cables have those of the cluster".to_owned());
    if head.nvlink > 0 {
        let what = format!("{} NVLink switches and {inner} links to them are left out", head.nvlink);
        subnet.notes.push(format!("{what}: a GPU does not forward between networks"));
    }
    Ok(subnet)
}

fn wrong(line: u32, what: String, remedy: &'static str) -> ImportError {
    ImportError::Line { line, mistake: Mistake::Malformed { what, remedy } }
}

/// What the first line says.
struct Head {
    line: u32,
    nodes: u32,
    /// Switches within servers, which are listed first.
    nvlink: u32,
    /// All switches.
    switches: u64,
    links: u32,
}

/// What a node is.
#[derive(Clone, Copy, PartialEq, Eq)]
enum NodeKind {
    Host,
    Switch,
    NvLink,
}

impl Head {
    fn read((text, line): (&str, u32)) -> Result<Head, ImportError> {
        let numbers: Vec<u32> = text.split_whitespace().filter_map(|word| word.parse().ok()).collect();
        let (nodes, nvlink, switches, links) = match numbers[..] {
            [nodes, switches, links] => (nodes, 0, u64::from(switches), links),
            [nodes, _, nvlink, switches, links] => (nodes, nvlink, u64::from(nvlink) + u64::from(switches), links),
            _ => return Err(wrong(line, format!("`{text}`"), "write the numbers of nodes, switches and links")),
        };
        if nodes > MOST_NODES || u64::from(nodes) < switches {
            return Err(wrong(line, format!("{nodes} nodes, {switches} of them switches,"), "is a number mistyped?"));
        }
        if u64::from(links) + 1 < u64::from(nodes) {
            return Err(wrong(line, format!("{nodes} nodes with {links} links, which cannot join them all,"), "is a number mistyped?"));
        }
        Ok(Head { line, nodes, nvlink, switches, links })
    }

    /// What each node is, by the list of the switches.
    fn kinds(&self, listed: &str, line: u32) -> Result<Vec<NodeKind>, ImportError> {
        let mut kinds = vec![NodeKind::Host; self.nodes as usize];
        let mut found = 0;
        for word in listed.split_whitespace() {
            let kind = word.parse().ok().and_then(|node: usize| kinds.get_mut(node));
            let Some(kind) = kind else { return Err(wrong(line, format!("`{word}` as a switch"), "nodes are numbered from 0")) };
            if *kind != NodeKind::Host {
                return Err(ImportError::Line { line, mistake: Mistake::Twice { id: word.to_owned(), before: line } });
            }
            *kind = if found < u64::from(self.nvlink) { NodeKind::NvLink } else { NodeKind::Switch };
            found += 1;
        }
        if found != self.switches {
            return Err(wrong(line, format!("{found} numbers of {} switches", self.switches), "list each switch once"));
        }
        Ok(kinds)
    }
}

/// The two nodes of a link and its rate.
fn link(text: &str, line: u32, nodes: u32) -> Result<(u32, u32, Rate), ImportError> {
    let words: Vec<&str> = text.split_whitespace().collect();
    let node = |word: Option<&&str>| word.and_then(|word| word.parse::<u32>().ok()).filter(|&node| node < nodes);
    let (Some(from), Some(to), Some(rate)) = (node(words.first()), node(words.get(1)), words.get(2)) else {
        let remedy = "write two numbers of nodes, the rate, the delay and the error rate";
        return Err(wrong(line, format!("`{}`", text.chars().take(40).collect::<String>()), remedy));
    };
    if from == to {
        return Err(wrong(line, format!("a link from {from} to itself"), "correct one of its ends"));
    }
    let bad = || Mistake::Number { text: (*rate).to_owned(), what: "rate", expected: "write it as 400Gbps" };
    Ok((from, to, edges::rate(rate).ok_or_else(|| ImportError::Line { line, mistake: bad() })?))
}

/// The most nodes that are read; the largest machines have some ten thousand.
const MOST_NODES: u32 = 1 << 20;
