/* How a thread of a program talks to the fabric: a slot of shared memory, and whose turn it is.
 *
 * Exactly one side of a slot works at a time. The thread writes a question and gives the turn away; the fabric answers and gives it back. Posts
 * need no answer: they are collected in front of the next question. `src/arena.rs` has the same layout. */
#ifndef FABRISCOPE_CHANNEL_H
#define FABRISCOPE_CHANNEL_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define LIVE_MAGIC 0x6c697665u
#define LIVE_SLOTS 512
#define LIVE_DATA (64 * 1024)
/* A question with data must find room behind the posts. */
#define LIVE_POSTS (16 * 1024)

enum live_turn { TURN_PROGRAM = 0, TURN_FABRIC = 1 };

/* What is asked; `src/question.rs` has the same numbers. */
enum live_op {
	OP_HELLO = 1,
	OP_YIELD,
	OP_SLEEP,
	OP_EXIT_THREAD,
	OP_EXIT_PROCESS,
	OP_NEW_THREAD,
	OP_NEW_PROCESS,
	OP_WAIT_TASK,
	OP_WAIT_WORD,
	OP_WAKE_WORD,
	OP_WAIT_CHILD,
	OP_REAL_PID,
	OP_NOT_BEGUN,
	OP_LOOK,
	OP_INTERRUPT,
	OP_KILL,
	OP_SOCKET = 32,
	OP_BIND,
	OP_LISTEN,
	OP_CONNECT,
	OP_ACCEPT,
	OP_SEND,
	OP_RECV,
	OP_SHUTDOWN,
	OP_CLOSE,
	OP_DUP,
	OP_POLL,
	OP_NAME,
	OP_SOCKET_ERROR = 45,
	OP_RESOLVE,
	OP_DEVICES = 64,
	OP_PORT,
	OP_ALLOC_PD,
	OP_DEALLOC_PD,
	OP_REG_MR,
	OP_DEREG_MR,
	OP_CREATE_CQ,
	OP_DESTROY_CQ,
	OP_NOTIFY_CQ,
	OP_CREATE_CHANNEL,
	OP_DESTROY_CHANNEL,
	OP_CQ_EVENT,
	OP_CREATE_SRQ,
	OP_MODIFY_SRQ,
	OP_DESTROY_SRQ,
	OP_CREATE_QP,
	OP_MODIFY_QP,
	OP_QUERY_QP,
	OP_DESTROY_QP,
	OP_CREATE_AH,
	OP_DESTROY_AH,
	OP_ATTACH,
	OP_DETACH,
	OP_OPEN_XRCD,
	OP_POLL_CQ,
	OP_ASYNC_EVENT,
	OP_POST,
	OP_CM_OPEN,
	OP_CM_CALL,
	OP_REREG_MR,
	OP_GPU,
	OP_MAD_OPEN,
	OP_MAD_SEND,
	OP_MAD_RECEIVE,
	OP_MAD_REGISTER,
	OP_MAD_UNREGISTER,
	OP_DATAGRAM_SOCKET,
	OP_CLOSE_XRCD = 110,
	OP_OPEN_QP,
	OP_POLL_SET,
};

/* A post among those in front of a question. */
enum live_post { POST_SEND = 1, POST_RECV, POST_SRQ_RECV };

struct live_slot {
	_Atomic uint32_t turn;
	_Atomic uint32_t program_sleeps;
	_Atomic uint32_t fabric_sleeps;
	_Atomic uint32_t pid;
	_Atomic uint32_t tid;
	uint32_t number;   /* of the process in the run: what getpid() says */
	uint32_t op;
	uint32_t posts;    /* bytes of posts at the start of `data` */
	uint32_t length;   /* bytes of the question behind them, or of the answer */
	uint32_t parent;   /* the process that started it, by its number */
	uint32_t ready;    /* a completion queue of the process has something to poll */
	uint32_t spare;
	uint64_t spent;    /* ps of work since the last answer and the last post */
	uint64_t now;      /* ps, when the fabric answered */
	uint64_t alarm;    /* ps, when a signal is due; no wait lasts longer. 0: none */
	int64_t args[8];
	int64_t result;    /* of the question; below zero an error number */
	uint8_t data[LIVE_DATA];
};

struct live_arena {
	uint32_t magic, slots;
	uint64_t epoch_ns;       /* what CLOCK_REALTIME shows at the start */
	uint64_t boot_ns;        /* what CLOCK_MONOTONIC shows there */
	uint64_t tsc_khz;
	uint64_t clock_read;     /* ps of a call */
	uint64_t tsc_read;       /* ps of an instruction */
	uint64_t post_send;      /* ps that posting costs, as far as clocks need it before the fabric says it */
	uint64_t post_recv;
	uint64_t spin;           /* looks at the turn before a side lets others run */
	uint64_t yields;         /* times that it does so before it sleeps */
	uint64_t core;           /* of the fabric alone, counted from 1; 0: programs run on all */
	uint64_t fabric;         /* process number of the fabric */
	uint64_t poll_empty;     /* ps of a poll that finds nothing */
	uint64_t spare[3];
	struct live_slot slot[];
};

/* This thread's slot; NULL where nobody watches the process. */
extern __thread struct live_slot *live_mine __attribute__((tls_model("initial-exec")));
extern struct live_arena *live_arena;

/* ps of work since the last answer, told with the next question or post. */
extern __thread uint64_t live_spent __attribute__((tls_model("initial-exec")));
/* Completion queues that this thread found empty since it last did anything else. */
struct live_empty {
	uint64_t queue[8];
	unsigned count;
};
extern __thread struct live_empty live_empty __attribute__((tls_model("initial-exec")));
/* ps that posts cost that were not told yet: only clocks count them. */
extern __thread uint64_t live_shadow __attribute__((tls_model("initial-exec")));

static inline void live_spend(uint64_t ps) { live_spent += ps; }
static inline uint64_t live_now(void)
{
	return live_mine ? live_mine->now + live_spent + live_shadow : 0;
}

/* Whether this process answers verbs itself, in real time: nothing else is different for its threads then, and they have no slots. */
extern bool live_real;
static inline bool live_answers(void) { return live_mine || live_real; }

/* Asks `op` with up to eight numbers in `live_args()` and `length` bytes at `live_question()`; gives the result. */
int64_t live_ask(enum live_op op, size_t length);
/* The last question of a thread. */
void live_leave(void);
/* Where a question's numbers and bytes go, and where those of its answer are. */
int64_t *live_args(void);
uint8_t *live_question(void);
/* Room for a post of `bytes`, told with the next question; collected posts are told now if there is none. */
uint64_t *live_post(size_t bytes);

/* The same in one call. */
#define LIVE_ASK(op, ...) live_ask_with((op), (const int64_t[8]){ __VA_ARGS__ }, 0)
int64_t live_ask_with(enum live_op op, const int64_t args[8], size_t length);
/* As a system call: -1 and errno. */
int64_t live_result(int64_t result);

/* Takes over slot `index`. */
void live_adopt(uint32_t index);
/* Waits until the fabric lets a thread or a process begin. */
void live_await_start(void);
/* Says hello, and learns which descriptors are still served. */
void live_hello(void);
void live_start(void);

/* real.c: the same of a process in real time, and its start and end. */
int64_t live_real_answer(enum live_op op);
int64_t *live_real_args(void);
uint8_t *live_real_question(void);
uint64_t *live_real_post(size_t bytes);
uint64_t live_real_ns(void);
/* OP_POLL_CQ: the one question that is asked so often that its way counts. */
int64_t live_real_poll(uint32_t nic, uint32_t cq, int64_t most);
void live_real_start(const char *folder);
void live_real_end(void);

long live_syscall(long number, ...);

/* Between two looks at a word that another core writes. */
static inline void live_pause(void)
{
#if defined(__x86_64__)
	__builtin_ia32_pause();
#else
	__asm__ volatile("yield");
#endif
}

#endif
