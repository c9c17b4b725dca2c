//! Numbers by which other tools tell the devices of a subnet apart.

use std::borrow::Cow;
use std::collections::BTreeSet;

use super::subnet::{FIRST_ADAPTER, FIRST_SWITCH};
use crate::import::{Kind, Subnet};

/// The subnet with a GUID for each device that has none, and the ids that follow from them: formats without GUIDs were read.
pub(super) fn identified(subnet: &Subnet) -> Cow<'_, Subnet> {
    if subnet.devices.iter().all(|device| device.guid.is_some()) {
        return Cow::Borrowed(subnet);
    }
    let mut subnet = subnet.clone();
    let mut taken: BTreeSet<u64> = subnet.devices.iter().filter_map(|device| device.guid).collect();
    let (mut switch, mut adapter) = (FIRST_SWITCH, FIRST_ADAPTER);
    for device in subnet.devices.iter_mut().filter(|device| device.guid.is_none()) {
        let (letter, next) = match device.kind {
            Kind::Switch => ('S', &mut switch),
            Kind::Adapter | Kind::Aggregation => ('H', &mut adapter),
            Kind::Router => ('R', &mut adapter),
        };
        while !taken.insert(*next) {
            *next += 1;
        }
        device.guid = Some(*next);
        device.id = format!("{letter}-{next:016x}");
    }
    Cow::Owned(subnet)
}
