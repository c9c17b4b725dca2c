//! What ends a one-sided operation.
//!
//! Source: OMB 7.4, `osu_put_latency.c` and its kin (the calls, in their order); MPI 4.1, §12.5; Open MPI `osc/ucx` (a lock is a
//! fetch-and-add on the target's counter).
//! Modelled: flush, passive locks as atomic operations, post/start/complete/wait and fence as empty messages.
//! Not modelled: locks that others hold, fences over more than two ranks.

use fabriscope_mpi::{Operands, Reduction, Request};
use fabriscope_node::ProgramError;

use super::benchmark::{Act, Benchmark};
use super::loops::Pair;

/// The call of `-s`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sync {
    /// `MPI_Win_flush`.
    Flush,
    /// `MPI_Win_flush_local`; a reliable connection completes a write when it is acknowledged, so it waits as long.
    FlushLocal,
    /// `MPI_Win_lock` before and `MPI_Win_unlock` behind.
    Lock,
    /// `MPI_Win_lock_all` and `MPI_Win_unlock_all`.
    LockAll,
    /// `MPI_Win_start` and `MPI_Win_complete`, and `MPI_Win_post` and `MPI_Win_wait` of the target.
    Pscw,
    /// `MPI_Win_fence`.
    Fence,
}

impl Sync {
    /// Every one, by the name that the tool takes.
    const NAMES: [(&'static str, Sync); 6] = [
        ("flush", Sync::Flush),
        ("flush_local", Sync::FlushLocal),
        ("lock", Sync::Lock),
        ("lock_all", Sync::LockAll),
        ("pscw", Sync::Pscw),
        ("fence", Sync::Fence),
    ];

    /// What a benchmark does where it is not told.
    pub(super) fn of(benchmark: &Benchmark) -> Sync {
        if benchmark.is_bidirectional() { Sync::Pscw } else { Sync::Flush }
    }
    /// The call of that name, as far as the benchmark has it; otherwise those that it has.
    pub(super) fn by_name(name: &str, benchmark: &Benchmark) -> Result<Sync, &'static str> {
        let both = benchmark.is_bidirectional();
        let found = Sync::NAMES.into_iter().find(|(own, _)| *own == name).map(|(_, sync)| sync);
        let known = if both { "pscw, fence" } else { "flush, flush_local, lock, lock_all, pscw, fence" };
        found.filter(|sync| !both || sync.is_active()).ok_or(known)
    }
    /// Both sides take part.
    pub(super) fn is_active(self) -> bool {
        matches!(self, Sync::Pscw | Sync::Fence)
    }
    /// As the tool's head says it.
    pub(super) fn title(self) -> &'static str {
        match self {
            Sync::Flush => "MPI_Win_flush",
            Sync::FlushLocal => "MPI_Win_flush_local",
            Sync::Lock => "MPI_Win_lock/unlock",
            Sync::LockAll => "MPI_Win_lock_all/unlock_all",
            Sync::Pscw => "MPI_Win_post/start/complete/wait",
            Sync::Fence => "MPI_Win_fence",
        }
    }
}

impl Pair {
    /// One iteration of `osu_put_*`, `osu_get_*` and `osu_*_latency` of updates: `count` operations and what ends them. There and back where `turns`.
    pub async fn one_sided(&self, what: Act, (count, size): (u32, u32), sync: Sync, benchmark: &Benchmark) -> Result<(), ProgramError> {
        let turns = benchmark.is_latency();
        match sync {
            Sync::Flush | Sync::FlushLocal if self.sends => self.operate(what, count, size).await,
            Sync::Lock | Sync::LockAll if self.sends => {
                self.rank.change_lock(self.peer).await?;
                self.operate(what, count, size).await?;
                self.rank.change_lock(self.peer).await
            }
            Sync::Pscw if benchmark.is_bidirectional() => {
                self.tell(POST).await?;
                self.access(what, count, size).await?;
                self.hear(COMPLETE).await
            }
            Sync::Pscw => {
                if self.sends {
                    self.access(what, count, size).await?;
                    return if turns { self.expose().await } else { Ok(()) };
                }
                self.expose().await?;
                if turns { self.access(what, count, size).await } else { Ok(()) }
            }
            Sync::Fence => {
                let both = benchmark.is_bidirectional();
                self.fence().await?;
                if self.sends || both {
                    self.operate(what, count, size).await?;
                }
                self.fence().await?;
                if !turns {
                    return Ok(());
                }
                if !self.sends {
                    self.operate(what, count, size).await?;
                }
                self.fence().await
            }
            _ => Ok(()),
        }
    }

    async fn operate(&self, what: Act, count: u32, size: u32) -> Result<(), ProgramError> {
        let what = match what {
            Act::Move(what) => what,
            Act::Update(update) => {
                let (datatype, reduction) = (self.datatype, Reduction::Sum);
                let operands = Operands { datatype, reduction, size, here: 0, result: 0, there: 0, compare: 0 };
                for _ in 0..count {
                    let under_way = self.rank.update(update, self.peer, operands).await?;
                    self.rank.fetched(under_way).await?;
                }
                return Ok(());
            }
        };
        let one = |_| self.rank.one_sided(what, self.peer, (self.buffer, self.there), size);
        let requests = (0..count).map(one).collect::<Result<Vec<Request>, ProgramError>>()?;
        self.rank.wait_all(requests).await
    }
    /// `MPI_Win_start` to `MPI_Win_complete`.
    async fn access(&self, what: Act, count: u32, size: u32) -> Result<(), ProgramError> {
        self.hear(POST).await?;
        self.operate(what, count, size).await?;
        self.tell(COMPLETE).await
    }
    /// `MPI_Win_post` to `MPI_Win_wait`.
    async fn expose(&self) -> Result<(), ProgramError> {
        self.tell(POST).await?;
        self.hear(COMPLETE).await
    }
    /// The end of the measurement of a size where the target has to be inside its library meanwhile: `MPI_Barrier`.
    pub async fn end(&self) -> Result<(), ProgramError> {
        if self.sends { self.tell(END).await } else { self.hear(END).await }
    }
    async fn fence(&self) -> Result<(), ProgramError> {
        self.tell(FENCE).await?;
        self.hear(FENCE).await
    }
    async fn tell(&self, tag: u32) -> Result<(), ProgramError> {
        self.rank.send(self.peer, tag, 0).await
    }
    async fn hear(&self, tag: u32) -> Result<(), ProgramError> {
        self.rank.recv(Some(self.peer), Some(tag), 0).await
    }
}

// Tags of the library's own messages about windows. Basis: assumed; programs here use none above 101.
const POST: u32 = 1000;
const COMPLETE: u32 = 1001;
const FENCE: u32 = 1002;
const END: u32 = 1003;
