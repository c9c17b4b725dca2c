/* Hosts in real time: each has an address of its own on the loopback interface, so that several may listen at the same port.
 *
 * Sockets are the kernel's. What a program binds to any address, or to that of the loopback, it binds to its host's; what it connects from
 * no address of its own, comes from there. */
#define _GNU_SOURCE
#include "real.h"
#include "sockets.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <time.h>

/* A server may start after its client: how often that tries, and how long it waits in between. Basis: assumed, five seconds. */
#define TRIES 1000
#define BETWEEN_TRIES_NS 5000000

static const struct real_host *own(void) { return &real_adapter.directory->host[real_adapter.host]; }

uint32_t real_own_address(void) { return own()->address; }
const char *real_own_name(void) { return own()->name; }

/* 0 if there is no host of that name; without one, this host's. */
uint32_t real_address_of(const char *name)
{
	const struct real_directory *directory = real_adapter.directory;
	if (!name || !*name)
		return real_own_address();
	for (uint32_t i = 0; i < directory->hosts; i++)
		if (!strcmp(directory->host[i].name, name))
			return directory->host[i].address;
	return 0;
}

static bool is_local(uint32_t host) { return host == INADDR_ANY || host == INADDR_LOOPBACK; }

union address {
	struct sockaddr any;
	struct sockaddr_in in;
	struct sockaddr_in6 in6;
};

/* Whether an address means this host, whichever that is; then it is its own. */
static bool make_own(union address *of, socklen_t length)
{
	struct in6_addr *six = &of->in6.sin6_addr;
	uint32_t host;
	if (of->any.sa_family == AF_INET && length >= sizeof of->in) {
		if (!is_local(ntohl(of->in.sin_addr.s_addr)))
			return false;
		of->in.sin_addr.s_addr = htonl(real_own_address());
		return true;
	}
	if (of->any.sa_family != AF_INET6 || length < sizeof of->in6)
		return false;
	memcpy(&host, six->s6_addr + 12, sizeof host);
	bool mapped = IN6_IS_ADDR_V4MAPPED(six) && is_local(ntohl(host));
	if (!mapped && !IN6_IS_ADDR_UNSPECIFIED(six) && !IN6_IS_ADDR_LOOPBACK(six))
		return false;
	host = htonl(real_own_address());
	*six = (struct in6_addr){ .s6_addr = { [10] = 0xff, 0xff } };
	memcpy(six->s6_addr + 12, &host, sizeof host);
	return true;
}

/* A copy of an address that may be changed; its own host's, if it means that. */
static bool take(const struct sockaddr *address, socklen_t length, union address *to)
{
	if (length > sizeof *to || length < sizeof to->in)
		return false;
	memset(to, 0, sizeof *to);
	memcpy(to, address, length);
	return make_own(to, length);
}

/* A socket of version 6 reaches addresses of version 4, too. */
static void allow_both(int fd, int family)
{
	const int no = 0;
	if (family == AF_INET6)
		live_syscall(SYS_setsockopt, fd, IPPROTO_IPV6, IPV6_V6ONLY, &no, sizeof no, 0);
}

int real_bind(int fd, const struct sockaddr *address, socklen_t length)
{
	union address own_address;
	if (!take(address, length, &own_address))
		return (int)live_syscall(SYS_bind, fd, address, length, 0, 0, 0);
	allow_both(fd, own_address.any.sa_family);
	return (int)live_syscall(SYS_bind, fd, &own_address, length, 0, 0, 0);
}

static bool is_loopback(const union address *of)
{
	const uint8_t *raw = of->in6.sin6_addr.s6_addr;
	if (of->any.sa_family == AF_INET)
		return ntohl(of->in.sin_addr.s_addr) >> 24 == IN_LOOPBACKNET;
	return of->any.sa_family == AF_INET6 && IN6_IS_ADDR_V4MAPPED(&of->in6.sin6_addr) && raw[12] == IN_LOOPBACKNET;
}

/* Who connects from no address comes from its host's. */
static void bind_to_host(int fd, int family)
{
	union address is = { 0 };
	socklen_t size = sizeof is;
	const int yes = 1;
	if (live_syscall(SYS_getsockname, fd, &is, &size, 0, 0, 0) < 0 || (family == AF_INET ? is.in.sin_port : is.in6.sin6_port))
		return;
	if (!make_own(&is, size))
		return;
	live_syscall(SYS_setsockopt, fd, IPPROTO_IP, IP_BIND_ADDRESS_NO_PORT, &yes, sizeof yes, 0);
	live_syscall(SYS_bind, fd, &is, size, 0, 0, 0);
}

int real_connect(int fd, const struct sockaddr *address, socklen_t length)
{
	union address to;
	const struct timespec a_while = { 0, BETWEEN_TRIES_NS };
	bool is_own = take(address, length, &to);
	if (!is_own && (length > sizeof to || length < sizeof to.in || !is_loopback(&to)))
		return (int)live_syscall(SYS_connect, fd, address, length, 0, 0, 0);
	allow_both(fd, to.any.sa_family);
	bind_to_host(fd, to.any.sa_family);
	int result = -1;
	for (int i = 0; i < TRIES; i++) {
		result = (int)live_syscall(SYS_connect, fd, &to, length, 0, 0, 0);
		/* Who looks whether its own machine has a server is told at once. */
		if (result == 0 || errno != ECONNREFUSED || is_own || !live_blocks(fd))
			break;
		live_syscall(SYS_clock_nanosleep, CLOCK_MONOTONIC, 0, &a_while, NULL, 0, 0);
		errno = ECONNREFUSED;
	}
	return result;
}
