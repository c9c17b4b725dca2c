/* The start of a process in real time, and who answers its questions: this process itself. */
#define _GNU_SOURCE
#include "real.h"
#include "parts.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdlib.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

struct real_adapter real_adapter;
bool live_real;

/* Where a thread's questions go: there are no slots. */
struct room {
	int64_t args[8];
	size_t posts;
	uint8_t data[LIVE_DATA];
};
static __thread struct room *own_room __attribute__((tls_model("initial-exec")));
static pthread_key_t room_key;
static pthread_once_t room_once = PTHREAD_ONCE_INIT;

static void make_room_key(void) { pthread_key_create(&room_key, free); }

static struct room *room(void)
{
	if (own_room)
		return own_room;
	pthread_once(&room_once, make_room_key);
	own_room = calloc(1, sizeof *own_room);
	if (!own_room)
		abort();
	pthread_setspecific(room_key, own_room);
	return own_room;
}

int64_t *live_real_args(void) { return room()->args; }
uint8_t *live_real_question(void) { return room()->data + room()->posts; }

uint64_t *live_real_post(size_t bytes)
{
	struct room *of = room();
	if (of->posts + bytes > LIVE_POSTS)
		live_ask(OP_POST, 0);
	uint64_t *at = (uint64_t *)(of->data + of->posts);
	of->posts += bytes;
	return at;
}

int64_t live_real_answer(enum live_op op)
{
	struct room *of = room();
	int error = errno;
	size_t posts = of->posts;
	of->posts = 0;
	int64_t result = real_answer(op, of->args, of->data, posts);
	errno = error;
	return result;
}

int64_t live_real_poll(uint32_t nic, uint32_t cq, int64_t most)
{
	struct room *of = room();
	if (!real_adapter.joined)
		return -EINVAL;
	real_lock();
	int64_t found = real_poll(real_cq(nic, cq), most, (uint64_t *)of->data);
	real_unlock();
	return found;
}

uint64_t live_real_ns(void)
{
	struct timespec now;
	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

void real_tell(const char *what)
{
	char line[256];
	int length = snprintf(line, sizeof line, "fabriscope: %s\n", what);
	live_syscall(SYS_write, 2, line, (size_t)length);
}

/* ---- the files of the run ---- */

static void *map(const char *folder, const char *name, size_t size)
{
	char path[4096];
	struct stat is;
	snprintf(path, sizeof path, "%s/%s", folder, name);
	int fd = (int)live_syscall(SYS_openat, AT_FDCWD, path, O_RDWR | O_CLOEXEC | (size ? O_CREAT : 0), 0600);
	if (fd < 0)
		return NULL; /* the run is over */
	bool sized = size ? live_syscall(SYS_ftruncate, fd, size) == 0 : live_syscall(SYS_fstat, fd, &is) == 0;
	size = size ? size : sized ? (size_t)is.st_size : 0;
	void *at = sized ? mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, fd, 0) : MAP_FAILED;
	live_syscall(SYS_close, fd);
	return at == MAP_FAILED ? NULL : at;
}

/* The host that this process is on: the one that it was started for, or that of its rank in a job. */
static uint32_t own_host(const struct real_directory *directory)
{
	static const char *const ranks[] = { "OMPI_COMM_WORLD_RANK", "PMI_RANK", "PMIX_RANK", "SLURM_PROCID" };
	for (size_t i = 0; directory->ranks_per_node && i < sizeof ranks / sizeof *ranks; i++)
		if (getenv(ranks[i]))
			return (uint32_t)atoll(getenv(ranks[i])) / directory->ranks_per_node % directory->hosts;
	const char *folder = getenv("FABRISCOPE_LIVE_HOST"), *slash = folder ? strrchr(folder, '/') : NULL;
	for (uint32_t i = 0; slash && i < directory->hosts; i++)
		if (!strcmp(directory->host[i].name, slash + 1))
			return i;
	return 0;
}

/* A child has nothing of its parent's adapter, as on hardware. */
static void after_fork(void)
{
	struct real_adapter *of = &real_adapter;
	*of = (struct real_adapter){ .directory = of->directory, .host = of->host };
	real_forget_lock();
	real_leave_pairs();
	real_leave_objects();
	own_room = NULL;
}

void live_real_start(const char *folder)
{
	static struct live_arena nothing;
	struct real_directory *directory = map(folder, "directory", 0);
	if (!directory || directory->magic != REAL_MAGIC)
		return;
	/* What virtual time costs is asked in the same places. */
	live_arena = &nothing;
	real_adapter.directory = directory;
	real_adapter.host = own_host(directory);
	live_real = true;
	pthread_atfork(NULL, NULL, after_fork);
}

/* ---- a place among the processes of the run ---- */

static bool take_place(uint32_t number, uint32_t pid, uint32_t expected)
{
	return atomic_compare_exchange_strong(&real_adapter.fabric->process[number].pid, &expected, pid);
}

static int64_t find_place(uint32_t pid)
{
	struct real_fabric *fabric = real_adapter.fabric;
	for (uint32_t i = 0; i < MOST_PROCESSES; i++)
		if (atomic_load(&fabric->process[i].pid) == pid)
			return i;
	for (uint32_t i = 0; i < MOST_PROCESSES; i++)
		if (take_place(i, pid, 0))
			return i;
	for (uint32_t i = 0; i < MOST_PROCESSES; i++) {
		uint32_t other = atomic_load(&fabric->process[i].pid);
		if (other && live_syscall(SYS_kill, other, 0) < 0 && errno == ESRCH && take_place(i, pid, other))
			return i;
	}
	return -1;
}

/* What a process before this one had in the same place is nobody's. */
static void clear_place(uint32_t number)
{
	struct real_fabric *fabric = real_adapter.fabric;
	real_leave_groups(number);
	for (uint32_t i = 0; i < atomic_load(&fabric->pairs); i++)
		if (atomic_load(&fabric->pair[i].process) == number + 1)
			atomic_store(&fabric->pair[i].process, 0);
	for (uint32_t i = 0; i < atomic_load(&fabric->mrs); i++)
		if (atomic_load(&fabric->mr[i].key) && fabric->mr[i].process == number)
			atomic_store(&fabric->mr[i].key, 0);
}

static bool join(void)
{
	struct real_adapter *of = &real_adapter;
	const char *folder = getenv("FABRISCOPE_LIVE_REAL");
	of->fabric = folder ? map(folder, "fabric", sizeof *of->fabric) : NULL;
	int64_t number = of->fabric ? find_place((uint32_t)live_syscall(SYS_getpid)) : -1;
	if (number < 0)
		return false;
	of->number = (uint32_t)number;
	of->me = &of->fabric->process[number];
	atomic_store(&of->me->attention, 0);
	atomic_store(&of->me->asleep, 0);
	clear_place(of->number);
	/* Peers reach the memory that is registered; where the kernel lets relatives do so only, it has to be told. */
	live_syscall(SYS_prctl, PR_SET_PTRACER, PR_SET_PTRACER_ANY, 0, 0, 0);
	of->joined = true;
	real_begin_thread();
	return true;
}

/* Peers hear of all that was received, and nothing is left to them. */
void live_real_end(void)
{
	struct real_adapter *of = &real_adapter;
	if (!of->joined)
		return;
	real_lock();
	real_pay();
	clear_place(of->number);
	atomic_store(&of->me->pid, 0);
	of->joined = false;
	real_unlock();
}

__attribute__((destructor)) static void destructor(void) { live_real_end(); }

/* ---- questions ---- */

const struct live_device_info *real_device(uint32_t nic)
{
	const struct real_host *host = &real_adapter.directory->host[real_adapter.host];
	const char *devices = (const char *)real_adapter.directory + host->place;
	return nic < host->devices ? (const struct live_device_info *)devices + nic : NULL;
}

static int64_t describe_devices(uint8_t *bytes)
{
	uint32_t count = 0;
	for (const struct live_device_info *one; count < MOST_DEVICES && (one = real_device(count)); count++)
		memcpy(bytes + count * sizeof *one, one, sizeof *one);
	return count;
}

static int64_t answer(enum live_op op, int64_t args[8], uint8_t *bytes, size_t posts)
{
	uint32_t nic = (uint32_t)args[0], number = (uint32_t)args[1];
	switch (op) {
	case OP_POST:
		return real_post(bytes, posts, &args[0]);
	case OP_CREATE_QP:
		return real_create_qp((const uint64_t *)bytes);
	case OP_MODIFY_QP:
		return real_modify_qp((const uint64_t *)bytes);
	case OP_QUERY_QP:
		return real_query_qp(nic, number, (uint64_t *)bytes);
	case OP_DESTROY_QP:
		return real_destroy_qp(nic, number);
	default:
		return real_object(op, args);
	}
}

int64_t real_answer(enum live_op op, int64_t args[8], uint8_t *bytes, size_t posts)
{
	if (op == OP_DEVICES)
		return describe_devices(bytes);
	if (op == OP_PORT)
		return 1;
	real_lock();
	int64_t result = real_adapter.joined || join() ? answer(op, args, bytes, posts) : -ENODEV;
	real_unlock();
	return result;
}
