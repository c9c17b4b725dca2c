/* A stand-in for NCCL: communicators, collectives, sends and receives, groups. The fabric runs their kernels and moves the contents. */
#define _GNU_SOURCE
#include "gpu.h"
#include "parts.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Sends and receives of a group that one question tells. */
#define MOST_TRANSFERS 1024
/* Words before them. */
#define HEAD 3

/* An operator of a program: a sum of what each rank has multiplied by a scalar of its own. */
struct operator {
	bool used;
	int type;
	uint64_t scalar; /* its bits */
	const void *at;  /* where it is read when it is needed; NULL where it is known */
};

struct ncclComm {
	int64_t id;
	int rank, ranks, device;
	bool joined;
	struct operator *operator;
	int operators;
};

enum kind { ALL_REDUCE, BROADCAST, REDUCE, ALL_GATHER, REDUCE_SCATTER, SEND, RECEIVE, JOIN, SPLIT };

/* Something called within a group. Of a split, `to` is the communicator to be and `count` which split it is. */
struct call {
	enum kind kind;
	ncclComm_t comm;
	cudaStream_t stream;
	const void *from;
	void *to;
	size_t count;
	int type, op, peer;
};

/* What the thread called within its group. */
static __thread struct call *calls;
static __thread int held, room, depth;
static __thread ncclResult_t failed;

static size_t size_of(int type)
{
	static const size_t sizes[] = { 1, 1, 4, 4, 8, 8, 2, 4, 8, 2 };
	return type < 0 || type > 9 ? 0 : sizes[type];
}

/* Asks with `count` words, which are in the question already. */
static int64_t ask(enum live_gpu what, size_t count)
{
	live_mine->args[0] = what;
	return live_ask(OP_GPU, count * sizeof(uint64_t));
}

static ncclResult_t result_of(int64_t answer) { return answer >= 0 ? ncclSuccess : ncclInvalidUsage; }

static struct operator *operator_of(ncclComm_t comm, int op)
{
	int place = op - ncclNumOps;
	return place >= 0 && place < comm->operators && comm->operator[place].used ? &comm->operator[place] : NULL;
}

static int64_t ask_collective(enum live_gpu what, const struct call *of)
{
	struct operator *own = operator_of(of->comm, of->op);
	uint64_t scalar = own ? own->scalar : 0;
	if (own && own->at)
		memcpy(&scalar, own->at, size_of(own->type));
	const uint64_t words[] = {
		(uint64_t)of->comm->id, (uint64_t)of->comm->rank, of->kind, of->count, (uint64_t)of->type, own ? ncclNumOps : (uint64_t)of->op,
		(uint64_t)of->peer, (uint64_t)(uintptr_t)of->from, (uint64_t)(uintptr_t)of->to, scalar,
		(uint64_t)live_stream_last(of->stream, of->comm->device),
	};
	memcpy(live_question(), words, sizeof words);
	return ask(what, sizeof words / sizeof *words);
}

static ncclResult_t collective(const struct call *of)
{
	int64_t call = ask_collective(GPU_COLLECTIVE, of);
	if (call >= 0)
		live_stream_holds(of->stream, of->comm->device, call);
	return result_of(call);
}

/* All sends and receives of a communicator in the group are one kernel. */
static ncclResult_t transfers(int first)
{
	uint64_t *words = (uint64_t *)live_question();
	ncclComm_t comm = calls[first].comm;
	cudaStream_t stream = calls[first].stream;
	size_t count = HEAD;
	words[0] = (uint64_t)comm->id;
	words[1] = (uint64_t)comm->rank;
	words[2] = (uint64_t)live_stream_last(stream, comm->device);
	for (int i = first; i < held; i++) {
		struct call *of = &calls[i];
		if (of->comm != comm || (of->kind != SEND && of->kind != RECEIVE))
			continue;
		if (count == HEAD + 3 * MOST_TRANSFERS)
			return ncclInvalidUsage;
		words[count++] = (uint64_t)(uint32_t)of->peer | (uint64_t)(of->kind == SEND) << 32;
		words[count++] = (uint64_t)(uintptr_t)(of->kind == SEND ? of->from : of->to);
		words[count++] = of->count * size_of(of->type);
		of->comm = NULL;
	}
	int64_t call = ask(GPU_GROUP, count);
	if (call >= 0)
		live_stream_holds(stream, comm->device, call);
	return result_of(call);
}

static ncclResult_t await_others(ncclComm_t comm)
{
	if (comm->joined)
		return ncclSuccess;
	ncclResult_t result = result_of(LIVE_ASK(OP_GPU, GPU_JOINED, comm->id));
	comm->joined = result == ncclSuccess;
	return result;
}

/* What a rank is in the communicator that came out of a split, if it is of any. */
static ncclResult_t await_split(const struct call *of)
{
	ncclComm_t made = of->to;
	int64_t has = LIVE_ASK(OP_GPU, GPU_PART, of->comm->id, of->comm->rank, (int64_t)of->count);
	if (has < 0)
		return ncclInvalidUsage;
	if (!has || !made)
		return ncclSuccess;
	made->id = live_mine->args[0];
	made->rank = (int)live_mine->args[1];
	made->ranks = (int)live_mine->args[2];
	return await_others(made);
}

static void end_group(void)
{
	free(calls);
	calls = NULL;
	held = room = 0;
	failed = ncclSuccess;
}

static ncclResult_t run_group(void)
{
	ncclResult_t result = failed;
	for (int i = 0; i < held && result == ncclSuccess; i++)
		if (calls[i].kind >= JOIN)
			result = calls[i].kind == JOIN ? await_others(calls[i].comm) : await_split(&calls[i]);
	for (int i = 0; i < held && result == ncclSuccess; i++) {
		if (!calls[i].comm || calls[i].kind >= JOIN)
			continue;
		result = calls[i].kind == SEND || calls[i].kind == RECEIVE ? transfers(i) : collective(&calls[i]);
	}
	end_group();
	return result;
}

static ncclResult_t add(struct call call)
{
	if (!live_mine || !call.comm)
		return ncclInvalidArgument;
	if (call.kind < JOIN && (!size_of(call.type) || (call.count && !call.from && !call.to)))
		return failed = ncclInvalidArgument;
	if (call.kind < SEND && (call.op < 0 || call.op >= ncclNumOps)) {
		struct operator *own = operator_of(call.comm, call.op);
		if (!own || own->type != call.type)
			return failed = ncclInvalidArgument;
	}
	if (held == room) {
		int more = room ? 2 * room : 16;
		struct call *grown = realloc(calls, (size_t)more * sizeof *calls);
		if (!grown)
			return failed = ncclSystemError;
		calls = grown;
		room = more;
	}
	calls[held++] = call;
	return depth ? ncclSuccess : run_group();
}

ncclResult_t ncclGroupStart(void)
{
	depth++;
	return ncclSuccess;
}
ncclResult_t ncclGroupEnd(void)
{
	if (!depth)
		return ncclInvalidUsage;
	return --depth ? ncclSuccess : run_group();
}
/* What the library would say before it runs the group, which it does not do. */
ncclResult_t ncclGroupSimulateEnd(ncclSimInfo_t *info)
{
	if (!depth)
		return ncclInvalidUsage;
	double us = 0;
	for (int i = 0; i < held; i++) {
		if (calls[i].kind >= SEND)
			continue;
		int64_t ns = ask_collective(GPU_ESTIMATE, &calls[i]);
		if (ns > 0 && (double)ns / 1e3 > us)
			us = (double)ns / 1e3;
	}
	depth--;
	end_group();
	if (info)
		info->estimatedTime = (float)us;
	return ncclSuccess;
}

/* ---- communicators ---- */

ncclResult_t ncclGetVersion(int *version) { return *version = NCCL_VERSION_CODE, ncclSuccess; }

ncclResult_t ncclGetUniqueId(ncclUniqueId *id)
{
	int64_t number = live_mine ? LIVE_ASK(OP_GPU, GPU_NEW) : -1;
	if (number < 0)
		return ncclSystemError;
	memset(id, 0, sizeof *id);
	snprintf(id->internal, sizeof id->internal, "fabriscope:%lld", (long long)number);
	return ncclSuccess;
}

ncclResult_t ncclCommInitRank(ncclComm_t *comm, int ranks, ncclUniqueId id, int rank)
{
	long long number;
	int device = live_device();
	if (device < 0)
		return ncclUnhandledCudaError;
	if (sscanf(id.internal, "fabriscope:%lld", &number) != 1 || rank < 0 || rank >= ranks)
		return ncclInvalidArgument;
	ncclComm_t made = calloc(1, sizeof *made);
	if (!made)
		return ncclSystemError;
	*made = (struct ncclComm){ .id = number, .rank = rank, .ranks = ranks, .device = device };
	if (LIVE_ASK(OP_GPU, GPU_JOIN, number, ranks, rank, device) < 0) {
		free(made);
		return ncclInvalidUsage;
	}
	*comm = made;
	return add((struct call){ .kind = JOIN, .comm = made });
}
ncclResult_t ncclCommInitRankConfig(ncclComm_t *comm, int ranks, ncclUniqueId id, int rank, ncclConfig_t *config)
{
	(void)config;
	return ncclCommInitRank(comm, ranks, id, rank);
}
ncclResult_t ncclCommInitAll(ncclComm_t *comms, int devices, const int *list)
{
	ncclUniqueId id;
	int before = live_device();
	ncclResult_t result = ncclGetUniqueId(&id);
	ncclGroupStart();
	for (int i = 0; i < devices && result == ncclSuccess; i++) {
		if (cudaSetDevice(list ? list[i] : i) != cudaSuccess)
			result = ncclInvalidArgument;
		else
			result = ncclCommInitRank(&comms[i], devices, id, i);
	}
	ncclResult_t ended = ncclGroupEnd();
	if (before >= 0)
		cudaSetDevice(before);
	return result == ncclSuccess ? ended : result;
}
ncclResult_t ncclCommSplit(ncclComm_t comm, int color, int key, ncclComm_t *made, ncclConfig_t *config)
{
	(void)config;
	*made = NULL;
	if (!live_mine || !comm || (color < 0 && color != NCCL_SPLIT_NOCOLOR))
		return ncclInvalidArgument;
	ncclResult_t result = await_others(comm);
	if (result != ncclSuccess)
		return result;
	ncclComm_t part = color == NCCL_SPLIT_NOCOLOR ? NULL : calloc(1, sizeof *part);
	if (!part && color != NCCL_SPLIT_NOCOLOR)
		return ncclSystemError;
	int64_t number = LIVE_ASK(OP_GPU, GPU_SPLIT, comm->id, comm->rank, color, key);
	if (number < 0) {
		free(part);
		return ncclInvalidUsage;
	}
	if (part) {
		part->device = comm->device;
		*made = part;
	}
	return add((struct call){ .kind = SPLIT, .comm = comm, .to = part, .count = (size_t)number });
}
ncclResult_t ncclCommFinalize(ncclComm_t comm)
{
	if (!comm)
		return ncclInvalidArgument;
	return live_mine ? result_of(LIVE_ASK(OP_GPU, GPU_FLUSH, comm->id, comm->rank)) : ncclSuccess;
}
static ncclResult_t leave(ncclComm_t comm, bool aborts)
{
	if (!comm)
		return ncclSuccess;
	if (live_mine)
		LIVE_ASK(OP_GPU, GPU_LEAVE, comm->id, comm->rank, aborts);
	free(comm->operator);
	free(comm);
	return ncclSuccess;
}
/* What was called is carried out first. */
ncclResult_t ncclCommDestroy(ncclComm_t comm)
{
	if (comm)
		ncclCommFinalize(comm);
	return leave(comm, false);
}
ncclResult_t ncclCommAbort(ncclComm_t comm) { return leave(comm, true); }
ncclResult_t ncclCommCount(const ncclComm_t comm, int *count) { return *count = comm->ranks, ncclSuccess; }
ncclResult_t ncclCommUserRank(const ncclComm_t comm, int *rank) { return *rank = comm->rank, ncclSuccess; }
ncclResult_t ncclCommCuDevice(const ncclComm_t comm, int *device) { return *device = comm->device, ncclSuccess; }
ncclResult_t ncclCommGetAsyncError(ncclComm_t comm, ncclResult_t *error)
{
	(void)comm;
	return *error = ncclSuccess;
}
ncclResult_t ncclCommRegister(const ncclComm_t comm, void *buffer, size_t size, void **handle)
{
	(void)comm, (void)size;
	return *handle = buffer, ncclSuccess;
}
ncclResult_t ncclCommDeregister(const ncclComm_t comm, void *handle)
{
	(void)comm, (void)handle;
	return ncclSuccess;
}
ncclResult_t ncclMemAlloc(void **memory, size_t size) { return cudaMalloc(memory, size) == cudaSuccess ? ncclSuccess : ncclUnhandledCudaError; }
ncclResult_t ncclMemFree(void *memory) { return cudaFree(memory) == cudaSuccess ? ncclSuccess : ncclUnhandledCudaError; }

const char *ncclGetErrorString(ncclResult_t result)
{
	static const char *const texts[] = {
		"no error", "unhandled cuda error", "unhandled system error", "internal error", "invalid argument", "invalid usage",
		"remote process exited or there was a network error", "NCCL operation in progress",
	};
	return (unsigned)result < sizeof texts / sizeof *texts ? texts[result] : "unknown result code";
}
const char *ncclGetLastError(ncclComm_t comm)
{
	(void)comm;
	return "";
}

/* ---- what they do ---- */

ncclResult_t ncclAllReduce(const void *from, void *to, size_t count, ncclDataType_t type, ncclRedOp_t op, ncclComm_t comm, cudaStream_t stream)
{
	return add((struct call){ ALL_REDUCE, comm, stream, from, to, count, (int)type, (int)op, 0 });
}
ncclResult_t ncclBroadcast(const void *from, void *to, size_t count, ncclDataType_t type, int root, ncclComm_t comm, cudaStream_t stream)
{
	return add((struct call){ BROADCAST, comm, stream, from, to, count, (int)type, 0, root });
}
ncclResult_t ncclBcast(void *buffer, size_t count, ncclDataType_t type, int root, ncclComm_t comm, cudaStream_t stream)
{
	return ncclBroadcast(buffer, buffer, count, type, root, comm, stream);
}
ncclResult_t ncclReduce(const void *from, void *to, size_t count, ncclDataType_t type, ncclRedOp_t op, int root, ncclComm_t comm, cudaStream_t stream)
{
	return add((struct call){ REDUCE, comm, stream, from, to, count, (int)type, (int)op, root });
}
ncclResult_t ncclAllGather(const void *from, void *to, size_t count, ncclDataType_t type, ncclComm_t comm, cudaStream_t stream)
{
	return add((struct call){ ALL_GATHER, comm, stream, from, to, count, (int)type, 0, 0 });
}
ncclResult_t ncclReduceScatter(const void *from, void *to, size_t count, ncclDataType_t type, ncclRedOp_t op, ncclComm_t comm, cudaStream_t stream)
{
	return add((struct call){ REDUCE_SCATTER, comm, stream, from, to, count, (int)type, (int)op, 0 });
}
ncclResult_t ncclSend(const void *from, size_t count, ncclDataType_t type, int peer, ncclComm_t comm, cudaStream_t stream)
{
	return add((struct call){ SEND, comm, stream, from, NULL, count, (int)type, 0, peer });
}
ncclResult_t ncclRecv(void *to, size_t count, ncclDataType_t type, int peer, ncclComm_t comm, cudaStream_t stream)
{
	return add((struct call){ RECEIVE, comm, stream, NULL, to, count, (int)type, 0, peer });
}

/* ---- operators of programs ---- */

ncclResult_t ncclRedOpCreatePreMulSum(ncclRedOp_t *op, void *scalar, ncclDataType_t type, ncclScalarResidence_t residence, ncclComm_t comm)
{
	if (!op || !scalar || !comm || !size_of((int)type))
		return ncclInvalidArgument;
	int place = 0;
	while (place < comm->operators && comm->operator[place].used)
		place++;
	if (place == comm->operators) {
		struct operator *grown = realloc(comm->operator, (size_t)(place + 1) * sizeof *grown);
		if (!grown)
			return ncclSystemError;
		comm->operator = grown;
		comm->operators = place + 1;
	}
	struct operator *made = &comm->operator[place];
	*made = (struct operator){ .used = true, .type = (int)type, .at = residence == ncclScalarDevice ? scalar : NULL };
	memcpy(&made->scalar, scalar, size_of((int)type));
	*op = (ncclRedOp_t)(ncclNumOps + place);
	return ncclSuccess;
}
ncclResult_t ncclRedOpDestroy(ncclRedOp_t op, ncclComm_t comm)
{
	struct operator *of = comm ? operator_of(comm, (int)op) : NULL;
	if (!of)
		return ncclInvalidArgument;
	of->used = false;
	return ncclSuccess;
}
