//! Hosts: the adapters of a subnet that have the name of one host, which together are a node.

use std::cmp::Reverse;
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
    /// The numbers of hosts, those that are most likely meant first: hosts whose names have the words that most adapters have
    /// (`gpu[001-128]` before `admin01`), then by the size of that class, unnamed ones last; equal ones stay in their order.
    pub fn usual_first(hosts: &[Host]) -> Vec<usize> {
        let mut adapters: BTreeMap<String, usize> = BTreeMap::new();
        hosts.iter().for_each(|host| *adapters.entry(words(&host.name)).or_default() += host.ports.len());
        let mut order: Vec<usize> = (0..hosts.len()).collect();
        order.sort_by_cached_key(|&number| (hosts[number].unnamed, Reverse(adapters[&words(&hosts[number].name)])));
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
        let text = "admin01 leaf\nlogin01 leaf\nlogin02 leaf\nnode1 leaf\nnode2 leaf\nnode3 leaf\n";
        let hosts = read(text).unwrap().hosts();
        let names: Vec<&str> = Host::usual_first(&hosts).into_iter().map(|number| hosts[number].name.as_str()).collect();
        assert_eq!(names, ["node1", "node2", "node3", "login01", "login02", "admin01"]);
    }
}
