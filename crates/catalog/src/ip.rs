//! The IP interfaces of a cluster: whether the kernel, the mode and the MTU fit its links.

use fabriscope_units::Bytes;

use crate::catalog::{AnyPart, Catalog};
use crate::cluster::{Cluster, IpoibMode, ResolvedCluster, ResolvedIp};
use crate::error::Problem;
use crate::part::{Kernel, Kind, Layer};
use crate::resolve::missing;

/// The interfaces with their kernel; a problem points at the key that causes it.
pub(crate) fn resolve(catalog: &Catalog, cluster: &Cluster) -> Result<ResolvedIp, Problem> {
    let ip = &cluster.ip;
    let kernel = match catalog.part(Kind::Kernel, &ip.kernel).map_err(|error| missing(&["ip", "kernel"], &error))? {
        AnyPart::Kernel(kernel) => Kernel::clone(kernel),
        _ => return Err(Problem::at(&["ip", "kernel"], "not a kernel", "see `fabriscope parts --kind kernels`")),
    };
    let layer = cluster.link_layer.layer();
    if layer == Layer::Ethernet && ip.mode == IpoibMode::Connected {
        let help = "remove `mode`: Ethernet has no modes of IP over InfiniBand";
        return Err(Problem::at(&["ip", "mode"], "connected mode on Ethernet", help));
    }
    let frame = catalog.link(&cluster.link).ok().and_then(|link| link.frame.as_ref());
    let (usual, most) = match (layer, ip.mode) {
        _ if frame.is_some() => frame.map_or((USUAL_ETHERNET, USUAL_ETHERNET), |frame| (*frame.mtu, *frame.mtu)),
        (Layer::Ethernet, _) => (USUAL_ETHERNET, LARGEST_ETHERNET),
        (Layer::InfiniBand, IpoibMode::Datagram) => (cluster.mtu - ENCAPSULATION, cluster.mtu - ENCAPSULATION),
        (Layer::InfiniBand, IpoibMode::Connected) => (CONNECTED, CONNECTED),
    };
    let mtu = ip.mtu.unwrap_or(usual);
    if mtu < LEAST || mtu > most {
        let message = format!("an IP MTU of {mtu} is outside what the links of this cluster carry");
        return Err(Problem::at(&["ip", "mtu"], message, format!("use \"{LEAST}\" to \"{most}\"")));
    }
    Ok(ResolvedIp { kernel, mtu, mode: ip.mode, offload: ip.offload, virtual_switch: ip.virtual_switch.clone() })
}

/// Adapters that are to do TCP can.
pub(crate) fn check(resolved: &ResolvedCluster) -> Result<(), Problem> {
    crate::switching::check(resolved, LEAST)?;
    let unable = resolved.groups.iter().find(|group| group.node.nic.iwarp.is_none());
    match unable.filter(|_| resolved.ip.offload) {
        Some(group) => {
            let message = format!("adapter {} has no TCP of its own", group.node.nic.name);
            let help = "remove `offload`, or use an adapter with an [iwarp] table, as nics/chelsio-t6.toml";
            Err(Problem::at(&["ip", "offload"], message, help))
        }
        None => Ok(()),
    }
}

/// Basis: standard, IEEE 802.3.
const USUAL_ETHERNET: Bytes = Bytes(1500);
/// Basis: datasheets: frames of 9216 B less the headers of Ethernet.
const LARGEST_ETHERNET: Bytes = Bytes(9198);
/// Header of IP over InfiniBand. Basis: standard, RFC 4391.
const ENCAPSULATION: Bytes = Bytes(4);
/// Basis: published (Linux, Documentation/infiniband/ipoib.rst).
const CONNECTED: Bytes = Bytes(65_520);
/// Room for the headers and some data: the least MTU of InfiniBand datagrams.
const LEAST: Bytes = Bytes(252);
