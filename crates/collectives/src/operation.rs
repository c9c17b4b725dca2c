//! What each collective operation has to deliver, to whom.
//!
//! Source: MPI 4.1, chapter 6. Modelled: operations on contiguous buffers of one communicator. Not modelled: derived data types,
//! intercommunicators, `MPI_IN_PLACE` (which leaves out a copy).

use std::fmt;
use std::ops::Range;

use fabriscope_units::Bytes;

use crate::blocks::Blocks;
use crate::piece::{Buffer, Piece};

/// A collective operation and its data.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Operation {
    /// Nobody leaves before everybody has come.
    Barrier,
    /// What the root has in [`Buffer::Recv`] is there for all.
    Bcast {
        /// Who has it.
        root: u32,
        /// All of it, as algorithms cut it.
        blocks: Blocks,
    },
    /// The reduction of all send buffers, at the root.
    Reduce {
        /// Who gets it.
        root: u32,
        /// The buffer, as algorithms cut it.
        blocks: Blocks,
    },
    /// The reduction of all send buffers, everywhere.
    Allreduce {
        /// The buffer, as algorithms cut it.
        blocks: Blocks,
    },
    /// The reduction of all send buffers, one block of it at each rank.
    ReduceScatter {
        /// Whose block is which.
        blocks: Blocks,
    },
    /// Everybody's block, everywhere.
    Allgather {
        /// The result.
        blocks: Blocks,
    },
    /// Everybody's block, at the root.
    Gather {
        /// Who gets them.
        root: u32,
        /// The result.
        blocks: Blocks,
    },
    /// A block of the root for everybody.
    Scatter {
        /// Who has them.
        root: u32,
        /// What the root has.
        blocks: Blocks,
    },
    /// A block of everybody for everybody.
    Alltoall {
        /// By rank, what it sends; rank *r* receives block *r* of each, in the order of the ranks.
        sends: Vec<Blocks>,
    },
    /// The reduction of the send buffers of the ranks up to each.
    Scan {
        /// The buffer, as algorithms cut it.
        blocks: Blocks,
        /// Without its own; the first rank gets nothing.
        exclusive: bool,
    },
}

/// What has to be in a piece at the end.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Expected {
    /// Where.
    pub piece: Piece,
    /// Which ranks contribute to each byte, one of them where nothing is reduced.
    pub ranks: Range<u32>,
    /// Which byte of their buffers is the first.
    pub offset: Bytes,
}

impl Operation {
    /// What `rank` has at the beginning, and of which buffer of its it is.
    #[must_use]
    pub fn given(&self, rank: u32) -> Option<Piece> {
        let whole = |buffer: Buffer, bytes: Bytes| Some(buffer.piece(Bytes::ZERO, bytes));
        match self {
            Operation::Barrier => None,
            Operation::Bcast { root, blocks } => (rank == *root).then(|| Buffer::Recv.piece(Bytes::ZERO, blocks.total())),
            Operation::Reduce { blocks, .. }
            | Operation::Allreduce { blocks }
            | Operation::ReduceScatter { blocks }
            | Operation::Scan { blocks, .. } => whole(Buffer::Send, blocks.total()),
            Operation::Allgather { blocks } | Operation::Gather { blocks, .. } => whole(Buffer::Send, blocks.length(rank)),
            Operation::Scatter { root, blocks } => (rank == *root).then(|| Buffer::Send.piece(Bytes::ZERO, blocks.total())),
            Operation::Alltoall { sends } => whole(Buffer::Send, sends[rank as usize].total()),
        }
    }

    /// What `rank` among `ranks` has to have at the end.
    #[must_use]
    pub fn wanted(&self, rank: u32, ranks: u32) -> Vec<Expected> {
        let all =
            |bytes: Bytes, ranks: Range<u32>| vec![Expected { piece: Buffer::Recv.piece(Bytes::ZERO, bytes), ranks, offset: Bytes::ZERO }];
        let every_block = |blocks: &Blocks| {
            (0..ranks)
                .map(|from| Expected { piece: blocks.piece(Buffer::Recv, from), ranks: from..from + 1, offset: Bytes::ZERO })
                .collect()
        };
        match self {
            Operation::Barrier => Vec::new(),
            Operation::Bcast { root, blocks } => all(blocks.total(), *root..root + 1),
            Operation::Allreduce { blocks } => all(blocks.total(), 0..ranks),
            Operation::Reduce { root, blocks } if rank == *root => all(blocks.total(), 0..ranks),
            Operation::Gather { root, blocks } if rank == *root => every_block(blocks),
            Operation::Reduce { .. } | Operation::Gather { .. } => Vec::new(),
            Operation::Allgather { blocks } => every_block(blocks),
            Operation::ReduceScatter { blocks } => {
                let piece = Buffer::Recv.piece(Bytes::ZERO, blocks.length(rank));
                vec![Expected { piece, ranks: 0..ranks, offset: blocks.offset(rank) }]
            }
            Operation::Scatter { root, blocks } => {
                let piece = Buffer::Recv.piece(Bytes::ZERO, blocks.length(rank));
                vec![Expected { piece, ranks: *root..root + 1, offset: blocks.offset(rank) }]
            }
            Operation::Alltoall { sends } => {
                let receives = received(sends, rank);
                let block = |from: u32| Expected {
                    piece: receives.piece(Buffer::Recv, from),
                    ranks: from..from + 1,
                    offset: sends[from as usize].offset(rank),
                };
                (0..ranks).map(block).collect()
            }
            Operation::Scan { exclusive: true, .. } if rank == 0 => Vec::new(),
            Operation::Scan { blocks, exclusive } => all(blocks.total(), 0..rank + u32::from(!exclusive)),
        }
    }
}

/// What `rank` receives of blocks that the ranks send: from each of them its block for this rank.
#[must_use]
pub fn received(sends: &[Blocks], rank: u32) -> Blocks {
    Blocks::varying(&sends.iter().map(|blocks| blocks.length(rank)).collect::<Vec<_>>())
}

impl fmt::Display for Operation {
    /// The name in MPI.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Operation::Barrier => "MPI_Barrier",
            Operation::Bcast { .. } => "MPI_Bcast",
            Operation::Reduce { .. } => "MPI_Reduce",
            Operation::Allreduce { .. } => "MPI_Allreduce",
            Operation::ReduceScatter { .. } => "MPI_Reduce_scatter",
            Operation::Allgather { .. } => "MPI_Allgather",
            Operation::Gather { .. } => "MPI_Gather",
            Operation::Scatter { .. } => "MPI_Scatter",
            Operation::Alltoall { .. } => "MPI_Alltoall",
            Operation::Scan { exclusive: false, .. } => "MPI_Scan",
            Operation::Scan { exclusive: true, .. } => "MPI_Exscan",
        })
    }
}
