/* SPDX-License-Identifier: MIT */
/* tests/verbs/mpi_pingpong.c - two ranks of MPI send messages to and fro, and check each byte */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

#define ROUNDS 20
#define BYTES_MAX (4 << 20)

static int check(const unsigned char *b, int n, int first)
{
	for (int i = 0; i < n; i++)
		if (b[i] != (unsigned char)(i * 7 + first))
			return 1;
	return 0;
}

static void fill(unsigned char *b, int n, int first)
{
	for (int i = 0; i < n; i++)
		b[i] = (unsigned char)(i * 7 + first);
}

static int round_trip(int rank, unsigned char *b, int n, int k)
{
	int bad = 0;

	if (!rank) {
		fill(b, n, k);
		MPI_Send(b, n, MPI_BYTE, 1, k, MPI_COMM_WORLD);
	}
	MPI_Recv(b, n, MPI_BYTE, !rank, k, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
	bad = check(b, n, rank ? k : k + 1);
	if (rank) {
		fill(b, n, k + 1);
		MPI_Send(b, n, MPI_BYTE, 0, k, MPI_COMM_WORLD);
	}
	return bad;
}

int main(int argc, char **argv)
{
	unsigned char *b = malloc(BYTES_MAX);
	int rank, bad = 0;

	MPI_Init(&argc, &argv);
	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	for (int n = 1; n <= BYTES_MAX; n *= 4)
		for (int k = 0; k < ROUNDS; k++)
			bad += round_trip(rank, b, n, k);
	printf("rank %d: %d wrong\n", rank, bad);
	MPI_Finalize();
	free(b);
	return bad != 0;
}
