/* What the stand-ins for the CUDA runtime and NCCL ask; `src/gpu/calls.rs` has the same numbers. */
#ifndef FABRISCOPE_GPU_H
#define FABRISCOPE_GPU_H

#include "channel.h"

#include "../include/nccl.h"

enum live_gpu {
	GPU_DEVICES,
	GPU_NEW,
	GPU_JOIN,
	GPU_JOINED,
	GPU_COLLECTIVE,
	GPU_GROUP,
	GPU_WAIT,
	GPU_DONE,
	GPU_LEAVE,
	GPU_ESTIMATE,
	GPU_SPLIT,
	GPU_PART,
	GPU_BOTH,
	GPU_IDLE,
	GPU_FLUSH,
};

/* No kernel. */
#define NO_CALL (-1)

/* A stream holds the number of its last kernel; those before it have ended by then. `device` says whose stream the usual one is. */
int64_t live_stream_last(cudaStream_t stream, int device);
void live_stream_holds(cudaStream_t stream, int device, int64_t call);
/* The device that the thread has chosen. */
int live_device(void);

#endif
