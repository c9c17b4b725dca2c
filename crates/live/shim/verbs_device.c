/* Devices, ports, GIDs and P_Keys. */
#define _GNU_SOURCE
#include "channel.h"
#include "sockets.h"
#include "verbs.h"

#include <arpa/inet.h>
#include <endian.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/syscall.h>
#include <unistd.h>

static struct live_device devices[MOST_DEVICES];
static int device_count = -1;

static void ask_devices(void)
{
	if (device_count >= 0 || !live_answers())
		return;
	int64_t count = LIVE_ASK(OP_DEVICES, 0);
	device_count = count < 0 ? 0 : (int)count;
	const struct live_device_info *info = (const void *)live_question();
	for (int i = 0; i < device_count; i++) {
		struct live_device *to = &devices[i];
		to->info = info[i];
		to->nic = (uint32_t)i;
		to->device.node_type = (int)info[i].node_type;
		to->device.transport_type = (int)info[i].transport;
		snprintf(to->device.name, sizeof to->device.name, "%s", info[i].name);
		snprintf(to->device.dev_name, sizeof to->device.dev_name, "uverbs%d", i);
		snprintf(to->device.dev_path, sizeof to->device.dev_path, "/sys/class/infiniband_verbs/uverbs%d", i);
		snprintf(to->device.ibdev_path, sizeof to->device.ibdev_path, "/sys/class/infiniband/%.63s", info[i].name);
	}
}

struct abi_device **ibv_get_device_list(int *count)
{
	ask_devices();
	int found = device_count < 0 ? 0 : device_count;
	struct abi_device **list = calloc((size_t)found + 1, sizeof *list);
	if (!list)
		return NULL;
	for (int i = 0; i < found; i++)
		list[i] = &devices[i].device;
	if (count)
		*count = found;
	return list;
}

void ibv_free_device_list(struct abi_device **list) { free(list); }
const char *ibv_get_device_name(struct abi_device *device) { return device->name; }
uint64_t ibv_get_device_guid(struct abi_device *device) { return htobe64(((struct live_device *)device)->info.guid); }
int ibv_get_device_index(struct abi_device *device) { return (int)((struct live_device *)device)->nic; }

struct abi_context *ibv_open_device(struct abi_device *device)
{
	struct live_context *context = calloc(1, sizeof *context);
	if (!context)
		return NULL;
	context->device = (struct live_device *)device;
	struct abi_context *public = &context->verbs.context;
	public->device = device;
	public->cmd_fd = eventfd(0, EFD_CLOEXEC);
	public->async_fd = eventfd(0, EFD_CLOEXEC);
	if (live_answers() && LIVE_ASK(OP_CREATE_CHANNEL, context->device->nic, public->async_fd, 1) >= 0 && live_mine)
		live_set_kind(public->async_fd, FD_EVENTS);
	public->num_comp_vectors = 1;
	public->abi_compat = EXTENDED_ABI;
	pthread_mutex_init(&public->mutex, NULL);
	context->verbs.sz = sizeof context->verbs;
	live_fill_context(context);
	return public;
}

static struct live_context *context_of(struct abi_context *context)
{
	return (struct live_context *)((char *)context - offsetof(struct abi_verbs_context, context));
}

int ibv_close_device(struct abi_context *context)
{
	live_syscall(SYS_close, context->cmd_fd);
	if (live_real)
		LIVE_ASK(OP_DESTROY_CHANNEL, 0, context->async_fd, 1);
	close(context->async_fd);
	free(context_of(context));
	return 0;
}

struct abi_context *ibv_import_device(int fd)
{
	(void)fd;
	errno = EOPNOTSUPP;
	return NULL;
}

static const struct live_device_info *info_of(const struct abi_context *context)
{
	return &((const struct live_device *)context->device)->info;
}

int ibv_query_device(struct abi_context *context, struct abi_device_attr *attr)
{
	const struct live_device_info *info = info_of(context);
	*attr = (struct abi_device_attr){
		.node_guid = htobe64(info->guid),
		.sys_image_guid = htobe64(info->guid),
		.max_mr_size = UINT64_MAX,
		.page_size_cap = 0xfffffffffffff000ull,
		.vendor_id = info->vendor_id,
		.vendor_part_id = info->part_id,
		.max_qp = 1 << 17,
		.max_qp_wr = (int)info->max_qp_wr,
		/* XRC, and a last receive that flushes tell of themselves */
		.device_cap_flags = (1u << 20) | (1u << 12),
		.max_sge = (int)info->max_sge,
		.max_sge_rd = (int)info->max_sge,
		.max_cq = 1 << 24,
		.max_cqe = MOST_CQE,
		.max_mr = 1 << 24,
		.max_pd = 1 << 23,
		.max_qp_rd_atom = (int)info->max_rd_atomic,
		.max_res_rd_atom = (int)(info->max_rd_atomic << 17),
		.max_qp_init_rd_atom = (int)info->max_rd_atomic,
		.atomic_cap = 1,
		.max_mcast_grp = 1 << 13,
		.max_mcast_qp_attach = 240,
		.max_total_mcast_qp_attach = 240 << 13,
		.max_ah = INT32_MAX,
		.max_srq = 1 << 22,
		.max_srq_wr = (int)info->max_qp_wr - 1,
		.max_srq_sge = (int)info->max_sge,
		.max_pkeys = (uint16_t)info->pkeys,
		.local_ca_ack_delay = 16,
		.phys_port_cnt = 1,
	};
	memcpy(attr->fw_ver, info->firmware, sizeof attr->fw_ver);
	return 0;
}

static int query_device_ex(struct abi_context *context, const void *input, struct abi_device_attr_ex *attr, size_t size)
{
	(void)input;
	if (size < sizeof attr->orig_attr)
		return EINVAL;
	struct abi_device_attr_ex all = { .completion_timestamp_mask = UINT64_MAX, .hca_core_clock = 1000000, .phys_port_cnt_ex = 1 };
	ibv_query_device(context, &all.orig_attr);
	all.device_cap_flags_ex = all.orig_attr.device_cap_flags;
	memset(attr, 0, size);
	memcpy(attr, &all, size < sizeof all ? size : sizeof all);
	return 0;
}

static int query_port(struct abi_context *context, uint8_t port, struct abi_port_attr *attr, size_t size)
{
	if (port != 1)
		return EINVAL;
	const struct live_device_info *info = info_of(context);
	bool ethernet = info->link_layer == LINK_ETHERNET;
	int64_t up = LIVE_ASK(OP_PORT, ((struct live_device *)context->device)->nic);
	struct abi_port_attr all = {
		.state = up > 0 ? PORT_ACTIVE : PORT_DOWN,
		.max_mtu = (int)info->max_mtu,
		.active_mtu = (int)info->active_mtu,
		.gid_tbl_len = ethernet ? 4 : 8,
		.port_cap_flags = ethernet ? 0x04010000u : 0x2259e848u,
		.max_msg_sz = 1u << 30,
		.pkey_tbl_len = (uint16_t)info->pkeys,
		.lid = ethernet ? 0 : (uint16_t)(info->lid + 1),
		.sm_lid = ethernet ? 0 : 1,
		.max_vl_num = 4,
		.subnet_timeout = 18,
		.active_width = (uint8_t)info->width,
		.active_speed = (uint8_t)info->speed,
		.phys_state = up > 0 ? PHYS_LINK_UP : PHYS_POLLING,
		.link_layer = (uint8_t)info->link_layer,
	};
	memset(attr, 0, size);
	memcpy(attr, &all, size < sizeof all ? size : sizeof all);
	return 0;
}

/* What old programs know of ports ends before the second word of capabilities. */
int ibv_query_port(struct abi_context *context, uint8_t port, struct abi_port_attr *attr)
{
	return query_port(context, port, attr, offsetof(struct abi_port_attr, flags) + 1);
}

/* The GID that stands for the address of a port's interface. */
union abi_gid live_interface_gid(uint32_t lid)
{
	uint32_t number = lid + 1;
	return (union abi_gid){ .raw = { [10] = 0xff, 0xff, 10, (uint8_t)(number >> 16), (uint8_t)(number >> 8), (uint8_t)number } };
}

/* On InfiniBand the one GID is that of the port; on Ethernet the link-local address and that of the interface, each as RoCE v1 and v2. */
void live_fill_gid(const struct live_device_info *device, int index, union abi_gid *gid, uint32_t *type)
{
	memset(gid, 0, sizeof *gid);
	bool ethernet = device->link_layer == LINK_ETHERNET;
	*type = !ethernet ? GID_IB : index % 2 ? GID_ROCE_V2 : GID_ROCE_V1;
	if (index < (ethernet ? 2 : 1)) {
		gid->words[0] = htobe64(0xfe80000000000000ull);
		gid->words[1] = htobe64(device->interface);
	} else if (ethernet && index < 4) {
		*gid = live_interface_gid(device->lid);
	}
}

/* Every address of a port ends with its number. */
uint32_t live_lid_of_gid(const union abi_gid *gid)
{
	return ((uint32_t)gid->raw[13] << 16 | (uint32_t)gid->raw[14] << 8 | gid->raw[15]) - 1;
}

int ibv_query_gid(struct abi_context *context, uint8_t port, int index, union abi_gid *gid)
{
	uint32_t type;
	if (port != 1 || index < 0 || index >= (info_of(context)->link_layer == LINK_ETHERNET ? 4 : 8)) {
		errno = EINVAL;
		return -1;
	}
	live_fill_gid(info_of(context), index, gid, &type);
	return 0;
}

int ibv_query_gid_type(struct abi_context *context, uint8_t port, unsigned index, int *type)
{
	union abi_gid gid;
	uint32_t found;
	if (port != 1) {
		errno = EINVAL;
		return -1;
	}
	live_fill_gid(info_of(context), (int)index, &gid, &found);
	*type = found == GID_ROCE_V2; /* of the kernel's two kinds */
	return 0;
}

int _ibv_query_gid_ex(struct abi_context *context, uint32_t port, uint32_t index, struct abi_gid_entry *entry, uint32_t flags, size_t size)
{
	uint32_t most = info_of(context)->link_layer == LINK_ETHERNET ? 4 : 1;
	if (port != 1 || flags || size < sizeof *entry)
		return EINVAL;
	if (index >= most)
		return ENODATA;
	memset(entry, 0, size);
	entry->gid_index = index;
	entry->port_num = port;
	live_fill_gid(info_of(context), (int)index, &entry->gid, &entry->gid_type);
	return 0;
}

ssize_t _ibv_query_gid_table(struct abi_context *context, struct abi_gid_entry *entries, size_t most, uint32_t flags, size_t size)
{
	size_t count = info_of(context)->link_layer == LINK_ETHERNET ? 4 : 1;
	if (most < count)
		return -EINVAL;
	for (size_t i = 0; i < count; i++)
		_ibv_query_gid_ex(context, 1, (uint32_t)i, (struct abi_gid_entry *)((char *)entries + i * size), flags, size);
	return (ssize_t)count;
}

int ibv_query_pkey(struct abi_context *context, uint8_t port, int index, uint16_t *pkey)
{
	const struct live_device_info *info = info_of(context);
	if (port != 1 || index < 0 || index >= (int)info->pkeys) {
		errno = EINVAL;
		return -1;
	}
	*pkey = htons(info->pkey[index]);
	return 0;
}

int ibv_get_pkey_index(struct abi_context *context, uint8_t port, uint16_t pkey)
{
	const struct live_device_info *info = info_of(context);
	for (uint32_t i = 0; port == 1 && i < info->pkeys; i++)
		if (htons(info->pkey[i]) == pkey)
			return (int)i;
	return -1;
}

uint64_t live_device_ns(void) { return live_real ? live_real_ns() : live_now() / 1000; }

static int query_rt_values(struct abi_context *context, struct abi_values_ex *values)
{
	(void)context;
	uint64_t ns = live_device_ns();
	values->comp_mask = 1;
	values->raw_clock.tv_sec = (int64_t)(ns / 1000000000u);
	values->raw_clock.tv_nsec = (int64_t)(ns % 1000000000u);
	return 0;
}

void live_fill_device(struct live_context *context)
{
	context->verbs.query_port = query_port;
	context->verbs.query_device_ex = query_device_ex;
	context->verbs.query_rt_values = query_rt_values;
}

const char *ibv_get_sysfs_path(void) { return "/sys"; }

/* A file without the newline at its end, and its length; no room for the zero is an error. */
int ibv_read_sysfs_file(const char *folder, const char *file, char *text, size_t size)
{
	char path[512];
	if (snprintf(path, sizeof path, "%s/%s", folder, file) >= (int)sizeof path) {
		errno = ENAMETOOLONG;
		return -1;
	}
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return -1;
	ssize_t length = read(fd, text, size);
	close(fd);
	if (length <= 0)
		return (int)length;
	if (text[length - 1] == '\n')
		length--;
	else if ((size_t)length == size) {
		errno = ENOMEM;
		return -1;
	}
	text[length] = 0;
	return (int)length;
}

/* What direct verbs of mlx5 tell of an adapter, as far as it is written here; what else is asked for is in the mask. */
struct direct_verbs {
	uint8_t version;
	uint64_t flags, comp_mask;
};

/* Adapters have BlueFlame, and of what is asked for nothing: programs go on without. libmlx5 would refuse, as these are no devices of its own. */
int mlx5dv_query_device(struct abi_context *context, struct direct_verbs *verbs)
{
	(void)context;
	*verbs = (struct direct_verbs){ .flags = 1u << 8 };
	return 0;
}

/* Pages of registered memory are not copied on fork here. */
int ibv_fork_init(void) { return 0; }
int ibv_is_fork_initialized(void) { return 2; }
int ibv_dontfork_range(void *base, size_t size)
{
	(void)base, (void)size;
	return 0;
}
int ibv_dofork_range(void *base, size_t size)
{
	(void)base, (void)size;
	return 0;
}
