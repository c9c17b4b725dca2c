/* RDMA READ: the client fetches data from the server's memory. The server's program only says where it is.
 *
 * The data of one read may go to several places: the list of slices scatters it.
 */
#include "pair.h"

#include <stdio.h>

enum { TEXT = 64 };
static char buffer[TEXT];
static const char CONTENT[] = "rack 7, slot 3";

static void read_into(struct ibv_qp *qp, struct ibv_sge *places, int count, uint64_t from, uint32_t rkey)
{
    struct ibv_send_wr wr = {
        .sg_list = places,
        .num_sge = count,
        .opcode = IBV_WR_RDMA_READ,
        .send_flags = IBV_SEND_SIGNALED,
        .wr.rdma = {.remote_addr = from, .rkey = rkey},
    };
    post_send(qp, &wr);
    wait_good(qp->send_cq); /* before this the data may not be here */
}

static void client(const struct pair *pair, struct ibv_qp *qp, struct ibv_mr *mr, const struct end *peer)
{
    pair_barrier(pair); /* the server has written its text */

    struct ibv_sge whole = slice(mr, 0, sizeof CONTENT);
    read_into(qp, &whole, 1, peer->address, peer->rkey);
    printf("whole: \"%s\"\n", buffer);

    memset(buffer, 0, sizeof buffer);
    struct ibv_sge parts[] = {slice(mr, 0, strlen("rack 7")), slice(mr, TEXT / 2, strlen(", slot 3"))};
    read_into(qp, parts, 2, peer->address, peer->rkey);
    printf("scattered: \"%s\" and \"%s\"\n", buffer, buffer + TEXT / 2);

    memset(buffer, 0, sizeof buffer);
    struct ibv_sge part = slice(mr, 0, strlen("slot 3"));
    read_into(qp, &part, 1, peer->address + strlen("rack 7, "), peer->rkey);
    printf("from its middle: \"%s\"\n", buffer);
}

/* Its program sleeps in the second barrier while its device answers the reads. */
static void server(const struct pair *pair)
{
    memcpy(buffer, CONTENT, sizeof CONTENT);
    printf("offers \"%s\"\n", buffer);
    pair_barrier(pair);
}

int main(int argc, char **argv)
{
    struct pair pair = pair_open("05_read", argc, argv);
    /* LOCAL_WRITE for the client, whose device writes what it read; REMOTE_READ for the server. */
    struct ibv_mr *mr = ibv_reg_mr(pair.pd, buffer, sizeof buffer, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ);
    if (!mr)
        die("ibv_reg_mr");
    struct ibv_cq *cq = ibv_create_cq(pair.context, QUEUE_DEPTH, NULL, NULL, 0);
    if (!cq)
        die("ibv_create_cq");
    struct ibv_qp *qp = pair_create_qp(&pair, IBV_QPT_RC, cq, NULL);
    struct end peer = pair_exchange(&pair, qp, mr);
    pair_connect(&pair, qp, &peer);

    if (pair.server)
        server(&pair);
    else
        client(&pair, qp, mr, &peer);

    pair_barrier(&pair);
    struct ibv_wc wc;
    if (pair.server)
        printf("completions here: %d\n", ibv_poll_cq(cq, 1, &wc));
    check(ibv_destroy_qp(qp), "ibv_destroy_qp");
    check(ibv_destroy_cq(cq), "ibv_destroy_cq");
    check(ibv_dereg_mr(mr), "ibv_dereg_mr");
    pair_close(&pair);
    return 0;
}
