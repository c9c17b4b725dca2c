/* What the parts of the stand-in ask of each other. */
#ifndef FABRISCOPE_PARTS_H
#define FABRISCOPE_PARTS_H

#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/* clock.c */
void live_watch_clock(void);
void live_unwatch_clock(void);
/* Answers a read of the time stamp counter that faulted; false where the fault was something else. */
bool live_answer_tsc(siginfo_t *info, void *context);

/* Raises the signal that is due by now. */
void live_raise_alarm(void);

/* What a thread is called in the run. */
int live_thread_number(void);
/* Fills `bytes` with what is random to the program, and the same in every run. */
void live_random(void *bytes, size_t size);

/* names.c: this host's address on the management network. */
uint32_t live_own_address(void);

/* connections.c */
bool live_is_connection_manager(const char *path);
int live_open_connections(int fd);
ssize_t live_command(int fd, const void *bytes, size_t size);

/* management.c */
bool live_is_management(const char *path);
int live_open_management(int fd, const char *path);
int live_control_management(int fd, unsigned long request, void *argument);
ssize_t live_send_management(int fd, const void *bytes, size_t size);
ssize_t live_receive_management(int fd, void *bytes, size_t size);

/* memory.c */
void live_watch_memory(void);
void live_before_question(void);
void live_after_answer(void);
void live_open_pages(void);
void live_guard(uintptr_t from, size_t length);
void live_unguard(uintptr_t from, size_t length);

/* shared.c: shares a region with the fabric. Gives the descriptor of the file, and pieces of three words: address, bytes, place in the file. */
int live_share(uintptr_t from, size_t length, uint64_t *words, size_t *count);
bool live_shares(void);
/* What was shared is this process's alone: the first thing after a fork. */
void live_stop_sharing(void);

/* The call of libc behind ours, in `real`. */
#define REAL(name)                                                           \
	static __typeof__(&name) real;                                       \
	if (!real)                                                           \
		real = (__typeof__(&name))dlsym(RTLD_NEXT, #name)
/* What a call of any system call gets, in `a`. */
#define SIX_ARGUMENTS(last)                                                  \
	long a[6];                                                           \
	va_list list;                                                        \
	va_start(list, last);                                                \
	for (int i = 0; i < 6; i++)                                          \
		a[i] = va_arg(list, long);                                   \
	va_end(list)

#endif
