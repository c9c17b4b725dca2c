//! What programs ask of domains of extended reliable connections.

use fabriscope_units::Remedy;
use fabriscope_verbs::{Nic, QpNum, XrcdId};

use super::{Member, XrcError};
use crate::thread::Thread;
use crate::verbs::STATES;

impl Thread {
    fn node(&self) -> u32 {
        self.own_program(|program| program.node)
    }

    fn refused(&self, error: &XrcError) -> i32 {
        let mut world = self.shared.world();
        let program = world.programs[self.program as usize].number;
        world.refusals.push(format!("process {program}: {}", error.in_full()));
        error.errno()
    }

    /// Opens the domain of a file, or one of its own: `args` say whether there is a file, which, and how.
    pub(crate) fn open_xrcd(&self, nic: usize, args: &[i64; 8]) -> Result<i64, i32> {
        let node = self.node();
        let file = (args[1] != 0).then_some((args[2] as u64, args[3] as u64));
        let known = match file {
            Some(file) => {
                let found = self.shared.world().xrc.find((node, nic), file, args[4] as i32);
                found.map_err(|error| self.refused(&error))?
            }
            None => None,
        };
        let xrcd = match known {
            Some(xrcd) => xrcd,
            None => self.control(nic, |n| Ok(Nic::open_xrcd(n)))?,
        };
        self.shared.world().xrc.open((node, nic, xrcd), file, self.program);
        Ok(xrcd.0.into())
    }

    pub(crate) fn close_xrcd(&self, nic: usize, xrcd: XrcdId) -> Result<i64, i32> {
        let at = (self.node(), nic, xrcd);
        let done = self.shared.world().xrc.close(at, self.program);
        done.map(|()| 0).map_err(|error| self.refused(&error))
    }

    /// Gives the process a receiving queue pair that another one has made; answers its state.
    pub(crate) fn open_qp(&self, nic: usize, qp: QpNum, xrcd: XrcdId) -> Result<i64, i32> {
        let at = (self.node(), nic, xrcd);
        let found = self
            .shared
            .world()
            .xrc
            .held(at, self.program)
            .and_then(|domain| if domain.members.contains(&Member::Qp(qp)) { Ok(()) } else { Err(XrcError::NoSuchQp { qp, xrcd }) });
        found.map_err(|error| self.refused(&error))?;
        let status = self.control(nic, |n| n.query_qp(qp))?;
        self.own(|owned| owned.qps.insert((nic, qp)));
        Ok(STATES.iter().position(|state| *state == status.state).unwrap_or(0) as i64)
    }

    /// Whether the process has a domain open that it names.
    pub(crate) fn may_use(&self, nic: usize, xrcd: Option<XrcdId>) -> Result<(), i32> {
        let Some(xrcd) = xrcd else { return Ok(()) };
        let at = (self.node(), nic, xrcd);
        let held = self.shared.world().xrc.held(at, self.program).map(|_| ());
        held.map_err(|error| self.refused(&error))
    }

    /// A queue or a queue pair was made in a domain.
    pub(crate) fn enter(&self, nic: usize, xrcd: Option<XrcdId>, member: Member) {
        let Some(xrcd) = xrcd else { return };
        let at = (self.node(), nic, xrcd);
        if let Ok(domain) = self.shared.world().xrc.held(at, self.program) {
            domain.members.insert(member);
        }
    }

    /// It is gone, from whatever domain it was in.
    pub(crate) fn leave(&self, nic: usize, member: Member) {
        let node = self.node();
        self.shared.world().xrc.leave((node, nic), member);
    }

    /// The process ends.
    pub(crate) fn close_xrcds(&self) {
        self.shared.world().xrc.end(self.program);
    }

    /// Whether another process of the host has a queue pair.
    pub(crate) fn is_open_elsewhere(&self, nic: usize, qp: QpNum) -> bool {
        let world = self.shared.world();
        let node = world.programs[self.program as usize].node;
        let others = (0..).zip(&world.programs).filter(|(index, program)| *index != self.program && program.node == node);
        others.into_iter().any(|(_, program)| program.owned.qps.contains(&(nic, qp)))
    }
}
