//! Hosts: the adapters of a subnet that have the name of one host, which together are a node.

use std::collections::BTreeMap;

use super::hostlist::expand;
use super::subnet::words;
use super::{Mistake, Plug, Subnet};

/// A host with what it has in the fabric.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Host {
    /// Its name: the first word of the description of its adapters.
    pub name: String,
    /// The ports of its adapters that have a cable to a switch, sorted by name.
    pub ports: Vec<Plug>,
    /// Whether the name is that of a kind of adapter: nobody told these adapters which host they are in.
    pub unnamed: bool,
}

impl Subnet {
    /// The hosts, as people sort names.
    pub fn hosts(&self) -> Vec<Host> {
        let mut hosts: Vec<Host> = Vec::new();
        let mut known: BTreeMap<&str, usize> = BTreeMap::new();
        for plug in self.wiring().endpoints {
            let device = self.device(plug);
            let number = *known.entry(device.host()).or_insert(hosts.len());
            match hosts.get_mut(number) {
                Some(host) => host.ports.push(plug),
                None => hosts.push(Host { name: device.host().to_owned(), ports: vec![plug], unnamed: device.is_unnamed() }),
            }
        }
        hosts
    }
}

impl Host {
    /// The numbers of hosts, those that are most likely meant first: where three quarters of all adapters are in hosts whose names
    /// have the same words (`gpu[001-128]`), the others (`admin01`) come after these; else all are in their order.
    pub fn usual_first(hosts: &[Host]) -> Vec<usize> {
        let class: Vec<String> = hosts.iter().map(|host| words(&host.name)).collect();
        let mut adapters: BTreeMap<&str, usize> = BTreeMap::new();
        hosts.iter().zip(&class).for_each(|(host, class)| *adapters.entry(class).or_default() += host.ports.len());
        let all: usize = adapters.values().sum();
        let most = adapters.into_iter().find(|(_, adapters)| 4 * adapters >= 3 * all).map(|(class, _)| class);
        let mut order: Vec<usize> = (0..hosts.len()).collect();
        order.sort_by_key(|&number| most.is_some_and(|most| class[number] != most));
        order
    }

    /// The names in a list as Slurm writes them: `gpu[01-16,20],login1`.
    ///
    /// # Errors
    /// Brackets without a partner, ranges that run backwards, more names than a switch has ports.
    pub fn names(list: &str) -> Result<Vec<String>, Mistake> {
        expand(list)
    }
}

#[cfg(test)]
mod tests {
    use crate::import::{Host, read};

    #[test]
    fn adapters_of_a_host_are_together() {
        let subnet = read(include_str!("../../../../fabrics/dgx-ndr.ibnetdiscover")).unwrap();
        let hosts = subnet.hosts();
        let named: Vec<&Host> = hosts.iter().filter(|host| !host.unnamed).collect();
        // Counted in the file by hand: `grep '^Ca' | awk` over the first word of the description.
        let with = |adapters: usize| named.iter().filter(|host| host.ports.len() == adapters).count();
        assert_eq!((with(4), with(3), with(2), with(1)), (109, 10, 2, 0));
        let unnamed: Vec<(&str, usize)> = hosts.iter().filter(|host| host.unnamed).map(|h| (h.name.as_str(), h.ports.len())).collect();
        // Each of the 69 that have the description `MT4129 ConnectX7 Mellanox Technologies`, and of the three at `localhost`, is
        // on its own.
        assert!(unnamed.iter().all(|(name, ports)| name.starts_with("H-") && *ports == 1), "{unnamed:?}");
        assert_eq!(unnamed.len(), 72);
        let first = named.iter().find(|host| host.ports.len() == 4).map(|host| host.name.as_str());
        assert_eq!(first, Some("a06-p1-dgx-02-c01"));
    }

    #[test]
    fn some_ports_can_be_the_first_endpoints() {
        let mut subnet = read("b leaf\na leaf\nc leaf\n").unwrap();
        let names = |subnet: &crate::import::Subnet| subnet.hosts().into_iter().map(|host| host.name).collect::<Vec<_>>();
        assert_eq!(names(&subnet), ["a", "b", "c"]);
        subnet.first = vec![subnet.hosts()[2].ports[0]];
        assert_eq!(names(&subnet), ["c", "a", "b"]);
    }

    #[test]
    fn service_hosts_come_after_the_nodes_of_the_cluster() {
        let order = |text: &str| {
            let hosts = read(text).unwrap().hosts();
            Host::usual_first(&hosts).into_iter().map(|number| hosts[number].name.clone()).collect::<Vec<_>>()
        };
        let nodes: String = (1..=6).map(|node| format!("node{node} leaf\n")).collect();
        let expected = ["node1", "node2", "node3", "node4", "node5", "node6", "admin01", "backup01"];
        assert_eq!(order(&format!("admin01 leaf\nbackup01 leaf\n{nodes}")), expected);
        // Two kinds of which neither is nearly all: as people sort names.
        assert_eq!(order("gpu1 leaf\ngpu2 leaf\ncpu1 leaf\n"), ["cpu1", "gpu1", "gpu2"]);
    }
}
