//! The level of each switch of a subnet, and which switches are one chassis.
//!
//! Modelled: levels as the file states them, where it says who is above whom (Slurm), else from the graph
//! ([`crate::graph_levels`]); names have no part in it. Chassis by the module in the description of a switch, else by their system
//! image GUID.
//! Not modelled: chassis that neither tells.

use std::collections::BTreeMap;

use super::subnet::{Kind, Subnet};
use crate::graph_levels::{Switches, groups, levels};

impl Subnet {
    /// The level of each switch, 1 for leaves, and 0 for adapters; `None` where no host is in reach.
    pub fn levels(&self) -> Vec<Option<u32>> {
        if !self.stated.is_empty() {
            return self.stated.clone();
        }
        let (number, switches) = self.graph_of_switches();
        let of_switches = levels(&switches);
        let level = |(device, number): (&super::Device, &Option<u32>)| match number {
            Some(number) => of_switches[*number as usize],
            None => (device.kind == Kind::Adapter).then_some(0),
        };
        self.devices.iter().zip(&number).map(level).collect()
    }

    /// By device, the group of switches that are joined and share most of their neighbours; `None` for what is no switch.
    pub(crate) fn switch_groups(&self) -> Vec<Option<u32>> {
        let (number, switches) = self.graph_of_switches();
        let classes = groups(switches);
        number.into_iter().map(|number| number.map(|number| classes[number as usize])).collect()
    }

    /// The number of each switch by device, and what joins them.
    fn graph_of_switches(&self) -> (Vec<Option<u32>>, Switches) {
        let switches: Vec<u32> = self.of_kind(Kind::Switch).map(|(index, _)| index).collect();
        let mut number = vec![None; self.devices.len()];
        (0..).zip(&switches).for_each(|(at, &device): (u32, _)| number[device as usize] = Some(at));
        let mut neighbours: Vec<Vec<u32>> = vec![Vec::new(); switches.len()];
        let mut hosts = vec![0; switches.len()];
        for cable in &self.cables {
            let [a, b] = cable.ends.map(|end| end.device);
            for (here, far) in [(a, b), (b, a)] {
                match (number[here as usize], number[far as usize]) {
                    (Some(here), Some(far)) if here != far => neighbours[here as usize].push(far),
                    (Some(here), None) if self.devices[far as usize].kind == Kind::Adapter => hosts[here as usize] += 1,
                    _ => {}
                }
            }
        }
        let mut graph = Switches::new(neighbours, hosts);
        for module in self.chassis().into_iter().flatten().filter_map(|module| number[module as usize]) {
            graph.modules[module as usize] = true;
        }
        (number, graph)
    }

    /// Director chassis: switches that are modules of one system, by device, in the order of the file.
    pub fn chassis(&self) -> Vec<Vec<u32>> {
        let mut systems: BTreeMap<(Option<u64>, &str), Vec<u32>> = BTreeMap::new();
        for (index, device) in self.of_kind(Kind::Switch) {
            // Some directors have a GUID for each board; their modules have the name of the chassis.
            let key = match device.module() {
                Some(_) => Some((None, device.name())),
                None => device.system.map(|system| (Some(system), "")),
            };
            if let Some(key) = key {
                systems.entry(key).or_default().push(index);
            }
        }
        let mut chassis: Vec<Vec<u32>> = systems.into_values().filter(|modules| modules.len() > 1).collect();
        chassis.sort_unstable();
        chassis
    }

    /// What each device is called; modules of a chassis with their place in it, and what still has one name with its id.
    pub fn distinct_names(&self) -> Vec<String> {
        self.distinct(|_| true)
    }

    /// The same, apart from one another those of switches alone: a host may have the name of a switch.
    pub(crate) fn distinct_switch_names(&self) -> Vec<String> {
        self.distinct(|device| device.kind == Kind::Switch)
    }

    fn distinct(&self, counts: impl Fn(&super::Device) -> bool) -> Vec<String> {
        let with_module = |device: &super::Device| match device.module() {
            Some(module) => format!("{}/{module}", device.name()),
            None => device.name().to_owned(),
        };
        let names: Vec<String> = self.devices.iter().map(with_module).collect();
        let mut uses: BTreeMap<&str, u32> = BTreeMap::new();
        let counted = names.iter().zip(&self.devices).filter(|(_, device)| counts(device));
        counted.for_each(|(name, _)| *uses.entry(name).or_default() += 1);
        let distinct = |(name, device): (&String, &super::Device)| match uses.get(name.as_str()) {
            Some(2..) => format!("{name} {}", device.id),
            _ => name.clone(),
        };
        names.iter().zip(&self.devices).map(distinct).collect()
    }
}
