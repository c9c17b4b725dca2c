/* What protects memory: four writes that must fail, each with another request behind it.
 *
 * A failed request moves its queue pair to ERR, and what is behind it is flushed: it completes with an error and has
 * had no effect. So each case gets a new queue pair. A refusal by the server's device also breaks the server's queue
 * pair; a mistake that the client's own device finds does not.
 */
#include "pair.h"

#include <stdio.h>

enum fault { WRONG_RKEY, WRONG_LKEY, PAST_THE_END, READ_ONLY, FAULTS };
static const char *const NAMES[FAULTS] = {"wrong rkey", "wrong lkey", "past the end", "read-only region"};

enum { SIZE = 32, LENGTH = 8 }; /* B, of a region and of a write */
static char writable[SIZE], read_only[SIZE];

static const char *state_name(struct ibv_qp *qp)
{
    static const char *const STATES[] = {"RESET", "INIT", "RTR", "RTS", "SQD", "SQE", "ERR"};
    struct ibv_qp_attr attr;
    struct ibv_qp_init_attr init;
    check(ibv_query_qp(qp, &attr, IBV_QP_STATE, &init), "ibv_query_qp");
    return attr.qp_state <= IBV_QPS_ERR ? STATES[attr.qp_state] : "unknown";
}

static void client(struct ibv_qp *qp, enum fault fault, const struct ibv_mr *mr, const struct end *peer)
{
    struct ibv_sge source = slice(mr, 0, LENGTH), bad_source = source;
    struct ibv_send_wr behind = {
        .wr_id = 2,
        .sg_list = &source,
        .num_sge = 1,
        .opcode = IBV_WR_RDMA_WRITE,
        .send_flags = IBV_SEND_SIGNALED,
        .wr.rdma = {.remote_addr = peer->address, .rkey = peer->rkey},
    };
    struct ibv_send_wr bad = behind;
    bad.wr_id = 1;
    bad.sg_list = &bad_source;
    bad.next = &behind;
    if (fault == WRONG_RKEY)
        bad.wr.rdma.rkey = ~peer->rkey;
    if (fault == WRONG_LKEY)
        bad_source.lkey = ~mr->lkey;
    if (fault == PAST_THE_END)
        bad.wr.rdma.remote_addr += SIZE - LENGTH + 1; /* the last byte is outside */

    post_send(qp, &bad); /* accepted: keys are checked when the device carries the request out */
    for (int i = 0; i < 2; i++) {
        struct ibv_wc wc = wait_any(qp->send_cq); /* of a bad one only wr_id, status and qp_num are valid */
        printf("%s: request %d: %s\n", NAMES[fault], (int)wc.wr_id, ibv_wc_status_str(wc.status));
    }
    printf("%s: queue pair is in %s\n", NAMES[fault], state_name(qp));
}

int main(int argc, char **argv)
{
    struct pair pair = pair_open("10_wrong_keys", argc, argv);
    memset(writable, pair.server ? '-' : 'X', SIZE); /* an X at the server would be a write that got through */
    memset(read_only, '-', SIZE);
    struct ibv_mr *open_mr = ibv_reg_mr(pair.pd, writable, SIZE, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
    struct ibv_mr *closed_mr = ibv_reg_mr(pair.pd, read_only, SIZE, IBV_ACCESS_REMOTE_READ);
    if (!open_mr || !closed_mr)
        die("ibv_reg_mr");
    struct ibv_cq *cq = ibv_create_cq(pair.context, QUEUE_DEPTH, NULL, NULL, 0);
    if (!cq)
        die("ibv_create_cq");

    for (enum fault fault = 0; fault < FAULTS; fault++) {
        struct ibv_mr *mr = fault == READ_ONLY ? closed_mr : open_mr;
        struct ibv_qp *qp = pair_create_qp(&pair, IBV_QPT_RC, cq, NULL);
        struct end peer = pair_exchange(&pair, qp, mr);
        pair_connect(&pair, qp, &peer);
        pair_barrier(&pair);
        if (!pair.server)
            client(qp, fault, mr, &peer);
        pair_barrier(&pair);
        if (pair.server)
            printf("%s: queue pair is in %s\n", NAMES[fault], state_name(qp));
        check(ibv_destroy_qp(qp), "ibv_destroy_qp");
    }
    if (pair.server)
        printf("memory: %.*s %.*s\n", SIZE, writable, SIZE, read_only);

    check(ibv_destroy_cq(cq), "ibv_destroy_cq");
    check(ibv_dereg_mr(closed_mr), "ibv_dereg_mr");
    check(ibv_dereg_mr(open_mr), "ibv_dereg_mr");
    pair_close(&pair);
    return 0;
}
