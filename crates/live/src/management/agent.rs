//! The agents of subnet management in adapters and switches: what they say of themselves, and what a manager writes.
//!
//! Source: InfiniBand Architecture Specification vol. 1, chapter 14.2.5 (attributes).
//! Modelled: NodeDescription, NodeInfo, SwitchInfo, GUIDInfo, PortInfo, P_KeyTable, SLtoVLMappingTable, VLArbitration, and linear and multicast
//! forwarding tables. The linear tables decide where packets go; the rest is kept and read back. Ports come up trained and active, as an earlier
//! manager left them, and keep their LIDs: to set another is refused.
//! Not modelled: M_Keys, traps, the states of a port on its way up.

use std::collections::BTreeMap;

use fabriscope_fabric::import::{Device, Kind, Plug, Subnet};
use fabriscope_verbs::Lid;

use super::tables::{Far, ForwardingTables};
use crate::address::Addresses;
use crate::device::CAPABILITIES;

const NODE_DESCRIPTION: u16 = 0x10;
const NODE_INFO: u16 = 0x11;
const SWITCH_INFO: u16 = 0x12;
const GUID_INFO: u16 = 0x14;
const PORT_INFO: u16 = 0x15;
const P_KEY_TABLE: u16 = 0x16;
const SL_TO_VL: u16 = 0x17;
const VL_ARBITRATION: u16 = 0x18;
const LINEAR_FORWARDING: u16 = 0x19;
const MULTICAST_FORWARDING: u16 = 0x1b;
/// The bit of a port behind which a manager runs, in its capabilities.
const IS_SM: u32 = 1 << 1;
/// Blocks of a linear forwarding table for all unicast LIDs.
const BLOCKS: u32 = 768;

/// What a manager may write into SwitchInfo and PortInfo: from which byte, and before which.
const OF_SWITCH: &[(usize, usize)] = &[(6, 11)];
const OF_PORT: &[(usize, usize)] = &[(0, 16), (18, 20), (26, 28), (38, 39), (42, 43), (44, 50), (53, 54)];

/// Takes what a manager may write.
fn overlay(to: &mut [u8; 64], from: &[u8; 64], ranges: &[(usize, usize)]) {
    ranges.iter().for_each(|&(first, end)| to[first..end].copy_from_slice(&from[first..end]));
}

/// Attributes of a device, by device, attribute and modifier.
type Written = BTreeMap<(u32, u16, u32), [u8; 64]>;

/// All agents of a fabric.
#[derive(Debug)]
pub(super) struct Agents {
    pub subnet: Subnet,
    addresses: Addresses,
    pub far: Far,
    /// Devices by LID.
    pub lids: BTreeMap<u16, u32>,
    pub switches: u32,
    pub tables: ForwardingTables,
    /// Devices on which a manager says that it runs.
    pub managers: Vec<u32>,
    /// P_Keys of adapters, by device, where not all are in one partition.
    pub pkeys: BTreeMap<u32, Vec<u16>>,
    written: Written,
}

/// Why an attribute is not read or written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Refusal {
    /// There is none, or none to write.
    Unsupported,
    /// A value that cannot be.
    Invalid,
}

impl Agents {
    pub fn new((subnet, addresses): (Subnet, Addresses), tables: ForwardingTables, switches: u32) -> Agents {
        let ends = subnet.cables.iter().flat_map(|cable| {
            let [a, b] = cable.ends;
            [(a, (b, cable.speed)), (b, (a, cable.speed))]
        });
        let far = ends.collect();
        let lids = (0..).zip(&subnet.devices).filter_map(|(index, device)| Some((device.lid?, index))).collect();
        Agents { subnet, addresses, far, lids, switches, tables, managers: Vec::new(), pkeys: BTreeMap::new(), written: Written::new() }
    }

    fn device(&self, device: u32) -> Option<&Device> {
        self.subnet.devices.get(device as usize)
    }

    /// Reads an attribute.
    pub fn read(&mut self, plug: Plug, attribute: u16, modifier: u32) -> Result<[u8; 64], Refusal> {
        match self.block_of_table(plug, attribute, modifier) {
            Some(block) => Ok(self.tables.block(block, &self.lids, &self.far)),
            None => self.attribute(plug, attribute, modifier).ok_or(Refusal::Unsupported),
        }
    }

    /// The switch and the block, where it is one of a linear forwarding table.
    fn block_of_table(&self, plug: Plug, attribute: u16, modifier: u32) -> Option<(u32, u16)> {
        (attribute == LINEAR_FORWARDING && plug.device < self.switches && modifier < BLOCKS).then_some((plug.device, modifier as u16))
    }

    /// Writes an attribute, and says what it is then.
    pub fn write(&mut self, plug: Plug, (attribute, modifier): (u16, u32), data: [u8; 64]) -> Result<[u8; 64], Refusal> {
        if let Some(block) = self.block_of_table(plug, attribute, modifier) {
            self.tables.write(block, data);
            return Ok(data);
        }
        let mut now = self.attribute(plug, attribute, modifier).ok_or(Refusal::Unsupported)?;
        let mut key = (plug.device, attribute, modifier);
        match attribute {
            SWITCH_INFO => overlay(&mut now, &data, OF_SWITCH),
            PORT_INFO => {
                let lid = [data[16], data[17]];
                if lid != [0, 0] && lid != [now[16], now[17]] {
                    return Err(Refusal::Invalid);
                }
                overlay(&mut now, &data, OF_PORT);
                let port = self.meant(plug, modifier);
                key = (plug.device, attribute, port.into());
            }
            GUID_INFO | P_KEY_TABLE | SL_TO_VL | VL_ARBITRATION | MULTICAST_FORWARDING => now = data,
            _ => return Err(Refusal::Unsupported),
        }
        self.written.insert(key, now);
        Ok(now)
    }

    /// The LID of the manager that a device's port has been told.
    pub fn manager_of(&self, device: u32) -> Option<u16> {
        let port = self.written.get(&(device, PORT_INFO, u32::from(device >= self.switches)))?;
        Some(u16::from_be_bytes([port[18], port[19]]))
    }

    /// The port that a modifier of PortInfo means.
    fn meant(&self, plug: Plug, modifier: u32) -> u16 {
        let asked = (modifier & 0xff) as u16;
        if asked == 0 && plug.device >= self.switches { plug.port } else { asked }
    }

    fn attribute(&self, plug: Plug, attribute: u16, modifier: u32) -> Option<[u8; 64]> {
        let device = self.device(plug.device)?;
        let is_switch = device.kind == Kind::Switch;
        let guid = device.guid.unwrap_or(0);
        let port_guid = plug.device.checked_sub(self.switches).map_or(guid, |endpoint| self.addresses.interface(Lid(endpoint)));
        let written = self.written.get(&(plug.device, attribute, modifier));
        let mut data = [0; 64];
        match attribute {
            NODE_DESCRIPTION => {
                let text = device.description.as_bytes();
                let length = text.len().min(64);
                data[..length].copy_from_slice(&text[..length]);
            }
            NODE_INFO => {
                (data[0], data[1], data[2], data[3]) = (1, 1, if is_switch { 2 } else { 1 }, device.ports as u8);
                for (at, guid) in [(4, guid), (12, guid), (20, port_guid)] {
                    data[at..at + 8].copy_from_slice(&guid.to_be_bytes());
                }
                data[28..30].copy_from_slice(&32_u16.to_be_bytes());
                data[36] = plug.port as u8;
                data[38] = 2;
                data[39] = 0xc9;
            }
            SWITCH_INFO if is_switch => {
                data[..2].copy_from_slice(&49_152_u16.to_be_bytes());
                data[4..6].copy_from_slice(&16_384_u16.to_be_bytes());
                data[6..8].copy_from_slice(&(self.subnet.devices.len() as u16).to_be_bytes());
                // Port 0 is an enhanced one.
                data[16] = 8;
                if let Some(written) = written {
                    overlay(&mut data, written, OF_SWITCH);
                }
            }
            PORT_INFO => return self.port_info(plug, self.meant(plug, modifier)),
            GUID_INFO | P_KEY_TABLE | SL_TO_VL | VL_ARBITRATION | MULTICAST_FORWARDING if written.is_some() => return written.copied(),
            GUID_INFO if modifier == 0 => data[..8].copy_from_slice(&port_guid.to_be_bytes()),
            P_KEY_TABLE if modifier & 0xffff == 0 => {
                let keys = self.pkeys.get(&plug.device).map_or(&[0xffff][..], Vec::as_slice);
                for (place, key) in data.chunks_exact_mut(2).zip(keys) {
                    place.copy_from_slice(&key.to_be_bytes());
                }
            }
            // Every level has the lane of its number, as far as there are lanes; the last one is for management.
            SL_TO_VL => {
                for (pair, byte) in data[..8].iter_mut().enumerate() {
                    let lane = |level: usize| (level % 8) as u8;
                    *byte = lane(2 * pair) << 4 | lane(2 * pair + 1);
                }
            }
            VL_ARBITRATION => {}
            MULTICAST_FORWARDING if is_switch => {}
            _ => return None,
        }
        Some(data)
    }

    fn port_info(&self, plug: Plug, port: u16) -> Option<[u8; 64]> {
        let device = self.device(plug.device)?;
        let is_switch = device.kind == Kind::Switch;
        if port > device.ports {
            return None;
        }
        let own = is_switch && port == 0;
        let cable = self.far.get(&Plug { device: plug.device, port });
        let mut data = [0; 64];
        data[8..16].copy_from_slice(&0xfe80_0000_0000_0000_u64.to_be_bytes());
        if own || !is_switch {
            data[16..18].copy_from_slice(&device.lid.unwrap_or(0).to_be_bytes());
            data[18..20].copy_from_slice(&1_u16.to_be_bytes());
            let capabilities = if self.managers.contains(&plug.device) { CAPABILITIES | IS_SM } else { CAPABILITIES };
            data[20..24].copy_from_slice(&capabilities.to_be_bytes());
        }
        data[28] = plug.port as u8;
        let speed = cable.and_then(|(_, speed)| *speed);
        let width = speed.map_or(2, |speed| match speed.lanes {
            1 => 1,
            8 => 4,
            12 => 8,
            2 => 16,
            _ => 2,
        });
        // Speeds that came later have a field of their own, beside the last of the old ones.
        let (old, new) = match speed.map(|speed| speed.name) {
            Some("SDR") => (1, 0),
            Some("DDR") => (2, 0),
            Some("QDR") => (4, 0),
            Some("FDR") => (4, 1),
            Some("EDR") => (4, 2),
            Some("HDR") => (4, 4),
            Some("NDR" | "XDR") => (4, 8),
            _ => (1, 0),
        };
        (data[29], data[30], data[31]) = (width, width, width);
        let up = own || cable.is_some();
        let (state, physical) = if up { (4, 5) } else { (1, 2) };
        data[32] = 7 << 4 | state;
        data[33] = physical << 4 | 2;
        data[35] = old << 4 | 7;
        data[36] = 5 << 4;
        data[37] = 4 << 4;
        data[41] = 5;
        data[43] = 4 << 4;
        data[51] = 18;
        // Whoever has a speed has those before it.
        let known = if new == 0 { 0 } else { 2 * new - 1 };
        data[62] = new << 4 | known;
        data[63] = known;
        if let Some(written) = self.written.get(&(plug.device, PORT_INFO, port.into())) {
            overlay(&mut data, written, OF_PORT);
        }
        Some(data)
    }
}

/// Whether it says where the manager is.
pub(super) fn names_manager(attribute: u16) -> bool {
    attribute == PORT_INFO
}

/// Whether it is a block of a linear forwarding table, which a manager writes one after the other.
pub(super) fn writes_tables(attribute: u16) -> bool {
    attribute == LINEAR_FORWARDING
}
