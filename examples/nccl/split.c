/* Several communicators at once: ranks in a grid, of which ncclCommSplit makes rows and columns, and all of them in the opposite order.
 *
 * One process drives -g GPUs of its host; or each of -n processes -g, of which number -r finds the first on host -s. -c is the number of columns,
 * -b the size in bytes, -i the iterations. Each row of what is printed is the time of an all-reduce as the first process sees it:
 *
 *   all        over all ranks
 *   reversed   over all ranks, numbered from the last to the first
 *   row        over the first row, while all others wait
 *   rows       over each row
 *   columns    over each column
 *   both       over each row in one stream, and over each column in another one
 *   behind     over each row, and then over each column what the rows left, in one stream
 */
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
#define PORT 7778
#define CUDA(call) check_cuda((call), #call)
#define NCCL(call) check_nccl((call), #call)

static void check(int failed, const char *call, const char *why)
{
	if (failed) {
		fprintf(stderr, "split: %s: %s\n", call, why);
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

/* The first process gives both identifiers to all others. */
static void share(ncclUniqueId ids[2], int process, int processes, const char *server)
{
	struct sockaddr_in address = { .sin_family = AF_INET, .sin_port = htons(PORT) };
	int fd = socket(AF_INET, SOCK_STREAM, 0);
	size_t size = 2 * sizeof *ids, done = 0;
	if (process == 0) {
		check(bind(fd, (struct sockaddr *)&address, sizeof address) || listen(fd, processes), "listen", "no");
		for (int i = 1; i < processes; i++) {
			int peer = accept(fd, NULL, NULL);
			check(write(peer, ids, size) != (ssize_t)size, "write", "short");
			close(peer);
		}
	} else {
		struct hostent *host = gethostbyname(server);
		check(!host, "gethostbyname", server);
		memcpy(&address.sin_addr, host->h_addr_list[0], 4);
		check(connect(fd, (struct sockaddr *)&address, sizeof address), "connect", server);
		while (done < size) {
			ssize_t part = read(fd, (char *)ids + done, size - done);
			check(part <= 0, "read", "the first process is gone");
			done += (size_t)part;
		}
	}
	close(fd);
}

static struct gpu {
	int rank, row, column;
	ncclComm_t all, reversed, of_row, of_column, corner;
	cudaStream_t stream, other;
	float *from, *to, *more, *result;
} gpus[MOST];
static int own, ranks, columns, rows, failures;
static size_t count;

static void synchronise(void)
{
	for (int i = 0; i < own; i++) {
		CUDA(cudaStreamSynchronize(gpus[i].stream));
		CUDA(cudaStreamSynchronize(gpus[i].other));
	}
}

/* Nobody goes on before all are here. */
static void barrier(void)
{
	NCCL(ncclGroupStart());
	for (int i = 0; i < own; i++)
		NCCL(ncclAllReduce(gpus[i].more, gpus[i].more, 1, ncclFloat, ncclMax, gpus[i].all, gpus[i].stream));
	NCCL(ncclGroupEnd());
	synchronise();
}

enum what { ALL, REVERSED, ROW, ROWS, COLUMNS, BOTH, BEHIND, KINDS };
static const char *const names[] = { "all", "reversed", "row", "rows", "columns", "both", "behind" };

static void start(enum what what)
{
	NCCL(ncclGroupStart());
	for (int i = 0; i < own; i++) {
		struct gpu *g = &gpus[i];
		if (what == ALL)
			NCCL(ncclAllReduce(g->from, g->to, count, ncclFloat, ncclSum, g->all, g->stream));
		if (what == REVERSED)
			NCCL(ncclAllReduce(g->from, g->to, count, ncclFloat, ncclSum, g->reversed, g->stream));
		if ((what == ROW && g->row == 0) || what == ROWS || what == BOTH || what == BEHIND)
			NCCL(ncclAllReduce(g->from, g->to, count, ncclFloat, ncclSum, g->of_row, g->stream));
		if (what == COLUMNS || what == BOTH)
			NCCL(ncclAllReduce(g->from, g->result, count, ncclFloat, ncclSum, g->of_column, what == BOTH ? g->other : g->stream));
		if (what == BEHIND)
			NCCL(ncclAllReduce(g->to, g->result, count, ncclFloat, ncclSum, g->of_column, g->stream));
	}
	NCCL(ncclGroupEnd());
}

/* Element k of rank r is r + k mod 7. The sum of those of `n` ranks from `first` on, each `step` behind the one before. */
static float sum(int first, int step, int n, size_t k) { return (float)(n * first + step * (n * (n - 1) / 2)) + (float)n * (float)(k % 7); }

static int wrong(enum what what)
{
	int found = 0;
	for (int i = 0; i < own; i++) {
		struct gpu *g = &gpus[i];
		for (size_t k = 0; k < count; k++) {
			float all = sum(0, 1, ranks, k), row = sum(g->row * columns, 1, columns, k), column = sum(g->column, columns, rows, k);
			if (what == ALL || what == REVERSED)
				found += g->to[k] != all;
			else if (what != COLUMNS && (what != ROW || g->row == 0))
				found += g->to[k] != row;
			if (what == COLUMNS || what == BOTH)
				found += g->result[k] != column;
			if (what == BEHIND)
				found += g->result[k] != all;
		}
	}
	return found;
}

static void clear(void)
{
	for (int i = 0; i < own; i++) {
		CUDA(cudaMemset(gpus[i].to, 0, count * sizeof(float)));
		CUDA(cudaMemset(gpus[i].result, 0, count * sizeof(float)));
	}
}

static void is(int found, int expected, const char *what)
{
	if (found != expected) {
		fprintf(stderr, "split: %s is %d, not %d\n", what, found, expected);
		failures++;
	}
}

/* A communicator says what it should of a rank. */
static void describe(ncclComm_t comm, int size, int rank, int device, const char *what)
{
	int found;
	NCCL(ncclCommCount(comm, &found));
	is(found, size, what);
	NCCL(ncclCommUserRank(comm, &found));
	is(found, rank, what);
	NCCL(ncclCommCuDevice(comm, &found));
	is(found, device, what);
}

/* The mean of a row by an operator of this program, each rank with a weight of its own; sends around each column. */
static void operate(void)
{
	ncclRedOp_t ops[MOST];
	NCCL(ncclGroupStart());
	for (int i = 0; i < own; i++) {
		struct gpu *g = &gpus[i];
		float weight = (float)(g->column + 1);
		NCCL(ncclRedOpCreatePreMulSum(&ops[i], &weight, ncclFloat, ncclScalarHostImmediate, g->of_row));
		NCCL(ncclAllReduce(g->from, g->to, count, ncclFloat, ops[i], g->of_row, g->stream));
	}
	NCCL(ncclGroupEnd());
	NCCL(ncclGroupStart());
	for (int i = 0; i < own; i++) {
		int rank;
		NCCL(ncclCommUserRank(gpus[i].of_column, &rank));
		NCCL(ncclSend(gpus[i].to, count, ncclFloat, (rank + 1) % rows, gpus[i].of_column, gpus[i].stream));
		NCCL(ncclRecv(gpus[i].result, count, ncclFloat, (rank + rows - 1) % rows, gpus[i].of_column, gpus[i].stream));
	}
	NCCL(ncclGroupEnd());
	synchronise();
	for (int i = 0; i < own; i++) {
		/* Ranks of columns count from the last row to the first: the one before is a row further. */
		int row = (gpus[i].row + 1) % rows;
		for (size_t k = 0; k < count; k++) {
			float weighted = 0;
			for (int column = 0; column < columns; column++)
				weighted += (float)(column + 1) * ((float)(row * columns + column) + (float)(k % 7));
			failures += gpus[i].result[k] != weighted;
		}
		NCCL(ncclRedOpDestroy(ops[i], gpus[i].of_row));
	}
}

static void split(int devices)
{
	NCCL(ncclGroupStart());
	for (int i = 0; i < own; i++)
		NCCL(ncclCommSplit(gpus[i].all, gpus[i].row, gpus[i].column, &gpus[i].of_row, NULL));
	NCCL(ncclGroupEnd());
	NCCL(ncclGroupStart());
	for (int i = 0; i < own; i++)
		NCCL(ncclCommSplit(gpus[i].all, gpus[i].column, -gpus[i].row, &gpus[i].of_column, NULL));
	NCCL(ncclGroupEnd());
	/* Only the first row and the first column have one that is both. */
	ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
	NCCL(ncclGroupStart());
	for (int i = 0; i < own; i++) {
		int is_member = gpus[i].row == 0 || gpus[i].column == 0;
		NCCL(ncclCommSplit(gpus[i].all, is_member ? 5 : NCCL_SPLIT_NOCOLOR, 0, &gpus[i].corner, &config));
	}
	NCCL(ncclGroupEnd());
	for (int i = 0; i < own; i++) {
		struct gpu *g = &gpus[i];
		int device = g->rank % devices;
		describe(g->all, ranks, g->rank, device, "of all ranks");
		describe(g->reversed, ranks, ranks - 1 - g->rank, device, "of the reversed ranks");
		describe(g->of_row, columns, g->column, device, "of a row");
		describe(g->of_column, rows, rows - 1 - g->row, device, "of a column");
		is(g->corner != NULL, g->row == 0 || g->column == 0, "whether a rank has a corner");
		if (g->corner)
			describe(g->corner, rows + columns - 1, g->row ? columns - 1 + g->row : g->column, device, "of the corner");
	}
}

int main(int argc, char **argv)
{
	int process = 0, processes = 1, iterations = 20, c;
	size_t bytes = 1 << 18;
	const char *server = "";
	own = 1;
	columns = 2;
	while ((c = getopt(argc, argv, "g:n:r:s:c:b:i:")) != -1)
		switch (c) {
		case 'g': own = atoi(optarg); break;
		case 'n': processes = atoi(optarg); break;
		case 'r': process = atoi(optarg); break;
		case 's': server = optarg; break;
		case 'c': columns = atoi(optarg); break;
		case 'b': bytes = (size_t)atoll(optarg); break;
		case 'i': iterations = atoi(optarg); break;
		default: return 2;
		}
	int devices;
	CUDA(cudaGetDeviceCount(&devices));
	ranks = own * processes;
	rows = ranks / columns;
	count = bytes / sizeof(float);
	check(rows * columns != ranks || own > MOST, "-c", "the ranks are no grid of so many columns");
	ncclUniqueId ids[2];
	if (process == 0) {
		NCCL(ncclGetUniqueId(&ids[0]));
		NCCL(ncclGetUniqueId(&ids[1]));
	}
	if (processes > 1)
		share(ids, process, processes, server);
	for (int i = 0; i < own; i++) {
		struct gpu *g = &gpus[i];
		*g = (struct gpu){ .rank = process * own + i };
		g->row = g->rank / columns;
		g->column = g->rank % columns;
		CUDA(cudaSetDevice(g->rank % devices));
		float **const buffers[] = { &g->from, &g->to, &g->more, &g->result };
		for (int b = 0; b < 4; b++)
			CUDA(cudaMalloc((void **)buffers[b], bytes));
		CUDA(cudaStreamCreate(&g->stream));
		CUDA(cudaStreamCreate(&g->other));
		for (size_t k = 0; k < count; k++)
			g->from[k] = (float)g->rank + (float)(k % 7);
	}
	NCCL(ncclGroupStart());
	for (int i = 0; i < own; i++) {
		CUDA(cudaSetDevice(gpus[i].rank % devices));
		NCCL(ncclCommInitRank(&gpus[i].all, ranks, ids[0], gpus[i].rank));
		NCCL(ncclCommInitRank(&gpus[i].reversed, ranks, ids[1], ranks - 1 - gpus[i].rank));
	}
	NCCL(ncclGroupEnd());
	split(devices);
	if (process == 0)
		printf("# %d rows of %d ranks, %zu bytes\n%12s %12s %8s\n", rows, columns, bytes, "all-reduce", "us", "wrong");
	for (enum what what = ALL; what < KINDS; what++) {
		clear();
		start(what);
		synchronise();
		int found = wrong(what);
		barrier();
		double begun = now();
		for (int i = 0; i < iterations; i++)
			start(what);
		synchronise();
		double us = (now() - begun) / iterations;
		barrier();
		if (process == 0)
			printf("%12s %12.2f %8d\n", names[what], us, found);
		failures += found;
	}
	operate();
	for (int i = 0; i < own; i++) {
		struct gpu *g = &gpus[i];
		ncclComm_t comms[] = { g->corner, g->of_column, g->of_row, g->reversed, g->all };
		for (int k = 0; k < 5; k++)
			if (comms[k])
				NCCL(ncclCommDestroy(comms[k]));
	}
	if (process == 0)
		printf("# %d failures\n", failures);
	return failures != 0;
}
