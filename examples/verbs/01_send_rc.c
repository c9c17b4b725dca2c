/* The smallest conversation: the client sends a text, the server receives it. RC: reliable, connected.
 *
 * This one spells every verb out; the later programs use the short forms in pair.h.
 */
#include "pair.h"

#include <stdio.h>

static char buffer[64];

/* A receive says where a message may go. It must be there before the message is. */
static void server(const struct pair *pair, struct ibv_qp *qp, struct ibv_mr *mr)
{
    struct ibv_sge where = {.addr = (uintptr_t)buffer, .length = sizeof buffer, .lkey = mr->lkey};
    struct ibv_recv_wr wr = {.wr_id = 1, .sg_list = &where, .num_sge = 1}, *bad;
    check(ibv_post_recv(qp, &wr, &bad), "ibv_post_recv");
    pair_barrier(pair); /* the client may send now */

    struct ibv_wc wc;
    int found;
    while ((found = ibv_poll_cq(qp->recv_cq, 1, &wc)) == 0) {
    }
    if (found < 0 || wc.status != IBV_WC_SUCCESS) {
        errno = EIO;
        die("receive");
    }
    printf("receive %d completed with %u bytes: \"%s\"\n", (int)wc.wr_id, wc.byte_len, buffer);
}

/* A send that completes with success has been acknowledged by the other end's device. */
static void client(const struct pair *pair, struct ibv_qp *qp, struct ibv_mr *mr)
{
    snprintf(buffer, sizeof buffer, "hello over RC");
    struct ibv_sge what = {.addr = (uintptr_t)buffer, .length = strlen(buffer) + 1, .lkey = mr->lkey};
    struct ibv_send_wr wr = {
        .wr_id = 2,
        .sg_list = &what,
        .num_sge = 1,
        .opcode = IBV_WR_SEND,
        .send_flags = IBV_SEND_SIGNALED, /* without it, success leaves no completion */
    }, *bad;
    pair_barrier(pair);
    check(ibv_post_send(qp, &wr, &bad), "ibv_post_send");

    struct ibv_wc wc;
    int found;
    while ((found = ibv_poll_cq(qp->send_cq, 1, &wc)) == 0) {
    }
    if (found < 0 || wc.status != IBV_WC_SUCCESS) {
        errno = EIO;
        die("send");
    }
    printf("send %d completed: \"%s\"\n", (int)wc.wr_id, buffer);
}

int main(int argc, char **argv)
{
    struct pair pair = pair_open("01_send_rc", argc, argv);
    /* Only registered memory can be named in a work request. LOCAL_WRITE: the device may write received data here. */
    struct ibv_mr *mr = ibv_reg_mr(pair.pd, buffer, sizeof buffer, IBV_ACCESS_LOCAL_WRITE);
    if (!mr)
        die("ibv_reg_mr");
    struct ibv_cq *cq = ibv_create_cq(pair.context, QUEUE_DEPTH, NULL, NULL, 0);
    if (!cq)
        die("ibv_create_cq");
    struct ibv_qp *qp = pair_create_qp(&pair, IBV_QPT_RC, cq, NULL);
    struct end peer = pair_exchange(&pair, qp, NULL);
    pair_connect(&pair, qp, &peer);

    if (pair.server)
        server(&pair, qp, mr);
    else
        client(&pair, qp, mr);

    pair_barrier(&pair); /* neither end leaves while the other still needs it */
    check(ibv_destroy_qp(qp), "ibv_destroy_qp");
    check(ibv_destroy_cq(cq), "ibv_destroy_cq");
    check(ibv_dereg_mr(mr), "ibv_dereg_mr");
    pair_close(&pair);
    return 0;
}
