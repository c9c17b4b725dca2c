/* Domains of extended reliable connections, and queue pairs of them that several processes of a host have. `src/xrc.rs` answers. */
#define _GNU_SOURCE
#include "channel.h"
#include "verbs.h"

#include <sys/stat.h>

enum { XRCD_FD = 1, XRCD_OFLAGS = 2 };
enum { OPEN_NUM = 1, OPEN_XRCD = 2, OPEN_CONTEXT = 4, OPEN_TYPE = 8 };

/* Who opens the domain of a file that another process has opened gets the same one. */
struct abi_xrcd *live_open_xrcd(struct abi_context *context, struct abi_xrcd_init *init)
{
	struct stat file = { 0 };
	if (init->comp_mask & ~(uint32_t)(XRCD_FD | XRCD_OFLAGS))
		return live_failed(-EOPNOTSUPP, NULL);
	if (init->comp_mask != (XRCD_FD | XRCD_OFLAGS))
		return live_failed(-EINVAL, NULL);
	bool of_file = init->fd != -1;
	if (of_file && fstat(init->fd, &file))
		return live_failed(-EBADF, NULL);
	int64_t id = live_answers() ? LIVE_ASK(OP_OPEN_XRCD, nic_of(context), of_file, (int64_t)file.st_dev, (int64_t)file.st_ino, init->oflags)
				    : -EIO;
	struct live_xrcd *xrcd = id < 0 ? NULL : calloc(1, sizeof *xrcd);
	if (!xrcd)
		return live_failed(id, xrcd);
	*xrcd = (struct live_xrcd){ { context }, (uintptr_t)id };
	return &xrcd->xrcd;
}

int live_close_xrcd(struct abi_xrcd *xrcd)
{
	struct live_xrcd *own = (struct live_xrcd *)xrcd;
	int error = live_answers() ? live_code(LIVE_ASK(OP_CLOSE_XRCD, nic_of(xrcd->context), (int64_t)own->id)) : 0;
	if (!error)
		free(xrcd);
	return error;
}

struct abi_qp *live_open_qp(struct abi_context *context, struct abi_qp_open *attr)
{
	const uint32_t needed = OPEN_NUM | OPEN_XRCD | OPEN_TYPE;
	if (attr->comp_mask & ~(needed | OPEN_CONTEXT))
		return live_failed(-EOPNOTSUPP, NULL);
	if ((attr->comp_mask & needed) != needed || attr->qp_type != QPT_XRC_RECV)
		return live_failed(-EINVAL, NULL);
	const struct live_xrcd *xrcd = (const struct live_xrcd *)attr->xrcd;
	int64_t state = live_answers() ? LIVE_ASK(OP_OPEN_QP, nic_of(context), attr->qp_num, (int64_t)xrcd->id) : -EIO;
	struct live_qp *qp = state < 0 ? NULL : calloc(1, sizeof *qp);
	if (!qp)
		return live_failed(state, qp);
	struct abi_qp *public = &qp->ex.qp_base;
	*public = (struct abi_qp){
		.context = context,
		.qp_context = attr->comp_mask & OPEN_CONTEXT ? attr->qp_context : NULL,
		.handle = attr->qp_num,
		.qp_num = attr->qp_num,
		.state = (int)state,
		.qp_type = attr->qp_type,
	};
	pthread_mutex_init(&public->mutex, NULL);
	pthread_cond_init(&public->cond, NULL);
	live_remember_qp(qp);
	return public;
}
