/* Datagrams of subnet management as libibumad sends them: through a device of each adapter. `src/management.rs` answers. */
#define _GNU_SOURCE
#include "channel.h"
#include "parts.h"
#include "sockets.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/types.h>

#define DEVICE "/dev/infiniband/umad"
#define MAGIC 0x1b
/* Calls of the device: two ways to become an agent, and to be none any more. */
enum { REGISTER = 1, UNREGISTER, ENABLE_PKEY, REGISTER2 };

static uint8_t nics[MOST_FDS];
static uint32_t agents;

bool live_is_management(const char *path) { return live_mine && !strncmp(path, DEVICE, sizeof DEVICE - 1); }

int live_open_management(int fd, const char *path)
{
	int served = live_serve(fd, OP_MAD_OPEN, FD_MANAGEMENT);
	if (served >= 0)
		nics[served] = (uint8_t)atoi(path + sizeof DEVICE - 1);
	return served;
}

int live_control_management(unsigned long request, void *argument)
{
	if (_IOC_TYPE(request) != MAGIC)
		return errno = ENOTTY, -1;
	/* The number of the agent comes first in both structures. */
	if (_IOC_NR(request) == REGISTER || _IOC_NR(request) == REGISTER2)
		memcpy(argument, &(uint32_t){ agents++ % 32 }, sizeof(uint32_t));
	return 0;
}

ssize_t live_send_management(int fd, const void *bytes, size_t size)
{
	if (size > LIVE_DATA / 2)
		return errno = EINVAL, -1;
	memcpy(live_question(), bytes, size);
	live_mine->args[0] = fd;
	live_mine->args[1] = nics[fd];
	int64_t result = live_ask(OP_MAD_SEND, size);
	return result < 0 ? live_result(result) : (ssize_t)size;
}

ssize_t live_receive_management(int fd, void *bytes, size_t size)
{
	int64_t result = LIVE_ASK(OP_MAD_RECEIVE, fd, live_blocks(fd));
	if (result < 0)
		return live_result(result);
	size_t length = live_mine->length < size ? live_mine->length : size;
	memcpy(bytes, live_question(), length);
	return (ssize_t)length;
}
