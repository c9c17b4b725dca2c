//! Domains of extended reliable connections: processes of a host that open the domain of the same file have the same one.
//!
//! Source: man pages ibv_open_xrcd(3), ibv_open_qp(3), ibv_create_srq_ex(3); what the kernel's `uverbs` answers.
//! Modelled: domains by file and adapter, receiving queue pairs that several processes have open and that last as long as one of them has.
//! Not modelled: domains that outlive their processes, as none do.

mod calls;

use std::collections::{BTreeMap, BTreeSet};

use fabriscope_verbs::{QpNum, SrqId, XrcdId};

/// What belongs to a domain.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Member {
    Srq(SrqId),
    Qp(QpNum),
}

/// A file, by its device and number.
type Inode = (u64, u64);

/// A domain of an adapter.
#[derive(Debug, Default)]
struct Domain {
    file: Option<Inode>,
    /// How often each process has it open.
    holders: BTreeMap<u32, u32>,
    members: BTreeSet<Member>,
}

/// The domains of all hosts, by node and adapter.
#[derive(Debug, Default)]
pub(crate) struct XrcDomains(BTreeMap<(u32, usize, XrcdId), Domain>);

/// Why a domain, or a queue pair of one, was refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error, miette::Diagnostic)]
pub(crate) enum XrcError {
    #[error("no process of the host has opened an XRC domain of file {inode}")]
    #[diagnostic(help("add O_CREAT to `oflags`, or open it first where it is made"))]
    NoDomain { inode: u64 },
    #[error("the XRC domain of file {inode} is there already")]
    #[diagnostic(help("leave O_EXCL out of `oflags`, or use another file"))]
    Exists { inode: u64 },
    #[error("the process has not opened XRC domain {xrcd}")]
    #[diagnostic(help("take it from ibv_open_xrcd in the same process"))]
    NotOpen { xrcd: XrcdId },
    #[error("queue pair {qp} is no receiving end of XRC domain {xrcd}")]
    #[diagnostic(help("give the number and the domain that the process has which made it with ibv_create_qp_ex"))]
    NoSuchQp { qp: QpNum, xrcd: XrcdId },
    #[error("XRC domain {xrcd} has {members} queues and queue pairs")]
    #[diagnostic(help("destroy them before the last process closes the domain"))]
    Busy { xrcd: XrcdId, members: usize },
}

impl XrcError {
    pub fn errno(&self) -> i32 {
        match self {
            XrcError::NoDomain { .. } => libc::EAGAIN,
            XrcError::Busy { .. } => libc::EBUSY,
            _ => libc::EINVAL,
        }
    }
}

impl XrcDomains {
    /// The domain of a file on an adapter, if that is to be had with these flags; `None` is to be made.
    fn find(&self, (node, nic): (u32, usize), file: Inode, oflags: i32) -> Result<Option<XrcdId>, XrcError> {
        let known = self.0.iter().find(|((of, on, _), domain)| (*of, *on) == (node, nic) && domain.file == Some(file));
        match known {
            None if oflags & libc::O_CREAT == 0 => Err(XrcError::NoDomain { inode: file.1 }),
            Some(_) if oflags & libc::O_EXCL != 0 => Err(XrcError::Exists { inode: file.1 }),
            found => Ok(found.map(|((_, _, xrcd), _)| *xrcd)),
        }
    }

    fn open(&mut self, at: (u32, usize, XrcdId), file: Option<Inode>, program: u32) {
        let domain = self.0.entry(at).or_insert_with(|| Domain { file, ..Domain::default() });
        *domain.holders.entry(program).or_default() += 1;
    }

    fn close(&mut self, at: (u32, usize, XrcdId), program: u32) -> Result<(), XrcError> {
        let domain = self.0.get_mut(&at).filter(|domain| domain.holders.contains_key(&program));
        let domain = domain.ok_or(XrcError::NotOpen { xrcd: at.2 })?;
        let last = domain.holders.values().sum::<u32>() == 1;
        if last && !domain.members.is_empty() {
            return Err(XrcError::Busy { xrcd: at.2, members: domain.members.len() });
        }
        if let Some(times) = domain.holders.get_mut(&program) {
            *times -= 1;
        }
        domain.holders.retain(|_, times| *times > 0);
        self.forget_unused();
        Ok(())
    }

    /// A process has ended.
    fn end(&mut self, program: u32) {
        for domain in self.0.values_mut() {
            domain.holders.remove(&program);
        }
        self.forget_unused();
    }

    /// A queue or a queue pair is gone, from whatever domain of the adapter it was in.
    fn leave(&mut self, at: (u32, usize), member: Member) {
        for ((node, nic, _), domain) in &mut self.0 {
            if (*node, *nic) == at {
                domain.members.remove(&member);
            }
        }
        self.forget_unused();
    }

    fn forget_unused(&mut self) {
        self.0.retain(|_, domain| !domain.holders.is_empty() || !domain.members.is_empty());
    }

    /// A domain that a process has open.
    fn held(&mut self, at: (u32, usize, XrcdId), program: u32) -> Result<&mut Domain, XrcError> {
        self.0.get_mut(&at).filter(|domain| domain.holders.contains_key(&program)).ok_or(XrcError::NotOpen { xrcd: at.2 })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const AT: (u32, usize, XrcdId) = (0, 0, XrcdId(3));
    const FILE: Inode = (8, 77);

    #[test]
    fn who_opens_the_same_file_has_the_same_domain() {
        let mut all = XrcDomains::default();
        let find = |all: &XrcDomains, flags| all.find((0, 0), FILE, flags);
        assert_eq!(find(&all, 0), Err(XrcError::NoDomain { inode: 77 }));
        assert_eq!(find(&all, libc::O_CREAT), Ok(None));
        all.open(AT, Some(FILE), 1);
        assert_eq!((find(&all, 0), find(&all, libc::O_CREAT)), (Ok(Some(AT.2)), Ok(Some(AT.2))));
        assert_eq!(find(&all, libc::O_CREAT | libc::O_EXCL), Err(XrcError::Exists { inode: 77 }));
        assert_eq!(all.find((1, 0), FILE, libc::O_CREAT), Ok(None), "another host");
        assert_eq!(all.close(AT, 2), Err(XrcError::NotOpen { xrcd: AT.2 }));
    }

    #[test]
    fn a_domain_is_closed_when_nothing_is_in_it() {
        let mut all = XrcDomains::default();
        all.open(AT, Some(FILE), 1);
        all.open(AT, Some(FILE), 2);
        all.held(AT, 1).unwrap().members.insert(Member::Srq(SrqId(0)));
        assert_eq!(all.close(AT, 1), Ok(()), "another process has it");
        assert_eq!(all.close(AT, 2), Err(XrcError::Busy { xrcd: AT.2, members: 1 }));
        all.held(AT, 2).unwrap().members.clear();
        assert_eq!(all.close(AT, 2), Ok(()));
        assert_eq!(all.find((0, 0), FILE, 0), Err(XrcError::NoDomain { inode: 77 }));
        all.open(AT, Some(FILE), 1);
        all.end(1);
        assert!(all.0.is_empty());
    }
}
