//! Cabling plans in the language of Graphviz, as Cumulus PTM, NVIDIA Air and UFM write them.
//!
//! ```text
//! graph fabric {
//!   "leaf01" [ role="leaf" ]
//!   "leaf01":"swp1" -- "spine01":"swp1" [ speed="400Gbps" ]
//! }
//! ```
//!
//! Source: the grammar of Graphviz, "The DOT language"; Cumulus Linux user guide, "Prescriptive Topology Manager".
//! Read: cables with their ports, `role` or `function` of devices, `speed` of cables (`4xNDR`, `400Gbps`). Devices without
//! a role are told apart as in edge lists. Ports with numbers, such as `swp1` or `p33`, keep them; where names of ports are
//! no numbers (`swp1s0`), ports are numbered in the order of their names.
//! Not read: cables to a whole subgraph (refused), compass points, other attributes, how many ports a switch has beyond
//! those with cables.

use std::collections::BTreeMap;

use super::dot_words::{Token, Word, Words};
use super::subnet::{Cable, Device, Kind, MOST_PORTS, Plug, Speed, Subnet, natural};
use super::{ImportError, Mistake, edges};

/// Whether a line begins a graph.
pub(super) fn looks_like(line: &str) -> bool {
    let mut words = line.split(|c: char| c.is_whitespace() || c == '{').filter(|word| !word.is_empty());
    let mut first = words.next().unwrap_or("");
    if first.eq_ignore_ascii_case("strict") {
        first = words.next().unwrap_or("");
    }
    let graph = first.eq_ignore_ascii_case("graph") || first.eq_ignore_ascii_case("digraph");
    graph && (line.contains('{') || words.count() <= 1)
}

/// Reads a file.
pub(super) fn read(text: &str) -> Result<Subnet, ImportError> {
    let mut plan = Plan::default();
    let mut words = Words::new(text);
    let mut word = words.some("`graph NAME {`")?;
    if word.is_key("strict") {
        word = words.some("`graph NAME {`")?;
    }
    if !word.is_key("graph") && !word.is_key("digraph") {
        return Err(word.wrong("begin with `graph NAME {`"));
    }
    word = words.some("`{`")?;
    if matches!(word.token, Token::Name { .. }) {
        word = words.some("`{`")?;
    }
    if word.token != Token::Sign('{') {
        return Err(word.wrong("after the name of the graph comes `{`"));
    }
    let mut depth = 1u32;
    while depth > 0 {
        let word = words.some("`}` at the end; is the file cut off?")?;
        match &word.token {
            Token::Sign('}') => depth -= 1,
            Token::Sign('{') => depth += 1,
            Token::Sign(';' | ',') => {}
            Token::Sign(_) | Token::Edge => return Err(word.wrong("a line begins with the name of a device")),
            Token::Name { text, quoted: false } if text.eq_ignore_ascii_case("subgraph") => {
                if matches!(words.peek()?, Some(Word { token: Token::Name { .. }, .. })) {
                    words.next()?;
                }
            }
            Token::Name { text, quoted: false } if ["graph", "node", "edge"].iter().any(|key| text.eq_ignore_ascii_case(key)) => {
                let known = |key: &&(String, String)| ["role", "function", "speed"].contains(&key.0.as_str());
                if let Some((key, _)) = words.attributes()?.iter().find(known) {
                    plan.subnet.skip(word.line, &format!("{text} [{key}=...]: write it at each of them"));
                }
            }
            Token::Name { .. } => plan.statement(word, &mut words)?,
        }
    }
    if let Some(rest) = words.next()? {
        plan.subnet.skip(rest.line, "what follows the first graph");
    }
    plan.subnet()
}

/// What was read so far.
#[derive(Default)]
struct Plan {
    subnet: Subnet,
    index: BTreeMap<String, u32>,
    roles: BTreeMap<u32, String>,
    /// For each device, its ports in the order in which they were seen; `None` for a cable that names none.
    ports: Vec<Vec<Option<String>>>,
    /// The cable in each port that has a name.
    taken: BTreeMap<(u32, String), Taken>,
}

#[derive(Clone, Copy)]
struct Taken {
    cable: usize,
    line: u32,
    /// Whether it is the end that was named first.
    first: bool,
    again: bool,
}

impl Plan {
    fn device(&mut self, name: &str, line: u32) -> u32 {
        if let Some(&known) = self.index.get(name) {
            return known;
        }
        let (id, description) = (name.to_owned(), name.to_owned());
        self.subnet.devices.push(Device { id, guid: None, kind: Kind::Switch, description, ports: 0, lid: None, system: None, line });
        self.ports.push(Vec::new());
        let number = self.subnet.devices.len() as u32 - 1;
        self.index.insert(name.to_owned(), number);
        number
    }

    /// A device with its attributes, cables one after the other, or `key = value`.
    fn statement(&mut self, first: Word, words: &mut Words<'_>) -> Result<(), ImportError> {
        let line = first.line;
        if words.take(&Token::Sign('='))? {
            words.some("a value after `=`")?;
            return Ok(());
        }
        let mut ends = vec![self.end(first, words)?];
        while words.take(&Token::Edge)? {
            let next = words.some("the other end of the cable")?;
            if matches!(next.token, Token::Sign('{')) || next.is_key("subgraph") {
                return Err(next.wrong("write each cable on its own, not to a whole subgraph"));
            }
            ends.push(self.end(next, words)?);
        }
        let attributes = words.attributes()?;
        let value = |keys: &[&str]| attributes.iter().find(|(key, _)| keys.contains(&key.as_str())).map(|(_, value)| value.clone());
        if let [(device, port)] = &ends[..] {
            if port.is_some() {
                let remedy = "a port is named where a cable is plugged in: `a:p1 -- b:p1`";
                return Err(ImportError::Line { line, mistake: Mistake::Malformed { what: "a port without a cable".to_owned(), remedy } });
            }
            if let Some(role) = value(&["role", "function"]) {
                self.roles.insert(*device, role);
            }
            return Ok(());
        }
        let (mut speed, mut rate) = (None, None);
        if let Some(text) = value(&["speed", "rate"]) {
            speed = Speed::parse(&text);
            rate = if speed.is_none() { edges::rate(&text) } else { None };
            if speed.is_none() && rate.is_none() {
                self.subnet.skip(line, &format!("speed={text}: write it as 400Gbps or 4xNDR"));
            }
        }
        for pair in ends.windows(2) {
            let [a, b] = [pair[0].clone(), pair[1].clone()];
            self.cable(a, b, Cable { ends: [Plug { device: 0, port: 0 }; 2], speed, rate, seen_twice: true, line })?;
        }
        Ok(())
    }

    /// `name` or `name:port` or `name:port:compass`.
    fn end(&mut self, word: Word, words: &mut Words<'_>) -> Result<(u32, Option<String>), ImportError> {
        let line = word.line;
        let device = self.device(&word.name("the name of a device")?, line);
        let mut port = None;
        while words.take(&Token::Sign(':'))? {
            let text = words.some("the name of a port after `:`")?.name("the name of a port")?;
            port = port.or(Some(text));
        }
        Ok((device, port))
    }

    fn cable(&mut self, a: (u32, Option<String>), b: (u32, Option<String>), mut cable: Cable) -> Result<(), ImportError> {
        let named = |end: &(u32, Option<String>)| end.1.clone().map(|port| (end.0, port));
        let (one, other) = (named(&a), named(&b));
        // A plan may list each cable at both ends.
        if let (Some(here), Some(there)) = (&one, &other)
            && let (Some(known), Some(back)) = (self.taken.get(here), self.taken.get(there))
            && known.cable == back.cable
            && back.first
            && !back.again
            && here != there
        {
            for key in [here, there] {
                self.taken.entry(key.clone()).and_modify(|taken| taken.again = true);
            }
            return Ok(());
        }
        let number = self.subnet.cables.len();
        for (end, first) in [(&one, true), (&other, false)] {
            let Some(key) = end else { continue };
            let taken = Taken { cable: number, line: cable.line, first, again: false };
            if let Some(before) = self.taken.insert(key.clone(), taken) {
                let id = self.subnet.devices[key.0 as usize].id.clone();
                let mistake = Mistake::NamedPortTwice { id, port: key.1.clone(), before: before.line };
                return Err(ImportError::Line { line: cable.line, mistake });
            }
        }
        // Ports get their numbers at the end; until then the place in the list of the device stands for them.
        for (at, (device, port)) in [a, b].into_iter().enumerate() {
            let ports = &mut self.ports[device as usize];
            if ports.len() >= usize::from(MOST_PORTS) {
                let id = self.subnet.devices[device as usize].id.clone();
                return Err(ImportError::Line { line: cable.line, mistake: Mistake::TooManyCables { id, most: MOST_PORTS } });
            }
            cable.ends[at] = Plug { device, port: ports.len() as u16 };
            ports.push(port);
        }
        self.subnet.cables.push(cable);
        Ok(())
    }

    /// Numbers the ports and tells hosts from switches.
    fn subnet(mut self) -> Result<Subnet, ImportError> {
        let mut renamed = 0u32;
        let numbers: Vec<Vec<u16>> = self
            .ports
            .iter()
            .map(|ports| {
                let by_name = numbered(ports);
                renamed += u32::from(by_name.is_none());
                by_name.unwrap_or_else(|| in_order(ports))
            })
            .collect();
        for cable in &mut self.subnet.cables {
            cable.ends = cable.ends.map(|end| Plug { port: numbers[end.device as usize][usize::from(end.port)], ..end });
            cable.ends.sort_unstable();
        }
        for (number, device) in self.subnet.devices.iter_mut().enumerate() {
            let cables = numbers[number].len() as u32;
            device.ports = numbers[number].iter().copied().max().unwrap_or(0);
            let role = self.roles.get(&(number as u32)).and_then(|role| kind(role));
            device.kind = role.unwrap_or_else(|| edges::kind(&device.id, cables));
        }
        if renamed > 0 {
            self.subnet.notes.push(format!(
                "the ports of {renamed} devices have names that are no numbers; they are numbered in the order of their names"
            ));
        }
        if self.subnet.devices.is_empty() { Err(ImportError::Empty) } else { Ok(self.subnet) }
    }
}

/// The numbers in names such as `swp1`; `None` where the names do not differ in a number from 1 alone.
fn numbered(ports: &[Option<String>]) -> Option<Vec<u16>> {
    let mut stem = None;
    let mut numbers = Vec::new();
    for port in ports {
        let port = port.as_deref()?;
        let digits = port.len() - port.bytes().rev().take_while(u8::is_ascii_digit).count();
        let (head, number) = port.split_at(digits);
        if *stem.get_or_insert(head) != head {
            return None;
        }
        numbers.push(number.parse().ok().filter(|number| (1..u16::MAX).contains(number))?);
    }
    let mut distinct = numbers.clone();
    distinct.sort_unstable();
    distinct.dedup();
    (distinct.len() == numbers.len()).then_some(numbers)
}

/// Numbers from 1 in the order of the names; ports without a name come last.
fn in_order(ports: &[Option<String>]) -> Vec<u16> {
    let mut order: Vec<usize> = (0..ports.len()).collect();
    order.sort_by_cached_key(|&at| (ports[at].is_none(), ports[at].as_deref().map(natural), at));
    let mut numbers = vec![0; ports.len()];
    order.iter().zip(1..).for_each(|(&at, number)| numbers[at] = number);
    numbers
}

/// What a role says.
fn kind(role: &str) -> Option<Kind> {
    let role = role.to_ascii_lowercase();
    let has = |words: &[&str]| words.iter().any(|word| role.contains(word));
    match role.as_str() {
        "aggregation-node" => Some(Kind::Aggregation),
        "infiniband-router" => Some(Kind::Router),
        _ if has(&["switch", "leaf", "spine", "core", "tor", "exit", "border", "fabric", "router", "aggregation"]) => Some(Kind::Switch),
        _ if has(&["host", "server", "gpu", "compute", "node", "adapter", "hca", "nic", "storage"]) => Some(Kind::Adapter),
        _ => None,
    }
}
