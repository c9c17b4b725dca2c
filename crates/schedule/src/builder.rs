//! Making a schedule, operation by operation.

use fabriscope_units::{Bytes, Span};

use crate::{After, At, OpId, OpKind, Schedule, ScheduleError};

/// Collects operations and dependencies; ranks may come in any order.
///
/// Mistakes are reported by [`build`](Builder::build), so that the calls need no error handling.
#[derive(Debug, Clone)]
pub struct Builder {
    ranks: u32,
    /// Operations of each rank so far.
    counts: Vec<u32>,
    ops: Vec<(u32, OpKind)>,
    after: Vec<(At, After)>,
    /// The first mistake.
    error: Option<ScheduleError>,
}

impl Builder {
    /// A schedule of `ranks` ranks that do nothing yet.
    #[must_use]
    pub fn new(ranks: u32) -> Builder {
        let most = Schedule::MOST_RANKS;
        let error = (ranks == 0 || ranks > most).then_some(ScheduleError::Ranks { ranks, most });
        let counts = if error.is_some() { Vec::new() } else { vec![0; ranks as usize] };
        Builder { ranks, counts, ops: Vec::new(), after: Vec::new(), error }
    }
    /// The number of ranks.
    #[must_use]
    pub fn ranks(&self) -> u32 {
        self.ranks
    }

    /// Adds an operation to `rank`. It waits for nothing until told to.
    pub fn op(&mut self, rank: u32, kind: OpKind) -> OpId {
        let Some(count) = self.counts.get_mut(rank as usize) else {
            self.error.get_or_insert(ScheduleError::NoSuchRank { rank, kind, last: self.ranks.saturating_sub(1) });
            return OpId(0);
        };
        let id = OpId(*count);
        *count = count.saturating_add(1);
        self.ops.push((rank, kind));
        id
    }
    /// Adds an operation that waits for others.
    pub fn op_after(&mut self, rank: u32, kind: OpKind, after: &[After]) -> OpId {
        let op = self.op(rank, kind);
        self.after.extend(after.iter().map(|after| (At { rank, op }, *after)));
        op
    }
    /// Adds a two-sided message; rank `to` has to receive it.
    pub fn send(&mut self, rank: u32, to: u32, bytes: Bytes, tag: u32) -> OpId {
        self.op(rank, OpKind::Send { to, bytes, tag })
    }
    /// Adds the receive of a message from rank `from`.
    pub fn recv(&mut self, rank: u32, from: u32, bytes: Bytes, tag: u32) -> OpId {
        self.op(rank, OpKind::Recv { from, bytes, tag })
    }
    /// Adds a one-sided write to rank `to`.
    pub fn put(&mut self, rank: u32, to: u32, bytes: Bytes) -> OpId {
        self.op(rank, OpKind::Put { to, bytes })
    }
    /// Adds a one-sided read from rank `from`.
    pub fn get(&mut self, rank: u32, from: u32, bytes: Bytes) -> OpId {
        self.op(rank, OpKind::Get { from, bytes })
    }
    /// Adds work without communication.
    pub fn compute(&mut self, rank: u32, span: Span) -> OpId {
        self.op(rank, OpKind::Compute { span })
    }
    /// Adds a point that is reached when all of `ops` have ended.
    pub fn join(&mut self, rank: u32, ops: &[OpId]) -> OpId {
        let point = self.compute(rank, Span::ZERO);
        ops.iter().for_each(|earlier| self.requires(rank, point, *earlier));
        point
    }

    /// Lets `op` of `rank` start only when `earlier` of the same rank has ended.
    pub fn requires(&mut self, rank: u32, op: OpId, earlier: OpId) {
        self.after.push((At { rank, op }, After::End(earlier)));
    }
    /// Lets `op` of `rank` start only when `earlier` of the same rank has started.
    pub fn requires_start(&mut self, rank: u32, op: OpId, earlier: OpId) {
        self.after.push((At { rank, op }, After::Start(earlier)));
    }

    /// The schedule.
    ///
    /// # Errors
    /// The first mistake made while adding, or what [`Schedule::check`] finds.
    pub fn build(self) -> Result<Schedule, ScheduleError> {
        if let Some(error) = self.error {
            return Err(error);
        }
        let most = u32::MAX;
        if self.ops.len().max(self.after.len()) >= most as usize {
            return Err(ScheduleError::TooLarge { most });
        }
        let first_op = starts(self.counts.iter().copied());
        let kinds = self.sorted_ops(&first_op);
        let mut after_counts = vec![0; kinds.len()];
        for (at, after) in &self.after {
            let count = self.counts.get(at.rank as usize).copied().unwrap_or(0);
            if let Some(missing) = [at.op, after.op()].into_iter().find(|op| op.0 >= count) {
                return Err(ScheduleError::NoSuchOp { at: *at, after: missing, count });
            }
            after_counts[(first_op[at.rank as usize] + at.op.0) as usize] += 1;
        }
        let first_after = starts(after_counts.into_iter());
        let mut next = first_after.clone();
        let mut after = vec![After::End(OpId(0)); self.after.len()];
        for (at, dependency) in &self.after {
            let next = &mut next[(first_op[at.rank as usize] + at.op.0) as usize];
            after[*next as usize] = *dependency;
            *next += 1;
        }
        let schedule = Schedule { first_op, kinds, first_after, after };
        schedule.check()?;
        Ok(schedule)
    }

    /// The operations by rank, in the order they were added.
    fn sorted_ops(&self, first_op: &[u32]) -> Vec<OpKind> {
        let mut next = first_op.to_vec();
        let mut kinds = vec![OpKind::Compute { span: Span::ZERO }; self.ops.len()];
        for (rank, kind) in &self.ops {
            let next = &mut next[*rank as usize];
            kinds[*next as usize] = *kind;
            *next += 1;
        }
        kinds
    }
}

/// Where each of several lists of these lengths starts in one array, and where the last one ends.
fn starts(lengths: impl Iterator<Item = u32>) -> Vec<u32> {
    let mut end = 0;
    let mut starts = vec![0];
    starts.extend(lengths.map(|length| {
        end += length;
        end
    }));
    starts
}
