/* The same over UC: connected, but nothing is acknowledged or repeated.
 *
 * Messages may still be longer than a packet, and those that arrive do so in order. A message of which a packet is
 * lost, or for which no receive is posted, is dropped as a whole, and neither end is told.
 */
#include "pair.h"

#include <stdio.h>

enum { MESSAGES = 3, LONGEST = 10000 }; /* B: three packets at the largest MTU, 4096 B */
static const uint32_t LENGTHS[MESSAGES] = {1, 5000, LONGEST}; /* B */
static unsigned char buffer[MESSAGES][LONGEST];

static unsigned char pattern(int message, uint32_t at)
{
    return (at + message) % 251;
}

static void server(const struct pair *pair, struct ibv_qp *qp, struct ibv_mr *mr)
{
    for (int i = 0; i < MESSAGES; i++)
        post_receive(qp, slice(mr, i * sizeof buffer[0], LONGEST), i);
    pair_barrier(pair); /* on UC this is not politeness: an earlier message would be lost */

    for (int i = 0; i < MESSAGES; i++) {
        struct ibv_wc wc = wait_good(qp->recv_cq);
        uint32_t same = 0;
        while (same < wc.byte_len && buffer[wc.wr_id][same] == pattern(i, same))
            same++;
        printf("message %d: %u bytes, %u as sent\n", i, wc.byte_len, same);
    }
}

static void client(const struct pair *pair, struct ibv_qp *qp, struct ibv_mr *mr)
{
    pair_barrier(pair);
    for (int i = 0; i < MESSAGES; i++) {
        for (uint32_t at = 0; at < LENGTHS[i]; at++)
            buffer[i][at] = pattern(i, at);
        struct ibv_sge what = slice(mr, i * sizeof buffer[0], LENGTHS[i]);
        struct ibv_send_wr wr = {
            .wr_id = i,
            .sg_list = &what,
            .num_sge = 1,
            .opcode = IBV_WR_SEND,
            .send_flags = IBV_SEND_SIGNALED,
        };
        post_send(qp, &wr);
    }
    /* Success says that the device has sent the message, not that anybody received it. */
    for (int i = 0; i < MESSAGES; i++) {
        struct ibv_wc wc = wait_good(qp->send_cq);
        printf("message %d has left: %u bytes\n", (int)wc.wr_id, LENGTHS[wc.wr_id]);
    }
}

int main(int argc, char **argv)
{
    struct pair pair = pair_open("02_send_uc", argc, argv);
    struct ibv_mr *mr = ibv_reg_mr(pair.pd, buffer, sizeof buffer, IBV_ACCESS_LOCAL_WRITE);
    if (!mr)
        die("ibv_reg_mr");
    struct ibv_cq *cq = ibv_create_cq(pair.context, QUEUE_DEPTH, NULL, NULL, 0);
    if (!cq)
        die("ibv_create_cq");
    struct ibv_qp *qp = pair_create_qp(&pair, IBV_QPT_UC, cq, NULL);
    struct end peer = pair_exchange(&pair, qp, NULL);
    pair_connect(&pair, qp, &peer);

    if (pair.server)
        server(&pair, qp, mr);
    else
        client(&pair, qp, mr);

    pair_barrier(&pair);
    check(ibv_destroy_qp(qp), "ibv_destroy_qp");
    check(ibv_destroy_cq(cq), "ibv_destroy_cq");
    check(ibv_dereg_mr(mr), "ibv_dereg_mr");
    pair_close(&pair);
    return 0;
}
