/* How many calls a second the library answers on a cluster: `calls [CLUSTER]`. See docs/embed.md. */
#include <fabriscope.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

static double seconds(void)
{
    struct timespec now;
    timespec_get(&now, TIME_UTC);
    return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

/* The questions; `number` tells them apart. */
static fabriscope_status message(const fabriscope_cluster *cluster, uint32_t number, uint64_t *time, char **error)
{
    uint32_t nodes = fabriscope_nodes(cluster);
    return fabriscope_message_ps(cluster, 0, 1 + number % (nodes - 1), 8 + number, FABRISCOPE_WRITE, time, error);
}

static fabriscope_status of_mpi(const fabriscope_cluster *cluster, uint32_t number, uint64_t *time, char **error)
{
    uint32_t nodes = fabriscope_nodes(cluster);
    return fabriscope_message_ps(cluster, 0, 1 + number % (nodes - 1), 8 + number, FABRISCOPE_MPI_MESSAGE, time, error);
}

static fabriscope_status all_reduce(const fabriscope_cluster *cluster, uint32_t number, uint64_t *time, char **error)
{
    uint32_t nodes = fabriscope_nodes(cluster);
    return fabriscope_collective_ps(cluster, FABRISCOPE_ALLREDUCE, FABRISCOPE_MPI, nodes < 8 ? nodes : 8, 1, 8 + number,
                                    FABRISCOPE_AUTO, time, error);
}

static fabriscope_status flow(const fabriscope_cluster *cluster, uint32_t number, uint64_t *time, char **error)
{
    fabriscope_flow one = {.from = 1, .to = 0, .bytes = 4096 + number};
    return fabriscope_flows_run(cluster, &one, 1, FABRISCOPE_PACKET, FABRISCOPE_ANY_ORDER, 1, time, error);
}

typedef fabriscope_status question(const fabriscope_cluster *, uint32_t, uint64_t *, char **);

/* Asks from `first` on by `step` for some time, and prints the rate. */
static void rate(const char *what, const fabriscope_cluster *cluster, question *ask, uint32_t first, uint32_t step)
{
    double begin = seconds(), now = begin;
    uint32_t calls = 0, number = first;
    for (; now < begin + 0.5; now = seconds()) {
        for (int i = 0; i < 4; i++, calls++, number += step) {
            uint64_t time;
            char *error;
            if (ask(cluster, number, &time, &error) != FABRISCOPE_OK) {
                printf("%-30s %s\n", what, error);
                fabriscope_text_free(error);
                return;
            }
        }
    }
    printf("%-30s %12.0f calls a second\n", what, calls / (now - begin));
}

int main(int count, char **words)
{
    const char *target = count > 1 ? words[1] : "azure-hc44rs";
    fabriscope_cluster *cluster;
    char *error;
    double begin = seconds();
    if (fabriscope_cluster_open(target, &cluster, &error) != FABRISCOPE_OK) {
        fprintf(stderr, "%s\n", error);
        fabriscope_text_free(error);
        return EXIT_FAILURE;
    }
    printf("%-30s %12.1f ms\n", "open", (seconds() - begin) * 1e3);
    rate("messages, each another", cluster, message, 0, 1);
    rate("messages, the same again", cluster, message, 0, 0);
    rate("messages of MPI, each another", cluster, of_mpi, 0, 1);
    rate("all-reduces, each another", cluster, all_reduce, 0, 1);
    rate("all-reduces, the same again", cluster, all_reduce, 0, 0);
    rate("one flow", cluster, flow, 0, 1);
    fabriscope_cluster_free(cluster);
    return EXIT_SUCCESS;
}
