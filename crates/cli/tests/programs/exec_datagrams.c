/* A server of UDP that echoes, and a client that asks it by name: whole datagrams, addresses, timeouts, and what comes where nobody is. */
#include <arpa/inet.h>
#include <errno.h>
#include <netdb.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#define PORT "7000"

static int serve(void)
{
	int fd = socket(AF_INET6, SOCK_DGRAM, 0);
	struct sockaddr_in6 own = { .sin6_family = AF_INET6, .sin6_port = htons(atoi(PORT)) }, from;
	static char bytes[65536];
	if (bind(fd, (struct sockaddr *)&own, sizeof own))
		return perror("bind"), 1;
	for (int i = 0; i < 3; i++) {
		socklen_t length = sizeof from;
		ssize_t came = recvfrom(fd, bytes, sizeof bytes, 0, (struct sockaddr *)&from, &length);
		if (came < 0 || sendto(fd, bytes, (size_t)came, 0, (struct sockaddr *)&from, length) != came)
			return perror("echo"), 1;
	}
	return 0;
}

int main(int count, char **words)
{
	if (count == 1)
		return serve();
	struct addrinfo hints = { .ai_family = AF_INET, .ai_socktype = SOCK_DGRAM }, *found;
	if (getaddrinfo(words[1], PORT, &hints, &found))
		return puts("no such host"), 1;
	sleep(1);
	int fd = socket(AF_INET, SOCK_DGRAM, 0);
	static char bytes[60000], back[60000];
	struct timespec begun, ended;
	memset(bytes, 7, sizeof bytes);
	size_t sizes[] = { 1, 60000, 0 };
	for (int i = 0; i < 3; i++) {
		struct sockaddr_in from;
		socklen_t length = sizeof from;
		clock_gettime(CLOCK_MONOTONIC, &begun);
		if (i == 1)
			connect(fd, found->ai_addr, found->ai_addrlen);
		if ((i ? send(fd, bytes, sizes[i], 0) : sendto(fd, bytes, 1, 0, found->ai_addr, found->ai_addrlen)) != (ssize_t)sizes[i])
			return perror("send"), 1;
		struct pollfd one = { fd, POLLIN, 0 };
		if (poll(&one, 1, 1000) != 1 || recvfrom(fd, back, sizeof back, 0, (struct sockaddr *)&from, &length) != (ssize_t)sizes[i])
			return perror("recv"), 1;
		clock_gettime(CLOCK_MONOTONIC, &ended);
		long us = (ended.tv_sec - begun.tv_sec) * 1000000 + (ended.tv_nsec - begun.tv_nsec) / 1000;
		printf("%zu bytes from %s in %ld us, %s\n", sizes[i], inet_ntoa(from.sin_addr), us, memcmp(bytes, back, sizes[i]) ? "wrong" : "right");
	}
	struct sockaddr_in name;
	socklen_t length = sizeof name;
	getsockname(fd, (struct sockaddr *)&name, &length);
	printf("I am %s\n", inet_ntoa(name.sin_addr));
	struct pollfd one = { fd, POLLIN, 0 };
	printf("nothing more: %d\n", poll(&one, 1, 10));
	ssize_t sent = send(fd, calloc(1, 70000), 70000, 0);
	printf("too large: %zd %s\n", sent, strerror(errno));
	struct sockaddr_in nobody = { .sin_family = AF_INET, .sin_port = htons(9), .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	int other = socket(AF_INET, SOCK_DGRAM, 0);
	connect(other, (struct sockaddr *)&nobody, sizeof nobody);
	send(other, "x", 1, 0);
	ssize_t came = recv(other, back, 1, 0);
	printf("nobody there: %zd %s\n", came, strerror(errno));
	return 0;
}
