/* What the ten programs share: the device, the talk over TCP, and a queue pair's way to RTS. */
#ifndef PAIR_H
#define PAIR_H

#include <infiniband/verbs.h>
#include <stdbool.h>

enum {
    PORT = 1, /* the device's first port */
    QUEUE_DEPTH = 16, /* entries of every queue here, more than any program has in flight */
    GRH_SIZE = 40, /* bytes before the payload of a received datagram */
    QKEY = 0x11111111, /* any value below 0x80000000; those above are for privileged programs */
};

/* This process: one of the two ends. */
struct pair {
    const char *program;
    bool server;
    int socket;
    struct ibv_context *context;
    struct ibv_pd *pd;
    struct ibv_device_attr device;
    struct ibv_port_attr port;
    union ibv_gid gid;
    uint32_t gid_index;
};

/* What one end must know of the other. Crosses TCP as it stands here, in network byte order. */
struct end {
    union ibv_gid gid;
    uint64_t address; /* of the buffer that the other end may reach; 0 if there is none */
    uint32_t rkey;
    uint32_t qpn;
    uint32_t psn;
    uint16_t lid;
    uint16_t mtu; /* an `enum ibv_mtu` */
};

/* Says what failed and why (errno), and exits with 1. */
_Noreturn void die(const char *what);

/* Dies unless `error` is 0. For the verbs that return an errno. */
void check(int error, const char *what);

/* Opens the device and connects the two ends: the client if `argv` names a host, else the server. */
struct pair pair_open(const char *program, int argc, char **argv);

/* Closes what `pair_open` opened and prints the last line. */
void pair_close(struct pair *pair);

/* A queue pair in RESET, both its queues on `cq`. `srq` may be NULL. */
struct ibv_qp *pair_create_qp(const struct pair *pair, enum ibv_qp_type type, struct ibv_cq *cq, struct ibv_srq *srq);

/* Tells the other end of `qp` and of `mr` (or NULL), and returns what it tells. */
struct end pair_exchange(const struct pair *pair, const struct ibv_qp *qp, const struct ibv_mr *mr);

/* The way to `to`: by LID on InfiniBand, by GID on Ethernet. */
struct ibv_ah_attr pair_path(const struct pair *pair, const struct end *to);

/* Takes an RC, UC or UD queue pair from RESET to RTS. A UD one has no peer: NULL. */
void pair_connect(const struct pair *pair, struct ibv_qp *qp, const struct end *peer);

/* Returns once both ends have come here. */
void pair_barrier(const struct pair *pair);

/* `length` bytes of a region, from `offset`. */
struct ibv_sge slice(const struct ibv_mr *mr, size_t offset, size_t length);

/* Posts one receive into `into`; an empty slice makes a receive without a buffer. */
void post_receive(struct ibv_qp *qp, struct ibv_sge into, uint64_t wr_id);

/* Posts the list that starts at `wr`. */
void post_send(struct ibv_qp *qp, struct ibv_send_wr *wr);

/* Polls until there is a completion, good or bad. */
struct ibv_wc wait_any(struct ibv_cq *cq);

/* The same, and dies if it is a bad one. */
struct ibv_wc wait_good(struct ibv_cq *cq);

#endif
