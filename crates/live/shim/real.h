/* An adapter in software, in each process of a run in real time: what it shares with those of others, and what it has of its own.
 *
 * Messages lie in a ring for each pair of processes. READ, WRITE and atomics reach the memory of the peer through the kernel
 * (process_vm_readv), and so do receivers the bytes of messages that are longer than a ring should hold: the peer's program does nothing for
 * them. One lock of the process guards all that is its own. */
#ifndef FABRISCOPE_REAL_H
#define FABRISCOPE_REAL_H

#include "channel.h"
#include "verbs.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/* Nobody outside binds to what is declared here: calls need no table. */
#pragma GCC visibility push(hidden)

#define REAL_MAGIC 0x6c697673u
#define MOST_PROCESSES 128
#define MOST_PAIRS 16384u
#define MOST_MRS 65536u
#define MOST_GROUPS 64
#define MOST_MEMBERS 128
/* The bit of an address that says: of a group. */
#define GROUP_LID 0x80000000
#define GROUP_QPN 0xffffffu
#define RING_SLOTS 256u
#define RING_BYTES (128u * 1024)
/* Bytes of a message that stand in its slot; in the ring; beyond that the receiver fetches them. */
#define SLOT_BYTES 76u
#define EAGER_BYTES 8192u
#define MOST_PIECES 256
#define LINE __attribute__((aligned(64)))

/* ---- shared by the processes of a run ---- */

/* What the launcher lays down, `src/real.rs`: the hosts, each with its devices behind it. */
struct real_directory {
	uint32_t magic, hosts, ranks_per_node, launcher;
	struct real_host {
		char name[64];
		uint32_t address, devices;
		uint64_t place;  /* of the descriptions of its devices in the file */
	} host[];
};

struct real_process {
	LINE _Atomic uint32_t pid;   /* 0: free */
	_Atomic uint32_t asleep;     /* whoever has something for it wakes it; a futex */
	_Atomic uint32_t attention;  /* a peer broke one of its queue pairs */
	LINE _Atomic uint64_t senders[MOST_PROCESSES / 64]; /* those that ever sent to it */
	LINE _Atomic uint32_t core;  /* where it waits, from 1 */
	LINE _Atomic uint32_t atomics; /* the process that does an atomic on its memory */
};

/* Why a message was not taken: word of the number of the message, of the kind, and of what belongs to it. */
enum real_nak { NAK_NONE, NAK_NOT_READY, NAK_STATUS };

struct real_pair {
	LINE _Atomic uint32_t process; /* that has it, from 1; 0: free */
	_Atomic uint32_t state;        /* of enum ibv_qp_state */
	uint32_t number, pd, lid, type, access, qkey;
	uint32_t peer, peer_lid;
	/* Written by the peer. */
	LINE _Atomic uint32_t acked;   /* messages that it has taken */
	_Atomic uint64_t nak;
	_Atomic uint32_t broken;       /* the event of a request that it may not make */
};

struct real_mr {
	_Atomic uint32_t key;          /* 0: free */
	uint32_t process, pd, access;
	uint64_t from, length;
	uint64_t shift;                /* to what peers call an address there */
};

struct real_slot {
	LINE _Atomic uint32_t turn;    /* place in the ring, from 1, once it is filled */
	uint8_t kind, flags;
	uint16_t pieces;               /* that the receiver fetches */
	uint32_t to, from, number, length, imm, acked, qkey, lid;
	uint32_t place, end;           /* of the bytes in the ring */
	uint32_t sl;
	uint8_t bytes[SLOT_BYTES];
};
_Static_assert(sizeof(struct real_slot) == 128, "two lines");

struct real_ring {
	LINE _Atomic uint32_t head, byte_head; /* of who sends */
	LINE _Atomic uint32_t tail, byte_tail; /* of who receives */
	struct real_slot slot[RING_SLOTS];
	LINE uint8_t bytes[RING_BYTES];
};

struct real_group {
	_Atomic uint32_t state;        /* of `real_groups.c` */
	uint64_t gid[2];               /* its name */
	_Atomic uint32_t member[MOST_MEMBERS];
};

struct real_fabric {
	_Atomic uint32_t pairs, mrs;   /* places of the tables that were ever taken */
	struct real_process process[MOST_PROCESSES];
	struct real_pair pair[MOST_PAIRS];
	struct real_mr mr[MOST_MRS];
	struct real_group group[MOST_GROUPS];
	struct real_ring ring[MOST_PROCESSES][MOST_PROCESSES]; /* from, to */
};

/* Of enum ibv_event_type. */
enum {
	EVENT_QP_REQUEST = 2, EVENT_QP_ACCESS = 3, EVENT_ESTABLISHED = 4, EVENT_DRAINED = 5, EVENT_SRQ_LIMIT = 15, EVENT_LAST_WQE = 16
};
/* Of enum ibv_wc_status. */
enum {
	STATUS_OK, STATUS_LENGTH = 1, STATUS_OPERATION = 2, STATUS_PROTECTION = 4, STATUS_FLUSHED = 5, STATUS_REMOTE_INVALID = 9, STATUS_REMOTE_ACCESS = 10,
	STATUS_REMOTE_OPERATION = 11, STATUS_RETRIES = 12, STATUS_NOT_READY = 13
};

enum { MESSAGE_SEND, MESSAGE_WRITE_IMM, MESSAGE_DATAGRAM };
enum { MESSAGE_HAS_IMM = 1, MESSAGE_SOLICITED = 2 };

/* ---- of this process ---- */

struct sge {
	uint64_t addr;
	uint32_t length, lkey;
};

struct completion {
	uint64_t word[WC_WORDS];
};

struct channel {
	int fd;                /* counts one while there is anything to take */
	struct cq *first, *last;
	struct channel *next;
	uint32_t id;
};

enum arming { NOT_ARMED, ARMED_SOLICITED, ARMED_ANY };

struct cq {
	uint32_t id, depth, users;
	uint32_t nic;
	uint32_t head, tail;   /* completions put and taken */
	uint32_t room;         /* a power of two */
	struct completion *kept;
	enum arming armed;
	bool overrun;
	struct channel *channel;
	int64_t own_name;
	uint32_t events;       /* raised and not taken */
	struct cq *next_event;
};

struct receive {
	uint64_t wr_id;
	uint32_t count;
};
struct receives {
	uint32_t cap, max_sge, room;
	uint32_t posted, taken, freed;
	struct receive *of;    /* `room` of them, a power of two */
	struct sge *sge;       /* `max_sge` for each */
};

struct srq {
	uint32_t id, nic, pd, users, limit;
	struct receives queue;
};

struct ah {
	uint32_t nic, pd, lid, sl;
	uint64_t gid[2];       /* of a group */
};

struct request {
	uint64_t wr_id, remote, compare_add, swap;
	uint32_t opcode, flags, imm, rkey, length, count;
	uint32_t lid, sl, qpn, qkey;  /* of a datagram */
	uint32_t number;              /* of its message */
	bool signaled;
};

struct qp {
	uint32_t number, nic, type, pd;
	struct real_pair *shared;
	struct cq *send_cq, *recv_cq;
	struct srq *srq;
	bool sq_sig_all, established, drained, not_to_itself;
	uint32_t groups;       /* that it is in */
	/* The send queue: completed, given to the peer, posted; and those whose places are free again. */
	uint32_t front, next, posted, freed;
	uint32_t max_send, max_send_sge, max_inline, room;
	uint8_t *requests;     /* each with its pieces and the bytes that were copied */
	size_t stride;
	uint32_t sent;         /* messages */
	uint64_t deadline, rest_until; /* ns; 0: none */
	uint32_t retries, not_ready_retries;
	/* The other side: the number of the next message, whether the peer has not heard of the last. */
	uint32_t expected;
	bool owes;
	struct receives queue;
	/* Attributes as they were given; index by bit of the mask. */
	uint64_t attr[28], given;
	bool busy;
	struct qp *busy_next, *owes_next;
};

/* What is known here of a ring that others take from: looking costs a line of memory on its way. */
struct outgoing {
	struct real_ring *ring; /* NULL: nothing was sent there */
	uint32_t head, tail, byte_head, byte_tail;
};

struct real_adapter {
	struct real_directory *directory;
	struct real_fabric *fabric;
	struct real_process *me;
	uint32_t host, number;     /* number: of this process, from 0 */
	bool joined;
	struct qp *busy, *owing;
	uint32_t owed;
	unsigned armed;            /* completion queues that wait for an event */
	struct outgoing to[MOST_PROCESSES];
};
extern struct real_adapter real_adapter;

/* real.c */
int64_t real_answer(enum live_op op, int64_t args[8], uint8_t *bytes, size_t posts);
const struct live_device_info *real_device(uint32_t nic);
void real_tell(const char *what);

/* real_lock.c: the lock, and who works when the program does not. */
void real_lock(void);
void real_unlock(void);
void real_forget_lock(void);
/* Somebody of the program polls, and sees what comes; nobody does so any more. */
void real_polls(void);
void real_hand_over(void);
void real_rest(bool shortly);
void real_begin_thread(void);
void real_wake(uint32_t process);
/* Takes all that came, and sends what waits; whether there was anything. */
bool real_progress(void);
/* When time alone makes something happen, in ns; UINT64_MAX: never. */
uint64_t real_look_at_clock(void);

/* real_objects.c */
int64_t real_object(enum live_op op, int64_t args[8]);
struct srq *real_srq(uint32_t nic, uint32_t id);
struct cq *real_cq(uint32_t nic, uint32_t id);
struct ah *real_ah(uint32_t nic, uint32_t id);
bool real_use_pd(uint32_t nic, uint32_t pd, int more);
/* Whether a process may reach `length` bytes by a key. */
uint64_t real_place_in(uint32_t key, uint64_t addr);
bool real_may(uint32_t process, uint32_t pd, uint32_t key, uint64_t from, uint64_t length, uint32_t right);
void real_leave_objects(void);

/* real_pairs.c */
int64_t real_create_qp(const uint64_t *words);
int64_t real_modify_qp(const uint64_t *words);
int64_t real_query_qp(uint32_t nic, uint32_t number, uint64_t *words);
int64_t real_destroy_qp(uint32_t nic, uint32_t number);
struct qp *real_qp(uint32_t number);
struct real_pair *real_pair_of(uint32_t number);
void real_enter_error(struct qp *qp);
/* Peers may have broken queue pairs of this process. */
void real_look_for_broken(void);
void real_leave_pairs(void);
uint64_t real_attr(const struct qp *qp, unsigned mask);

/* real_send.c */
int64_t real_post(uint8_t *posts, size_t bytes, int64_t *taken);
struct request *real_request(const struct qp *qp, uint32_t index);
void real_send(struct qp *qp);
void real_acked(struct qp *qp, uint32_t messages);
void real_hear(struct qp *qp);
void real_fail(struct qp *qp, uint32_t status);
void real_flush_sends(struct qp *qp);
uint64_t real_clock_of(struct qp *qp, uint64_t now);
void real_not_busy(struct qp *qp);

/* A datagram to one queue pair of its node; false where there is no room now. */
bool real_datagram_to(struct qp *qp, struct request *request, uint32_t number);

/* real_groups.c */
int64_t real_group(enum live_op op, const int64_t args[8]);
void real_name_group(struct ah *ah, const int64_t words[2]);
void real_send_to_group(struct qp *qp, struct request *request);
void real_leave_groups(uint32_t process);

/* real_remote.c */
bool real_is_ready(const struct qp *qp, const struct real_pair *peer);
/* 0, or the status with which the request ends; -1 where the peer is gone. */
int real_one_sided(struct qp *qp, const struct request *request);
bool real_is_alive(uint32_t process);
bool real_has_memory(pid_t pid);
long real_fetch(uint32_t process, const struct sge *into, uint32_t count, const uint64_t *from, uint32_t pieces, uint64_t length);

/* real_receive.c */
bool real_drain(void);
void real_pay(void);
void real_stop_owing(struct qp *qp);
void real_flush_receives(struct qp *qp);
int64_t real_post_receive(struct receives *queue, const uint64_t *post);
bool real_prepare(struct receives *queue, uint32_t cap, uint32_t max_sge);
void real_forget(struct receives *queue);

/* real_completions.c */
void real_complete(struct cq *cq, const struct completion *of, bool solicited);
/* A completion with nothing but its request. */
struct completion real_wc(const struct qp *qp, uint64_t wr_id, uint32_t status, uint32_t opcode, uint32_t index);
int64_t real_poll(struct cq *cq, int64_t most, uint64_t *words);
void real_drop_completions(struct cq *cq, struct qp *qp);
int64_t real_notify(struct cq *cq, bool solicited);
int64_t real_create_channel(int fd);
int64_t real_create_async(uint32_t nic, int fd);
int64_t real_destroy_channel(uint32_t id);
int64_t real_forget_descriptor(int fd);
struct channel *real_channel(int64_t id);
void real_leave_channel(struct cq *cq);
int64_t real_take_event(uint32_t channel, bool waits);
void real_async(uint32_t nic, uint32_t type, uint32_t number);
void real_forget_async(uint32_t nic, uint32_t type, uint32_t number);
int64_t real_take_async(uint32_t nic, bool waits, int64_t *number);

/* real_hosts.c */
uint32_t real_own_address(void);
uint32_t real_address_of(const char *name);
const char *real_own_name(void);
struct sockaddr;
int real_bind(int fd, const struct sockaddr *address, unsigned length);
int real_connect(int fd, const struct sockaddr *address, unsigned length);

#pragma GCC visibility pop

#endif
