/* Memory of all kinds is registered, written to by the adapter, grown, given back and mapped anew; a child has its own. Says what is wrong. */
#define _GNU_SOURCE
#include <infiniband/verbs.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#define CHECK(what)                                                        \
	do {                                                               \
		if (!(what)) {                                             \
			printf("wrong in line %d: %s\n", __LINE__, #what); \
			exit(1);                                           \
		}                                                          \
	} while (0)
#define MIB ((size_t)1 << 20)
#define SIZE 3000

static struct ibv_pd *pd;
static struct ibv_cq *cq;
static struct ibv_qp *qp;

static struct ibv_mr *share(void *from, size_t size)
{
	struct ibv_mr *mr = ibv_reg_mr(pd, from, size, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
	CHECK(mr);
	return mr;
}

/* The adapter writes SIZE bytes from one place to the other. */
static void move(void *from, struct ibv_mr *of, void *to, struct ibv_mr *into)
{
	struct ibv_sge piece = { (uintptr_t)from, SIZE, of->lkey };
	struct ibv_send_wr wr = {
		.sg_list = &piece,
		.num_sge = 1,
		.opcode = IBV_WR_RDMA_WRITE,
		.send_flags = IBV_SEND_SIGNALED,
		.wr.rdma = { (uintptr_t)to, into->rkey },
	}, *bad;
	struct ibv_wc wc;
	CHECK(!ibv_post_send(qp, &wr, &bad));
	while (!ibv_poll_cq(cq, 1, &wc))
		;
	CHECK(wc.status == IBV_WC_SUCCESS && !memcmp(from, to, SIZE));
}

/* A queue pair that is connected to itself. */
static void connect_to_self(struct ibv_context *context)
{
	struct ibv_qp_init_attr init = { .send_cq = cq, .recv_cq = cq, .cap = { 16, 16, 1, 1, 0 }, .qp_type = IBV_QPT_RC };
	struct ibv_port_attr port;
	CHECK((qp = ibv_create_qp(pd, &init)) && !ibv_query_port(context, 1, &port));
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_INIT, .port_num = 1, .qp_access_flags = IBV_ACCESS_REMOTE_WRITE };
	CHECK(!ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS));
	attr = (struct ibv_qp_attr){
		.qp_state = IBV_QPS_RTR,
		.path_mtu = IBV_MTU_4096,
		.dest_qp_num = qp->qp_num,
		.min_rnr_timer = 1,
		.ah_attr = { .dlid = port.lid, .port_num = 1 },
	};
	CHECK(!ibv_modify_qp(qp, &attr,
			     IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC |
				     IBV_QP_MIN_RNR_TIMER));
	attr = (struct ibv_qp_attr){ .qp_state = IBV_QPS_RTS, .timeout = 14, .retry_cnt = 7, .rnr_retry = 7 };
	CHECK(!ibv_modify_qp(qp, &attr,
			     IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC));
}

int main(void)
{
	struct ibv_device **devices = ibv_get_device_list(NULL);
	struct ibv_context *context = ibv_open_device(devices[0]);
	CHECK(context && (pd = ibv_alloc_pd(context)) && (cq = ibv_create_cq(context, 16, NULL, NULL, 0)));
	connect_to_self(context);

	/* Small blocks have neighbours on their pages. */
	char *left = malloc(100), *from = malloc(SIZE), *middle = malloc(100), *to = malloc(SIZE), *right = malloc(100);
	memset(left, 1, 100);
	memset(middle, 2, 100);
	memset(right, 3, 100);
	for (int i = 0; i < SIZE; i++)
		from[i] = (char)(7 * i);
	struct ibv_mr *source = share(from, SIZE), *sink = share(to, SIZE);
	CHECK(from[5] == 35);
	move(from, source, to, sink);
	CHECK(left[99] == 1 && middle[0] == 2 && middle[99] == 2 && right[0] == 3);

	char stack[5000];
	memset(stack, 9, sizeof stack);
	move(from, source, stack + 1000, share(stack, sizeof stack));
	CHECK(stack[999] == 9 && stack[4000] == 9);

	/* A large block that grows after it was registered, and another one beside it. */
	char *large = malloc(MIB);
	memset(large, 5, MIB);
	struct ibv_mr *mr = share(large, MIB);
	move(large, mr, to, sink);
	ibv_dereg_mr(mr);
	large = realloc(large, 8 * MIB);
	for (size_t i = 0; i < MIB; i++)
		CHECK(large[i] == 5);
	memset(large + MIB, 6, 7 * MIB);
	char *other = malloc(2 * MIB);
	struct ibv_mr *of_other = share(other, 2 * MIB);
	memset(other, 8, 2 * MIB);
	mr = share(large, 8 * MIB);
	move(large + 8 * MIB - SIZE, mr, to, sink);
	CHECK(to[0] == 6 && other[0] == 8);
	move(other, of_other, large, mr);
	CHECK(large[SIZE] == 5);

	/* Given back, and mapped anew at the same place. */
	void *page = (void *)(((uintptr_t)other + 4095) & ~(uintptr_t)4095);
	ibv_dereg_mr(mr);
	ibv_dereg_mr(of_other);
	free(large);
	munmap(page, 4096);
	CHECK(mmap(page, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) == page && *(char *)page == 0);
	move(from, source, page, share(page, 4096));

	/* What is shared already stays so. */
	char *shared = mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	move(from, source, shared + 4000, share(shared, 8192));

	from[0] = 77;
	pid_t child = fork();
	if (child == 0) {
		CHECK(from[0] == 77);
		from[0] = 1;
		left[0] = 50;
		memset(to, 1, SIZE);
		shared[0] = 42;
		_exit(0);
	}
	int status;
	from[1] = 78;
	CHECK(waitpid(child, &status, 0) == child && status == 0);
	CHECK(from[0] == 77 && from[1] == 78 && left[0] == 1 && shared[0] == 42);
	move(from, source, to, sink);

	char *zero = calloc(1, MIB / 4);
	for (size_t i = 0; i < MIB / 4; i++)
		CHECK(zero[i] == 0);
	puts("all right");
	return 0;
}
