/* The words of libibverbs for its numbers. */
#include <stddef.h>
#include <stdint.h>

#define NAME(list, index, otherwise) ((size_t)(index) < sizeof(list) / sizeof *(list) && (list)[index] ? (list)[index] : (otherwise))

const char *ibv_wc_status_str(int status)
{
	static const char *const names[] = {
		"success",
		"local length error",
		"local QP operation error",
		"local EE context operation error",
		"local protection error",
		"Work Request Flushed Error",
		"memory management operation error",
		"bad response error",
		"local access error",
		"remote invalid request error",
		"remote access error",
		"remote operation error",
		"transport retry counter exceeded",
		"RNR retry counter exceeded",
		"local RDD violation error",
		"remote invalid RD request",
		"aborted error",
		"invalid EE context number",
		"invalid EE context state",
		"fatal error",
		"response timeout error",
		"general error",
		"TM error",
		"TM software rendezvous",
	};
	return NAME(names, status, "unknown");
}

const char *ibv_node_type_str(int type)
{
	static const char *const names[] = {
		[1] = "InfiniBand channel adapter", "InfiniBand switch", "InfiniBand router", "iWARP NIC", "usNIC", "usNIC UDP", "unspecified",
	};
	return NAME(names, type, "unknown");
}

const char *ibv_port_state_str(int state)
{
	static const char *const names[] = {
		"no state change (NOP)", "down", "init", "armed", "active", "active defer",
	};
	return NAME(names, state, "unknown");
}

const char *ibv_event_type_str(int event)
{
	static const char *const names[] = {
		"CQ error",
		"local work queue catastrophic error",
		"invalid request local work queue error",
		"local access violation work queue error",
		"communication established",
		"send queue drained",
		"path migration succeeded",
		"path migration failed",
		"local catastrophic error",
		"port active",
		"port error",
		"LID change",
		"P_Key change",
		"SM change",
		"SRQ catastrophic error",
		"SRQ limit reached",
		"last WQE reached",
		"client reregistration",
		"GID table change",
		"WQ fatal",
	};
	return NAME(names, event, "unknown");
}

/* Codes of static rates, and their multiples of 2.5 Gbit/s. Basis: standard. */
static const struct {
	int code, multiple, mbps;
} rates[] = {
	{ 2, 1, 2500 },    { 5, 2, 5000 },     { 3, 4, 10000 },    { 6, 8, 20000 },    { 4, 12, 30000 },    { 7, 16, 40000 },
	{ 8, 24, 60000 },  { 9, 32, 80000 },   { 10, 48, 120000 }, { 11, 6, 14062 },   { 12, 45, 112500 },  { 13, 67, 168750 },
	{ 14, 10, 25781 }, { 15, 40, 103125 }, { 16, 80, 206250 }, { 17, 120, 309375 }, { 18, 11, 28125 },  { 19, 20, 50000 },
	{ 20, 160, 400000 }, { 21, 240, 600000 }, { 22, 320, 800000 }, { 23, 480, 1200000 },
};

#define LOOK_UP(known, value, wanted, otherwise)                             \
	do {                                                                 \
		for (size_t i = 0; i < sizeof rates / sizeof *rates; i++)    \
			if (rates[i].known == (value))                       \
				return rates[i].wanted;                      \
		return otherwise;                                            \
	} while (0)

int ibv_rate_to_mult(int rate) { LOOK_UP(code, rate, multiple, -1); }
int ibv_rate_to_mbps(int rate) { LOOK_UP(code, rate, mbps, -1); }
int mult_to_ibv_rate(int multiple) { LOOK_UP(multiple, multiple, code, 0); }
int mbps_to_ibv_rate(int mbps) { LOOK_UP(mbps, mbps, code, 0); }
