/* Times an operation of NCCL over sizes, and checks what it leaves in the buffers, in the manner of nccl-tests.
 *
 * One process drives -g GPUs of its host; or each of -n processes one, of which number -r finds the first on host -s. -o is all_reduce, all_gather,
 * reduce_scatter, broadcast, reduce or sendrecv; -b and -e are the least and the largest size in bytes, -i the iterations. */
#include <arpa/inet.h>
#include <netdb.h>
#include <nccl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#define MOST 64
#define PORT 7777
#define CUDA(call) check_cuda((call), #call)
#define NCCL(call) check_nccl((call), #call)

static void check(int failed, const char *call, const char *why)
{
	if (failed) {
		fprintf(stderr, "all_reduce: %s: %s\n", call, why);
		exit(1);
	}
}
static void check_cuda(cudaError_t error, const char *call) { check(error != cudaSuccess, call, cudaGetErrorString(error)); }
static void check_nccl(ncclResult_t result, const char *call) { check(result != ncclSuccess, call, ncclGetErrorString(result)); }

static double now(void)
{
	struct timespec at;
	clock_gettime(CLOCK_MONOTONIC, &at);
	return (double)at.tv_sec * 1e6 + (double)at.tv_nsec / 1e3;
}

/* The first process gives its identifier to all others. */
static void share(ncclUniqueId *id, int rank, int ranks, const char *server)
{
	struct sockaddr_in address = { .sin_family = AF_INET, .sin_port = htons(PORT) };
	int fd = socket(AF_INET, SOCK_STREAM, 0);
	if (rank == 0) {
		check(bind(fd, (struct sockaddr *)&address, sizeof address) || listen(fd, ranks), "listen", "no");
		for (int i = 1; i < ranks; i++) {
			int peer = accept(fd, NULL, NULL);
			check(write(peer, id, sizeof *id) != sizeof *id, "write", "short");
			close(peer);
		}
	} else {
		struct hostent *host = gethostbyname(server);
		check(!host, "gethostbyname", server);
		memcpy(&address.sin_addr, host->h_addr_list[0], 4);
		check(connect(fd, (struct sockaddr *)&address, sizeof address), "connect", server);
		size_t done = 0;
		while (done < sizeof *id) {
			ssize_t part = read(fd, (char *)id + done, sizeof *id - done);
			check(part <= 0, "read", "the first process is gone");
			done += (size_t)part;
		}
	}
	close(fd);
}

static struct gpu {
	int rank;
	ncclComm_t comm;
	cudaStream_t stream;
	float *from, *to;
} gpus[MOST];
static int own, ranks, failures;
static const char *operation = "all_reduce";

static int is(const char *name) { return !strcmp(operation, name); }

static void start(size_t count)
{
	NCCL(ncclGroupStart());
	for (int i = 0; i < own; i++) {
		struct gpu *g = &gpus[i];
		size_t block = count / (size_t)ranks;
		if (is("all_reduce"))
			NCCL(ncclAllReduce(g->from, g->to, count, ncclFloat, ncclSum, g->comm, g->stream));
		else if (is("all_gather"))
			NCCL(ncclAllGather(g->from, g->to, block, ncclFloat, g->comm, g->stream));
		else if (is("reduce_scatter"))
			NCCL(ncclReduceScatter(g->from, g->to, block, ncclFloat, ncclSum, g->comm, g->stream));
		else if (is("broadcast"))
			NCCL(ncclBroadcast(g->from, g->to, count, ncclFloat, 0, g->comm, g->stream));
		else if (is("reduce"))
			NCCL(ncclReduce(g->from, g->to, count, ncclFloat, ncclSum, 0, g->comm, g->stream));
		else {
			NCCL(ncclSend(g->from, count, ncclFloat, (g->rank + 1) % ranks, g->comm, g->stream));
			NCCL(ncclRecv(g->to, count, ncclFloat, (g->rank + ranks - 1) % ranks, g->comm, g->stream));
		}
	}
	NCCL(ncclGroupEnd());
}

static void finish(void)
{
	for (int i = 0; i < own; i++)
		CUDA(cudaStreamSynchronize(gpus[i].stream));
}

/* Element k of rank r is r + k mod 7: what should be at place k of the result of a rank. */
static float expected(int rank, size_t count, size_t k)
{
	size_t block = count / (size_t)ranks;
	float all = (float)(ranks * (ranks - 1) / 2);
	if (is("all_reduce") || is("reduce"))
		return all + (float)ranks * (float)(k % 7);
	if (is("reduce_scatter"))
		return all + (float)ranks * (float)((k + block * (size_t)rank) % 7);
	if (is("all_gather"))
		return (float)(k / block) + (float)(k % block % 7);
	if (is("broadcast"))
		return (float)(k % 7);
	return (float)((rank + ranks - 1) % ranks) + (float)(k % 7);
}

static void verify(size_t count)
{
	for (int i = 0; i < own; i++) {
		struct gpu *g = &gpus[i];
		size_t length = is("reduce_scatter") ? count / (size_t)ranks : is("all_gather") ? count / (size_t)ranks * (size_t)ranks : count;
		for (size_t k = 0; k < length && (!is("reduce") || g->rank == 0); k++)
			failures += g->to[k] != expected(g->rank, count, k);
	}
}

int main(int argc, char **argv)
{
	int rank = 0, processes = 1, iterations = 20, c;
	size_t least = 1 << 10, most = 1 << 20;
	const char *server = "";
	own = 1;
	while ((c = getopt(argc, argv, "g:n:r:s:o:b:e:i:")) != -1)
		switch (c) {
		case 'g': own = atoi(optarg); break;
		case 'n': processes = atoi(optarg); break;
		case 'r': rank = atoi(optarg); break;
		case 's': server = optarg; break;
		case 'o': operation = optarg; break;
		case 'b': least = (size_t)atoll(optarg); break;
		case 'e': most = (size_t)atoll(optarg); break;
		case 'i': iterations = atoi(optarg); break;
		default: return 2;
		}
	int devices;
	CUDA(cudaGetDeviceCount(&devices));
	ranks = own * processes;
	ncclUniqueId id;
	if (rank == 0)
		NCCL(ncclGetUniqueId(&id));
	if (processes > 1)
		share(&id, rank, processes, server);
	NCCL(ncclGroupStart());
	for (int i = 0; i < own; i++) {
		gpus[i].rank = rank * own + i;
		CUDA(cudaSetDevice(gpus[i].rank % devices));
		CUDA(cudaMalloc((void **)&gpus[i].from, most));
		CUDA(cudaMalloc((void **)&gpus[i].to, most));
		CUDA(cudaStreamCreate(&gpus[i].stream));
		NCCL(ncclCommInitRank(&gpus[i].comm, ranks, id, gpus[i].rank));
	}
	NCCL(ncclGroupEnd());
	if (rank == 0)
		printf("# %s, %d ranks\n%12s %12s %10s %10s %8s\n", operation, ranks, "bytes", "us", "algbw", "busbw", "wrong");
	for (size_t bytes = least; bytes <= most; bytes *= 2) {
		size_t count = bytes / sizeof(float);
		for (int i = 0; i < own; i++) {
			for (size_t k = 0; k < count; k++)
				gpus[i].from[k] = (float)gpus[i].rank + (float)(k % 7);
			CUDA(cudaMemset(gpus[i].to, 0, bytes));
		}
		start(count);
		finish();
		verify(count);
		double begun = now();
		for (int i = 0; i < iterations; i++)
			start(count);
		finish();
		double us = (now() - begun) / iterations, algorithm = (double)bytes / us / 1e3;
		double bus = is("all_reduce") ? 2.0 * (ranks - 1) / ranks : is("all_gather") || is("reduce_scatter") ? (ranks - 1.0) / ranks : 1.0;
		if (rank == 0)
			printf("%12zu %12.2f %10.2f %10.2f %8d\n", bytes, us, algorithm, algorithm * bus, failures);
	}
	for (int i = 0; i < own; i++) {
		NCCL(ncclCommDestroy(gpus[i].comm));
		CUDA(cudaStreamDestroy(gpus[i].stream));
		CUDA(cudaFree(gpus[i].from));
		CUDA(cudaFree(gpus[i].to));
	}
	return failures != 0;
}
