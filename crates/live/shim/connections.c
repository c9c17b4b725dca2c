/* The kernel's connection manager as librdmacm reaches it: a device whose descriptor takes commands. `src/cm` does them. */
#define _GNU_SOURCE
#include "channel.h"
#include "parts.h"
#include "sockets.h"

#include <errno.h>
#include <string.h>
#include <sys/types.h>

/* The head of a command. */
struct head {
	uint32_t command;
	uint16_t in, out;
};

bool live_is_connection_manager(const char *path) { return live_mine && !strcmp(path, "/dev/infiniband/rdma_cm"); }

/* The descriptor `fd` was opened on the device. */
int live_open_connections(int fd) { return live_serve(fd, FD_CONNECTIONS, OP_CM_OPEN, 0, 0); }

ssize_t live_command(int fd, const void *bytes, size_t size)
{
	struct head head;
	if (size < sizeof head || size > LIVE_DATA / 2)
		return errno = EINVAL, -1;
	memcpy(&head, bytes, sizeof head);
	memcpy(live_question(), bytes, size);
	live_mine->args[0] = fd;
	live_mine->args[1] = live_blocks(fd);
	int64_t result = live_ask(OP_CM_CALL, size);
	if (result < 0)
		return live_result(result);
	/* The answer has as many bytes as there is room for. */
	void *to = (void *)(uintptr_t)live_mine->args[0];
	if (to)
		memcpy(to, live_question(), head.out < live_mine->length ? head.out : live_mine->length);
	return (ssize_t)size;
}
