//! What an operator checks first in a subnet, and what looks wrong in it.
//!
//! Switches are sorted into classes by their level, which is that of the graph, and the words of their name. Switches whose words
//! no other of their level has are a class together, where there are several of them. What most members of a class have in
//! common is taken for what was planned; members that have less are findings, and so are the cables that are missing
//! by that measure.

use std::collections::BTreeMap;

use super::subnet::{Kind, Subnet, natural, words};

/// Switches of one level whose names have the same words.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
pub struct Class {
    /// Distance from the hosts: 1 for leaves; 0 where no host is in reach.
    pub level: u32,
    /// The words of the names.
    pub name: String,
    /// How many there are.
    pub switches: u32,
    /// Ports of each, by count: ports and switches.
    pub ports: BTreeMap<u16, u32>,
    /// Cables to hosts, all together.
    pub host_cables: u32,
    /// Cables to switches of a higher level, by count: cables and switches.
    pub uplinks: BTreeMap<u32, u32>,
}

/// A system of several switches, such as a director with its line and spine modules.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
pub struct Chassis {
    /// The name that its modules have in common, else the first of them.
    pub name: String,
    /// Its switches by level: level and switches.
    pub switches: BTreeMap<u32, u32>,
}

/// Something that looks wrong, in words, with the places where.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
pub struct Finding {
    /// What it is.
    pub what: String,
    /// Where, the first few.
    pub places: Vec<String>,
}

/// What an operator checks first.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
pub struct Review {
    /// Switches.
    pub switches: u32,
    /// Switches by level, leaves first.
    pub levels: Vec<u32>,
    /// Classes of switches by level and name.
    pub classes: Vec<Class>,
    /// Director chassis: systems of several switches.
    pub chassis: Vec<Chassis>,
    /// Hosts: adapters with the same first word of their description; adapters that no host has named are not counted.
    pub hosts: u32,
    /// Hosts by the number of their adapters.
    pub hosts_by_adapters: BTreeMap<u32, u32>,
    /// Adapters of hosts.
    pub adapters: u32,
    /// Adapters by name within the host: the rails.
    pub rails: BTreeMap<String, u32>,
    /// Leaf switches that carry one rail only.
    pub single_rail_leaves: u32,
    /// Aggregation nodes (SHARP).
    pub aggregation_nodes: u32,
    /// Cables.
    pub cables: u32,
    /// Of these, between switches.
    pub switch_cables: u32,
    /// Cables by width and speed.
    pub speeds: BTreeMap<String, u32>,
    /// Pairs of switches by the number of cables between them.
    pub parallel: BTreeMap<u32, u32>,
    /// Cables between two classes of switches: lower, higher, count.
    pub between: Vec<(String, String, u32)>,
    /// Lines that were not understood.
    pub unread_lines: u32,
    /// What the file does not say, and what was assumed for it.
    pub notes: Vec<String>,
    /// What looks wrong.
    pub findings: Vec<Finding>,
}

/// Reviews a subnet.
pub fn review(subnet: &Subnet) -> Review {
    let levels: Vec<u32> = subnet.levels().into_iter().map(|level| level.unwrap_or(0)).collect();
    let words = class_names(subnet, &levels);
    let class_of = |device: u32| (levels[device as usize], words[device as usize].clone());
    let switch = |device: u32| subnet.devices[device as usize].kind == Kind::Switch;
    let adapter = |device: u32| subnet.devices[device as usize].kind == Kind::Adapter;

    let mut uplinks = vec![0u32; subnet.devices.len()];
    let mut host_cables = vec![0u32; subnet.devices.len()];
    let mut pairs: BTreeMap<(u32, u32), u32> = BTreeMap::new();
    let mut between: BTreeMap<(u32, String, u32, String), u32> = BTreeMap::new();
    let mut towards: Towards = BTreeMap::new();
    let mut speeds: BTreeMap<String, u32> = BTreeMap::new();
    let mut rails_below: BTreeMap<u32, BTreeMap<String, u32>> = BTreeMap::new();
    for cable in &subnet.cables {
        *speeds.entry(speed(cable)).or_default() += 1;
        let [a, b] = cable.ends.map(|end| end.device);
        if switch(a) && switch(b) {
            *pairs.entry((a.min(b), a.max(b))).or_default() += 1;
            let (low, high) = if (levels[a as usize], a) <= (levels[b as usize], b) { (a, b) } else { (b, a) };
            let (low_class, high_class) = (class_of(low), class_of(high));
            *between.entry((low_class.0, low_class.1, high_class.0, high_class.1.clone())).or_default() += 1;
            if levels[low as usize] < levels[high as usize] {
                uplinks[low as usize] += 1;
                *towards.entry((low, high_class)).or_default() += 1;
            }
        }
        for (here, far) in [(a, b), (b, a)] {
            if switch(here) && adapter(far) {
                host_cables[here as usize] += 1;
                let rail = subnet.devices[far as usize].adapter().to_owned();
                *rails_below.entry(here).or_default().entry(rail).or_default() += 1;
            }
        }
    }
    let mut classes: BTreeMap<(u32, String), Vec<u32>> = BTreeMap::new();
    for (device, _) in subnet.of_kind(Kind::Switch) {
        classes.entry(class_of(device)).or_default().push(device);
    }
    let count = |values: &mut dyn Iterator<Item = u32>| {
        let mut counts = BTreeMap::new();
        values.for_each(|value| *counts.entry(value).or_insert(0u32) += 1);
        counts
    };
    let class = |((level, name), members): (&(u32, String), &Vec<u32>)| Class {
        level: *level,
        name: name.clone(),
        switches: members.len() as u32,
        ports: members.iter().fold(BTreeMap::new(), |mut ports, &member| {
            *ports.entry(subnet.devices[member as usize].ports).or_insert(0) += 1;
            ports
        }),
        host_cables: members.iter().map(|&member| host_cables[member as usize]).sum(),
        uplinks: count(&mut members.iter().map(|&member| uplinks[member as usize])),
    };
    let mut hosts: BTreeMap<&str, u32> = BTreeMap::new();
    let mut rails: BTreeMap<String, u32> = BTreeMap::new();
    for (_, device) in subnet.of_kind(Kind::Adapter) {
        if !device.is_unnamed() {
            *hosts.entry(device.host()).or_default() += 1;
        }
        *rails.entry(device.adapter().to_owned()).or_default() += 1;
    }
    let depth = subnet.of_kind(Kind::Switch).map(|(device, _)| levels[device as usize]).max().unwrap_or(0);
    let at_level = |level| subnet.of_kind(Kind::Switch).filter(|(device, _)| levels[*device as usize] == level).count() as u32;
    let mut review = Review {
        switches: subnet.of_kind(Kind::Switch).count() as u32,
        levels: (1..=depth).map(at_level).collect(),
        classes: classes.iter().map(class).collect(),
        chassis: subnet.chassis().iter().map(|modules| chassis(subnet, &levels, modules)).collect(),
        hosts: hosts.len() as u32,
        hosts_by_adapters: count(&mut hosts.values().copied()),
        adapters: subnet.of_kind(Kind::Adapter).count() as u32,
        rails,
        single_rail_leaves: rails_below.values().filter(|rails| rails.len() == 1).count() as u32,
        aggregation_nodes: subnet.of_kind(Kind::Aggregation).count() as u32,
        cables: subnet.cables.len() as u32,
        switch_cables: pairs.values().sum(),
        speeds,
        parallel: count(&mut pairs.values().copied()),
        between: between.into_iter().map(|((_, low, _, high), cables)| (low, high, cables)).collect(),
        unread_lines: subnet.unread.len() as u32,
        notes: subnet.notes.clone(),
        findings: Vec::new(),
    };
    if subnet.structure_only {
        let note =
            "the format has no ports, no numbers of cables and no speeds: one cable is assumed for each switch or node below a switch";
        review.notes.insert(0, note.to_owned());
    }
    review.findings = findings(subnet, &levels, &classes, (&towards, &host_cables), &hosts);
    review
}

/// By device the words of its name, by which switches of a level are told apart.
fn class_names(subnet: &Subnet, levels: &[u32]) -> Vec<String> {
    let mut names: Vec<String> = subnet.devices.iter().map(|device| words(device.name())).collect();
    let mut members: BTreeMap<(u32, &str), Vec<u32>> = BTreeMap::new();
    for (device, _) in subnet.of_kind(Kind::Switch) {
        members.entry((levels[device as usize], &names[device as usize])).or_default().push(device);
    }
    let mut alone: BTreeMap<u32, Vec<u32>> = BTreeMap::new();
    for ((level, _), members) in &members {
        if let [one] = members[..] {
            alone.entry(*level).or_default().push(one);
        }
    }
    for devices in alone.into_values().filter(|devices| devices.len() > 2) {
        devices.iter().for_each(|&device| VARIOUS.clone_into(&mut names[device as usize]));
    }
    names
}

/// What switches with names of their own are called together.
const VARIOUS: &str = "(various)";

fn chassis(subnet: &Subnet, levels: &[u32], modules: &[u32]) -> Chassis {
    let mut switches = BTreeMap::new();
    modules.iter().for_each(|&module| *switches.entry(levels[module as usize]).or_insert(0) += 1);
    Chassis { name: modules.first().map_or(String::new(), |&first| subnet.devices[first as usize].name().to_owned()), switches }
}

/// Cables from each switch to each class above it.
type Towards = BTreeMap<(u32, (u32, String)), u32>;

/// The value that most have; among equals the largest.
fn usual(values: impl Iterator<Item = u32>) -> Option<u32> {
    let mut counts: BTreeMap<u32, u32> = BTreeMap::new();
    values.for_each(|value| *counts.entry(value).or_default() += 1);
    counts.into_iter().max_by_key(|(value, count)| (*count, *value)).map(|(value, _)| value)
}

/// Cables that most switches of a class have and some do not.
fn missing(subnet: &Subnet, classes: &BTreeMap<(u32, String), Vec<u32>>, towards: &Towards) -> Vec<Finding> {
    let names = subnet.distinct_switch_names();
    let name = |device: &u32| names[*device as usize].clone();
    let mut findings = Vec::new();
    for (low, members) in classes {
        let targets: std::collections::BTreeSet<&(u32, String)> =
            towards.keys().filter(|(device, _)| members.binary_search(device).is_ok()).map(|(_, class)| class).collect();
        for high in targets {
            let cables = |member: &u32| towards.get(&(*member, high.clone())).copied().unwrap_or(0);
            let Some(planned) = usual(members.iter().map(cables).filter(|&cables| cables > 0)) else { continue };
            // A class of which only some members have such cables is made of several kinds: nothing is planned for all.
            let wired: Vec<&u32> = members.iter().filter(|member| cables(member) > 0).collect();
            let fewer: Vec<&u32> = wired.iter().copied().filter(|member| cables(member) < planned).collect();
            if fewer.is_empty() || fewer.len() * 2 > wired.len() {
                continue;
            }
            let mut by_count: BTreeMap<u32, u32> = BTreeMap::new();
            fewer.iter().for_each(|member| *by_count.entry(cables(member)).or_default() += 1);
            let described: Vec<String> =
                by_count.iter().rev().map(|(have, switches)| format!("{switches} of {} have {have}", wired.len())).collect();
            let missing: u32 = fewer.iter().map(|member| planned - cables(member)).sum();
            let all = planned * wired.len() as u32;
            let (low_name, high_name) = (label(low), label(high));
            findings.push(Finding::new(
                format!(
                    "{low_name}: {} of {planned} cables to {high_name}; {missing} of {} are missing",
                    described.join(", "),
                    grouped(all)
                ),
                fewer.iter().map(|member| format!("{} ({})", name(member), cables(member))).collect(),
            ));
        }
    }
    findings
}

impl Finding {
    /// A finding with the first of its places.
    fn new(what: String, places: Vec<String>) -> Finding {
        Finding { what, places: places.into_iter().take(MOST_PLACES).collect() }
    }
}

fn findings(
    subnet: &Subnet,
    levels: &[u32],
    classes: &BTreeMap<(u32, String), Vec<u32>>,
    (towards, host_cables): (&Towards, &[u32]),
    hosts: &BTreeMap<&str, u32>,
) -> Vec<Finding> {
    let mut findings = missing(subnet, classes, towards);
    let mut add = |what: String, places: Vec<String>| findings.push(Finding::new(what, places));
    let names = subnet.distinct_switch_names();
    let name = |device: &u32| names[*device as usize].clone();
    let listed_once: Vec<&super::Cable> = subnet.cables.iter().filter(|cable| !cable.seen_twice).collect();
    let place = |cable: &&super::Cable| {
        let [a, b] = cable.ends.map(|end| format!("{} port {}", names[end.device as usize], end.port));
        format!("line {}: {a} – {b}", cable.line)
    };
    if !listed_once.is_empty() && listed_once.len() < subnet.cables.len() {
        add(format!("{} cables are listed at one end only", listed_once.len()), listed_once.iter().map(place).collect());
    }
    let inside: Vec<&super::Cable> = subnet.cables.iter().filter(|cable| cable.ends[0].device == cable.ends[1].device).collect();
    if !inside.is_empty() {
        add(format!("{} cables join two ports of one switch", inside.len()), inside.iter().map(place).collect());
    }
    // A cable slower than most cables between the same two kinds of devices.
    let kinds = |cable: &super::Cable| {
        let [a, b] = cable.ends.map(|end| levels[end.device as usize]);
        (a.min(b), a.max(b))
    };
    let mut rates: BTreeMap<(u32, u32), BTreeMap<u64, u32>> = BTreeMap::new();
    for cable in &subnet.cables {
        if let Some(rate) = cable.data_rate() {
            *rates.entry(kinds(cable)).or_default().entry(rate.as_bps()).or_default() += 1;
        }
    }
    let usual_rate =
        |cable: &super::Cable| rates.get(&kinds(cable))?.iter().max_by_key(|(rate, count)| (**count, **rate)).map(|(rate, _)| *rate);
    let slow: Vec<&super::Cable> = subnet
        .cables
        .iter()
        .filter(|cable| cable.data_rate().zip(usual_rate(cable)).is_some_and(|(rate, usual)| rate.as_bps() < usual))
        .collect();
    if !slow.is_empty() {
        let slow_place = |cable: &&super::Cable| format!("{}, {}", place(cable), speed(cable));
        add(format!("{} cables are slower than most of their level", slow.len()), slow.iter().map(slow_place).collect());
    }
    let unknown = subnet.cables.iter().filter(|cable| cable.data_rate().is_none()).count();
    if unknown > 0 && !subnet.structure_only {
        add(format!("{unknown} cables have no known speed; they will run at that of the cluster"), Vec::new());
    }
    if let Some(planned) = usual(hosts.values().copied()).filter(|&planned| planned > 1) {
        let fewer: Vec<(&&str, &u32)> = hosts.iter().filter(|(_, adapters)| **adapters < planned && **adapters > 1).collect();
        if !fewer.is_empty() {
            let places = fewer.iter().map(|(host, adapters)| format!("{host} ({adapters})")).collect();
            add(format!("{} hosts have fewer than {planned} adapters in the fabric", fewer.len()), places);
        }
    }
    let nameless: Vec<String> =
        subnet.of_kind(Kind::Adapter).filter(|(_, device)| device.is_unnamed()).map(|(_, device)| device.id.clone()).collect();
    if !nameless.is_empty() {
        add(format!("{} adapters have no host's name in their description", nameless.len()), nameless);
    }
    let idle: Vec<String> = classes
        .iter()
        .filter(|((level, _), _)| *level == 1)
        .flat_map(|(_, members)| members)
        .filter(|member| host_cables[**member as usize] == 0)
        .map(name)
        .collect();
    if !idle.is_empty() {
        add(format!("{} leaf switches have no host", idle.len()), idle);
    }
    let bare: Vec<String> =
        subnet.of_kind(Kind::Switch).filter(|(device, _)| levels[*device as usize] == 0).map(|(device, _)| name(&device)).collect();
    if !bare.is_empty() {
        add(format!("{} switches cannot be reached from any host", bare.len()), bare);
    }
    let parts = parts(subnet);
    if parts.len() > 1 {
        let place = |part: &(u32, u32)| format!("{} and {} more", name(&part.0), part.1 - 1);
        add(format!("the fabric falls into {} parts that no cable joins", parts.len()), parts.iter().map(place).collect());
    }
    let mut cabled = vec![false; subnet.devices.len()];
    subnet.cables.iter().flat_map(|cable| cable.ends).for_each(|end| cabled[end.device as usize] = true);
    let lost: Vec<u32> = subnet.of_kind(Kind::Adapter).map(|(index, _)| index).filter(|&index| !cabled[index as usize]).collect();
    if !lost.is_empty() {
        add(format!("{} adapters have no cable", lost.len()), lost.iter().map(name).collect());
    }
    let unset = subnet.devices.iter().filter(|device| device.lid == Some(u16::MAX)).count();
    if unset > 0 {
        add(format!("{unset} devices have LID 65535: the subnet manager has not set them up"), Vec::new());
    }
    if !subnet.unread.is_empty() {
        let places = subnet.unread.iter().map(|unread| format!("line {}: {}", unread.line, unread.text)).collect();
        add(format!("{} lines were not understood", subnet.unread.len()), places);
    }
    for finding in &mut findings {
        finding.places.sort_by_cached_key(|place| natural(place));
    }
    findings
}

/// The parts of the fabric that have a cable: the first switch or adapter of each, and how many devices it has.
fn parts(subnet: &Subnet) -> Vec<(u32, u32)> {
    let mut part: Vec<u32> = (0..subnet.devices.len() as u32).collect();
    for cable in &subnet.cables {
        let [a, b] = cable.ends.map(|end| smallest(&mut part, end.device));
        part[a.max(b) as usize] = a.min(b);
    }
    let mut counts: BTreeMap<u32, u32> = BTreeMap::new();
    (0..subnet.devices.len() as u32).for_each(|device| *counts.entry(smallest(&mut part, device)).or_default() += 1);
    counts.into_iter().filter(|(_, devices)| *devices > 1).collect()
}

/// The smallest member of a device's part.
fn smallest(part: &mut [u32], device: u32) -> u32 {
    let mut at = device;
    while part[at as usize] != at {
        part[at as usize] = part[part[at as usize] as usize];
        at = part[at as usize];
    }
    at
}

/// Width and speed of a cable, or the rate that the file gives instead.
fn speed(cable: &super::Cable) -> String {
    let rate = || cable.rate.map_or_else(|| "not given".to_owned(), |rate| rate.to_string());
    cable.speed.map_or_else(rate, |speed| speed.to_string())
}

/// What a class of switches is called: by level, and name.
fn label((level, name): &(u32, String)) -> String {
    match level {
        1 => format!("leaf switches {name}"),
        level => format!("level-{level} switches {name}"),
    }
}

/// With a comma between thousands.
fn grouped(number: u32) -> String {
    let digits = number.to_string();
    let first = digits.len() % 3;
    let mut text = digits[..first].to_owned();
    for at in (first..digits.len()).step_by(3) {
        if !text.is_empty() {
            text.push(',');
        }
        text += &digits[at..at + 3];
    }
    text
}

/// Places that a finding names.
const MOST_PLACES: usize = 16;
