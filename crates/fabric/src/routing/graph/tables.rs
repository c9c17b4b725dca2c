//! Forwarding tables: the output port of every switch for every address of every endpoint.
//!
//! Source: InfiniBand Architecture Specification vol. 1, §14.2.5.6 (linear forwarding table: one port per LID; 255 for none).
//! An endpoint has 2^lmc addresses, each with a path of its own.

use crate::graph::{EndpointId, PortId, SwitchId};

/// The output port of every switch for every address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tables {
    lmc: u8,
    /// Addresses: endpoints × 2^lmc.
    width: usize,
    /// Ports by switch, then address.
    ports: Vec<u8>,
}

/// No way there.
const NONE: u8 = u8::MAX;

impl Tables {
    /// Tables without entries for `switches` switches and `endpoints` endpoints with 2^`lmc` addresses each.
    pub fn new(switches: u32, endpoints: u32, lmc: u8) -> Tables {
        let width = (endpoints as usize) << lmc;
        Tables { lmc, width, ports: vec![NONE; width * switches as usize] }
    }
    /// LID mask control: an endpoint has 2^lmc addresses.
    pub fn lmc(&self) -> u8 {
        self.lmc
    }
    /// The port that switch `at` sends packets for address `path` of `dest` out of; `path` counts modulo 2^lmc.
    #[inline]
    pub fn port(&self, at: SwitchId, dest: EndpointId, path: u32) -> Option<PortId> {
        let port = self.ports[self.slot(at, dest, path)];
        (port != NONE).then_some(PortId(u16::from(port)))
    }
    /// Sets an entry.
    ///
    /// Ports are below 255, as in InfiniBand.
    pub fn set(&mut self, at: SwitchId, dest: EndpointId, path: u32, port: u8) {
        let slot = self.slot(at, dest, path);
        self.ports[slot] = port;
    }
    #[inline]
    fn slot(&self, at: SwitchId, dest: EndpointId, path: u32) -> usize {
        let path = path & ((1 << self.lmc) - 1);
        at.index() * self.width + (dest.index() << self.lmc | path as usize)
    }
}
