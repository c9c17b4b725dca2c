/* Network interfaces of a virtual host: the loopback, the management network, one of each adapter's port. */
#define _GNU_SOURCE
#include "channel.h"
#include "parts.h"
#include "verbs.h"

#include <arpa/inet.h>
#include <dlfcn.h>
#include <errno.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Of an interface, with all that its entry points to. */
struct interface {
	struct ifaddrs entry;
	struct sockaddr_in address, mask, broadcast;
	char name[IFNAMSIZ];
};

static void fill(struct interface *of, const char *name, uint32_t address, unsigned bits, unsigned flags)
{
	uint32_t mask = htonl(UINT32_MAX << (32 - bits));
	snprintf(of->name, sizeof of->name, "%s", name);
	of->address = (struct sockaddr_in){ .sin_family = AF_INET, .sin_addr.s_addr = htonl(address) };
	of->mask = (struct sockaddr_in){ .sin_family = AF_INET, .sin_addr.s_addr = mask };
	of->broadcast = (struct sockaddr_in){ .sin_family = AF_INET, .sin_addr.s_addr = htonl(address) | ~mask };
	of->entry = (struct ifaddrs){
		.ifa_name = of->name,
		.ifa_flags = IFF_UP | IFF_RUNNING | flags,
		.ifa_addr = (struct sockaddr *)&of->address,
		.ifa_netmask = (struct sockaddr *)&of->mask,
		.ifa_broadaddr = (struct sockaddr *)&of->broadcast,
	};
}

/* The address of an adapter's interface, which its GID ends with. */
static uint32_t address_of(const struct live_device_info *device)
{
	uint32_t address;
	memcpy(&address, live_interface_gid(device->lid).raw + 12, sizeof address);
	return ntohl(address);
}

int getifaddrs(struct ifaddrs **list)
{
	REAL(getifaddrs);
	if (!live_mine)
		return real(list);
	struct live_device_info devices[MOST_DEVICES];
	int64_t count = LIVE_ASK(OP_DEVICES);
	count = count < 0 ? 0 : count > MOST_DEVICES ? MOST_DEVICES : count;
	memcpy(devices, live_question(), (size_t)count * sizeof *devices);
	struct interface *all = calloc(2 + (size_t)count, sizeof *all);
	if (!all)
		return errno = ENOMEM, -1;
	fill(&all[0], "lo", INADDR_LOOPBACK, 8, IFF_LOOPBACK);
	fill(&all[1], "eth0", live_own_address(), 16, IFF_BROADCAST | IFF_MULTICAST);
	for (int64_t i = 0; i < count; i++) {
		char name[IFNAMSIZ];
		snprintf(name, sizeof name, "%s%d", devices[i].link_layer == LINK_ETHERNET ? "rdma" : "ib", (int)i);
		fill(&all[2 + i], name, address_of(&devices[i]), 8, IFF_BROADCAST | IFF_MULTICAST);
	}
	for (int64_t i = 0; i < count + 1; i++)
		all[i].entry.ifa_next = &all[i + 1].entry;
	*list = &all[0].entry;
	return 0;
}

void freeifaddrs(struct ifaddrs *list)
{
	REAL(freeifaddrs);
	if (!live_mine)
		real(list);
	else
		free(list);
}
