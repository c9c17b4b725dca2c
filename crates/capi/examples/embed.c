/* What another simulator asks: a message, an all-reduce over sizes, an incast. See docs/embed.md. */
#include <fabriscope.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

static void check(fabriscope_status status, char **error)
{
    if (status != FABRISCOPE_OK) {
        fprintf(stderr, "%s\n", *error);
        fabriscope_text_free(*error);
        exit(EXIT_FAILURE);
    }
}

static fabriscope_cluster *opened(const char *target)
{
    fabriscope_cluster *cluster;
    char *error;
    check(fabriscope_cluster_open(target, &cluster, &error), &error);
    printf("%s: %" PRIu32 " nodes of %" PRIu32 " cores\n", target, fabriscope_nodes(cluster),
           fabriscope_cores_per_node(cluster));
    return cluster;
}

int main(void)
{
    char *error;
    uint64_t time;
    if (fabriscope_abi_version() != FABRISCOPE_ABI_VERSION) {
        fprintf(stderr, "the library has another interface than its header\n");
        return EXIT_FAILURE;
    }

    fabriscope_cluster *cluster = opened("azure-hc44rs");
    static const char *const operations[] = {"write", "send", "read"};
    for (int operation = FABRISCOPE_WRITE; operation <= FABRISCOPE_READ; operation++) {
        check(fabriscope_message_ps(cluster, 0, 9, 4096, (fabriscope_operation)operation, &time, &error), &error);
        printf("%-5s of 4096 B from node 0 to node 9 %12" PRIu64 " ps\n", operations[operation], time);
    }
    for (uint64_t bytes = 8; bytes <= 32768; bytes *= 16) {
        check(fabriscope_collective_ps(cluster, FABRISCOPE_ALLREDUCE, FABRISCOPE_MPI, 8, 2, bytes, FABRISCOPE_AUTO, &time,
                                       &error),
              &error);
        printf("all-reduce of %5" PRIu64 " B among 8 x 2 ranks %12" PRIu64 " ps\n", bytes, time);
    }

    fabriscope_flow flows[8];
    uint64_t packets[8], rates[8];
    for (uint32_t sender = 0; sender < 8; sender++)
        flows[sender] = (fabriscope_flow){.from = sender + 1, .bytes = 65536, .start_ps = sender * UINT64_C(1000000)};
    fabriscope_order order = FABRISCOPE_ADAPTER_ORDER;
    check(fabriscope_flows_run(cluster, flows, 8, FABRISCOPE_PACKET, order, 1, packets, &error), &error);
    check(fabriscope_flows_run(cluster, flows, 8, FABRISCOPE_FLOW, order, 1, rates, &error), &error);
    printf("incast of 65536 B each: from, start, done by packets, done by rates (ps)\n");
    for (size_t i = 0; i < 8; i++)
        printf("%4" PRIu32 " %12" PRIu64 " %12" PRIu64 " %12" PRIu64 "\n", flows[i].from, flows[i].start_ps, packets[i],
               rates[i]);
    fabriscope_cluster_free(cluster);
    return EXIT_SUCCESS;
}
