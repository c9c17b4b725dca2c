//! A machine as HPL sees it: what a process computes, and what messages cost.
//!
//! Source: the parts of a cluster, and messages measured on it (`fabriscope-lab`).
//! Modelled: messages as a latency and a time per byte, along rows and along columns, within nodes and between them; processes of a node
//! that send through the same adapters at the same time share them.
//! Not modelled: other jobs on the network.

use crate::grid::{Grid, Mapping};

/// What a message between two processes costs: seconds whatever its length, and seconds per byte.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Path {
    /// Seconds whatever its length.
    pub latency: f64,
    /// Seconds per byte.
    pub per_byte: f64,
}

impl Path {
    /// Takes no time.
    pub const FREE: Path = Path { latency: 0.0, per_byte: 0.0 };

    /// Of a message of so many bytes.
    #[must_use]
    pub fn seconds(self, bytes: f64) -> f64 {
        self.latency + self.per_byte * bytes
    }
}

/// What one process computes with.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Processor {
    /// Operations per second of large multiplications.
    pub dgemm: f64,
    /// Bytes per second of its memory, read and written ones counted.
    pub memory: f64,
    /// Seconds to start each piece of work of a panel: a kernel on a GPU.
    pub start: f64,
    /// Columns of the right part of the update whose swaps go on behind the update of the others, as a share: the split update of GPUs.
    pub split: f64,
}

/// Who moves panels while a process updates.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Movers {
    /// Somebody else than who updates: the host beside a GPU, another core of the process.
    Others,
    /// The core that updates, between pieces of it: processes of one core.
    Own,
    /// Workers on the adapters, by trees; messages cost so much within a node and between nodes.
    Workers {
        /// Within a node: through its adapter.
        inside: Path,
        /// Between nodes, alone.
        between: Path,
    },
}

/// The machine.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Machine {
    /// What each process computes with.
    pub processor: Processor,
    /// Processes of a node.
    pub per_node: u32,
    /// A message within a node.
    pub inside: Path,
    /// A message between nodes, alone.
    pub between: Path,
    /// Bytes per second of all adapters of a node in one direction.
    pub node_rate: f64,
    /// Share of that which the fabric carries while every node sends to nodes far away.
    pub fabric: f64,
    /// Who moves panels.
    pub movers: Movers,
}

impl Machine {
    /// A message along a row of processes, while all processes of the node send one along theirs.
    #[must_use]
    pub fn along_rows(&self, grid: Grid, mapping: Option<Mapping>) -> Path {
        let here = grid.here(self.per_node, mapping);
        let leaves = grid.columns > here.columns;
        match self.movers {
            // What workers move within a node passes its adapter as well.
            Movers::Workers { inside, between } => self.along(true, here.rows, if leaves { between } else { inside }),
            Movers::Others | Movers::Own if leaves => self.along(true, here.rows, self.between),
            Movers::Others | Movers::Own => self.inside,
        }
    }
    /// The same along a column.
    #[must_use]
    pub fn along_columns(&self, grid: Grid, mapping: Option<Mapping>) -> Path {
        let here = grid.here(self.per_node, mapping);
        self.along(grid.rows > here.rows, here.columns, self.between)
    }
    fn along(&self, leaves: bool, together: u32, alone: Path) -> Path {
        if !leaves {
            return self.inside;
        }
        let shared = f64::from(together) / (self.node_rate * self.fabric);
        Path { latency: alone.latency, per_byte: alone.per_byte.max(shared) }
    }
    /// The same with a network that takes no time.
    #[must_use]
    pub fn without_network(&self) -> Machine {
        let movers = match self.movers {
            Movers::Workers { .. } => Movers::Workers { inside: Path::FREE, between: Path::FREE },
            others => others,
        };
        Machine { between: Path::FREE, node_rate: f64::INFINITY, movers, ..*self }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn processes_of_a_node_share_its_adapters() {
        let processor = Processor { dgemm: 1e12, memory: 1e12, start: 0.0, split: 0.0 };
        let (inside, between) = (Path { latency: 1e-6, per_byte: 1e-11 }, Path { latency: 2e-6, per_byte: 4e-11 });
        let machine = Machine { processor, per_node: 8, inside, between, node_rate: 100e9, fabric: 0.5, movers: Movers::Others };
        // 2 x 4 on each node: rows leave it at two processes, columns at four; half of 100 GB/s is for them.
        let grid = Grid { rows: 8, columns: 8 };
        assert_eq!(machine.along_rows(grid, None).per_byte, 4e-11);
        assert_eq!(machine.along_columns(grid, None).per_byte, 8e-11);
        // One node: nothing leaves it.
        assert_eq!(machine.along_columns(Grid { rows: 2, columns: 4 }, None), inside);
        assert_eq!(machine.without_network().along_columns(grid, None), Path::FREE);
        // A row on each node: only what workers move passes the adapter, two rows of four at once.
        let row = Grid { rows: 8, columns: 4 };
        let workers = Machine { movers: Movers::Workers { inside: between, between }, ..machine };
        assert_eq!(machine.along_rows(row, Some(Mapping::Rows)), inside);
        assert_eq!(workers.along_rows(row, Some(Mapping::Rows)), between);
    }
}
