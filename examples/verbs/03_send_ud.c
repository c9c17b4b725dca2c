/* Datagrams: one UD queue pair can talk to every other one, so each send names its destination.
 *
 * The destination is an address handle (the way to the port), a queue pair number and a Q_Key. A datagram fits one
 * packet. The receiver finds 40 bytes for the global route header (GRH) before the payload, used or not.
 */
#include "pair.h"

#include <stdio.h>

enum { TEXT = 64 };
static char incoming[GRH_SIZE + TEXT];
static char outgoing[TEXT];
static struct ibv_mr *incoming_mr, *outgoing_mr;

/* Not signaled: the answer says more than a completion, and the completion queue holds receives only. */
static void send_text(struct ibv_qp *qp, struct ibv_ah *ah, uint32_t qpn, const char *text)
{
    snprintf(outgoing, sizeof outgoing, "%s", text);
    struct ibv_sge what = slice(outgoing_mr, 0, strlen(outgoing) + 1);
    struct ibv_send_wr wr = {
        .sg_list = &what,
        .num_sge = 1,
        .opcode = IBV_WR_SEND,
        .wr.ud = {.ah = ah, .remote_qpn = qpn, .remote_qkey = QKEY}, /* a wrong Q_Key: dropped in silence */
    };
    post_send(qp, &wr);
}

static uint32_t receive_text(struct ibv_qp *qp)
{
    struct ibv_wc wc = wait_good(qp->recv_cq);
    printf("%u bytes: %d for the GRH (%s), then \"%s\"\n", wc.byte_len, GRH_SIZE,
           wc.wc_flags & IBV_WC_GRH ? "filled" : "unused", incoming + GRH_SIZE);
    return wc.src_qp;
}

int main(int argc, char **argv)
{
    struct pair pair = pair_open("03_send_ud", argc, argv);
    incoming_mr = ibv_reg_mr(pair.pd, incoming, sizeof incoming, IBV_ACCESS_LOCAL_WRITE);
    outgoing_mr = ibv_reg_mr(pair.pd, outgoing, sizeof outgoing, 0);
    if (!incoming_mr || !outgoing_mr)
        die("ibv_reg_mr");
    struct ibv_cq *cq = ibv_create_cq(pair.context, QUEUE_DEPTH, NULL, NULL, 0);
    if (!cq)
        die("ibv_create_cq");
    struct ibv_qp *qp = pair_create_qp(&pair, IBV_QPT_UD, cq, NULL);
    struct end peer = pair_exchange(&pair, qp, NULL);
    pair_connect(&pair, qp, NULL);

    struct ibv_ah_attr path = pair_path(&pair, &peer);
    path.is_global = 1; /* a GRH on InfiniBand too, where it is left out within a subnet */
    struct ibv_ah *ah = ibv_create_ah(pair.pd, &path);
    if (!ah)
        die("ibv_create_ah");
    post_receive(qp, slice(incoming_mr, 0, sizeof incoming), 0);
    pair_barrier(&pair);

    if (pair.server) {
        uint32_t source = receive_text(qp);
        printf("from QP %u, %s\n", source, source == peer.qpn ? "the client's" : "a stranger's");
        send_text(qp, ah, source, "hello to whoever asked");
    } else {
        send_text(qp, ah, peer.qpn, "hello over UD");
        receive_text(qp);
    }

    pair_barrier(&pair);
    check(ibv_destroy_ah(ah), "ibv_destroy_ah");
    check(ibv_destroy_qp(qp), "ibv_destroy_qp");
    check(ibv_destroy_cq(cq), "ibv_destroy_cq");
    check(ibv_dereg_mr(outgoing_mr), "ibv_dereg_mr");
    check(ibv_dereg_mr(incoming_mr), "ibv_dereg_mr");
    pair_close(&pair);
    return 0;
}
