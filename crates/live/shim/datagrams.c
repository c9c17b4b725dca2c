/* Sockets of UDP between virtual hosts. As those of streams they are real ones that are never connected. `src/datagrams.rs` answers. */
#define _GNU_SOURCE
#include "channel.h"
#include "parts.h"
#include "sockets.h"

#include <errno.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>

/* More than that is no datagram. */
#define MOST 65507

static bool blocks(int fd, int flags) { return !(flags & MSG_DONTWAIT) && live_blocks(fd); }

int live_datagram_socket(int fd, int domain) { return live_serve(fd, FD_DATAGRAMS, OP_DATAGRAM_SOCKET, domain, 0); }

ssize_t live_send_datagram(int fd, const struct msghdr *message)
{
	uint32_t host = 0;
	uint16_t port = 0;
	bool named = message->msg_name && message->msg_namelen > 0;
	size_t size = 0;
	for (size_t i = 0; i < message->msg_iovlen; i++)
		size += message->msg_iov[i].iov_len;
	if (size > MOST)
		return errno = EMSGSIZE, -1;
	if (named && !live_address_of(message->msg_name, message->msg_namelen, &host, &port))
		return errno = EAFNOSUPPORT, -1;
	/* A whole datagram needs the room of collected posts. */
	if (live_mine->posts)
		LIVE_ASK(OP_POST);
	uint8_t *to = live_question();
	for (size_t i = 0; i < message->msg_iovlen; i++) {
		if (message->msg_iov[i].iov_len)
			memcpy(to, message->msg_iov[i].iov_base, message->msg_iov[i].iov_len);
		to += message->msg_iov[i].iov_len;
	}
	const int64_t args[8] = { fd, 0, named, host, port };
	return live_result(live_ask_with(OP_SEND, args, size));
}

ssize_t live_receive_datagram(int fd, struct msghdr *message, int flags)
{
	int64_t came = LIVE_ASK(OP_RECV, fd, MOST, blocks(fd, flags), (flags & MSG_PEEK) != 0);
	if (came < 0)
		return live_result(came);
	const uint8_t *from = live_question();
	size_t left = (size_t)came;
	for (size_t i = 0; i < message->msg_iovlen && left; i++) {
		size_t part = message->msg_iov[i].iov_len < left ? message->msg_iov[i].iov_len : left;
		memcpy(message->msg_iov[i].iov_base, from, part);
		from += part;
		left -= part;
	}
	live_put_address(fd, (uint32_t)live_mine->args[0], (uint16_t)live_mine->args[1], message->msg_name, &message->msg_namelen);
	message->msg_controllen = 0;
	message->msg_flags = left ? MSG_TRUNC : 0;
	return flags & MSG_TRUNC ? came : came - (ssize_t)left;
}

/* Several at once: as many as there are, after the first one that has come. */
int sendmmsg(int fd, struct mmsghdr *all, unsigned count, int flags)
{
	unsigned done = 0;
	for (; done < count; done++) {
		ssize_t sent = sendmsg(fd, &all[done].msg_hdr, flags);
		if (sent < 0)
			break;
		all[done].msg_len = (unsigned)sent;
	}
	return done ? (int)done : count ? -1 : 0;
}
int recvmmsg(int fd, struct mmsghdr *all, unsigned count, int flags, struct timespec *limit)
{
	if (live_kind_of(fd) != FD_DATAGRAMS)
		return (int)live_syscall(SYS_recvmmsg, fd, all, count, flags, limit, 0);
	unsigned done = 0;
	for (; done < count; done++) {
		ssize_t came = recvmsg(fd, &all[done].msg_hdr, done ? flags | MSG_DONTWAIT : flags);
		if (came < 0)
			break;
		all[done].msg_len = (unsigned)came;
	}
	return done ? (int)done : count ? -1 : 0;
}
