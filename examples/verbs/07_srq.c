/* A shared receive queue: four queue pairs of the server take their receives from one pool.
 *
 * Without it each queue pair needs receives of its own for the worst case; with it the pool follows the sum. Which
 * queue pair takes which receive is decided when messages come; the completion names the queue pair.
 */
#include "pair.h"

#include <stdio.h>

enum { QPS = 4, TEXT = 64 };
static const int ORDER[QPS] = {2, 0, 3, 1}; /* in which the client uses its queue pairs */
static char buffer[QPS][TEXT];

static struct ibv_srq *create_srq(const struct pair *pair, const struct ibv_mr *mr)
{
    struct ibv_srq_init_attr attr = {.attr = {.max_wr = QUEUE_DEPTH, .max_sge = 1}};
    struct ibv_srq *srq = ibv_create_srq(pair->pd, &attr);
    if (!srq)
        die("ibv_create_srq");
    for (int i = 0; i < QPS; i++) {
        struct ibv_sge into = slice(mr, i * TEXT, TEXT);
        struct ibv_recv_wr wr = {.wr_id = i, .sg_list = &into, .num_sge = 1}, *bad;
        check(ibv_post_srq_recv(srq, &wr, &bad), "ibv_post_srq_recv");
    }
    return srq;
}

static void server(struct ibv_cq *cq, struct ibv_qp **qps)
{
    for (int i = 0; i < QPS; i++) {
        struct ibv_wc wc = wait_good(cq);
        int from = 0;
        while (from < QPS && qps[from]->qp_num != wc.qp_num)
            from++;
        printf("receive %d was taken by queue pair %d: \"%s\"\n", (int)wc.wr_id, from, buffer[wc.wr_id]);
    }
}

static void client(struct ibv_cq *cq, struct ibv_qp **qps, const struct ibv_mr *mr)
{
    for (int i = 0; i < QPS; i++) {
        snprintf(buffer[0], TEXT, "message %d, sent on %d", i, ORDER[i]);
        struct ibv_sge what = slice(mr, 0, strlen(buffer[0]) + 1);
        struct ibv_send_wr wr = {
            .sg_list = &what,
            .num_sge = 1,
            .opcode = IBV_WR_SEND,
            .send_flags = IBV_SEND_SIGNALED,
        };
        post_send(qps[ORDER[i]], &wr);
        wait_good(cq); /* there is no order between queue pairs but this one */
        printf("\"%s\"\n", buffer[0]);
    }
}

int main(int argc, char **argv)
{
    struct pair pair = pair_open("07_srq", argc, argv);
    struct ibv_mr *mr = ibv_reg_mr(pair.pd, buffer, sizeof buffer, IBV_ACCESS_LOCAL_WRITE);
    if (!mr)
        die("ibv_reg_mr");
    struct ibv_cq *cq = ibv_create_cq(pair.context, QUEUE_DEPTH, NULL, NULL, 0);
    if (!cq)
        die("ibv_create_cq");
    struct ibv_srq *srq = pair.server ? create_srq(&pair, mr) : NULL;
    struct ibv_qp *qps[QPS];
    for (int i = 0; i < QPS; i++) {
        qps[i] = pair_create_qp(&pair, IBV_QPT_RC, cq, srq);
        struct end peer = pair_exchange(&pair, qps[i], NULL);
        pair_connect(&pair, qps[i], &peer);
    }

    pair_barrier(&pair);
    if (pair.server)
        server(cq, qps);
    else
        client(cq, qps, mr);

    pair_barrier(&pair);
    for (int i = 0; i < QPS; i++)
        check(ibv_destroy_qp(qps[i]), "ibv_destroy_qp");
    if (srq)
        check(ibv_destroy_srq(srq), "ibv_destroy_srq"); /* after its queue pairs */
    check(ibv_destroy_cq(cq), "ibv_destroy_cq");
    check(ibv_dereg_mr(mr), "ibv_dereg_mr");
    pair_close(&pair);
    return 0;
}
