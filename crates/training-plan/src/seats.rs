//! Which adapter carries the messages of each GPU of a job.

/// The GPUs of a job: on which nodes, and behind which adapters.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Seats {
    /// The node of the cluster that each node of the job is.
    nodes: Vec<u32>,
    /// Adapters of a node.
    adapters: u32,
    /// The adapter of each GPU of a node.
    of_gpus: Vec<u32>,
}

impl Seats {
    /// A job on these nodes, each with so many adapters, and with one of them for each of its GPUs.
    #[must_use]
    pub fn new(nodes: Vec<u32>, adapters: u32, of_gpus: Vec<u32>) -> Seats {
        Seats { nodes, adapters, of_gpus }
    }
    /// GPUs of a node.
    #[must_use]
    pub fn per_node(&self) -> u32 {
        self.of_gpus.len().max(1) as u32
    }
    /// The node of a GPU, among those of the job.
    #[must_use]
    pub fn node(&self, gpu: u32) -> u32 {
        gpu / self.per_node()
    }
    /// The adapter of a GPU, among all of the cluster: the rank of a schedule that does what the GPU does.
    #[must_use]
    pub fn rank(&self, gpu: u32) -> u32 {
        let node = self.nodes.get(self.node(gpu) as usize).copied().unwrap_or_else(|| self.node(gpu));
        node * self.adapters + self.of_gpus.get((gpu % self.per_node()) as usize).copied().unwrap_or(0)
    }
    /// Adapters that all GPUs of a node have together.
    #[must_use]
    pub fn adapters(&self) -> &[u32] {
        &self.of_gpus
    }
}
