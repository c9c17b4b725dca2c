/* Atomics: the client changes a counter in the server's memory, and gets the value that stood there before.
 *
 * Fetch-and-add adds always. Compare-and-swap writes only if the old value is the expected one; as it completes with
 * success in both cases, the old value tells which it was. The counter has 8 bytes, at an address divisible by 8.
 */
#include "pair.h"

#include <inttypes.h>
#include <stdio.h>

static _Alignas(8) uint64_t value; /* the server's counter; at the client, where the old values come to */

struct remote {
    struct ibv_qp *qp;
    struct ibv_mr *mr;
    struct end end;
};

static uint64_t run(const struct remote *counter, struct ibv_send_wr wr)
{
    struct ibv_sge old = slice(counter->mr, 0, sizeof value);
    wr.sg_list = &old;
    wr.num_sge = 1;
    wr.send_flags = IBV_SEND_SIGNALED;
    wr.wr.atomic.remote_addr = counter->end.address;
    wr.wr.atomic.rkey = counter->end.rkey;
    post_send(counter->qp, &wr);
    wait_good(counter->qp->send_cq);
    return value;
}

static void add(const struct remote *counter, uint64_t amount)
{
    struct ibv_send_wr wr = {.opcode = IBV_WR_ATOMIC_FETCH_AND_ADD, .wr.atomic.compare_add = amount};
    uint64_t old = run(counter, wr);
    printf("add %" PRIu64 ": was %" PRIu64 "\n", amount, old);
}

static void swap(const struct remote *counter, uint64_t expected, uint64_t wanted)
{
    struct ibv_send_wr wr = {
        .opcode = IBV_WR_ATOMIC_CMP_AND_SWP,
        .wr.atomic = {.compare_add = expected, .swap = wanted},
    };
    uint64_t old = run(counter, wr);
    printf("swap %" PRIu64 " for %" PRIu64 ": was %" PRIu64 ", %s\n", expected, wanted, old,
           old == expected ? "swapped" : "left alone");
}

int main(int argc, char **argv)
{
    struct pair pair = pair_open("06_atomics", argc, argv);
    if (pair.device.atomic_cap == IBV_ATOMIC_NONE) {
        errno = EOPNOTSUPP;
        die("atomics on this device");
    }
    struct ibv_mr *mr = ibv_reg_mr(pair.pd, &value, sizeof value, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_ATOMIC);
    if (!mr)
        die("ibv_reg_mr");
    struct ibv_cq *cq = ibv_create_cq(pair.context, QUEUE_DEPTH, NULL, NULL, 0);
    if (!cq)
        die("ibv_create_cq");
    struct ibv_qp *qp = pair_create_qp(&pair, IBV_QPT_RC, cq, NULL);
    struct remote counter = {.qp = qp, .mr = mr, .end = pair_exchange(&pair, qp, mr)};
    pair_connect(&pair, qp, &counter.end);

    if (pair.server) {
        value = 5;
        printf("counter starts at %" PRIu64 "\n", value);
    }
    pair_barrier(&pair);
    if (!pair.server) {
        add(&counter, 3);
        add(&counter, 10);
        swap(&counter, 18, 100);
        swap(&counter, 18, 7);
        add(&counter, UINT64_MAX); /* wraps: the way to subtract 1 */
    }
    pair_barrier(&pair);
    if (pair.server)
        printf("counter ends at %" PRIu64 "\n", value);

    check(ibv_destroy_qp(qp), "ibv_destroy_qp");
    check(ibv_destroy_cq(cq), "ibv_destroy_cq");
    check(ibv_dereg_mr(mr), "ibv_dereg_mr");
    pair_close(&pair);
    return 0;
}
