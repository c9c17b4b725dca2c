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
    // The ports of an adapter with several have the GUIDs behind its own.
    let span =
        |device: &crate::import::Device| if device.kind == Kind::Switch || device.ports <= 1 { 1 } else { u64::from(device.ports) + 1 };
    let own = |device: &crate::import::Device| device.guid.map(|guid| (0..span(device)).map(move |port| guid.wrapping_add(port)));
    let mut taken: BTreeSet<u64> = subnet.devices.iter().filter_map(own).flatten().collect();
    let (mut switch, mut adapter) = (FIRST_SWITCH, FIRST_ADAPTER);
    for device in subnet.devices.iter_mut().filter(|device| device.guid.is_none()) {
        let (letter, next) = match device.kind {
            Kind::Switch => ('S', &mut switch),
            Kind::Adapter | Kind::Aggregation => ('H', &mut adapter),
            Kind::Router => ('R', &mut adapter),
        };
        let span = span(device);
        while let Some(last) = (*next..*next + span).rev().find(|guid| taken.contains(guid)) {
            *next = last + 1;
        }
        taken.extend(*next..*next + span);
        device.guid = Some(*next);
        device.id = format!("{letter}-{next:016x}");
    }
    Cow::Owned(subnet)
}
