/* Datagrams of subnet management as libibumad sends them: through a device of each adapter. `src/management.rs` answers. */
#define _GNU_SOURCE
#include "channel.h"
#include "parts.h"
#include "sockets.h"

#include <errno.h>
#include <rdma/ib_user_mad.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/types.h>

/* What a manager holds open as long as it is there. */
#define MANAGER "/dev/infiniband/issm"
#define DEVICE "/dev/infiniband/umad"
#define MAGIC 0x1b
/* Calls of the device: two ways to become an agent, and to be none any more. */
enum { REGISTER = 1, UNREGISTER, ENABLE_PKEY, REGISTER2 };

static uint8_t nics[MOST_FDS];
static uint32_t agents;

static bool begins(const char *path, const char *with) { return !strncmp(path, with, strlen(with)); }
bool live_is_management(const char *path) { return live_mine && (begins(path, DEVICE) || begins(path, MANAGER)); }

int live_open_management(int fd, const char *path)
{
	_Static_assert(sizeof MANAGER == sizeof DEVICE, "the number comes at the same place");
	int nic = atoi(path + sizeof DEVICE - 1);
	int served = live_serve(fd, FD_MANAGEMENT, OP_MAD_OPEN, nic, begins(path, MANAGER));
	if (served >= 0)
		nics[served] = (uint8_t)nic;
	return served;
}

static int control(int fd, unsigned number, void *argument)
{
	/* The number of the agent comes first in both structures. */
	uint32_t agent = agents++ % 32;
	uint64_t methods[2];
	uint8_t class;
	switch (number) {
	case REGISTER: {
		struct ib_user_mad_reg_req *how = argument;
		how->id = agent;
		class = how->mgmt_class;
		memcpy(methods, how->method_mask, sizeof methods);
		break;
	}
	case REGISTER2: {
		struct ib_user_mad_reg_req2 *how = argument;
		how->id = agent;
		class = how->mgmt_class;
		memcpy(methods, how->method_mask, sizeof methods);
		break;
	}
	case UNREGISTER:
		memcpy(&agent, argument, sizeof agent);
		return (int)live_result(LIVE_ASK(OP_MAD_UNREGISTER, fd, agent));
	default:
		return 0;
	}
	return (int)live_result(LIVE_ASK(OP_MAD_REGISTER, fd, agent, class, (int64_t)methods[0], (int64_t)methods[1]));
}
int live_control_management(int fd, unsigned long request, void *argument)
{
	return _IOC_TYPE(request) == MAGIC ? control(fd, _IOC_NR(request), argument) : (errno = ENOTTY, -1);
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
	/* What has not room comes with its front and ENOSPC, and once more when there is room. */
	int64_t result = LIVE_ASK(OP_MAD_RECEIVE, fd, live_blocks(fd), (int64_t)size);
	size_t length = live_mine->length < size ? live_mine->length : size;
	memcpy(bytes, live_question(), length);
	return result < 0 ? live_result(result) : (ssize_t)length;
}
