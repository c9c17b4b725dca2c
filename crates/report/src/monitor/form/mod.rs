//! Sums in the output of the programs that operators read them with.
//!
//! Source: the output of infiniband-diags 44; files of ibdiagnet 2 as programs that read them expect it; `ethtool -S`, `rdma -p statistic`
//! of iproute2; files of Cassini's driver.
//! Modelled: every counter that is counted here, at its published name. The counters of 4 to 32 bits of `perfquery` stop at their largest
//! value, as PortCounters do. What a program shows and nothing here counts (VL15Dropped, QP1Dropped, …) is 0: there is no such event.
//! Not modelled: what these programs show besides counters; counters that only software has.

mod ethtool;
mod ibdiagnet;
mod ibqueryerrors;
mod perfquery;
mod readings;

use fabriscope_engine::Counter;

use super::{Monitor, Port};
use crate::counters::Dialect;

/// A program whose output is wanted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Form {
    /// `perfquery LID PORT`, of every port.
    Perfquery,
    /// `perfquery -x LID PORT`: counters of 64 bits.
    PerfqueryExtended,
    /// `ibqueryerrors`: ports with errors over thresholds.
    Ibqueryerrors,
    /// The file `ibdiagnet2.pm` of ibdiagnet.
    Ibdiagnet,
    /// `ethtool -S` of the interfaces of adapters.
    Ethtool,
    /// `rdma -p statistic show`: hardware counters of adapters.
    Rdma,
    /// Files of Cassini's telemetry, as `head -n 1` of all of them shows it.
    Cxi,
}

/// What a form does not show.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum FormError {
    /// The machine has no such program.
    #[error("`{form}` shows counters of {takes}, and this cluster has {has}")]
    Machine {
        /// The form.
        form: &'static str,
        /// Whose it shows.
        takes: &'static str,
        /// What the cluster has.
        has: &'static str,
    },
    /// Nothing is named so.
    #[error("no node or switch is named `{name}`")]
    Nothing {
        /// The text.
        name: String,
    },
    /// A threshold of a counter that there is not.
    #[error("`{name}` is no counter with a threshold")]
    Threshold {
        /// The name.
        name: String,
    },
}

/// A value of a counter of `ibqueryerrors` that is still no error.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Threshold {
    /// The counter, as `perfquery` names it.
    pub counter: String,
    /// The largest value that is no error.
    pub most: u64,
}

impl Form {
    /// All of them.
    pub const ALL: [Form; 7] =
        [Form::Perfquery, Form::PerfqueryExtended, Form::Ibqueryerrors, Form::Ibdiagnet, Form::Ethtool, Form::Rdma, Form::Cxi];

    /// The name on the command line.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Form::Perfquery => "perfquery",
            Form::PerfqueryExtended => "perfquery-x",
            Form::Ibqueryerrors => "ibqueryerrors",
            Form::Ibdiagnet => "ibdiagnet",
            Form::Ethtool => "ethtool",
            Form::Rdma => "rdma",
            Form::Cxi => "cxi",
        }
    }

    /// One line of help.
    #[must_use]
    pub const fn about(self) -> &'static str {
        match self {
            Form::Perfquery => "perfquery of every port: counters of 4 to 32 bits, which stop at their largest value",
            Form::PerfqueryExtended => "perfquery -x of every port: counters of 64 bits",
            Form::Ibqueryerrors => "ibqueryerrors: ports with errors over their thresholds",
            Form::Ibdiagnet => "the file ibdiagnet2.pm of ibdiagnet",
            Form::Ethtool => "ethtool -S of the interfaces of RoCE adapters",
            Form::Rdma => "rdma -p statistic show: hardware counters of adapters (mlx5, EFA)",
            Form::Cxi => "files of the telemetry of Cassini",
        }
    }

    const fn takes(self, dialect: Dialect) -> bool {
        match self {
            Form::Perfquery | Form::PerfqueryExtended | Form::Ibqueryerrors | Form::Ibdiagnet => matches!(dialect, Dialect::InfiniBand),
            Form::Ethtool => matches!(dialect, Dialect::Roce),
            Form::Rdma => matches!(dialect, Dialect::InfiniBand | Dialect::Roce | Dialect::Efa),
            Form::Cxi => matches!(dialect, Dialect::Slingshot),
        }
    }

    const fn machines(self) -> &'static str {
        match self {
            Form::Perfquery | Form::PerfqueryExtended | Form::Ibqueryerrors | Form::Ibdiagnet => "InfiniBand",
            Form::Ethtool => "RoCE adapters",
            Form::Rdma => "verbs adapters and EFA",
            Form::Cxi => "Slingshot",
        }
    }

    /// The text, of the nodes and switches whose name is `of`; of all, where nothing is said.
    ///
    /// # Errors
    /// Another machine, no such node or switch, a threshold of something else.
    pub fn text(self, monitor: &Monitor, of: Option<&str>, thresholds: &[Threshold]) -> Result<String, FormError> {
        if !self.takes(monitor.dialect) {
            let has = match monitor.dialect {
                Dialect::InfiniBand => "InfiniBand",
                Dialect::Roce => "RoCE",
                Dialect::OmniPath => "Omni-Path",
                Dialect::Efa => "EFA",
                Dialect::Slingshot => "Slingshot",
            };
            return Err(FormError::Machine { form: self.name(), takes: self.machines(), has });
        }
        let ports: Vec<(u32, &Port)> = (0..).zip(&monitor.ports).filter(|(_, port)| of.is_none_or(|of| port.site.instance == of)).collect();
        if ports.is_empty() {
            return Err(FormError::Nothing { name: of.unwrap_or_default().to_owned() });
        }
        match self {
            Form::Perfquery => Ok(perfquery::text(monitor, &ports)),
            Form::PerfqueryExtended => Ok(perfquery::extended(monitor, &ports)),
            Form::Ibqueryerrors => ibqueryerrors::text(monitor, &ports, thresholds),
            Form::Ibdiagnet => Ok(ibdiagnet::text(monitor, &ports)),
            Form::Ethtool => Ok(ethtool::text(monitor, of)),
            Form::Rdma => Ok(readings::rdma(monitor, of)),
            Form::Cxi => Ok(readings::cxi(monitor, of)),
        }
    }
}

/// A counter of PortCounters: its name for `perfquery`, that for ibdiagnet, its bits, what it counts and in which unit.
struct Field {
    name: &'static str,
    pm: &'static str,
    bits: u32,
    counter: Option<Counter>,
    unit: u64,
}

const fn field(name: &'static str, pm: &'static str, bits: u32, counter: Option<Counter>, unit: u64) -> Field {
    Field { name, pm, bits, counter, unit }
}

/// Bytes in a word of InfiniBand, and picoseconds in the tick of PortXmitWait. Basis: standard; assumed (vendors choose it).
const WORD: u64 = 4;
const TICK: u64 = 1000;

/// Counters of errors. Widths: InfiniBand Architecture Specification vol. 1, §16.1.3.5.
const ERRORS: [Field; 9] = [
    field("SymbolErrorCounter", "symbol_error_counter", 16, Some(Counter::SymbolErrors), 1),
    field("LinkErrorRecoveryCounter", "link_error_recovery_counter", 8, Some(Counter::LinkRecoveries), 1),
    field("LinkDownedCounter", "link_down_counter", 8, Some(Counter::LinkDowned), 1),
    field("PortRcvErrors", "port_rcv_errors", 16, Some(Counter::RcvErrors), 1),
    field("PortRcvRemotePhysicalErrors", "port_rcv_remote_physical_errors", 16, None, 1),
    field("PortRcvSwitchRelayErrors", "port_rcv_switch_relay_errors", 16, Some(Counter::RcvDiscards), 1),
    field("PortXmitDiscards", "port_xmit_discard", 16, Some(Counter::XmitDiscards), 1),
    field("PortXmitConstraintErrors", "port_xmit_constraint_errors", 8, Some(Counter::XmitConstraints), 1),
    field("PortRcvConstraintErrors", "port_rcv_constraint_errors", 8, Some(Counter::RcvConstraints), 1),
];
/// Errors that nothing here makes.
const OTHERS: [Field; 4] = [
    field("LocalLinkIntegrityErrors", "local_link_integrity_errors", 4, None, 1),
    field("ExcessiveBufferOverrunErrors", "excessive_buffer_errors", 4, None, 1),
    field("QP1Dropped", "qp1_dropped", 16, None, 1),
    field("VL15Dropped", "vl15_dropped", 16, None, 1),
];
/// What passed, and waiting.
const DATA: [Field; 5] = [
    field("PortXmitData", "port_xmit_data", 32, Some(Counter::XmitBytes), WORD),
    field("PortRcvData", "port_rcv_data", 32, Some(Counter::RcvBytes), WORD),
    field("PortXmitPkts", "port_xmit_pkts", 32, Some(Counter::XmitPackets), 1),
    field("PortRcvPkts", "port_rcv_pkts", 32, Some(Counter::RcvPackets), 1),
    field("PortXmitWait", "port_xmit_wait", 32, Some(Counter::XmitWait), TICK),
];

impl Field {
    /// With as many bits as it takes.
    fn whole(&self, monitor: &Monitor, link: u32) -> u64 {
        self.counter.map_or(0, |counter| monitor.total(link, counter) / self.unit)
    }
    /// As its register has it: it stops at its largest value.
    fn register(&self, monitor: &Monitor, link: u32) -> u64 {
        self.whole(monitor, link).min(u64::MAX >> (64 - self.bits))
    }
}
