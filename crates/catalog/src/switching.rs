//! Whether adapters, kernel and tables of a cluster are up to the virtual switch that it asks for.

use fabriscope_units::Bytes;

use crate::cluster::ResolvedCluster;
use crate::error::Problem;
use crate::part::{Layer, StageKind};
use crate::virtual_switch::{Ipsec, SwitchedBy};

/// Adapters can do what is asked of them, and tables hold what tenants need.
pub(crate) fn check(resolved: &ResolvedCluster, least: Bytes) -> Result<(), Problem> {
    let Some(switch) = &resolved.ip.virtual_switch else { return Ok(()) };
    let at = |key: &str, message: String, help: &str| Err(Problem::at(&["ip", "virtual_switch", key], message, help));
    if resolved.link_layer.layer() != Layer::Ethernet {
        return at("by", "virtual switching of IP over InfiniBand".to_owned(), "use a cluster with Ethernet, or remove it");
    }
    if resolved.ip.offload {
        return at("by", "virtual switching under TCP of the adapter".to_owned(), "remove `ip.offload`, or [ip.virtual_switch]");
    }
    if resolved.groups.len() > 1 {
        return at("by", "virtual switching with groups of different nodes".to_owned(), "use one group");
    }
    let inner = switch.encapsulation().inner_mtu(resolved.ip.mtu.saturating_u32());
    if u64::from(inner) < least.0 {
        let message = format!("an IP MTU of {} leaves {inner} B to virtual machines", resolved.ip.mtu);
        return at("tunnel", message, "use a larger ip.mtu");
    }
    let node = &resolved.sole().node;
    let (nic, name) = (&node.nic, &node.nic.name);
    let dpu = node.dpu.as_ref().and_then(|dpu| dpu.part.switching.as_ref());
    let kernel = resolved.ip.kernel.virtual_switch.as_ref();
    match switch.by {
        SwitchedBy::DpuCores if dpu.is_none() => {
            return at("by", format!("cores of adapter {name} do not switch"), "use one with a [dpu.switching] table, as bluefield-3");
        }
        SwitchedBy::Adapter if nic.pipeline.is_none() => {
            return at(
                "by",
                format!("adapter {name} has no pipeline"),
                "use one with a [pipeline] table, as bluefield-3, or by = \"host\"",
            );
        }
        SwitchedBy::Host if kernel.is_none() => {
            let message = format!("kernel {} does not say what switching costs", resolved.ip.kernel.name);
            return at("by", message, "use one with a [virtual_switch] table, as linux-tcp");
        }
        SwitchedBy::Adapter if dpu.is_none() && kernel.is_none() => {
            let message = format!("no core decides about flows that adapter {name} does not know");
            return at("by", message, "use a kernel with a [virtual_switch] table, as linux-tcp");
        }
        _ => {}
    }
    let has_engine = nic.engines.as_ref().is_some_and(|engines| engines.crypto.is_some());
    match (switch.ipsec, switch.by) {
        (Ipsec::Engine, SwitchedBy::Host | SwitchedBy::DpuCores) => {
            return at("ipsec", "an engine in the adapter's pipeline, which does not switch".to_owned(), "use by = \"adapter\"");
        }
        (Ipsec::Engine, SwitchedBy::Adapter) if !has_engine => {
            return at("ipsec", format!("adapter {name} has no engine for encryption"), "use one with [engines.crypto], as bluefield-3");
        }
        (Ipsec::Cores, SwitchedBy::Adapter) => {
            let help = "use ipsec = \"engine\", or by = \"host\" or \"dpu_cores\"";
            return at("ipsec", "packets that the pipeline switches pass no core".to_owned(), help);
        }
        _ => {}
    }
    if let (Some(cores), Some(dpu)) = (switch.cores, node.dpu.as_ref())
        && !(1..=dpu.part.cores).contains(&cores)
    {
        return at("cores", format!("{cores} cores of an adapter with {}", dpu.part.cores), "use 1 up to all of them");
    }
    let Some(pipeline) = nic.pipeline.as_ref().filter(|_| switch.by == SwitchedBy::Adapter) else { return Ok(()) };
    let nodes = u64::from(resolved.sole().nodes);
    for (kind, each, what) in [(StageKind::Ternary, switch.rules, "rules"), (StageKind::Lpm, nodes, "routes")] {
        let needed = switch.tenants.saturating_mul(each);
        if let Some(entries) = pipeline.entries(kind).filter(|entries| needed > *entries) {
            let message = format!("{} tenants with {each} {what} each: a table of adapter {name} holds {entries}", switch.tenants);
            return at("tenants", message, "use fewer of them, or by = \"host\"");
        }
    }
    Ok(())
}
