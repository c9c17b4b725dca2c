/* A stand-in for the CUDA runtime where no GPU is: memory, streams, events and devices. Kernels are not run.
 *
 * Memory of devices is the host's. Copies wait for what their stream holds and are done at once, at an assumed 25 GB/s. */
#define _GNU_SOURCE
#include "gpu.h"
#include "parts.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#define MOST_GPUS 16
/* ps that a byte takes between host and device. */
#define PS_PER_BYTE 40
/* What each device is said to have. */
#define MEMORY ((size_t)80 << 30)

struct CUstream_st {
	int device;
	int64_t last; /* the number of its last kernel */
};
struct CUevent_st {
	int64_t call;     /* the kernel before it; NO_CALL where there was none */
	uint64_t at;      /* when it was recorded, in ps */
	bool recorded;
};

struct devices {
	int count;
	char name[64];
	uint64_t capability;
	char bus[MOST_GPUS][16];
};

static struct devices devices;
static pthread_once_t once = PTHREAD_ONCE_INIT;
static struct CUstream_st usual[MOST_GPUS];
static __thread int chosen;
static __thread cudaError_t last_error;

static void ask_devices(void)
{
	if (!live_mine)
		return;
	int64_t count = LIVE_ASK(OP_GPU, GPU_DEVICES);
	if (count <= 0)
		return;
	devices.count = count > MOST_GPUS ? MOST_GPUS : (int)count;
	const char *told = (const char *)live_question();
	size_t length = live_mine->length;
	memcpy(devices.name, told, sizeof devices.name);
	memcpy(&devices.capability, told + 64, 8);
	for (int i = 0; i < devices.count; i++) {
		usual[i] = (struct CUstream_st){ i, NO_CALL };
		if (72 + 16 * ((size_t)i + 1) <= length)
			memcpy(devices.bus[i], told + 72 + 16 * i, 16);
		else
			snprintf(devices.bus[i], sizeof devices.bus[i], "0000:%02x:00.0", 16 + i);
	}
}

static cudaError_t is(cudaError_t error)
{
	if (error != cudaSuccess)
		last_error = error;
	return error;
}

static int count(void)
{
	pthread_once(&once, ask_devices);
	return devices.count;
}

int live_device(void) { return count() ? chosen : -1; }

static struct CUstream_st *stream_on(cudaStream_t stream, int device)
{
	/* 1 and 2 name the usual stream, too. */
	return (uintptr_t)stream <= 2 ? &usual[count() ? device : 0] : stream;
}
static struct CUstream_st *stream_of(cudaStream_t stream) { return stream_on(stream, chosen); }

int64_t live_stream_last(cudaStream_t stream, int device) { return stream_on(stream, device)->last; }
void live_stream_holds(cudaStream_t stream, int device, int64_t call) { stream_on(stream, device)->last = call; }

static cudaError_t await(int64_t call)
{
	if (call == NO_CALL || !live_mine)
		return cudaSuccess;
	return LIVE_ASK(OP_GPU, GPU_WAIT, call) < 0 ? cudaErrorUnknown : cudaSuccess;
}

/* When a kernel ended, in ps; 0 while it has not. */
static uint64_t end_of(int64_t call)
{
	return live_mine && LIVE_ASK(OP_GPU, GPU_DONE, call) > 0 ? (uint64_t)live_mine->args[0] : 0;
}

/* ---- devices ---- */

cudaError_t cudaGetDeviceCount(int *number)
{
	*number = count();
	return is(*number ? cudaSuccess : cudaErrorNoDevice);
}
cudaError_t cudaSetDevice(int device)
{
	if (device < 0 || device >= count())
		return is(cudaErrorInvalidDevice);
	chosen = device;
	return cudaSuccess;
}
cudaError_t cudaGetDevice(int *device)
{
	*device = chosen;
	return is(count() ? cudaSuccess : cudaErrorNoDevice);
}
cudaError_t cudaGetDeviceProperties(struct cudaDeviceProp *properties, int device)
{
	if (device < 0 || device >= count())
		return is(cudaErrorInvalidDevice);
	memset(properties, 0, sizeof *properties);
	memcpy(properties->name, devices.name, sizeof devices.name);
	properties->uuid[0] = (unsigned char)device;
	properties->totalGlobalMem = MEMORY;
	properties->warpSize = 32;
	properties->maxThreadsPerBlock = 1024;
	properties->major = (int)devices.capability / 10;
	properties->minor = (int)devices.capability % 10;
	return cudaSuccess;
}
cudaError_t cudaGetDeviceProperties_v2(struct cudaDeviceProp *properties, int device) { return cudaGetDeviceProperties(properties, device); }
cudaError_t cudaDeviceGetPCIBusId(char *bus, int size, int device)
{
	if (device < 0 || device >= count())
		return is(cudaErrorInvalidDevice);
	snprintf(bus, (size_t)size, "%s", devices.bus[device]);
	return cudaSuccess;
}
cudaError_t cudaDeviceSynchronize(void)
{
	if (!count())
		return is(cudaErrorNoDevice);
	return is(LIVE_ASK(OP_GPU, GPU_IDLE, chosen) < 0 ? cudaErrorUnknown : cudaSuccess);
}
cudaError_t cudaDeviceReset(void) { return cudaSuccess; }
cudaError_t cudaDeviceCanAccessPeer(int *can, int device, int peer)
{
	*can = device != peer && device < count() && peer < count();
	return cudaSuccess;
}
cudaError_t cudaDeviceEnablePeerAccess(int peer, unsigned int flags)
{
	(void)flags;
	return is(peer < count() ? cudaSuccess : cudaErrorInvalidDevice);
}
cudaError_t cudaRuntimeGetVersion(int *version) { return *version = 12040, cudaSuccess; }
cudaError_t cudaDriverGetVersion(int *version) { return *version = 12040, cudaSuccess; }

/* ---- memory: each block in pages of its own, with its size in front ---- */

#define PAGE ((size_t)4096)

cudaError_t cudaMalloc(void **memory, size_t size)
{
	size_t all = PAGE + ((size + PAGE - 1) & ~(PAGE - 1));
	void *at = all < size ? MAP_FAILED : mmap(NULL, all, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (at == MAP_FAILED)
		return is(cudaErrorMemoryAllocation);
	*(size_t *)at = all;
	*memory = (char *)at + PAGE;
	return cudaSuccess;
}
cudaError_t cudaFree(void *memory)
{
	if (memory) {
		char *at = (char *)memory - PAGE;
		munmap(at, *(size_t *)at);
	}
	return cudaSuccess;
}
cudaError_t cudaMallocHost(void **memory, size_t size) { return cudaMalloc(memory, size); }
cudaError_t cudaHostAlloc(void **memory, size_t size, unsigned int flags)
{
	(void)flags;
	return cudaMalloc(memory, size);
}
cudaError_t cudaFreeHost(void *memory) { return cudaFree(memory); }
cudaError_t cudaHostRegister(void *memory, size_t size, unsigned int flags)
{
	(void)memory, (void)size, (void)flags;
	return cudaSuccess;
}
cudaError_t cudaHostUnregister(void *memory)
{
	(void)memory;
	return cudaSuccess;
}
cudaError_t cudaMemGetInfo(size_t *free, size_t *total)
{
	*free = *total = MEMORY;
	return cudaSuccess;
}

cudaError_t cudaMemcpyAsync(void *to, const void *from, size_t size, enum cudaMemcpyKind kind, cudaStream_t stream)
{
	cudaError_t error = await(stream_of(stream)->last);
	memmove(to, from, size);
	if (kind != cudaMemcpyHostToHost)
		live_spend(size * PS_PER_BYTE);
	return is(error);
}
cudaError_t cudaMemcpy(void *to, const void *from, size_t size, enum cudaMemcpyKind kind) { return cudaMemcpyAsync(to, from, size, kind, NULL); }
cudaError_t cudaMemsetAsync(void *memory, int value, size_t size, cudaStream_t stream)
{
	cudaError_t error = await(stream_of(stream)->last);
	memset(memory, value, size);
	return is(error);
}
cudaError_t cudaMemset(void *memory, int value, size_t size) { return cudaMemsetAsync(memory, value, size, NULL); }

/* ---- streams and events ---- */

cudaError_t cudaStreamCreate(cudaStream_t *stream)
{
	if (!count())
		return is(cudaErrorNoDevice);
	*stream = malloc(sizeof **stream);
	if (!*stream)
		return is(cudaErrorMemoryAllocation);
	**stream = (struct CUstream_st){ chosen, NO_CALL };
	return cudaSuccess;
}
cudaError_t cudaStreamCreateWithFlags(cudaStream_t *stream, unsigned int flags)
{
	(void)flags;
	return cudaStreamCreate(stream);
}
cudaError_t cudaStreamCreateWithPriority(cudaStream_t *stream, unsigned int flags, int priority)
{
	(void)flags, (void)priority;
	return cudaStreamCreate(stream);
}
cudaError_t cudaStreamDestroy(cudaStream_t stream)
{
	if ((uintptr_t)stream > 2)
		free(stream);
	return cudaSuccess;
}
cudaError_t cudaStreamSynchronize(cudaStream_t stream) { return is(await(stream_of(stream)->last)); }
cudaError_t cudaStreamQuery(cudaStream_t stream)
{
	int64_t call = stream_of(stream)->last;
	if (call == NO_CALL || end_of(call))
		return cudaSuccess;
	/* Whoever asks again and again lets time go on. */
	LIVE_ASK(OP_YIELD);
	return cudaErrorNotReady;
}
cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned int flags)
{
	(void)flags;
	struct CUstream_st *of = stream_of(stream);
	if (!event->recorded || event->call == NO_CALL || event->call == of->last)
		return cudaSuccess;
	/* What comes next in the stream is behind both. */
	int64_t both = of->last == NO_CALL || !live_mine ? event->call : LIVE_ASK(OP_GPU, GPU_BOTH, of->last, event->call);
	if (both < 0)
		return is(cudaErrorUnknown);
	of->last = both;
	return cudaSuccess;
}
cudaError_t cudaEventCreateWithFlags(cudaEvent_t *event, unsigned int flags)
{
	(void)flags;
	*event = calloc(1, sizeof **event);
	return is(*event ? cudaSuccess : cudaErrorMemoryAllocation);
}
cudaError_t cudaEventCreate(cudaEvent_t *event) { return cudaEventCreateWithFlags(event, 0); }
cudaError_t cudaEventDestroy(cudaEvent_t event)
{
	free(event);
	return cudaSuccess;
}
cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream)
{
	*event = (struct CUevent_st){ stream_of(stream)->last, live_now(), true };
	return cudaSuccess;
}
cudaError_t cudaEventSynchronize(cudaEvent_t event) { return is(event->recorded ? await(event->call) : cudaSuccess); }
cudaError_t cudaEventQuery(cudaEvent_t event)
{
	if (!event->recorded || event->call == NO_CALL || end_of(event->call))
		return cudaSuccess;
	LIVE_ASK(OP_YIELD);
	return cudaErrorNotReady;
}
/* When the event was, in ps: after the kernel before it, and not before it was recorded. False where it has not come. */
static bool time_of(cudaEvent_t event, uint64_t *at)
{
	uint64_t ended = event->call == NO_CALL ? 0 : end_of(event->call);
	*at = ended > event->at ? ended : event->at;
	return event->call == NO_CALL || ended;
}
cudaError_t cudaEventElapsedTime(float *ms, cudaEvent_t begun, cudaEvent_t ended)
{
	if (!begun->recorded || !ended->recorded)
		return is(cudaErrorInvalidResourceHandle);
	uint64_t from, to;
	if (!time_of(begun, &from) || !time_of(ended, &to))
		return is(cudaErrorNotReady);
	*ms = (float)((double)(int64_t)(to - from) / 1e9);
	return cudaSuccess;
}

/* ---- errors, and what is not there ---- */

cudaError_t cudaPeekAtLastError(void) { return last_error; }
cudaError_t cudaGetLastError(void)
{
	cudaError_t error = last_error;
	last_error = cudaSuccess;
	return error;
}

static const struct {
	cudaError_t error;
	const char *name, *text;
} texts[] = {
	{ cudaSuccess, "cudaSuccess", "no error" },
	{ cudaErrorInvalidValue, "cudaErrorInvalidValue", "invalid argument" },
	{ cudaErrorMemoryAllocation, "cudaErrorMemoryAllocation", "out of memory" },
	{ cudaErrorInitializationError, "cudaErrorInitializationError", "initialization error" },
	{ cudaErrorNoDevice, "cudaErrorNoDevice", "no CUDA-capable device is detected" },
	{ cudaErrorInvalidDevice, "cudaErrorInvalidDevice", "invalid device ordinal" },
	{ cudaErrorInvalidResourceHandle, "cudaErrorInvalidResourceHandle", "invalid resource handle" },
	{ cudaErrorNotReady, "cudaErrorNotReady", "device not ready" },
	{ cudaErrorNotSupported, "cudaErrorNotSupported", "operation not supported" },
};

const char *cudaGetErrorName(cudaError_t error)
{
	for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
		if (texts[i].error == error)
			return texts[i].name;
	return "cudaErrorUnknown";
}
const char *cudaGetErrorString(cudaError_t error)
{
	for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
		if (texts[i].error == error)
			return texts[i].text;
	return "unknown error";
}
cudaError_t cudaLaunchKernel(const void *function, ...)
{
	(void)function;
	return is(cudaErrorNotSupported);
}
