/* Compiled, never run: the commands of the connection manager lie where `src/cm/abi.rs` reads and writes them. */
#include <netinet/in.h>
#include <stddef.h>
#include <sys/socket.h>

#include <rdma/rdma_user_cm.h>

#define AT(type, field, offset) _Static_assert(offsetof(struct type, field) == (offset), #type "." #field)
#define SIZE(type, size) _Static_assert(sizeof(struct type) == (size), #type)

SIZE(rdma_ucm_cmd_hdr, 8);
AT(rdma_ucm_create_id, response, 8);
AT(rdma_ucm_create_id, ps, 16);
AT(rdma_ucm_destroy_id, id, 8);
AT(rdma_ucm_bind_ip, addr, 8);
AT(rdma_ucm_bind_ip, id, 36);
AT(rdma_ucm_resolve_ip, dst_addr, 28);
AT(rdma_ucm_resolve_ip, id, 56);
AT(rdma_ucm_resolve_ip, timeout_ms, 60);
AT(rdma_ucm_query, id, 8);
SIZE(rdma_ucm_conn_param, 272);
AT(rdma_ucm_conn_param, private_data_len, 264);
AT(rdma_ucm_conn_param, responder_resources, 266);
AT(rdma_ucm_conn_param, valid, 271);
AT(rdma_ucm_connect, id, 272);
AT(rdma_ucm_listen, backlog, 4);
AT(rdma_ucm_accept, conn_param, 8);
AT(rdma_ucm_accept, id, 280);
AT(rdma_ucm_reject, private_data_len, 4);
AT(rdma_ucm_reject, private_data, 8);
AT(rdma_ucm_init_qp_attr, qp_state, 12);
AT(rdma_ucm_join_ip_mcast, uid, 8);
AT(rdma_ucm_join_ip_mcast, addr, 16);
AT(rdma_ucm_join_ip_mcast, id, 44);
AT(rdma_ucm_set_option, id, 8);
AT(rdma_ucm_migrate_id, id, 8);
AT(rdma_ucm_migrate_id, fd, 12);
SIZE(rdma_ucm_event_resp, 336);
AT(rdma_ucm_event_resp, param, 20);
AT(rdma_ucm_ud_param, ah_attr, 8);
AT(rdma_ucm_ud_param, private_data, 40);
SIZE(ib_uverbs_ah_attr, 32);
AT(ib_uverbs_ah_attr, grh.sgid_index, 20);
AT(ib_uverbs_ah_attr, dlid, 24);
AT(ib_uverbs_ah_attr, is_global, 29);
SIZE(ib_uverbs_qp_attr, 144);
AT(ib_uverbs_qp_attr, ah_attr, 40);
AT(ib_uverbs_qp_attr, max_rd_atomic, 130);
AT(ib_uverbs_qp_attr, rnr_retry, 136);
SIZE(rdma_ucm_query_route_resp, 208);
AT(rdma_ucm_query_route_resp, src_addr, 136);
AT(rdma_ucm_query_route_resp, num_paths, 192);
AT(rdma_ucm_query_route_resp, ibdev_index, 200);
SIZE(ib_user_path_rec, 64);
AT(ib_user_path_rec, mtu, 48);
AT(ib_user_path_rec, hop_limit, 54);
AT(ib_user_path_rec, packet_life_time, 62);
