/*
 * Fabriscope for other simulators: how long a message, a collective operation or a set of flows takes on a
 * cluster.
 *
 * Units: times are whole picoseconds, lengths are bytes, both in uint64_t. Nodes, adapters and flows are
 * counted from 0.
 *
 * Determinism: the same question gives the same number, on every machine, in every order of calls and from
 * every thread. Nothing depends on a clock, on the environment or on what was asked before; what does not fit
 * the memory that the machine has free is refused.
 *
 * Ownership: a cluster belongs to whoever opened it, until fabriscope_cluster_free. What the library is given
 * it only reads, and not after the call. The text of an error belongs to the caller, until
 * fabriscope_text_free.
 *
 * Threads: there is no global state that a caller can see. Any number of threads may ask the same cluster, or
 * different ones, at the same time; each call runs on the thread that makes it. Only fabriscope_cluster_free
 * must not overlap other calls with the same cluster.
 *
 * Errors: every function that can fail returns a fabriscope_status. What went wrong and what to do about it
 * is in the text that the last argument receives; that argument may be NULL where nobody reads it. *error
 * becomes NULL where all went well. Other outputs are written to only where all went well; *cluster becomes
 * NULL otherwise. No call ends the process or unwinds into the caller; a fault of the library is
 * FABRISCOPE_INTERNAL, and the panic that it was is reported on stderr as well. Memory that the system does
 * not have, and pointers that are neither NULL nor what is asked for, are not caught.
 *
 * docs/embed.md has examples, what is modelled, and what a call costs.
 */
#ifndef FABRISCOPE_H
#define FABRISCOPE_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The number of this interface. A library with another one does not fit: compare it with fabriscope_abi_version(). */
#define FABRISCOPE_ABI_VERSION 1u

/* A cluster with all its parts and its wired fabric. */
typedef struct fabriscope_cluster fabriscope_cluster;

/* How a call ended. All enumerations have 32 bits. */
typedef enum fabriscope_status {
    /* There is an answer. */
    FABRISCOPE_OK = 0,
    /* An argument is wrong: NULL, not UTF-8, a node that is not there, a node that sends to itself, no bytes. */
    FABRISCOPE_INVALID_ARGUMENT = 1,
    /* There is no such cluster, or what describes it is wrong. */
    FABRISCOPE_CLUSTER = 2,
    /* This cluster, library or engine has no model of it, or the job does not fit. */
    FABRISCOPE_REFUSED = 3,
    /* The run did not end well: ranks that wait without end, a transfer that failed. */
    FABRISCOPE_FAILED = 4,
    /* A fault of the library. */
    FABRISCOPE_INTERNAL = 5
} fabriscope_status;

/* What carries a message. */
typedef enum fabriscope_operation {
    /* An RDMA write: from the post until the receiver, which looks at its memory, sees the last byte. */
    FABRISCOPE_WRITE = 0,
    /* A send: from the post until the receiver has the completion of its receive. */
    FABRISCOPE_SEND = 1,
    /* An RDMA read: from the post of `from` until it has the completion; the data come from `to`. */
    FABRISCOPE_READ = 2,
    /* A message of the cluster's MPI library: from MPI_Send until MPI_Recv returns. */
    FABRISCOPE_MPI_MESSAGE = 3
} fabriscope_operation;

/* A collective operation, and what its `bytes` are. */
typedef enum fabriscope_collective {
    /* Every rank gets the sum of all: the buffer of a rank. */
    FABRISCOPE_ALLREDUCE = 0,
    /* Every rank gets what rank 0 has: the buffer. */
    FABRISCOPE_BROADCAST = 1,
    /* Rank 0 gets the sum of all: the buffer of a rank. */
    FABRISCOPE_REDUCE = 2,
    /* Every rank gets what each has: what one rank gives. */
    FABRISCOPE_ALLGATHER = 3,
    /* Every rank gets its part of the sum of all: the buffer before, of a rank. */
    FABRISCOPE_REDUCE_SCATTER = 4,
    /* Every rank gets something else from each: what one rank gives one other. */
    FABRISCOPE_ALLTOALL = 5,
    /* Nobody goes on before all are there: bytes mean nothing. */
    FABRISCOPE_BARRIER = 6
} fabriscope_collective;

/* Who carries a collective operation out. */
typedef enum fabriscope_library {
    /* The MPI library of the cluster, on its cores, with buffers in host memory. */
    FABRISCOPE_MPI = 0,
    /* NCCL or RCCL on the cluster's GPUs, out of place, elements of 4 bytes. It has no barrier. */
    FABRISCOPE_NCCL = 1
} fabriscope_library;

/* What computes an answer. */
typedef enum fabriscope_engine {
    /* Packets; the flow engine for collective operations of MPI that are too large for these. */
    FABRISCOPE_AUTO = 0,
    /* Every packet is simulated. */
    FABRISCOPE_PACKET = 1,
    /* Messages are fluids that share links by max-min fairness. It refuses what it has no model of, NCCL for one. */
    FABRISCOPE_FLOW = 2
} fabriscope_engine;

/* In which order receivers take the packets of a connection. */
typedef enum fabriscope_order {
    /* As the adapters do; then a routing that sends packets of a flow over several paths may be refused. */
    FABRISCOPE_ADAPTER_ORDER = 0,
    /* As they come, whatever the adapters: any_order = true of a lab. */
    FABRISCOPE_ANY_ORDER = 1
} fabriscope_order;

/* An RDMA write from an adapter of a node to one of another node. */
typedef struct fabriscope_flow {
    /* The node that sends. */
    uint32_t from;
    /* The node that receives. */
    uint32_t to;
    /* Which adapter of the sender. */
    uint32_t from_adapter;
    /* Which adapter of the receiver. */
    uint32_t to_adapter;
    /* Payload: 1 to 2^31. */
    uint64_t bytes;
    /* When it begins, at most 2^63. */
    uint64_t start_ps;
} fabriscope_flow;

/* The version of the library, as text that stays. */
const char *fabriscope_version(void);

/* The number of the interface that the library has. */
uint32_t fabriscope_abi_version(void);

/*
 * Opens a cluster: a name of the catalogue ("ri2"; `fabriscope clusters` lists them) or the path of a TOML
 * file, with ":nodes" for another number of nodes ("lab-16:4") or ":group" for one of its groups. Its parts
 * are resolved and its fabric is wired here, once: milliseconds, seconds for a machine of many thousand
 * nodes. The first call of a process reads the catalogue.
 */
fabriscope_status fabriscope_cluster_open(const char *target, fabriscope_cluster **cluster, char **error);

/* The same from the text of a TOML file. Files that it names are looked for in the working directory. */
fabriscope_status fabriscope_cluster_from_text(const char *toml, fabriscope_cluster **cluster, char **error);

/* Gives a cluster back. NULL is allowed. */
void fabriscope_cluster_free(fabriscope_cluster *cluster);

/* How many nodes the cluster has; 0 of NULL. */
uint32_t fabriscope_nodes(const fabriscope_cluster *cluster);

/* How many adapters, cores and GPUs a node has; the fewest where nodes are unlike; 0 of NULL. */
uint32_t fabriscope_adapters_per_node(const fabriscope_cluster *cluster);
uint32_t fabriscope_cores_per_node(const fabriscope_cluster *cluster);
uint32_t fabriscope_gpus_per_node(const fabriscope_cluster *cluster);

/*
 * The time of one message of 1 to 2^31 - 1 bytes (of MPI to 2^30) between two nodes, in a fabric that carries
 * nothing else: what ib_write_lat, ib_send_lat and ib_read_lat of perftest print as t_typical, between the
 * first adapters of the nodes over a reliable connection, or what osu_latency prints. It has what the cores
 * and adapters of both ends do in it. Writes, sends and reads are FABRISCOPE_REFUSED where adapters are not
 * driven through verbs (Slingshot, Omni-Path, Aries); messages of MPI go everywhere.
 */
fabriscope_status fabriscope_message_ps(const fabriscope_cluster *cluster, uint32_t from, uint32_t to, uint64_t bytes,
                                        fabriscope_operation operation, uint64_t *picoseconds, char **error);

/*
 * The time of a collective operation of a job that has the fabric to itself, the mean over iterations and
 * ranks: what the OSU benchmark of it prints with FABRISCOPE_MPI, and nccl-tests with FABRISCOPE_NCCL, each
 * with the usual options. The job has the nodes that the cluster's placement says, and ranks_per_node ranks
 * on each: all cores, or all GPUs, where that is 0. MPI takes 1 to 2^30 bytes, NCCL multiples of 4 bytes up
 * to 2^40, of a reduce-scatter for each rank.
 */
fabriscope_status fabriscope_collective_ps(const fabriscope_cluster *cluster, fabriscope_collective kind,
                                           fabriscope_library library, uint32_t nodes,
                                           uint32_t ranks_per_node, uint64_t bytes, fabriscope_engine engine,
                                           uint64_t *picoseconds, char **error);

/*
 * Runs `count` flows in one fabric, each from its start; completion_ps[i] becomes the time at which the
 * sender of flows[i] has the completion, on the same clock as the starts. Flows from one adapter to another
 * share a connection and go one after the other. FABRISCOPE_AUTO is FABRISCOPE_PACKET. Adapters are those of
 * the node, from 0; most have one. The seed is that of everything random: routings that draw, losses, noise.
 * No flows (count = 0) are FABRISCOPE_OK, and then both arrays may be NULL. At most 10,000,000 flows.
 */
fabriscope_status fabriscope_flows_run(const fabriscope_cluster *cluster, const fabriscope_flow *flows, size_t count,
                                       fabriscope_engine engine, fabriscope_order order, uint64_t seed,
                                       uint64_t *completion_ps, char **error);

/* Gives the text of an error back. NULL is allowed. */
void fabriscope_text_free(char *text);

#ifdef __cplusplus
}
#endif

#endif
