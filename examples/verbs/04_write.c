/* RDMA WRITE: the client puts data into the server's memory, and the server's program takes no part.
 *
 * It takes none, so it does not notice either. Two ways to tell it: a SEND that follows the write on the same queue
 * pair (RC keeps the order), or WRITE_WITH_IMM, which also completes a receive and brings it 32 bits.
 */
#include "pair.h"

#include <arpa/inet.h>
#include <stdio.h>

enum { TEXT = 64, IMMEDIATE = 42 };
static char buffer[2][TEXT]; /* one text for each way */

static void server(const struct pair *pair, struct ibv_qp *qp, struct ibv_mr *mr)
{
    /* Neither message brings data of its own, so these receives need no buffer. */
    post_receive(qp, slice(mr, 0, 0), 0);
    post_receive(qp, slice(mr, 0, 0), 1);
    pair_barrier(pair);

    struct ibv_wc wc = wait_good(qp->recv_cq);
    printf("told by %s: \"%s\"\n", wc.opcode == IBV_WC_RECV ? "SEND" : "something else", buffer[0]);

    wc = wait_good(qp->recv_cq);
    printf("told by %s: \"%s\", %u bytes written, immediate %u\n",
           wc.opcode == IBV_WC_RECV_RDMA_WITH_IMM ? "WRITE_WITH_IMM" : "something else", buffer[1], wc.byte_len,
           wc.wc_flags & IBV_WC_WITH_IMM ? ntohl(wc.imm_data) : 0);
}

static void client(const struct pair *pair, struct ibv_qp *qp, struct ibv_mr *mr, const struct end *peer)
{
    int lengths[2] = {
        snprintf(buffer[0], TEXT, "put here by a write") + 1,
        snprintf(buffer[1], TEXT, "and this by a second one") + 1,
    };
    struct ibv_sge first = slice(mr, 0, lengths[0]);
    struct ibv_sge second = slice(mr, TEXT, lengths[1]);

    struct ibv_send_wr send = {.wr_id = 1, .opcode = IBV_WR_SEND, .send_flags = IBV_SEND_SIGNALED};
    struct ibv_send_wr write = {
        .wr_id = 0, /* not signaled: once the send behind it completes, so has the write */
        .next = &send,
        .sg_list = &first,
        .num_sge = 1,
        .opcode = IBV_WR_RDMA_WRITE,
        .wr.rdma = {.remote_addr = peer->address, .rkey = peer->rkey},
    };
    struct ibv_send_wr write_with_imm = {
        .wr_id = 2,
        .sg_list = &second,
        .num_sge = 1,
        .opcode = IBV_WR_RDMA_WRITE_WITH_IMM,
        .send_flags = IBV_SEND_SIGNALED,
        .imm_data = htonl(IMMEDIATE),
        .wr.rdma = {.remote_addr = peer->address + TEXT, .rkey = peer->rkey},
    };
    pair_barrier(pair);
    post_send(qp, &write);
    printf("completed: request %d, the send behind the write\n", (int)wait_good(qp->send_cq).wr_id);
    post_send(qp, &write_with_imm);
    printf("completed: request %d, the write with immediate\n", (int)wait_good(qp->send_cq).wr_id);
}

int main(int argc, char **argv)
{
    struct pair pair = pair_open("04_write", argc, argv);
    /* REMOTE_WRITE opens the region to those who know its rkey, and needs LOCAL_WRITE beside it. */
    struct ibv_mr *mr = ibv_reg_mr(pair.pd, buffer, sizeof buffer, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
    if (!mr)
        die("ibv_reg_mr");
    struct ibv_cq *cq = ibv_create_cq(pair.context, QUEUE_DEPTH, NULL, NULL, 0);
    if (!cq)
        die("ibv_create_cq");
    struct ibv_qp *qp = pair_create_qp(&pair, IBV_QPT_RC, cq, NULL);
    struct end peer = pair_exchange(&pair, qp, mr);
    pair_connect(&pair, qp, &peer);

    if (pair.server)
        server(&pair, qp, mr);
    else
        client(&pair, qp, mr, &peer);

    pair_barrier(&pair);
    check(ibv_destroy_qp(qp), "ibv_destroy_qp");
    check(ibv_destroy_cq(cq), "ibv_destroy_cq");
    check(ibv_dereg_mr(mr), "ibv_dereg_mr");
    pair_close(&pair);
    return 0;
}
