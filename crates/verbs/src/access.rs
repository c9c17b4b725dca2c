//! Who may do what with memory, and in which memory of the node it is.
//!
//! Source: IBA vol. 1 §10.6.3 (access rights); man page ibv_reg_mr(3).
//! Modelled: the four rights that queue pairs and regions give, and that of binding memory windows.
//! Not modelled: relaxed ordering.

use std::fmt;
use std::ops::BitOr;

/// Access rights of a memory region or queue pair.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Access(u8);

impl Access {
    /// Local reading only.
    pub const NONE: Access = Access(0);
    /// The local NIC may write: receives, READ and atomic results.
    pub const LOCAL_WRITE: Access = Access(1);
    /// A remote NIC may write.
    pub const REMOTE_WRITE: Access = Access(2);
    /// A remote NIC may read.
    pub const REMOTE_READ: Access = Access(4);
    /// A remote NIC may use atomics.
    pub const REMOTE_ATOMIC: Access = Access(8);
    /// Memory windows may be bound to it.
    pub const MW_BIND: Access = Access(16);
    /// Everything that moves data.
    pub const ALL: Access = Access(15);

    /// Whether all rights of `other` are given.
    pub const fn contains(self, other: Access) -> bool {
        self.0 & other.0 == other.0
    }
}

impl BitOr for Access {
    type Output = Access;
    fn bitor(self, other: Access) -> Access {
        Access(self.0 | other.0)
    }
}
impl fmt::Debug for Access {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names = [
            (Access::LOCAL_WRITE, "LOCAL_WRITE"),
            (Access::REMOTE_WRITE, "REMOTE_WRITE"),
            (Access::REMOTE_READ, "REMOTE_READ"),
            (Access::REMOTE_ATOMIC, "REMOTE_ATOMIC"),
            (Access::MW_BIND, "MW_BIND"),
        ];
        f.debug_list().entries(names.iter().filter(|(right, _)| self.contains(*right)).map(|(_, name)| name)).finish()
    }
}

/// A memory of the node: which one a number means, the engine knows, and how far it is from the NIC.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct MemoryId(pub u8);

impl MemoryId {
    /// The host memory beside the NIC.
    pub const HOST: MemoryId = MemoryId(0);

    /// That of a GPU by its number in the node: places count the memories of GPUs from 1. None beyond the numbers that there are.
    #[must_use]
    pub fn of_gpu(gpu: u32) -> Option<MemoryId> {
        u8::try_from(gpu).ok()?.checked_add(1).map(MemoryId)
    }
}
