/* Latency, bandwidth and bandwidth of both directions between two ranks, by size: the patterns of osu_latency, osu_bw and osu_bibw.
 *
 * mpicc -O2 -o pairs pairs.c       arguments: the largest message in bytes */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define WINDOW 64

static char *sent, *received;

/* Half of a round trip, in us. */
static double latency(int rank, int size, int rounds)
{
	double begun = 0;
	for (int i = -rounds / 10; i < rounds; i++) {
		if (i == 0)
			begun = MPI_Wtime();
		if (rank == 0) {
			MPI_Send(sent, size, MPI_CHAR, 1, 1, MPI_COMM_WORLD);
			MPI_Recv(received, size, MPI_CHAR, 1, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
		} else {
			MPI_Recv(received, size, MPI_CHAR, 0, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
			MPI_Send(sent, size, MPI_CHAR, 0, 1, MPI_COMM_WORLD);
		}
	}
	return (MPI_Wtime() - begun) * 1e6 / rounds / 2;
}

/* Windows of messages, each answered by an empty one; from both sides at once or not. MB/s. */
static double bandwidth(int rank, int size, int rounds, int both)
{
	MPI_Request request[2 * WINDOW];
	double begun = 0;
	for (int i = -rounds / 10 - 1; i < rounds; i++) {
		int count = 0;
		if (i == 0)
			begun = MPI_Wtime();
		for (int w = 0; w < WINDOW && (both || rank == 1); w++)
			MPI_Irecv(received, size, MPI_CHAR, 1 - rank, 2, MPI_COMM_WORLD, &request[count++]);
		for (int w = 0; w < WINDOW && (both || rank == 0); w++)
			MPI_Isend(sent, size, MPI_CHAR, 1 - rank, 2, MPI_COMM_WORLD, &request[count++]);
		MPI_Waitall(count, request, MPI_STATUSES_IGNORE);
		if (rank == 0)
			MPI_Recv(received, 0, MPI_CHAR, 1, 3, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
		else
			MPI_Send(sent, 0, MPI_CHAR, 0, 3, MPI_COMM_WORLD);
	}
	return (1.0 + both) * size * WINDOW * rounds / (MPI_Wtime() - begun) / 1e6;
}

int main(int argc, char **argv)
{
	int rank, ranks;
	MPI_Init(&argc, &argv);
	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	MPI_Comm_size(MPI_COMM_WORLD, &ranks);
	if (ranks != 2) {
		if (rank == 0)
			fprintf(stderr, "pairs: two ranks are needed, not %d\n", ranks);
		MPI_Finalize();
		return 1;
	}
	int most = argc > 1 ? atoi(argv[1]) : 1 << 20;
	sent = malloc((size_t)most + 1);
	received = malloc((size_t)most + 1);
	memset(sent, 1, (size_t)most + 1);
	memset(received, 2, (size_t)most + 1);
	if (rank == 0)
		printf("%10s %12s %12s %12s\n", "bytes", "latency us", "MB/s", "both MB/s");
	for (int size = 1; size <= most; size *= 2) {
		int rounds = size <= 8192 ? 100 : 20;
		double us = latency(rank, size, rounds), one = bandwidth(rank, size, rounds / 10, 0), both = bandwidth(rank, size, rounds / 10, 1);
		if (rank == 0)
			printf("%10d %12.2f %12.2f %12.2f\n", size, us, one, both);
	}
	MPI_Finalize();
	return 0;
}
