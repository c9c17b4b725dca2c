/* Which descriptors of the process the fabric serves. */
#ifndef FABRISCOPE_SOCKETS_H
#define FABRISCOPE_SOCKETS_H

#include <stdbool.h>
#include <stdint.h>
#include <poll.h>
#include <sys/epoll.h>
#include <sys/socket.h>

enum live_kind {
	FD_KERNEL,   /* the kernel serves it */
	FD_STREAM,   /* a socket or a pipe of the virtual hosts */
	FD_EVENTS,   /* events of completion queues, or of a device */
	FD_POLL_SET, /* an epoll descriptor */
	FD_CONNECTIONS, /* the connection manager's events; takes commands */
	FD_MANAGEMENT,  /* datagrams of subnet management */
	FD_DATAGRAMS,   /* a socket of UDP */
};

#define MOST_FDS 65536
extern uint8_t live_kinds[MOST_FDS];

static inline enum live_kind live_kind_of(int fd) { return fd >= 0 && fd < MOST_FDS ? live_kinds[fd] : FD_KERNEL; }
static inline void live_set_kind(int fd, enum live_kind kind)
{
	if (fd >= 0 && fd < MOST_FDS)
		live_kinds[fd] = (uint8_t)kind;
}

/* Whether the fabric knows of a descriptor. */
static inline bool live_is_served(int fd)
{
	enum live_kind kind = live_kind_of(fd);
	return kind == FD_STREAM || kind == FD_EVENTS || kind == FD_CONNECTIONS || kind == FD_MANAGEMENT || kind == FD_DATAGRAMS;
}
/* Whether calls on a descriptor wait. */
bool live_blocks(int fd);
/* The fabric serves a descriptor from here on, if there is one: it is told by `op`. Gives it, or -1. */
int live_serve(int fd, enum live_kind kind, int op, int64_t first, int64_t second);
/* Waits in virtual time until a descriptor of the kernel is ready, so that the call after it does not block; nothing where it does not block. */
void live_await_kernel(int fd, short events);
/* A child that the kernel knows has something to say, or time passes until it has. */
void live_await_child(int which, int options);
/* `poll` over descriptors of both kinds; `ns` < 0 waits for ever. */
int live_poll(struct pollfd *fds, nfds_t count, int64_t ns);
void live_forget_poll_set(int fd);

/* Address and port in the byte order of the host; false for what is not of IP. */
bool live_address_of(const struct sockaddr *address, socklen_t length, uint32_t *host, uint16_t *port);
/* The same back, as an address of the socket's family. */
void live_put_address(int fd, uint32_t host, uint16_t port, struct sockaddr *address, socklen_t *length);

/* datagrams.c: `fd` becomes a socket of UDP; gives it, or -1. */
int live_datagram_socket(int fd, int domain);
ssize_t live_send_datagram(int fd, const struct msghdr *message);
ssize_t live_receive_datagram(int fd, struct msghdr *message, int flags);

#endif
