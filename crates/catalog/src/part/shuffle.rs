//! Shuffles of data-parallel frameworks: how reducers fetch blocks, and what tasks take beside the network.
//!
//! Source: Apache Spark's configuration page, `ShuffleBlockFetcherIterator`, `TransportConf`; the SparkUCX plug-in. The parts say which.
//! Modelled: limits of what a reducer has in flight, requests, messages of blocks, threads of the transport, rates of tasks by kind of job.
//! Not modelled: garbage collection, spills, push-based shuffle, failures.

use fabriscope_units::{Bytes, Rate, Span};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::error::Problem;
use crate::sourced::Sourced;

/// What tasks of a job do with their bytes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ShuffleJob {
    /// Bytes of its output that a map task makes on a core: reads or generates records, serialises, sorts by partition.
    pub map_rate: Sourced<Rate>,
    /// Bytes of its blocks that a reduce task takes in on a core.
    pub reduce_rate: Sourced<Rate>,
    /// Map tasks read their input from drives.
    pub reads_input: bool,
    /// Reduce tasks write their output to drives.
    pub writes_output: bool,
}

/// Blocks that reducers get without the program at the other end.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct OneSidedFetch {
    /// The index entry of a block in the memory of its executor.
    pub index_entry: Sourced<Bytes>,
    /// Core time of posting the fetch of a block.
    pub post: Sourced<Span>,
    /// Messages up to this go eagerly where executors send blocks; longer ones the reducer reads.
    pub eager_limit: Sourced<Bytes>,
}

/// How a framework shuffles.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ShuffleLibrary {
    /// Bytes that a reducer has in flight (`spark.reducer.maxSizeInFlight`).
    pub max_bytes_in_flight: Sourced<Bytes>,
    /// Requests that it has in flight (`spark.reducer.maxReqsInFlight`).
    pub max_requests_in_flight: Sourced<u32>,
    /// A request asks for the first bytes beyond this part of `max_bytes_in_flight`: one of so many.
    pub request_share: Sourced<u32>,
    /// Threads of the transport of an executor, at most (`spark.shuffle.io.serverThreads` where it is not set).
    pub threads: Sourced<u32>,
    /// What a thread reads at once.
    pub read_size: Sourced<Bytes>,
    /// A request, beside the names of its blocks.
    pub request: Sourced<Bytes>,
    /// The name of a block.
    pub block_name: Sourced<Bytes>,
    /// What comes before the bytes of a block.
    pub block_header: Sourced<Bytes>,
    /// Core time of a message at each end.
    pub message: Sourced<Span>,
    /// Core time of the server to find and open a block.
    pub open_block: Sourced<Span>,
    /// From the driver's decision until a task runs: message, deserialisation.
    pub task_start: Sourced<Span>,
    /// `GroupByTest`: random records, grouped by key.
    pub group_by: ShuffleJob,
    /// `SortByTest`: random records, sorted by key.
    pub sort_by: ShuffleJob,
    /// TeraSort: records of 100 B from and to files.
    pub tera_sort: ShuffleJob,
    /// How blocks are fetched by RDMA, if they are.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub one_sided: Option<OneSidedFetch>,
}

impl ShuffleLibrary {
    pub(super) fn check(&self) -> Result<(), Problem> {
        let counts =
            [("max_requests_in_flight", &self.max_requests_in_flight), ("request_share", &self.request_share), ("threads", &self.threads)];
        if let Some((key, _)) = counts.into_iter().find(|(_, count)| ***count == 0) {
            return Err(Problem::at(&["shuffle", key, "value"], format!("`{key}` is zero"), "use 1 or more"));
        }
        for (key, bytes) in [("max_bytes_in_flight", &self.max_bytes_in_flight), ("read_size", &self.read_size)] {
            if **bytes == Bytes::ZERO {
                return Err(Problem::at(&["shuffle", key, "value"], format!("`{key}` is zero"), "use for example \"48 MiB\""));
            }
        }
        for (name, job) in [("group_by", &self.group_by), ("sort_by", &self.sort_by), ("tera_sort", &self.tera_sort)] {
            for (key, rate) in [("map_rate", &job.map_rate), ("reduce_rate", &job.reduce_rate)] {
                if rate.as_bps() == 0 {
                    let message = format!("`{key}` is zero: no task would end");
                    return Err(Problem::at(&["shuffle", name, key, "value"], message, "use for example \"200 MB/s\""));
                }
            }
        }
        Ok(())
    }
}
