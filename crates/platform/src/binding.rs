//! Which GPU and which NUMA domain the ranks of a node have.
//!
//! Source: Open MPI and Slurm bind ranks to the cores next to their GPU.
//! Modelled: local ranks take the GPUs in turn, or as a list says; their cores are where another list says.
//! Not modelled: ranks that use several GPUs.

/// Which GPU each rank of a node has, and where its core is.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Binding {
    gpus: Vec<u32>,
    /// The NUMA domains of the ranks' cores; next to their GPU, or the first, where nothing is said.
    domains: Vec<u32>,
}

impl Binding {
    /// Rank *i* of a node has GPU `gpus[i]`, in turn where there are more ranks; without a list, GPU *i*.
    #[must_use]
    pub fn new(gpus: Vec<u32>) -> Binding {
        Binding { gpus, domains: Vec::new() }
    }
    /// The same with rank *i* of a node on a core of NUMA domain `domains[i]`, in turn where there are more ranks.
    #[must_use]
    pub fn at(self, domains: Vec<u32>) -> Binding {
        Binding { domains, ..self }
    }
    /// The NUMA domain of a rank, where one is told.
    #[must_use]
    pub fn domain(&self, local_rank: u32) -> Option<u32> {
        self.domains.get(local_rank as usize % self.domains.len().max(1)).copied()
    }
    /// The GPU of a rank of a node with `count` of them.
    #[must_use]
    pub fn gpu(&self, local_rank: u32, count: u32) -> Option<u32> {
        let listed = self.gpus.get(local_rank as usize % self.gpus.len().max(1)).copied();
        if count == 0 { None } else { Some(listed.unwrap_or(local_rank % count)) }
    }
    /// The largest number in the list.
    #[must_use]
    pub fn largest(&self) -> Option<u32> {
        self.gpus.iter().max().copied()
    }
}
