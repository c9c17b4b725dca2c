#define _DEFAULT_SOURCE /* usleep, htobe64 */
#include "pair.h"

#include <endian.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

static const char SERVICE[] = "18600"; /* TCP port of the server */
enum { TRIES = 200, PAUSE_US = 10000 }; /* the client waits 2 s for its server */

_Noreturn void die(const char *what)
{
    fflush(stdout);
    fprintf(stderr, "%s: %s\n", what, strerror(errno));
    exit(1);
}

void check(int error, const char *what)
{
    if (error) {
        errno = error;
        die(what);
    }
}

/* ---- TCP ---- */

static struct addrinfo *resolve(const char *host)
{
    struct addrinfo hints = {
        .ai_family = AF_INET,
        .ai_socktype = SOCK_STREAM,
        .ai_flags = host ? 0 : AI_PASSIVE,
    };
    struct addrinfo *found;
    int error = getaddrinfo(host, SERVICE, &hints, &found);
    if (error) {
        fprintf(stderr, "%s: %s\n", host ? host : SERVICE, gai_strerror(error));
        exit(1);
    }
    return found;
}

static int tcp_socket(void)
{
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    if (fd < 0)
        die("socket");
    return fd;
}

static int accept_client(void)
{
    struct addrinfo *any = resolve(NULL);
    int listener = tcp_socket(), yes = 1;
    setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
    if (bind(listener, any->ai_addr, any->ai_addrlen) || listen(listener, 1))
        die("listen on TCP port 18600");
    freeaddrinfo(any);
    int fd = accept(listener, NULL, NULL);
    if (fd < 0)
        die("accept");
    close(listener);
    return fd;
}

static int connect_to_server(const char *host)
{
    struct addrinfo *server = resolve(host);
    for (int i = 0; i < TRIES; i++) {
        int fd = tcp_socket();
        if (connect(fd, server->ai_addr, server->ai_addrlen) == 0) {
            freeaddrinfo(server);
            return fd;
        }
        if (errno != ECONNREFUSED)
            die(host);
        close(fd);
        usleep(PAUSE_US);
    }
    errno = ECONNREFUSED;
    die(host);
}

static void tell(const struct pair *pair, const void *data, size_t size)
{
    for (const char *at = data; size;) {
        ssize_t n = write(pair->socket, at, size);
        if (n <= 0)
            die("write to the other end");
        at += n;
        size -= n;
    }
}

static void hear(const struct pair *pair, void *data, size_t size)
{
    for (char *at = data; size;) {
        ssize_t n = read(pair->socket, at, size);
        if (n == 0)
            errno = ECONNRESET;
        if (n <= 0)
            die("read from the other end");
        at += n;
        size -= n;
    }
}

void pair_barrier(const struct pair *pair)
{
    char here = 0;
    tell(pair, &here, 1);
    hear(pair, &here, 1);
}

/* ---- the device ---- */

static struct ibv_context *open_device(void)
{
    const char *wanted = getenv("VERBS_DEVICE");
    struct ibv_device **list = ibv_get_device_list(NULL);
    if (!list)
        die("list of RDMA devices");
    struct ibv_device **device = list;
    while (*device && wanted && strcmp(ibv_get_device_name(*device), wanted))
        device++;
    if (!*device) {
        errno = ENODEV;
        die(wanted ? wanted : "no RDMA device");
    }
    struct ibv_context *context = ibv_open_device(*device);
    if (!context)
        die("ibv_open_device");
    ibv_free_device_list(list);
    return context;
}

static bool on_ethernet(const struct pair *pair)
{
    return pair->port.link_layer == IBV_LINK_LAYER_ETHERNET;
}

/* The first GID of the kind that the link speaks: of RoCE v2 on Ethernet. */
static void find_gid(struct pair *pair)
{
    enum ibv_gid_type wanted = on_ethernet(pair) ? IBV_GID_TYPE_ROCE_V2 : IBV_GID_TYPE_IB;
    for (int index = 0; index < pair->port.gid_tbl_len; index++) {
        struct ibv_gid_entry entry;
        if (ibv_query_gid_ex(pair->context, PORT, index, &entry, 0) || entry.gid_type != wanted)
            continue; /* an empty place of the table, or another kind */
        pair->gid = entry.gid;
        pair->gid_index = index;
        return;
    }
    errno = ENOENT;
    die(on_ethernet(pair) ? "GID of RoCE v2" : "GID of InfiniBand");
}

struct pair pair_open(const char *program, int argc, char **argv)
{
    if (argc > 2) {
        fprintf(stderr, "usage: %s [HOST]\n", program);
        exit(1);
    }
    setvbuf(stdout, NULL, _IOLBF, 0);

    struct pair pair = {.program = program, .server = argc == 1, .context = open_device()};
    pair.pd = ibv_alloc_pd(pair.context);
    if (!pair.pd)
        die("ibv_alloc_pd");
    check(ibv_query_device(pair.context, &pair.device), "ibv_query_device");
    check(ibv_query_port(pair.context, PORT, &pair.port), "ibv_query_port");
    find_gid(&pair);

    pair.socket = pair.server ? accept_client() : connect_to_server(argv[1]);
    int yes = 1; /* small messages in both directions: none may wait for more to come */
    setsockopt(pair.socket, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes);
    return pair;
}

void pair_close(struct pair *pair)
{
    close(pair->socket);
    check(ibv_dealloc_pd(pair->pd), "ibv_dealloc_pd");
    check(ibv_close_device(pair->context), "ibv_close_device");
    printf("%s: %s done\n", pair->program, pair->server ? "server" : "client");
}

/* ---- queue pairs ---- */

/* The first packet's number. Real programs draw it, so that packets of an old connection are not taken for new ones. */
static uint32_t first_psn(const struct pair *pair)
{
    return pair->server ? 0x100 : 0x200;
}

struct ibv_qp *pair_create_qp(const struct pair *pair, enum ibv_qp_type type, struct ibv_cq *cq, struct ibv_srq *srq)
{
    struct ibv_qp_init_attr attr = {
        .qp_type = type,
        .send_cq = cq,
        .recv_cq = cq,
        .srq = srq,
        .cap = {.max_send_wr = QUEUE_DEPTH, .max_recv_wr = QUEUE_DEPTH, .max_send_sge = 2, .max_recv_sge = 1},
    };
    struct ibv_qp *qp = ibv_create_qp(pair->pd, &attr);
    if (!qp)
        die("ibv_create_qp");
    return qp;
}

/* To network byte order, or back. */
static struct end swapped(struct end end)
{
    end.address = htobe64(end.address);
    end.rkey = htobe32(end.rkey);
    end.qpn = htobe32(end.qpn);
    end.psn = htobe32(end.psn);
    end.lid = htobe16(end.lid);
    end.mtu = htobe16(end.mtu);
    return end;
}

struct end pair_exchange(const struct pair *pair, const struct ibv_qp *qp, const struct ibv_mr *mr)
{
    _Static_assert(sizeof(struct end) == 40, "both ends must agree on the layout");
    struct end mine = swapped((struct end){
        .gid = pair->gid,
        .address = mr ? (uintptr_t)mr->addr : 0,
        .rkey = mr ? mr->rkey : 0,
        .qpn = qp->qp_num,
        .psn = first_psn(pair),
        .lid = pair->port.lid,
        .mtu = pair->port.active_mtu,
    });
    struct end theirs;
    tell(pair, &mine, sizeof mine);
    hear(pair, &theirs, sizeof theirs);
    return swapped(theirs);
}

struct ibv_ah_attr pair_path(const struct pair *pair, const struct end *to)
{
    return (struct ibv_ah_attr){
        .port_num = PORT,
        .dlid = to->lid,
        .is_global = on_ethernet(pair),
        .grh = {.dgid = to->gid, .sgid_index = pair->gid_index, .hop_limit = 64},
    };
}

static void to_init(const struct pair *pair, struct ibv_qp *qp)
{
    struct ibv_qp_attr attr = {.qp_state = IBV_QPS_INIT, .port_num = PORT, .pkey_index = 0, .qkey = QKEY};
    if (qp->qp_type != IBV_QPT_UD)
        attr.qp_access_flags |= IBV_ACCESS_REMOTE_WRITE;
    if (qp->qp_type == IBV_QPT_RC)
        attr.qp_access_flags |= IBV_ACCESS_REMOTE_READ;
    if (qp->qp_type == IBV_QPT_RC && pair->device.atomic_cap != IBV_ATOMIC_NONE)
        attr.qp_access_flags |= IBV_ACCESS_REMOTE_ATOMIC;
    int mask = IBV_QP_STATE | IBV_QP_PORT | IBV_QP_PKEY_INDEX;
    mask |= qp->qp_type == IBV_QPT_UD ? IBV_QP_QKEY : IBV_QP_ACCESS_FLAGS;
    check(ibv_modify_qp(qp, &attr, mask), "ibv_modify_qp to INIT");
}

/* Ready to receive: from here on packets of the peer are taken. */
static void to_rtr(const struct pair *pair, struct ibv_qp *qp, const struct end *peer)
{
    struct ibv_qp_attr attr = {.qp_state = IBV_QPS_RTR};
    int mask = IBV_QP_STATE;
    if (qp->qp_type != IBV_QPT_UD) {
        attr.ah_attr = pair_path(pair, peer);
        attr.path_mtu = peer->mtu < pair->port.active_mtu ? peer->mtu : pair->port.active_mtu;
        attr.dest_qp_num = peer->qpn;
        attr.rq_psn = peer->psn;
        mask |= IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN;
    }
    if (qp->qp_type == IBV_QPT_RC) {
        attr.max_dest_rd_atomic = 1;
        attr.min_rnr_timer = 12; /* code for 0.64 ms: how long a sender waits that found no receive posted */
        mask |= IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER;
    }
    check(ibv_modify_qp(qp, &attr, mask), "ibv_modify_qp to RTR");
}

/* Ready to send. What only RC has is about repeating what was not acknowledged. */
static void to_rts(const struct pair *pair, struct ibv_qp *qp)
{
    struct ibv_qp_attr attr = {.qp_state = IBV_QPS_RTS, .sq_psn = first_psn(pair)};
    int mask = IBV_QP_STATE | IBV_QP_SQ_PSN;
    if (qp->qp_type == IBV_QPT_RC) {
        attr.timeout = 14; /* exponent: 4.096 us * 2^14 = 67 ms */
        attr.retry_cnt = 7;
        attr.rnr_retry = 7; /* code for without end */
        attr.max_rd_atomic = 1;
        mask |= IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC;
    }
    check(ibv_modify_qp(qp, &attr, mask), "ibv_modify_qp to RTS");
}

void pair_connect(const struct pair *pair, struct ibv_qp *qp, const struct end *peer)
{
    to_init(pair, qp);
    to_rtr(pair, qp, peer);
    to_rts(pair, qp);
}

/* ---- work ---- */

struct ibv_sge slice(const struct ibv_mr *mr, size_t offset, size_t length)
{
    return (struct ibv_sge){.addr = (uintptr_t)mr->addr + offset, .length = length, .lkey = mr->lkey};
}

void post_receive(struct ibv_qp *qp, struct ibv_sge into, uint64_t wr_id)
{
    struct ibv_recv_wr wr = {.wr_id = wr_id, .sg_list = &into, .num_sge = into.length ? 1 : 0}, *bad;
    check(ibv_post_recv(qp, &wr, &bad), "ibv_post_recv");
}

void post_send(struct ibv_qp *qp, struct ibv_send_wr *wr)
{
    struct ibv_send_wr *bad;
    check(ibv_post_send(qp, wr, &bad), "ibv_post_send");
}

struct ibv_wc wait_any(struct ibv_cq *cq)
{
    struct ibv_wc wc;
    int found;
    do
        found = ibv_poll_cq(cq, 1, &wc);
    while (found == 0);
    if (found < 0) {
        errno = EIO;
        die("ibv_poll_cq");
    }
    return wc;
}

struct ibv_wc wait_good(struct ibv_cq *cq)
{
    struct ibv_wc wc = wait_any(cq);
    if (wc.status != IBV_WC_SUCCESS) {
        fprintf(stderr, "completion: %s\n", ibv_wc_status_str(wc.status));
        exit(1);
    }
    return wc;
}
