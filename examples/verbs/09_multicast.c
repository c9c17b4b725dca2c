/* Multicast: the client sends one datagram to a group, and every queue pair attached to the group gets a copy.
 *
 * Only the server is a member. The sender needs the group's address and nothing else: no attachment, and no number
 * of a queue pair. On a real fabric the group must also exist in the switches; see README.md.
 */
#include "pair.h"

#include <arpa/inet.h>
#include <stdio.h>

enum {
    TEXT = 64,
    MLID = 0xc001, /* the group's LID, from the range 0xc000 to 0xfffe; Ethernet ignores it */
    EVERY_MEMBER = 0xffffff, /* the queue pair number that stands for all attached ones */
};
static const char GROUP[] = "ff12:401b:ffff::1:2"; /* transient, link-local, partition 0xffff */

static char incoming[GRH_SIZE + TEXT];
static char outgoing[TEXT] = "to all who listen";

static struct end group(void)
{
    struct end to = {.lid = MLID};
    if (inet_pton(AF_INET6, GROUP, to.gid.raw) != 1)
        die("address of the group");
    return to;
}

static void server(const struct pair *pair, struct ibv_qp *qp)
{
    struct ibv_mr *mr = ibv_reg_mr(pair->pd, incoming, sizeof incoming, IBV_ACCESS_LOCAL_WRITE);
    if (!mr)
        die("ibv_reg_mr");
    struct end to = group();
    check(ibv_attach_mcast(qp, &to.gid, to.lid), "ibv_attach_mcast");
    post_receive(qp, slice(mr, 0, sizeof incoming), 0);
    pair_barrier(pair);

    struct ibv_wc wc = wait_good(qp->recv_cq);
    struct ibv_grh *grh = (struct ibv_grh *)incoming; /* multicast always carries one: it names the group */
    char name[INET6_ADDRSTRLEN];
    inet_ntop(AF_INET6, grh->dgid.raw, name, sizeof name);
    printf("%u bytes for %s: \"%s\"\n", wc.byte_len, name, incoming + GRH_SIZE);

    check(ibv_detach_mcast(qp, &to.gid, to.lid), "ibv_detach_mcast");
    check(ibv_dereg_mr(mr), "ibv_dereg_mr");
}

static void client(const struct pair *pair, struct ibv_qp *qp)
{
    struct ibv_mr *mr = ibv_reg_mr(pair->pd, outgoing, sizeof outgoing, 0);
    if (!mr)
        die("ibv_reg_mr");
    struct end to = group();
    struct ibv_ah_attr path = pair_path(pair, &to);
    path.is_global = 1;
    struct ibv_ah *ah = ibv_create_ah(pair->pd, &path);
    if (!ah)
        die("ibv_create_ah");
    struct ibv_sge what = slice(mr, 0, strlen(outgoing) + 1);
    struct ibv_send_wr wr = {
        .sg_list = &what,
        .num_sge = 1,
        .opcode = IBV_WR_SEND,
        .send_flags = IBV_SEND_SIGNALED,
        .wr.ud = {.ah = ah, .remote_qpn = EVERY_MEMBER, .remote_qkey = QKEY},
    };
    pair_barrier(pair); /* the server is a member now */
    post_send(qp, &wr);
    wait_good(qp->send_cq);
    printf("sent to %s: \"%s\"\n", GROUP, outgoing);
    check(ibv_destroy_ah(ah), "ibv_destroy_ah");
    check(ibv_dereg_mr(mr), "ibv_dereg_mr");
}

int main(int argc, char **argv)
{
    struct pair pair = pair_open("09_multicast", argc, argv);
    struct ibv_cq *cq = ibv_create_cq(pair.context, QUEUE_DEPTH, NULL, NULL, 0);
    if (!cq)
        die("ibv_create_cq");
    struct ibv_qp *qp = pair_create_qp(&pair, IBV_QPT_UD, cq, NULL);
    pair_connect(&pair, qp, NULL); /* nothing to exchange: the group's address is agreed */

    if (pair.server)
        server(&pair, qp);
    else
        client(&pair, qp);

    pair_barrier(&pair);
    check(ibv_destroy_qp(qp), "ibv_destroy_qp");
    check(ibv_destroy_cq(cq), "ibv_destroy_cq");
    pair_close(&pair);
    return 0;
}
