/* Queue pairs: making and ending them, their states, and which attributes each change of state needs and takes.
 *
 * Source: IBA vol. 1 §10.3.1, §11.2.5.2; the tables are those of `crates/verbs/src/qp/modify.rs`. */
#define _GNU_SOURCE
#include "real.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define MOST_WR 32768
#define MOST_SGE 256
/* 0 and 1 are the management's; the upper bits of a number tell apart those that had the same place. */
#define FIRST_PAIR 2u
#define GENERATIONS 1023u

static struct qp *own[MOST_PAIRS];

static uint32_t place_of(uint32_t number) { return number % MOST_PAIRS; }

struct qp *real_qp(uint32_t number)
{
	struct qp *of = own[place_of(number)];
	return of && of->number == number ? of : NULL;
}

struct real_pair *real_pair_of(uint32_t number)
{
	struct real_pair *of = &real_adapter.fabric->pair[place_of(number)];
	return of->number == number ? of : NULL;
}

void real_leave_pairs(void) { memset(own, 0, sizeof own); }

/* ---- making ---- */

static struct real_pair *free_pair(uint32_t *number)
{
	static uint32_t hint = FIRST_PAIR;
	struct real_fabric *fabric = real_adapter.fabric;
	for (uint32_t i = 0; i < MOST_PAIRS; i++) {
		uint32_t place = (hint + i) % MOST_PAIRS, nobody = 0;
		struct real_pair *of = &fabric->pair[place];
		if (place < FIRST_PAIR || atomic_load(&of->process) ||
		    !atomic_compare_exchange_strong(&of->process, &nobody, real_adapter.number + 1))
			continue;
		hint = place + 1;
		for (uint32_t most = atomic_load(&fabric->pairs);
		     most <= place && !atomic_compare_exchange_weak(&fabric->pairs, &most, place + 1);)
			;
		uint32_t generation = of->number ? (of->number / MOST_PAIRS + 1) % GENERATIONS : 0;
		*number = generation * MOST_PAIRS + place;
		return of;
	}
	return NULL;
}

static bool fits(const uint64_t *words)
{
	return words[6] <= MOST_WR && words[7] <= MOST_WR && words[8] <= MOST_SGE && words[9] <= MOST_SGE;
}

/* What a request takes in the queue, with its pieces and the bytes that are copied. */
static bool make_queues(struct qp *qp, const uint64_t *words)
{
	qp->max_send = words[6] ? (uint32_t)words[6] : 1;
	qp->max_send_sge = (uint32_t)words[8];
	qp->max_inline = (uint32_t)words[10];
	qp->stride = sizeof(struct request) + qp->max_send_sge * sizeof(struct sge) + ((qp->max_inline + 15u) & ~15ul);
	for (qp->room = 1; qp->room < qp->max_send;)
		qp->room *= 2;
	qp->requests = malloc(qp->room * qp->stride);
	return qp->requests && (qp->srq || real_prepare(&qp->queue, (uint32_t)words[7], (uint32_t)words[9]));
}

static void free_queues(struct qp *qp)
{
	free(qp->requests);
	real_forget(&qp->queue);
	free(qp);
}

static void count_users(const struct qp *qp, int more)
{
	qp->send_cq->users += (uint32_t)more;
	qp->recv_cq->users += (uint32_t)more;
	if (qp->srq)
		qp->srq->users += (uint32_t)more;
	real_use_pd(qp->nic, qp->pd, more);
}

int64_t real_create_qp(const uint64_t *words)
{
	uint32_t nic = (uint32_t)words[0], type = (uint32_t)words[2], number;
	struct cq *send_cq = real_cq(nic, (uint32_t)words[3]), *recv_cq = words[4] == UINT32_MAX ? send_cq : real_cq(nic, (uint32_t)words[4]);
	struct srq *srq = words[5] == UINT32_MAX ? NULL : real_srq(nic, (uint32_t)words[5]);
	if (type != QPT_RC && type != QPT_UC && type != QPT_UD)
		return -EOPNOTSUPP;
	if (!send_cq || !recv_cq || (!srq && words[5] != UINT32_MAX) || !fits(words) || !real_use_pd(nic, (uint32_t)words[1], 0))
		return -EINVAL;
	struct qp *made = calloc(1, sizeof *made);
	if (!made)
		return -ENOMEM;
	*made = (struct qp){ .nic = nic, .type = type, .pd = (uint32_t)words[1], .send_cq = send_cq, .recv_cq = recv_cq, .srq = srq,
			     .sq_sig_all = words[11] != 0, .not_to_itself = words[13] != 0 };
	struct real_pair *pair = make_queues(made, words) ? free_pair(&number) : NULL;
	if (!pair)
		return free_queues(made), -ENOMEM;
	made->number = pair->number = number;
	made->shared = pair;
	pair->pd = made->pd;
	pair->type = type;
	pair->lid = real_device(nic)->lid;
	atomic_store(&pair->acked, 0);
	atomic_store(&pair->nak, 0);
	atomic_store(&pair->broken, 0);
	atomic_store(&pair->state, QPS_RESET);
	own[place_of(number)] = made;
	count_users(made, 1);
	return number;
}

int64_t real_destroy_qp(uint32_t nic, uint32_t number)
{
	struct qp *of = real_qp(number);
	if (!of || of->nic != nic)
		return -EINVAL;
	if (of->groups)
		return -EBUSY;
	real_stop_owing(of);
	real_not_busy(of);
	real_drop_completions(of->send_cq, of);
	real_drop_completions(of->recv_cq, of);
	real_forget_async(nic, EVENT_QP_ACCESS, number);
	count_users(of, -1);
	atomic_store(&of->shared->state, QPS_RESET);
	own[place_of(number)] = NULL;
	atomic_store(&of->shared->process, 0);
	free_queues(of);
	return 0;
}

/* ---- states ---- */

struct row {
	uint32_t required, optional;
	bool known;
};
#define ROW(required, optional) ((struct row){ (required), (optional), true })

static struct row row_of(uint32_t type, uint32_t from, uint32_t to)
{
	bool rc = type == QPT_RC, ud = type == QPT_UD;
	uint32_t key = ud ? QP_QKEY : QP_ACCESS_FLAGS, path = rc ? QP_ALT_PATH | QP_PATH_MIG_STATE : 0, timer = rc ? QP_MIN_RNR_TIMER : 0;
	uint32_t answers = rc ? QP_MAX_DEST_RD_ATOMIC | QP_MIN_RNR_TIMER : 0;
	uint32_t asks = rc ? QP_MAX_QP_RD_ATOMIC | QP_TIMEOUT | QP_RETRY_CNT | QP_RNR_RETRY : 0;
	if (to == QPS_RESET || to == QPS_ERR)
		return ROW(0, 0);
	switch (from << 4 | to) {
	case QPS_RESET << 4 | QPS_INIT:
		return ROW(QP_PKEY_INDEX | QP_PORT | key, 0);
	case QPS_INIT << 4 | QPS_INIT:
		return ROW(0, QP_PKEY_INDEX | QP_PORT | key);
	case QPS_INIT << 4 | QPS_RTR:
		if (ud)
			return ROW(0, QP_PKEY_INDEX | key);
		return ROW(QP_AV | QP_PATH_MTU | QP_DEST_QPN | QP_RQ_PSN | answers, QP_PKEY_INDEX | QP_ACCESS_FLAGS | path);
	case QPS_RTR << 4 | QPS_RTS:
		return ROW(QP_SQ_PSN | asks, key | timer | path);
	case QPS_RTS << 4 | QPS_RTS:
		return ROW(0, key | timer | path);
	case QPS_RTS << 4 | QPS_SQD:
		return ROW(0, 0);
	case QPS_SQD << 4 | QPS_RTS:
		return ROW(0, key | timer);
	case QPS_SQD << 4 | QPS_SQD:
		return ROW(0, QP_PKEY_INDEX | key | (ud ? 0 : QP_AV) | (rc ? answers | asks : 0));
	case QPS_SQE << 4 | QPS_RTS:
		return rc ? (struct row){ 0 } : ROW(0, key);
	default:
		return (struct row){ 0 };
	}
}

/* Where `words` has an attribute, by the bit of the mask. */
static const uint8_t WORD_OF[28] = {
	[0] = 3, [3] = 10, [4] = 11, [5] = 15, [6] = 6, [7] = 20, [8] = 4, [9] = 16, [10] = 17, [11] = 18, [12] = 7, [13] = 12, [14] = 24,
	[15] = 14, [16] = 8, [17] = 13, [18] = 5, [20] = 9, [25] = 19,
};
static unsigned bit_of(unsigned mask) { return (unsigned)__builtin_ctz(mask); }

uint64_t real_attr(const struct qp *qp, unsigned mask) { return qp->attr[bit_of(mask)]; }

static bool in_range(const uint64_t *words, uint64_t given)
{
	static const struct {
		uint32_t mask;
		uint64_t least, most;
	} limits[] = {
		{ QP_TIMEOUT, 0, 31 }, { QP_RETRY_CNT, 0, 7 }, { QP_RNR_RETRY, 0, 7 }, { QP_MIN_RNR_TIMER, 0, 31 }, { QP_PORT, 1, 1 },
		{ QP_DEST_QPN, 0, 0xffffff }, { QP_PATH_MTU, 1, 5 }, { QP_STATE, 0, QPS_ERR },
	};
	for (size_t i = 0; i < sizeof limits / sizeof *limits; i++) {
		uint64_t value = words[WORD_OF[bit_of(limits[i].mask)]];
		if (given & limits[i].mask && (value < limits[i].least || value > limits[i].most))
			return false;
	}
	return !(given & QP_AV) || words[21] <= 15;
}

static void store(struct qp *qp, const uint64_t *words, uint64_t given)
{
	for (unsigned bit = 0; bit < 28; bit++)
		if (given & 1u << bit)
			qp->attr[bit] = words[WORD_OF[bit]];
	qp->given |= given;
	struct real_pair *shared = qp->shared;
	shared->access = (uint32_t)real_attr(qp, QP_ACCESS_FLAGS);
	shared->qkey = (uint32_t)real_attr(qp, QP_QKEY);
	shared->peer = (uint32_t)real_attr(qp, QP_DEST_QPN);
	shared->peer_lid = (uint32_t)real_attr(qp, QP_AV);
	if (given & QP_AV)
		qp->attr[1] = words[21]; /* its service level, in a place that no attribute has */
}

static void set_state(struct qp *qp, uint32_t state) { atomic_store_explicit(&qp->shared->state, state, memory_order_release); }

static void reset(struct qp *qp)
{
	real_stop_owing(qp);
	real_not_busy(qp);
	set_state(qp, QPS_RESET);
	real_drop_completions(qp->send_cq, qp);
	real_drop_completions(qp->recv_cq, qp);
	memset(qp->attr, 0, sizeof qp->attr);
	qp->given = 0;
	qp->front = qp->next = qp->posted = qp->freed = qp->sent = qp->expected = 0;
	qp->queue.posted = qp->queue.taken = qp->queue.freed = 0;
	qp->established = false;
	atomic_store(&qp->shared->acked, 0);
	atomic_store(&qp->shared->nak, 0);
	atomic_store(&qp->shared->broken, 0);
}

void real_enter_error(struct qp *qp)
{
	if (atomic_load(&qp->shared->state) == QPS_ERR)
		return;
	real_stop_owing(qp);
	set_state(qp, QPS_ERR);
	real_flush_sends(qp);
	real_flush_receives(qp);
	if (qp->srq)
		real_async(qp->nic, EVENT_LAST_WQE, qp->number);
}

int64_t real_modify_qp(const uint64_t *words)
{
	struct qp *qp = real_qp((uint32_t)words[1]);
	/* That it names the state in which it believes the queue pair, and where events of it go, changes nothing; rates are not limited. */
	uint64_t given = words[2] & ~(uint64_t)(QP_CUR_STATE | QP_EN_SQD_NOTIFY | QP_RATE_LIMIT);
	if (!qp || qp->nic != words[0])
		return -EINVAL;
	real_look_for_broken();
	uint32_t from = atomic_load(&qp->shared->state), to = given & QP_STATE ? (uint32_t)words[3] : from;
	struct row row = row_of(qp->type, from, to);
	uint64_t other = given & ~(uint64_t)QP_STATE;
	if (!row.known || row.required & ~other || other & ~(uint64_t)(row.required | row.optional) || !in_range(words, given))
		return -EINVAL;
	if (to == QPS_RESET)
		return reset(qp), 0;
	if (to == QPS_ERR)
		return real_enter_error(qp), 0;
	store(qp, words, given);
	qp->retries = (uint32_t)real_attr(qp, QP_RETRY_CNT);
	qp->not_ready_retries = (uint32_t)real_attr(qp, QP_RNR_RETRY);
	qp->drained = false;
	set_state(qp, to);
	if (to == QPS_RTS || to == QPS_SQD)
		real_send(qp);
	return 0;
}

int64_t real_query_qp(uint32_t nic, uint32_t number, uint64_t *words)
{
	struct qp *qp = real_qp(number);
	static const unsigned shown[] = {
		QP_PATH_MTU, QP_PATH_MIG_STATE, QP_QKEY, QP_RQ_PSN, QP_SQ_PSN, QP_DEST_QPN, QP_ACCESS_FLAGS, QP_PKEY_INDEX, QP_MAX_QP_RD_ATOMIC,
		QP_MAX_DEST_RD_ATOMIC, QP_MIN_RNR_TIMER, QP_PORT, QP_TIMEOUT, QP_RETRY_CNT, QP_RNR_RETRY, QP_AV,
	};
	if (!qp || qp->nic != nic)
		return -EINVAL;
	real_look_for_broken();
	*words++ = atomic_load(&qp->shared->state);
	for (size_t i = 0; i < sizeof shown / sizeof *shown; i++)
		*words++ = real_attr(qp, shown[i]);
	*words = qp->attr[1];
	return 0;
}

void real_look_for_broken(void)
{
	if (!atomic_exchange(&real_adapter.me->attention, 0))
		return;
	for (uint32_t i = 0; i < MOST_PAIRS; i++) {
		uint32_t event = own[i] ? atomic_exchange(&own[i]->shared->broken, 0) : 0;
		if (!event)
			continue;
		real_async(own[i]->nic, event, own[i]->number);
		real_enter_error(own[i]);
	}
}
