/* What programs that were compiled against libibverbs pass and expect: the layout of its public structures.
 *
 * Source: man pages of libibverbs; `abi/libibverbs.c` compares sizes and offsets with the header of rdma-core where that is installed. */
#ifndef FABRISCOPE_VERBS_ABI_H
#define FABRISCOPE_VERBS_ABI_H

#include <pthread.h>
#include <stdint.h>
#include <stddef.h>

#define EXTENDED_ABI ((void *)UINTPTR_MAX)

enum { NODE_CA = 1, NODE_RNIC = 4, NODE_UNSPECIFIED = 7 };
enum { TRANSPORT_IB = 0, TRANSPORT_IWARP = 1, TRANSPORT_UNSPECIFIED = 4 };
enum { LINK_INFINIBAND = 1, LINK_ETHERNET = 2 };
enum { PORT_DOWN = 1, PORT_ACTIVE = 4 };
enum { PHYS_POLLING = 2, PHYS_LINK_UP = 5 };
enum { GID_IB, GID_ROCE_V1, GID_ROCE_V2 };
enum { QPT_RC = 2, QPT_UC, QPT_UD, QPT_RAW_PACKET = 8, QPT_XRC_SEND, QPT_XRC_RECV, QPT_DRIVER = 0xff };
enum { QPS_RESET, QPS_INIT, QPS_RTR, QPS_RTS, QPS_SQD, QPS_SQE, QPS_ERR };
enum {
	ACCESS_LOCAL_WRITE = 1, ACCESS_REMOTE_WRITE = 2, ACCESS_REMOTE_READ = 4, ACCESS_REMOTE_ATOMIC = 8,
	ACCESS_MW_BIND = 16, ACCESS_ZERO_BASED = 32, ACCESS_ON_DEMAND = 64, ACCESS_HUGETLB = 128,
	ACCESS_OPTIONAL = 0x3ff00000
};
enum {
	WR_RDMA_WRITE, WR_RDMA_WRITE_WITH_IMM, WR_SEND, WR_SEND_WITH_IMM, WR_RDMA_READ, WR_ATOMIC_CMP_AND_SWP,
	WR_ATOMIC_FETCH_AND_ADD
};
enum { SEND_FENCE = 1, SEND_SIGNALED = 2, SEND_SOLICITED = 4, SEND_INLINE = 8 };
enum { WC_SEND, WC_RDMA_WRITE, WC_RDMA_READ, WC_COMP_SWAP, WC_FETCH_ADD, WC_RECV = 128, WC_RECV_RDMA_WITH_IMM };
enum { WC_GRH = 1, WC_WITH_IMM = 2 };
enum { SRQT_BASIC, SRQT_XRC };
enum { SRQ_INIT_TYPE = 1, SRQ_INIT_PD = 2, SRQ_INIT_XRCD = 4, SRQ_INIT_CQ = 8 };
enum { SRQ_MAX_WR = 1, SRQ_LIMIT = 2 };
enum { QP_INIT_PD = 1, QP_INIT_XRCD = 2, QP_INIT_CREATE_FLAGS = 4, QP_INIT_SEND_OPS = 64 };
enum { QP_CREATE_BLOCK_SELF_MCAST = 2 };
enum {
	QP_STATE = 1, QP_CUR_STATE = 2, QP_EN_SQD_NOTIFY = 4, QP_ACCESS_FLAGS = 8, QP_PKEY_INDEX = 16, QP_PORT = 32, QP_QKEY = 64,
	QP_AV = 128, QP_PATH_MTU = 256, QP_TIMEOUT = 512, QP_RETRY_CNT = 1024, QP_RNR_RETRY = 2048, QP_RQ_PSN = 4096,
	QP_MAX_QP_RD_ATOMIC = 8192, QP_ALT_PATH = 16384, QP_MIN_RNR_TIMER = 32768, QP_SQ_PSN = 65536, QP_MAX_DEST_RD_ATOMIC = 131072,
	QP_PATH_MIG_STATE = 262144, QP_CAP = 524288, QP_DEST_QPN = 1048576, QP_RATE_LIMIT = 1 << 25
};

union abi_gid {
	uint8_t raw[16];
	uint64_t words[2];
};
struct abi_gid_entry {
	union abi_gid gid;
	uint32_t gid_index, port_num, gid_type, ndev_ifindex;
};
struct abi_device_ops {
	void *unused[2];
};
struct abi_device {
	struct abi_device_ops ops;
	int node_type, transport_type;
	char name[64], dev_name[64], dev_path[256], ibdev_path[256];
};
struct abi_device_attr {
	char fw_ver[64];
	uint64_t node_guid, sys_image_guid; /* big endian */
	uint64_t max_mr_size, page_size_cap;
	uint32_t vendor_id, vendor_part_id, hw_ver;
	int max_qp, max_qp_wr;
	unsigned device_cap_flags;
	int max_sge, max_sge_rd, max_cq, max_cqe, max_mr, max_pd, max_qp_rd_atom, max_ee_rd_atom, max_res_rd_atom, max_qp_init_rd_atom,
		max_ee_init_rd_atom, atomic_cap, max_ee, max_rdd, max_mw, max_raw_ipv6_qp, max_raw_ethy_qp, max_mcast_grp,
		max_mcast_qp_attach, max_total_mcast_qp_attach, max_ah, max_fmr, max_map_per_fmr, max_srq, max_srq_wr, max_srq_sge;
	uint16_t max_pkeys;
	uint8_t local_ca_ack_delay, phys_port_cnt;
};
struct abi_odp_caps {
	uint64_t general;
	uint32_t rc, uc, ud;
};
struct abi_device_attr_ex {
	struct abi_device_attr orig_attr;
	uint32_t comp_mask;
	struct abi_odp_caps odp_caps;
	uint64_t completion_timestamp_mask, hca_core_clock, device_cap_flags_ex;
	uint32_t tso[2];
	struct {
		uint32_t types, tables, table_size;
		uint64_t fields;
		uint8_t function;
	} rss;
	uint32_t max_wq_type_rq;
	uint32_t pacing[3];
	uint32_t raw_packet_caps;
	uint32_t tag_matching[5];
	uint16_t cq_moderation[2];
	uint64_t max_dm_size;
	uint16_t pci_atomic_caps[3];
	uint32_t xrc_odp_caps, phys_port_cnt_ex;
};
struct abi_port_attr {
	int state, max_mtu, active_mtu, gid_tbl_len;
	uint32_t port_cap_flags, max_msg_sz, bad_pkey_cntr, qkey_viol_cntr;
	uint16_t pkey_tbl_len, lid, sm_lid;
	uint8_t lmc, max_vl_num, sm_sl, subnet_timeout, init_type_reply, active_width, active_speed, phys_state, link_layer, flags;
	uint16_t port_cap_flags2;
};
struct abi_context;
struct abi_pd {
	struct abi_context *context;
	uint32_t handle;
};
enum { REREG_TRANSLATION = 1, REREG_PD = 2, REREG_ACCESS = 4 };
enum { REREG_ERR_INPUT = -1, REREG_ERR_CMD = -4 };
struct abi_mr {
	struct abi_context *context;
	struct abi_pd *pd;
	void *addr;
	size_t length;
	uint32_t handle, lkey, rkey;
};
struct abi_channel {
	struct abi_context *context;
	int fd, refcnt;
};
struct abi_cq {
	struct abi_context *context;
	struct abi_channel *channel;
	void *cq_context;
	uint32_t handle;
	int cqe;
	pthread_mutex_t mutex;
	pthread_cond_t cond;
	uint32_t comp_events_completed, async_events_completed;
};
struct abi_poll_attr {
	uint32_t comp_mask;
};
struct abi_tm_info {
	uint64_t tag;
	uint32_t priv;
};
struct abi_cq_ex {
	struct abi_cq cq;
	uint32_t comp_mask;
	int status;
	uint64_t wr_id;
	int (*start_poll)(struct abi_cq_ex *, struct abi_poll_attr *);
	int (*next_poll)(struct abi_cq_ex *);
	void (*end_poll)(struct abi_cq_ex *);
	int (*read_opcode)(struct abi_cq_ex *);
	uint32_t (*read_vendor_err)(struct abi_cq_ex *);
	uint32_t (*read_byte_len)(struct abi_cq_ex *);
	uint32_t (*read_imm_data)(struct abi_cq_ex *);
	uint32_t (*read_qp_num)(struct abi_cq_ex *);
	uint32_t (*read_src_qp)(struct abi_cq_ex *);
	unsigned (*read_wc_flags)(struct abi_cq_ex *);
	uint32_t (*read_slid)(struct abi_cq_ex *);
	uint8_t (*read_sl)(struct abi_cq_ex *);
	uint8_t (*read_dlid_path_bits)(struct abi_cq_ex *);
	uint64_t (*read_completion_ts)(struct abi_cq_ex *);
	uint16_t (*read_cvlan)(struct abi_cq_ex *);
	uint32_t (*read_flow_tag)(struct abi_cq_ex *);
	void (*read_tm_info)(struct abi_cq_ex *, struct abi_tm_info *);
	uint64_t (*read_completion_wallclock_ns)(struct abi_cq_ex *);
};
struct abi_cq_init_ex {
	uint32_t cqe;
	void *cq_context;
	struct abi_channel *channel;
	uint32_t comp_vector;
	uint64_t wc_flags;
	uint32_t comp_mask, flags;
	struct abi_pd *parent_domain;
};
struct abi_srq_attr {
	uint32_t max_wr, max_sge, srq_limit;
};
struct abi_srq_init {
	void *srq_context;
	struct abi_srq_attr attr;
};
struct abi_xrcd {
	struct abi_context *context;
};
struct abi_xrcd_init {
	uint32_t comp_mask;
	int fd, oflags;
};
struct abi_srq_init_ex {
	void *srq_context;
	struct abi_srq_attr attr;
	uint32_t comp_mask;
	int srq_type;
	struct abi_pd *pd;
	struct abi_xrcd *xrcd;
	struct abi_cq *cq;
	uint32_t tm_cap[2];
};
struct abi_srq {
	struct abi_context *context;
	void *srq_context;
	struct abi_pd *pd;
	uint32_t handle;
	pthread_mutex_t mutex;
	pthread_cond_t cond;
	uint32_t events_completed;
};
struct abi_qp_cap {
	uint32_t max_send_wr, max_recv_wr, max_send_sge, max_recv_sge, max_inline_data;
};
struct abi_qp_init {
	void *qp_context;
	struct abi_cq *send_cq, *recv_cq;
	struct abi_srq *srq;
	struct abi_qp_cap cap;
	int qp_type, sq_sig_all;
};
struct abi_qp_init_ex {
	void *qp_context;
	struct abi_cq *send_cq, *recv_cq;
	struct abi_srq *srq;
	struct abi_qp_cap cap;
	int qp_type, sq_sig_all;
	uint32_t comp_mask;
	struct abi_pd *pd;
	struct abi_xrcd *xrcd;
	uint32_t create_flags;
	uint16_t max_tso_header;
	void *rwq_ind_tbl;
	struct {
		uint8_t function, key_len;
		uint8_t *key;
		uint64_t fields;
	} rx_hash_conf;
	uint32_t source_qpn;
	uint64_t send_ops_flags;
};
struct abi_qp {
	struct abi_context *context;
	void *qp_context;
	struct abi_pd *pd;
	struct abi_cq *send_cq, *recv_cq;
	struct abi_srq *srq;
	uint32_t handle, qp_num;
	int state, qp_type;
	pthread_mutex_t mutex;
	pthread_cond_t cond;
	uint32_t events_completed;
};
struct abi_route {
	union abi_gid dgid;
	uint32_t flow_label;
	uint8_t sgid_index, hop_limit, traffic_class;
};
struct abi_grh {
	uint32_t version_tclass_flow;
	uint16_t paylen;
	uint8_t next_hdr, hop_limit;
	union abi_gid sgid, dgid;
};
struct abi_ah_attr {
	struct abi_route grh;
	uint16_t dlid;
	uint8_t sl, src_path_bits, static_rate, is_global, port_num;
};
struct abi_ah {
	struct abi_context *context;
	struct abi_pd *pd;
	uint32_t handle;
};
struct abi_qp_attr {
	int qp_state, cur_qp_state, path_mtu, path_mig_state;
	uint32_t qkey, rq_psn, sq_psn, dest_qp_num;
	unsigned qp_access_flags;
	struct abi_qp_cap cap;
	struct abi_ah_attr ah_attr, alt_ah_attr;
	uint16_t pkey_index, alt_pkey_index;
	uint8_t en_sqd_async_notify, sq_draining, max_rd_atomic, max_dest_rd_atomic, min_rnr_timer, port_num, timeout, retry_cnt, rnr_retry,
		alt_port_num, alt_timeout;
	uint32_t rate_limit;
};
struct abi_sge {
	uint64_t addr;
	uint32_t length, lkey;
};
struct abi_send_wr {
	uint64_t wr_id;
	struct abi_send_wr *next;
	struct abi_sge *sg_list;
	int num_sge, opcode;
	unsigned send_flags;
	uint32_t imm_data;
	union {
		struct {
			uint64_t remote_addr;
			uint32_t rkey;
		} rdma;
		struct {
			uint64_t remote_addr, compare_add, swap;
			uint32_t rkey;
		} atomic;
		struct {
			struct abi_ah *ah;
			uint32_t remote_qpn, remote_qkey;
		} ud;
	} wr;
	union {
		struct {
			uint32_t remote_srqn;
		} xrc;
	} qp_type;
	union {
		struct {
			void *mw;
			uint32_t rkey;
			struct {
				void *mr;
				uint64_t addr, length;
				unsigned access;
			} bind_info;
		} bind_mw;
		struct {
			void *hdr;
			uint16_t hdr_sz, mss;
		} tso;
	};
};
struct abi_recv_wr {
	uint64_t wr_id;
	struct abi_recv_wr *next;
	struct abi_sge *sg_list;
	int num_sge;
};
struct abi_wc {
	uint64_t wr_id;
	int status, opcode;
	uint32_t vendor_err, byte_len, imm_data, qp_num, src_qp;
	unsigned wc_flags;
	uint16_t pkey_index, slid;
	uint8_t sl, dlid_path_bits;
};
struct abi_async_event {
	union {
		void *object;
		int port_num;
	} element;
	int event_type;
};
struct abi_data_buf {
	void *addr;
	size_t length;
};
struct abi_qp_ex {
	struct abi_qp qp_base;
	uint64_t comp_mask, wr_id;
	unsigned wr_flags;
	void (*wr_atomic_cmp_swp)(struct abi_qp_ex *, uint32_t rkey, uint64_t addr, uint64_t compare, uint64_t swap);
	void (*wr_atomic_fetch_add)(struct abi_qp_ex *, uint32_t rkey, uint64_t addr, uint64_t add);
	void (*wr_bind_mw)(struct abi_qp_ex *, void *mw, uint32_t rkey, const void *bind);
	void (*wr_local_inv)(struct abi_qp_ex *, uint32_t rkey);
	void (*wr_rdma_read)(struct abi_qp_ex *, uint32_t rkey, uint64_t addr);
	void (*wr_rdma_write)(struct abi_qp_ex *, uint32_t rkey, uint64_t addr);
	void (*wr_rdma_write_imm)(struct abi_qp_ex *, uint32_t rkey, uint64_t addr, uint32_t imm);
	void (*wr_send)(struct abi_qp_ex *);
	void (*wr_send_imm)(struct abi_qp_ex *, uint32_t imm);
	void (*wr_send_inv)(struct abi_qp_ex *, uint32_t rkey);
	void (*wr_send_tso)(struct abi_qp_ex *, void *header, uint16_t size, uint16_t mss);
	void (*wr_set_ud_addr)(struct abi_qp_ex *, struct abi_ah *, uint32_t qpn, uint32_t qkey);
	void (*wr_set_xrc_srqn)(struct abi_qp_ex *, uint32_t srqn);
	void (*wr_set_inline_data)(struct abi_qp_ex *, void *addr, size_t length);
	void (*wr_set_inline_data_list)(struct abi_qp_ex *, size_t count, const struct abi_data_buf *list);
	void (*wr_set_sge)(struct abi_qp_ex *, uint32_t lkey, uint64_t addr, uint32_t length);
	void (*wr_set_sge_list)(struct abi_qp_ex *, size_t count, const struct abi_sge *list);
	void (*wr_start)(struct abi_qp_ex *);
	int (*wr_complete)(struct abi_qp_ex *);
	void (*wr_abort)(struct abi_qp_ex *);
	void (*wr_atomic_write)(struct abi_qp_ex *, uint32_t rkey, uint64_t addr, const void *value);
};
struct abi_context_ops {
	void *compat_1[7];
	void *(*alloc_mw)(struct abi_pd *, int);
	int (*bind_mw)(struct abi_qp *, void *, void *);
	int (*dealloc_mw)(void *);
	void *compat_2;
	int (*poll_cq)(struct abi_cq *, int, struct abi_wc *);
	int (*req_notify_cq)(struct abi_cq *, int);
	void *compat_3[7];
	int (*post_srq_recv)(struct abi_srq *, struct abi_recv_wr *, struct abi_recv_wr **);
	void *compat_4[4];
	int (*post_send)(struct abi_qp *, struct abi_send_wr *, struct abi_send_wr **);
	int (*post_recv)(struct abi_qp *, struct abi_recv_wr *, struct abi_recv_wr **);
	void *compat_5[5];
};
struct abi_context {
	struct abi_device *device;
	struct abi_context_ops ops;
	int cmd_fd, async_fd, num_comp_vectors;
	pthread_mutex_t mutex;
	void *abi_compat;
};
struct abi_values_ex {
	uint32_t comp_mask;
	struct {
		int64_t tv_sec, tv_nsec;
	} raw_clock;
};
struct abi_qp_open {
	uint32_t comp_mask, qp_num;
	struct abi_xrcd *xrcd;
	void *qp_context;
	int qp_type;
};
struct abi_td {
	struct abi_context *context;
};
/* Extended verbs, in front of a context whose `abi_compat` says that they are there; NULL is EOPNOTSUPP. */
struct abi_verbs_context {
	int (*query_port)(struct abi_context *, uint8_t, struct abi_port_attr *, size_t);
	void *advise_mr;
	struct abi_mr *(*alloc_null_mr)(struct abi_pd *);
	void *absent_1[10];
	void *modify_qp_rate_limit;
	struct abi_pd *(*alloc_parent_domain)(struct abi_context *, void *);
	int (*dealloc_td)(struct abi_td *);
	struct abi_td *(*alloc_td)(struct abi_context *, void *);
	void *absent_2[7];
	int (*query_rt_values)(struct abi_context *, struct abi_values_ex *);
	struct abi_cq_ex *(*create_cq_ex)(struct abi_context *, struct abi_cq_init_ex *);
	void *priv;
	int (*query_device_ex)(struct abi_context *, const void *, struct abi_device_attr_ex *, size_t);
	void *absent_3[4];
	struct abi_qp *(*open_qp)(struct abi_context *, struct abi_qp_open *);
	struct abi_qp *(*create_qp_ex)(struct abi_context *, struct abi_qp_init_ex *);
	int (*get_srq_num)(struct abi_srq *, uint32_t *);
	struct abi_srq *(*create_srq_ex)(struct abi_context *, struct abi_srq_init_ex *);
	struct abi_xrcd *(*open_xrcd)(struct abi_context *, struct abi_xrcd_init *);
	int (*close_xrcd)(struct abi_xrcd *);
	uint64_t placeholder;
	size_t sz;
	struct abi_context context;
};

#endif
