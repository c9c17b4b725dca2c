/* Sockets between virtual hosts: the bytes go through the fabric, which knows when they arrive on the management network.
 *
 * The descriptor is a real one that is never connected, so that it has a number, flags and options. */
#define _GNU_SOURCE
#include "sockets.h"
#include "channel.h"
#include "parts.h"
#include "real.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

/* Bytes of one question. */
#define CHUNK (32 * 1024)
#define ANY 0u

uint8_t live_kinds[MOST_FDS];

static bool is_stream(int fd) { return live_mine && live_kind_of(fd) == FD_STREAM; }
static bool is_datagram(int fd) { return live_mine && live_kind_of(fd) == FD_DATAGRAMS; }
/* Of either kind. */
static bool is_socket(int fd) { return is_stream(fd) || is_datagram(fd); }

/* Whether the kernel serves a call on a descriptor, which does not wait there any more. */
static bool is_kernels(int fd, short events)
{
	if (is_stream(fd))
		return false;
	live_await_kernel(fd, events);
	return true;
}

/* What came of such a call. Whoever tries again and again lets others go on in the meantime. */
static long tried(long result)
{
	if (result < 0 && errno == EAGAIN && live_mine) {
		LIVE_ASK(OP_YIELD);
		errno = EAGAIN;
	}
	return result;
}

bool live_blocks(int fd) { return !(live_syscall(SYS_fcntl, fd, F_GETFL, 0, 0, 0, 0) & O_NONBLOCK); }
static bool blocks(int fd, int flags) { return !(flags & MSG_DONTWAIT) && live_blocks(fd); }

/* The version of IP of a socket. */
static int domain_of(int fd)
{
	int domain = AF_INET;
	socklen_t size = sizeof domain;
	live_syscall(SYS_getsockopt, fd, SOL_SOCKET, SO_DOMAIN, &domain, &size, 0);
	return domain;
}

bool live_address_of(const struct sockaddr *address, socklen_t length, uint32_t *host, uint16_t *port)
{
	if (address->sa_family == AF_INET && length >= sizeof(struct sockaddr_in)) {
		const struct sockaddr_in *in = (const void *)address;
		*host = ntohl(in->sin_addr.s_addr);
		*port = ntohs(in->sin_port);
		return true;
	}
	if (address->sa_family == AF_INET6 && length >= sizeof(struct sockaddr_in6)) {
		const struct sockaddr_in6 *in = (const void *)address;
		const uint8_t *raw = in->sin6_addr.s6_addr;
		*port = ntohs(in->sin6_port);
		*host = ANY;
		if (IN6_IS_ADDR_V4MAPPED(&in->sin6_addr))
			*host = (uint32_t)raw[12] << 24 | (uint32_t)raw[13] << 16 | (uint32_t)raw[14] << 8 | raw[15];
		else if (IN6_IS_ADDR_LOOPBACK(&in->sin6_addr))
			*host = INADDR_LOOPBACK;
		else
			return IN6_IS_ADDR_UNSPECIFIED(&in->sin6_addr);
		return true;
	}
	return false;
}

void live_put_address(int fd, uint32_t host, uint16_t port, struct sockaddr *address, socklen_t *length)
{
	int family = domain_of(fd);
	struct sockaddr_in in = { .sin_family = AF_INET, .sin_port = htons(port), .sin_addr.s_addr = htonl(host) };
	struct sockaddr_in6 in6 = { .sin6_family = AF_INET6, .sin6_port = htons(port) };
	if (host != ANY) {
		in6.sin6_addr.s6_addr[10] = in6.sin6_addr.s6_addr[11] = 0xff;
		memcpy(in6.sin6_addr.s6_addr + 12, &in.sin_addr, 4);
	}
	const void *from = family == AF_INET6 ? (const void *)&in6 : &in;
	socklen_t size = family == AF_INET6 ? sizeof in6 : sizeof in;
	if (!address || !length)
		return;
	memcpy(address, from, *length < size ? *length : size);
	*length = size;
}

int socket(int domain, int type, int protocol)
{
	int fd = (int)live_syscall(SYS_socket, domain, type, protocol, 0, 0, 0);
	if (fd < 0 || !live_mine || (domain != AF_INET && domain != AF_INET6) || fd >= MOST_FDS)
		return fd;
	if ((type & 0xf) == SOCK_DGRAM)
		return live_datagram_socket(fd, domain);
	if ((type & 0xf) != SOCK_STREAM)
		return fd;
	int64_t error = LIVE_ASK(OP_SOCKET, fd, domain);
	if (error < 0) {
		live_syscall(SYS_close, fd);
		return (int)live_result(error);
	}
	live_set_kind(fd, FD_STREAM);
	return fd;
}

int bind(int fd, const struct sockaddr *address, socklen_t length)
{
	uint32_t host;
	uint16_t port;
	if (live_real)
		return real_bind(fd, address, length);
	if (!is_socket(fd))
		return (int)live_syscall(SYS_bind, fd, address, length, 0, 0, 0);
	if (!live_address_of(address, length, &host, &port))
		return errno = EADDRNOTAVAIL, -1;
	return (int)live_result(LIVE_ASK(OP_BIND, fd, host, port));
}

int listen(int fd, int backlog)
{
	if (!is_stream(fd))
		return (int)live_syscall(SYS_listen, fd, backlog, 0, 0, 0, 0);
	return (int)live_result(LIVE_ASK(OP_LISTEN, fd, backlog));
}

int connect(int fd, const struct sockaddr *address, socklen_t length)
{
	uint32_t host;
	uint16_t port;
	if (live_real)
		return real_connect(fd, address, length);
	if (!is_socket(fd))
		return (int)live_syscall(SYS_connect, fd, address, length, 0, 0, 0);
	if (is_datagram(fd) && address->sa_family == AF_UNSPEC)
		return (int)live_result(LIVE_ASK(OP_CONNECT, fd));
	if (!live_address_of(address, length, &host, &port))
		return errno = ENETUNREACH, -1;
	return (int)live_result(LIVE_ASK(OP_CONNECT, fd, host, port, blocks(fd, 0)));
}

int accept4(int fd, struct sockaddr *address, socklen_t *length, int flags)
{
	if (is_kernels(fd, POLLIN))
		return (int)tried(live_syscall(SYS_accept4, fd, address, length, flags, 0, 0));
	int domain = domain_of(fd);
	int made = (int)live_syscall(SYS_socket, domain, SOCK_STREAM | flags, 0, 0, 0, 0);
	if (made < 0)
		return made;
	int64_t error = LIVE_ASK(OP_ACCEPT, fd, made, blocks(fd, 0));
	if (error < 0) {
		live_syscall(SYS_close, made);
		return (int)live_result(error);
	}
	live_put_address(made, (uint32_t)live_mine->args[0], (uint16_t)live_mine->args[1], address, length);
	live_set_kind(made, FD_STREAM);
	return made;
}
int accept(int fd, struct sockaddr *address, socklen_t *length) { return accept4(fd, address, length, 0); }

static ssize_t put(int fd, const void *bytes, size_t size, int flags)
{
	size_t done = 0;
	bool blocking = blocks(fd, flags);
	do {
		size_t part = size - done < CHUNK ? size - done : CHUNK;
		memcpy(live_question(), (const char *)bytes + done, part);
		live_mine->args[0] = fd;
		live_mine->args[1] = blocking;
		int64_t taken = live_ask(OP_SEND, part);
		if (taken < 0) {
			if (done)
				break;
			if (taken == -EPIPE && !(flags & MSG_NOSIGNAL))
				raise(SIGPIPE);
			return live_result(taken);
		}
		done += (size_t)taken;
	} while (done < size && blocking);
	return (ssize_t)done;
}

static ssize_t get(int fd, void *bytes, size_t size, int flags)
{
	size_t done = 0;
	bool all = flags & MSG_WAITALL, blocking = blocks(fd, flags);
	if (!size)
		return 0;
	do {
		int64_t most = size - done < CHUNK ? (int64_t)(size - done) : CHUNK;
		int64_t came = LIVE_ASK(OP_RECV, fd, most, blocking, (flags & MSG_PEEK) != 0);
		if (came < 0)
			return done ? (ssize_t)done : live_result(came);
		memcpy((char *)bytes + done, live_question(), (size_t)came);
		done += (size_t)came;
		if (!came)
			break;
	} while (all && done < size);
	return (ssize_t)done;
}

ssize_t sendto(int fd, const void *bytes, size_t size, int flags, const struct sockaddr *to, socklen_t length)
{
	if (is_datagram(fd)) {
		struct iovec piece = { (void *)bytes, size };
		return live_send_datagram(fd, &(struct msghdr){ .msg_name = (void *)to, .msg_namelen = length, .msg_iov = &piece, .msg_iovlen = 1 });
	}
	return is_kernels(fd, POLLOUT) ? live_syscall(SYS_sendto, fd, bytes, size, flags, to, length) : put(fd, bytes, size, flags);
}
ssize_t send(int fd, const void *bytes, size_t size, int flags) { return sendto(fd, bytes, size, flags, NULL, 0); }
ssize_t recvfrom(int fd, void *bytes, size_t size, int flags, struct sockaddr *from, socklen_t *length)
{
	if (is_datagram(fd)) {
		struct iovec piece = { bytes, size };
		struct msghdr message = { .msg_name = from, .msg_namelen = length ? *length : 0, .msg_iov = &piece, .msg_iovlen = 1 };
		ssize_t came = live_receive_datagram(fd, &message, flags);
		if (came >= 0 && from && length)
			*length = message.msg_namelen;
		return came;
	}
	return is_kernels(fd, POLLIN) ? tried(live_syscall(SYS_recvfrom, fd, bytes, size, flags, from, length)) : get(fd, bytes, size, flags);
}
ssize_t recv(int fd, void *bytes, size_t size, int flags) { return recvfrom(fd, bytes, size, flags, NULL, NULL); }
ssize_t __recv_chk(int fd, void *bytes, size_t size, size_t room, int flags)
{
	(void)room;
	return recv(fd, bytes, size, flags);
}
ssize_t read(int fd, void *bytes, size_t size)
{
	if (live_mine && live_kind_of(fd) == FD_MANAGEMENT)
		return live_receive_management(fd, bytes, size);
	if (is_datagram(fd))
		return recv(fd, bytes, size, 0);
	return is_kernels(fd, POLLIN) ? tried(live_syscall(SYS_read, fd, bytes, size, 0, 0, 0)) : get(fd, bytes, size, 0);
}
ssize_t __read_chk(int fd, void *bytes, size_t size, size_t room)
{
	(void)room;
	return read(fd, bytes, size);
}
ssize_t write(int fd, const void *bytes, size_t size)
{
	if (live_mine && live_kind_of(fd) == FD_CONNECTIONS)
		return live_command(fd, bytes, size);
	if (live_mine && live_kind_of(fd) == FD_MANAGEMENT)
		return live_send_management(fd, bytes, size);
	if (is_datagram(fd))
		return send(fd, bytes, size, 0);
	return is_kernels(fd, POLLOUT) ? live_syscall(SYS_write, fd, bytes, size, 0, 0, 0) : put(fd, bytes, size, 0);
}

ssize_t writev(int fd, const struct iovec *list, int count)
{
	if (is_datagram(fd))
		return live_send_datagram(fd, &(struct msghdr){ .msg_iov = (struct iovec *)list, .msg_iovlen = (size_t)count });
	if (is_kernels(fd, POLLOUT))
		return live_syscall(SYS_writev, fd, list, count, 0, 0, 0);
	ssize_t done = 0;
	for (int i = 0; i < count; i++) {
		ssize_t part = put(fd, list[i].iov_base, list[i].iov_len, 0);
		if (part < 0)
			return done ? done : part;
		done += part;
		if ((size_t)part < list[i].iov_len)
			break;
	}
	return done;
}

ssize_t readv(int fd, const struct iovec *list, int count)
{
	if (is_datagram(fd))
		return live_receive_datagram(fd, &(struct msghdr){ .msg_iov = (struct iovec *)list, .msg_iovlen = (size_t)count }, 0);
	if (is_kernels(fd, POLLIN))
		return tried(live_syscall(SYS_readv, fd, list, count, 0, 0, 0));
	ssize_t done = 0;
	for (int i = 0; i < count; i++) {
		if (!list[i].iov_len)
			continue;
		ssize_t part = get(fd, list[i].iov_base, list[i].iov_len, done ? MSG_DONTWAIT : 0);
		if (part < 0)
			return done ? done : part;
		done += part;
		if ((size_t)part < list[i].iov_len)
			break;
	}
	return done;
}

ssize_t sendmsg(int fd, const struct msghdr *message, int flags)
{
	if (is_datagram(fd))
		return live_send_datagram(fd, message);
	return is_stream(fd) ? writev(fd, message->msg_iov, (int)message->msg_iovlen) : live_syscall(SYS_sendmsg, fd, message, flags, 0, 0, 0);
}
ssize_t recvmsg(int fd, struct msghdr *message, int flags)
{
	if (is_datagram(fd))
		return live_receive_datagram(fd, message, flags);
	if (is_kernels(fd, POLLIN))
		return tried(live_syscall(SYS_recvmsg, fd, message, flags, 0, 0, 0));
	message->msg_controllen = 0;
	message->msg_flags = 0;
	return readv(fd, message->msg_iov, (int)message->msg_iovlen);
}

int shutdown(int fd, int how)
{
	if (!is_socket(fd))
		return (int)live_syscall(SYS_shutdown, fd, how, 0, 0, 0, 0);
	return (int)live_result(LIVE_ASK(OP_SHUTDOWN, fd, how));
}

int close(int fd)
{
	enum live_kind kind = live_kind_of(fd);
	if (live_mine && live_is_served(fd))
		LIVE_ASK(OP_CLOSE, fd);
	if (kind == FD_POLL_SET)
		live_forget_poll_set(fd);
	live_set_kind(fd, FD_KERNEL);
	return (int)live_syscall(SYS_close, fd, 0, 0, 0, 0, 0);
}

int live_serve(int fd, enum live_kind kind, int op, int64_t first, int64_t second)
{
	if (fd < 0)
		return fd;
	int64_t error = fd < MOST_FDS ? LIVE_ASK((enum live_op)op, fd, first, second) : -EMFILE;
	if (error < 0) {
		live_syscall(SYS_close, fd);
		return (int)live_result(error);
	}
	live_set_kind(fd, kind);
	return fd;
}

static int copied(int from, int to)
{
	enum live_kind kind = live_kind_of(from);
	if (to < 0 || kind == FD_KERNEL || !live_mine)
		return to;
	live_set_kind(to, kind);
	if (live_is_served(from))
		LIVE_ASK(OP_DUP, from, to);
	return to;
}

int dup(int fd) { return copied(fd, (int)live_syscall(SYS_dup, fd, 0, 0, 0, 0, 0)); }
int dup3(int fd, int to, int flags)
{
	if (fd != to && live_mine && live_kind_of(to) != FD_KERNEL)
		close(to);
	return copied(fd, (int)live_syscall(SYS_dup3, fd, to, flags, 0, 0, 0));
}
int dup2(int fd, int to)
{
	if (fd == to)
		return live_syscall(SYS_fcntl, fd, F_GETFD, 0, 0, 0, 0) < 0 ? -1 : fd;
	return dup3(fd, to, 0);
}

int fcntl(int fd, int command, ...)
{
	va_list list;
	va_start(list, command);
	long argument = va_arg(list, long);
	va_end(list);
	long result = live_syscall(SYS_fcntl, fd, command, argument, 0, 0, 0);
	if (command == F_DUPFD || command == F_DUPFD_CLOEXEC)
		return copied(fd, (int)result);
	return (int)result;
}
int fcntl64(int fd, int command, ...) __attribute__((alias("fcntl")));

static int name(int fd, int which, struct sockaddr *address, socklen_t *length)
{
	int64_t error = LIVE_ASK(OP_NAME, fd, which);
	if (error < 0)
		return (int)live_result(error);
	live_put_address(fd, (uint32_t)live_mine->args[0], (uint16_t)live_mine->args[1], address, length);
	return 0;
}
int getsockname(int fd, struct sockaddr *address, socklen_t *length)
{
	return is_socket(fd) ? name(fd, 0, address, length) : (int)live_syscall(SYS_getsockname, fd, address, length, 0, 0, 0);
}
int getpeername(int fd, struct sockaddr *address, socklen_t *length)
{
	return is_socket(fd) ? name(fd, 1, address, length) : (int)live_syscall(SYS_getpeername, fd, address, length, 0, 0, 0);
}

int getsockopt(int fd, int level, int option, void *value, socklen_t *length)
{
	if (is_socket(fd) && level == SOL_SOCKET && option == SO_ERROR && *length >= sizeof(int)) {
		*(int *)value = (int)LIVE_ASK(OP_SOCKET_ERROR, fd);
		*length = sizeof(int);
		return 0;
	}
	return (int)live_syscall(SYS_getsockopt, fd, level, option, value, length, 0);
}

int ioctl(int fd, unsigned long request, ...)
{
	va_list list;
	va_start(list, request);
	void *argument = va_arg(list, void *);
	va_end(list);
	if (is_socket(fd) && request == FIONREAD) {
		int64_t there = LIVE_ASK(OP_RECV, fd, CHUNK, 0, 1);
		*(int *)argument = there < 0 ? 0 : (int)there;
		return 0;
	}
	if (live_mine && live_kind_of(fd) == FD_MANAGEMENT)
		return live_control_management(fd, request, argument);
	return (int)live_syscall(SYS_ioctl, fd, request, argument, 0, 0, 0);
}
