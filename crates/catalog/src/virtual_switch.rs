//! Who switches the packets of a cluster's virtual machines, and what goes around them.

use fabriscope_vswitch::{Encapsulation, Granularity, Tunnel};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Who switches.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum SwitchedBy {
    /// The host's kernel.
    Host,
    /// Cores on the adapter, for all packets.
    DpuCores,
    /// The adapter's pipeline; cores have what it does not know.
    Adapter,
}

/// The tunnel around the packets of a tenant.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum TenantTunnel {
    /// None.
    #[default]
    None,
    /// VXLAN over UDP: 50 B more in every packet.
    Vxlan,
    /// Geneve over UDP without options: 50 B more in every packet.
    Geneve,
}

/// Who encrypts packets with ESP.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Ipsec {
    /// Nobody.
    #[default]
    None,
    /// The cores that switch.
    Cores,
    /// The adapter's engine.
    Engine,
}

/// What a rule distinguishes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum FlowsBy {
    /// Connections, as connection tracking needs it.
    #[default]
    Connection,
    /// Pairs of virtual machines.
    Pair,
}

/// The virtual switch of each node; the programs of a cluster run in virtual machines then.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct VirtualSwitch {
    /// Who switches.
    pub by: SwitchedBy,
    /// The tunnel around the packets of a tenant.
    #[serde(default)]
    pub tunnel: TenantTunnel,
    /// Who encrypts.
    #[serde(default)]
    pub ipsec: Ipsec,
    /// What a rule distinguishes.
    #[serde(default)]
    pub flows: FlowsBy,
    /// Tenants whose rules and routes the adapter's tables hold.
    #[serde(default = "one")]
    pub tenants: u64,
    /// Rules of a tenant.
    #[serde(default = "usual_rules")]
    pub rules: u64,
    /// Cores of the adapter that switch. Default: all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cores: Option<u32>,
}

const fn one() -> u64 {
    1
}
/// As many as the default security groups of clouds have, rounded up. Basis: assumed.
const fn usual_rules() -> u64 {
    16
}

impl VirtualSwitch {
    /// What goes around packets.
    #[must_use]
    pub fn encapsulation(&self) -> Encapsulation {
        let tunnel = match self.tunnel {
            TenantTunnel::None => Tunnel::None,
            TenantTunnel::Vxlan => Tunnel::Vxlan,
            TenantTunnel::Geneve => Tunnel::Geneve,
        };
        Encapsulation { tunnel, esp: self.ipsec != Ipsec::None }
    }
    /// What a rule distinguishes.
    #[must_use]
    pub const fn granularity(&self) -> Granularity {
        match self.flows {
            FlowsBy::Connection => Granularity::Connection,
            FlowsBy::Pair => Granularity::Pair,
        }
    }
}
