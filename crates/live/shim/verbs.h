/* The objects behind the public structures of libibverbs. */
#ifndef FABRISCOPE_VERBS_H
#define FABRISCOPE_VERBS_H

#include "verbs_abi.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>

#define MOST_DEVICES 16
#define MOST_PKEYS 16
#define MOST_CQE ((1 << 22) - 1)
#define POLL_BATCH 32
/* Words of a post before its pieces, and of a completion. */
#define SEND_WORDS 11
#define RECV_WORDS 5
#define WC_WORDS 8
#define MORE_POSTS 0x8000u

/* A device as the fabric describes it; `src/device.rs` has the same layout. */
struct live_device_info {
	char name[64];
	char firmware[64];
	uint64_t guid, interface; /* the lower half of the link-local GID */
	uint32_t node_type, transport, link_layer, lid;
	uint32_t active_mtu, max_mtu, width, speed;
	uint32_t max_inline, max_rd_atomic, max_qp_wr, max_sge;
	uint32_t vendor_id, part_id, state, pkeys;
	uint16_t pkey[MOST_PKEYS];
};

struct live_device {
	struct abi_device device;
	struct live_device_info info;
	uint32_t nic;
};

struct live_context {
	struct abi_verbs_context verbs;
	struct live_device *device;
};

struct live_cq {
	struct abi_cq_ex ex;
	struct abi_wc batch[POLL_BATCH];
	int at, filled;
};

struct live_channel {
	struct abi_channel channel;
	uint32_t id;
};

struct live_mr {
	struct abi_mr mr;
	unsigned access;
	uint64_t iova; /* what requests call the first byte */
};

struct live_srq {
	struct abi_srq srq;
	uint32_t cap, max_sge, posted;
	bool xrc;
	struct live_srq *next;
};

/* An XRC domain: its number lies behind the public part. */
struct live_xrcd {
	struct abi_xrcd xrcd;
	uintptr_t id;
};

/* Requests of the calls that build one after another, until they are complete. */
struct live_built {
	struct abi_send_wr wr[64];
	struct abi_sge sge[64 * 4];
	uint8_t inline_data[64 * 256];
	int wrs, sges, error;
	size_t inline_used;
};

struct live_qp {
	struct abi_qp_ex ex;
	struct abi_qp_cap cap;
	bool sq_sig_all;
	uint64_t posted, freed;     /* send requests; those whose slots are free again */
	uint32_t receives;          /* posted and not completed */
	struct live_built *built;
	struct live_qp *next;       /* of the same place in the table */
};

static inline uint32_t nic_of(const struct abi_context *context)
{
	return ((struct live_device *)context->device)->nic;
}

/* A call that gives an object: an error number, or the object. */
static inline void *live_failed(int64_t error, void *made)
{
	free(made);
	errno = error < 0 ? (int)-error : ENOMEM;
	return NULL;
}
static inline int live_code(int64_t result) { return result < 0 ? (int)-result : 0; }

struct live_qp *live_qp_by_number(uint32_t nic, uint32_t qpn);
void live_remember_qp(struct live_qp *qp);
void live_forget_qp(struct live_qp *qp);
struct live_srq *live_srq_by_handle(uint32_t nic, uint32_t handle);
struct live_cq *live_cq_by_handle(uint32_t nic, uint32_t handle);
void live_remember_cq(struct live_cq *cq);

void live_fill_gid(const struct live_device_info *device, int index, union abi_gid *gid, uint32_t *type);
uint32_t live_lid_of_gid(const union abi_gid *gid);
union abi_gid live_interface_gid(uint32_t lid);
/* The clock of an adapter. */
uint64_t live_device_ns(void);

/* verbs_memory.c */
struct abi_mr *live_alloc_null_mr(struct abi_pd *);
/* Whether any region was ever registered at another address than its own, and where the byte of such a region lies that a request names. */
extern bool live_any_moved;
uint64_t live_place_in(uint32_t nic, uint32_t lkey, uint64_t addr);

/* verbs_xrc.c */
struct abi_xrcd *live_open_xrcd(struct abi_context *, struct abi_xrcd_init *);
int live_close_xrcd(struct abi_xrcd *);
struct abi_qp *live_open_qp(struct abi_context *, struct abi_qp_open *);

/* verbs_data.c */
int live_post_send(struct abi_qp *, struct abi_send_wr *, struct abi_send_wr **);
int live_post_recv(struct abi_qp *, struct abi_recv_wr *, struct abi_recv_wr **);
int live_post_srq_recv(struct abi_srq *, struct abi_recv_wr *, struct abi_recv_wr **);
int live_poll_cq(struct abi_cq *, int, struct abi_wc *);
int live_req_notify_cq(struct abi_cq *, int);

/* verbs_ex.c */
void live_extend_qp(struct live_qp *qp);
void live_extend_cq(struct live_cq *cq);

/* verbs_objects.c */
void live_fill_context(struct live_context *context);
/* Where a packet goes, as four words. */
void live_address(const struct live_device_info *device, const struct abi_ah_attr *attr, uint64_t words[4]);

#endif
