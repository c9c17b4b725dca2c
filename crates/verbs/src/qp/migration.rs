//! Automatic path migration: a second path that a connection takes when its first one does not answer.
//!
//! Source: IBA vol. 1 §17.2.8 (states MIGRATED, REARM, ARMED; the M bit of the base transport header); man page
//! ibv_modify_qp(3) (`alt_ah_attr`, `path_mig_state`).
//! Modelled: an end in REARM becomes ARMED when it hears a packet of a peer that has not migrated; an ARMED end migrates when its
//! repetitions run out, when the peer has migrated, or when it is told to, and then is MIGRATED until it is armed again.
//! Not modelled: migration when a port goes down, other ports of the adapter.

use crate::attr::{AltPath, MigState, QpAttr};
use crate::error::VerbsError;
use crate::event::AsyncEvent;
use crate::packet::PacketFlags;
use crate::port::Port;
use crate::qp::Qp;

/// Path migration of a queue pair.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Migration {
    state: MigState,
    alternate: Option<AltPath>,
}

impl Migration {
    /// Whether there is one path.
    pub(crate) fn is_plain(&self) -> bool {
        self.state == MigState::Migrated && self.alternate.is_none()
    }
}

impl Qp {
    /// Refuses states that nobody can be put into.
    pub(crate) fn check_migration(&self, attr: &QpAttr) -> Result<(), VerbsError> {
        match attr.path_mig_state {
            // Ends become armed by hearing of each other.
            Some(MigState::Armed) => Err(VerbsError::OutOfRange { what: "path_mig_state", value: MigState::Armed as u64, min: 0, max: 1 }),
            Some(MigState::Rearm) if attr.alt_path.is_none() && self.migration.alternate.is_none() => {
                let (qp_type, from) = (self.qp_type, self.state);
                let to = attr.qp_state.unwrap_or(from);
                Err(VerbsError::MissingAttribute { qp_type, from, to, attribute: "alt_path" })
            }
            _ => Ok(()),
        }
    }

    /// Takes over what was checked.
    pub(crate) fn set_migration(&mut self, attr: &QpAttr, port: &mut Port) {
        if attr.alt_path.is_some() {
            self.migration.alternate = attr.alt_path;
        }
        match attr.path_mig_state {
            Some(MigState::Rearm) => self.enter(MigState::Rearm),
            Some(MigState::Migrated) if self.migration.state == MigState::Armed => drop(self.migrate(port)),
            Some(MigState::Migrated) => self.enter(MigState::Migrated),
            _ => {}
        }
    }

    fn enter(&mut self, state: MigState) {
        self.migration.state = state;
        self.path_flag = if state == MigState::Migrated { PacketFlags::NONE } else { PacketFlags::UNMIGRATED };
        self.attr.path_mig_state = Some(state);
    }

    /// A packet of the peer shows whether it has migrated; called only where there is an alternate path.
    #[cold]
    pub(crate) fn hear_migration(&mut self, flags: PacketFlags, port: &mut Port) {
        let migrated = !flags.contains(PacketFlags::UNMIGRATED);
        match self.migration.state {
            MigState::Rearm if !migrated => self.enter(MigState::Armed),
            MigState::Armed if migrated => drop(self.migrate(port)),
            _ => {}
        }
    }

    /// Takes the alternate path, if it is armed; what the path was is forgotten.
    pub(crate) fn migrate(&mut self, port: &mut Port) -> bool {
        if self.migration.state != MigState::Armed {
            return false;
        }
        let Some(AltPath { av, path_bits }) = self.migration.alternate.take() else { return false };
        (self.dest, self.sl) = (av.dlid, av.sl);
        self.entropy = self.entropy.wrapping_add(path_bits);
        self.attr.av = Some(av);
        self.attr.alt_path = None;
        self.enter(MigState::Migrated);
        port.counts.migrations += 1;
        port.events.push_back(AsyncEvent::PathMigrated(self.num));
        true
    }
}
