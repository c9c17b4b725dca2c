//! Causes at links: the size of packets, the speed.

use fabriscope_catalog::{AnyPart, LinkSpeed};
use fabriscope_units::{Bytes, Rate};

use super::{Amount, Cause, Scene};

/// Packets are smaller.
pub(super) const MTU: Cause = Cause {
    name: "mtu",
    title: "the MTU is smaller",
    check: "ibv_devinfo: active_mtu; ip link: mtu 4200 or more for RoCE; the subnet manager's partitions.conf; the switch ports",
    weight: 2.0,
    amounts: mtu,
};

fn mtu(scene: &Scene<'_>) -> Vec<Amount> {
    let now = scene.parts().mtu.as_u64();
    if !scene.uses_network() {
        return Vec::new();
    }
    [2048, 1024, 256]
        .into_iter()
        .filter(|mtu| *mtu < now)
        .map(|mtu| {
            Amount::new(format!("{mtu} B instead of {now} B"), move |setup| {
                let parts = &mut setup.parts;
                parts.mtu = Bytes(mtu);
                if let Some(onload) = &mut parts.sole_mut().node.nic.onload {
                    onload.mtu.value = onload.mtu.value.min(Bytes(mtu));
                }
            })
        })
        .collect()
}

/// Links are slower.
pub(super) const SPEED: Cause = Cause {
    name: "link-speed",
    title: "the adapter's link came up at a lower speed or with fewer lanes",
    check: "ibstat or ibv_devinfo: active speed and width; ethtool; mlxlink shows why; cable and port",
    weight: 2.0,
    amounts: speed,
};

fn speed(scene: &Scene<'_>) -> Vec<Amount> {
    if !scene.uses_network() {
        return Vec::new();
    }
    let (link, nic) = (&scene.parts().sole().link, &scene.node().nic);
    let slower = |other: &&LinkSpeed| other.layer == link.layer && other.data_rate() < link.data_rate() && nic.speeds.contains(&other.name);
    let parts = scene.catalog.parts().filter_map(|part| if let AnyPart::Link(other) = part { Some(&**other) } else { None });
    let mut known: Vec<LinkSpeed> = parts.filter(slower).cloned().collect();
    known.sort_by_key(|other| std::cmp::Reverse(other.data_rate()));
    known.truncate(2);
    let lanes = [2, 4].into_iter().filter(|by| link.lanes % by == 0 && link.lanes >= *by).map(|by| LinkSpeed {
        title: format!("{} of {} lanes", link.lanes / by, link.lanes),
        lanes: link.lanes / by,
        data_rate: fabriscope_catalog::Sourced {
            value: Rate::from_bps(link.data_rate().as_bps() / u64::from(by)),
            ..link.data_rate.clone()
        },
        ..link.clone()
    });
    let mut all: Vec<LinkSpeed> = known;
    for narrow in lanes {
        if all.iter().all(|other| other.data_rate() != narrow.data_rate()) {
            all.push(narrow);
        }
    }
    let now = link.data_rate();
    all.into_iter()
        .map(|slow| {
            Amount::new(format!("{} instead of {now}", slow.data_rate()), move |setup| setup.parts.sole_mut().link.clone_from(&slow))
        })
        .collect()
}
