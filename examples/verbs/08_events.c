/* Sleeping instead of polling: a completion channel wakes the program when its completion queue is no longer empty.
 *
 * An armed queue gives one event, for the next completion, and is then unarmed. A completion that came before the
 * arming gives none. So: arm, then look once more, and only then sleep.
 */
#include "pair.h"

#include <stdio.h>

enum { MESSAGES = 3, TEXT = 64 };
static char buffer[MESSAGES][TEXT];

/* The next completion of `cq`; sleeps while there is none. */
static struct ibv_wc sleep_until_completion(struct ibv_cq *cq)
{
    for (;;) {
        struct ibv_wc wc;
        int found = ibv_poll_cq(cq, 1, &wc);
        if (found == 0) {
            check(ibv_req_notify_cq(cq, 0), "ibv_req_notify_cq"); /* 0: for every completion */
            found = ibv_poll_cq(cq, 1, &wc);
        }
        if (found < 0 || (found == 1 && wc.status != IBV_WC_SUCCESS)) {
            errno = EIO;
            die("completion");
        }
        if (found == 1)
            return wc;

        struct ibv_cq *from;
        void *context; /* what `ibv_create_cq` was given, to tell queues of one channel apart */
        if (ibv_get_cq_event(cq->channel, &from, &context))
            die("ibv_get_cq_event");
        ibv_ack_cq_events(from, 1); /* a queue with events not acknowledged cannot be destroyed */
    }
}

static void server(const struct pair *pair, struct ibv_qp *qp, struct ibv_mr *mr)
{
    for (int i = 0; i < MESSAGES; i++)
        post_receive(qp, slice(mr, i * TEXT, TEXT), i);
    pair_barrier(pair);
    for (int i = 0; i < MESSAGES; i++) {
        struct ibv_wc wc = sleep_until_completion(qp->recv_cq);
        printf("received \"%s\"\n", buffer[wc.wr_id]);
        pair_barrier(pair); /* the client may send the next: each finds the server asleep or about to be */
    }
}

static void client(const struct pair *pair, struct ibv_qp *qp, struct ibv_mr *mr)
{
    pair_barrier(pair);
    for (int i = 0; i < MESSAGES; i++) {
        snprintf(buffer[i], TEXT, "wake up, call %d", i + 1);
        struct ibv_sge what = slice(mr, i * TEXT, strlen(buffer[i]) + 1);
        struct ibv_send_wr wr = {
            .wr_id = i,
            .sg_list = &what,
            .num_sge = 1,
            .opcode = IBV_WR_SEND,
            .send_flags = IBV_SEND_SIGNALED,
        };
        post_send(qp, &wr);
        struct ibv_wc wc = sleep_until_completion(qp->send_cq);
        printf("sent \"%s\"\n", buffer[wc.wr_id]);
        pair_barrier(pair);
    }
}

int main(int argc, char **argv)
{
    struct pair pair = pair_open("08_events", argc, argv);
    struct ibv_mr *mr = ibv_reg_mr(pair.pd, buffer, sizeof buffer, IBV_ACCESS_LOCAL_WRITE);
    if (!mr)
        die("ibv_reg_mr");
    struct ibv_comp_channel *channel = ibv_create_comp_channel(pair.context);
    if (!channel)
        die("ibv_create_comp_channel");
    struct ibv_cq *cq = ibv_create_cq(pair.context, QUEUE_DEPTH, NULL, channel, 0);
    if (!cq)
        die("ibv_create_cq");
    struct ibv_qp *qp = pair_create_qp(&pair, IBV_QPT_RC, cq, NULL);
    struct end peer = pair_exchange(&pair, qp, NULL);
    pair_connect(&pair, qp, &peer);

    if (pair.server)
        server(&pair, qp, mr);
    else
        client(&pair, qp, mr);

    pair_barrier(&pair);
    check(ibv_destroy_qp(qp), "ibv_destroy_qp");
    check(ibv_destroy_cq(cq), "ibv_destroy_cq");
    check(ibv_destroy_comp_channel(channel), "ibv_destroy_comp_channel"); /* after its queues */
    check(ibv_dereg_mr(mr), "ibv_dereg_mr");
    pair_close(&pair);
    return 0;
}
