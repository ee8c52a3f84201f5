/* SPDX-License-Identifier: MIT */
/*
 * tests/xlio/xlio_test.c - runs the tests, each in a process of its own
 *
 *     xlio_test            all
 *     xlio_test NAME...    those
 *
 * Prints a line for each test, and ends with 1 if one failed.  A test has 60 s.
 */
#include "xlio_test.h"

#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>

#include <osf/stats.h>

#define STATS_MORE ((size_t)64 << 20)

#define TEST_S 60

struct world *w;
static struct world the_world;

void expect(bool ok, const char *what, const char *file, int line)
{
	if (ok)
		return;
	fprintf(stderr, "%s:%d: not so: %s\n", file, line, what);
	fflush(NULL);
	_exit(1);
}

void expect_eq(long long a, long long b, const char *sa, const char *sb,
	       const char *file, int line)
{
	if (a == b)
		return;
	fprintf(stderr, "%s:%d: %s is %lld, %s is %lld; errno %d\n", file, line,
		sa, a, sb, b, errno);
	fflush(NULL);
	_exit(1);
}

double now(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (double)ts.tv_sec + (double)ts.tv_nsec / 1e9;
}

static bool is_over(const char *protocol)
{
	const char *p = getenv("OSF_XLIO_TEST");

	return p && !strcmp(p, protocol);
}

bool is_shm(void) { return is_over("shm"); }
bool is_tcp(void) { return is_over("tcp"); }

/* Our own statistics file: there is one in this process. */
static const struct osf_stats_header *stats(void)
{
	char path[300], link[300];
	DIR *d = opendir("/proc/self/fd");
	void *map = MAP_FAILED;

	for (struct dirent *e; d && (e = readdir(d));) {
		snprintf(path, sizeof(path), "/proc/self/fd/%s", e->d_name);
		ssize_t n = readlink(path, link, sizeof(link) - 1);
		if (n <= 0)
			continue;
		link[n] = '\0';
		struct stat st;
		int fd =
		    strstr(link, OSF_STATS_MEMFD) ? open(path, O_RDONLY) : -1;
		if (fd < 0)
			continue;
		/* It grows as sockets come. */
		if (!fstat(fd, &st))
			map = mmap(NULL, (size_t)st.st_size + STATS_MORE,
				   PROT_READ, MAP_SHARED, fd, 0);
		close(fd);
		break;
	}
	if (d)
		closedir(d);
	EXPECT(map != MAP_FAILED);
	return map;
}

static const struct osf_stats_header *own_stats(void)
{
	static const struct osf_stats_header *h;
	static pid_t whose;

	if (whose != getpid())
		h = stats();
	whose = getpid();
	return h;
}

/* The counter at @at of each open socket, and @closed. */
static uint64_t sum(size_t closed, size_t at)
{
	const struct osf_stats_header *h = own_stats();
	uint64_t n = *(const uint64_t *)((const char *)h + closed);
	for (uint32_t i = 0; i < h->n_socks; i++) {
		const char *s =
		    (const char *)h + h->header_size + (size_t)i * h->sock_size;
		if (((const struct osf_stats_sock *)s)->in_use)
			n += *(const uint64_t *)(s + at);
	}
	return n;
}

uint64_t shm_bytes(void)
{
	return sum(offsetof(struct osf_stats_header, totals.rx_bytes_shm),
		   offsetof(struct osf_stats_sock, rx_bytes_shm));
}

uint64_t ref_bytes(void)
{
	return sum(offsetof(struct osf_stats_header, totals.tx_bytes_ref),
		   offsetof(struct osf_stats_sock, tx_bytes_ref));
}

uint32_t n_moved(void)
{
	const struct osf_stats_header *h = own_stats();

	return (uint32_t)h->totals.n_upgraded;
}

/*
 * Callbacks, and the rules that hold always.
 */

static struct end *end_of(uintptr_t userdata, xlio_socket_t sock)
{
	struct end *e = (struct end *)userdata;

	EXPECT(e != NULL);
	EXPECT_EQ(e->sock, sock);
	EXPECT(!e->is_gone);
	return e;
}

static void on_event(xlio_socket_t sock, uintptr_t userdata, int event,
		     int value)
{
	struct end *e = end_of(userdata, sock);

	switch (event) {
	case XLIO_SOCKET_EVENT_ESTABLISHED:
		EXPECT(!e->is_accepted && !e->is_destroyed);
		EXPECT_EQ(++e->n_established, 1);
		break;
	case XLIO_SOCKET_EVENT_CLOSED:
		EXPECT(!e->is_destroyed);
		EXPECT_EQ(++e->n_closed, 1);
		break;
	case XLIO_SOCKET_EVENT_ERROR:
		EXPECT(!e->is_destroyed);
		EXPECT_EQ(++e->n_error, 1);
		EXPECT(value == ECONNABORTED || value == ECONNRESET ||
		       value == ECONNREFUSED || value == ETIMEDOUT ||
		       value == ENOBUFS);
		e->error = value;
		break;
	case XLIO_SOCKET_EVENT_TERMINATED:
		EXPECT_EQ(e->n_comps, e->n_ops);
		EXPECT_EQ(++e->n_terminated, 1);
		e->is_gone = true;
		EXPECT_ERR(xlio_socket_update(sock, 0, 0), EINVAL);
		break;
	default:
		EXPECT(!"a known event");
	}
	if (e->world->on_event)
		e->world->on_event(e, event, value);
}

static void on_comp(xlio_socket_t sock, uintptr_t userdata, uintptr_t op)
{
	struct end *e = end_of(userdata, sock);

	EXPECT(++e->n_comps <= e->n_ops);
	e->last_comp = op;
	if (e->world->on_comp)
		e->world->on_comp(e, op);
}

static void on_rx(xlio_socket_t sock, uintptr_t userdata, void *data,
		  size_t len, struct xlio_buf *buf)
{
	struct end *e = end_of(userdata, sock);

	EXPECT(!e->is_destroyed);
	EXPECT(len > 0);
	if (e->key)
		EXPECT(stream_is(data, e->key, e->received, len));
	e->received += len;
	buf->userdata = (uint64_t)userdata;
	if (!e->world->on_rx || !e->world->on_rx(e, data, len, buf))
		xlio_socket_buf_free(sock, buf);
}

static void on_accept(xlio_socket_t sock, xlio_socket_t parent,
		      uintptr_t parent_userdata)
{
	struct end *p = end_of(parent_userdata, parent);
	struct world *world = p->world;

	EXPECT(world->n_ends < ENDS);
	struct end *e = &world->ends[world->n_ends++];
	*e = (struct end){ .sock = sock, .is_accepted = true, .world = world };
	EXPECT_EQ(xlio_socket_update(sock, 0, (uintptr_t)e), 0);
	p->n_accepted++;
	world->newest = e;
	if (world->on_accept)
		world->on_accept(e);
}

struct xlio_poll_group_attr world_attr(unsigned flags)
{
	return (struct xlio_poll_group_attr){ .flags = flags,
					      .socket_event_cb = on_event,
					      .socket_comp_cb = on_comp,
					      .socket_rx_cb = on_rx,
					      .socket_accept_cb = on_accept };
}

void world_open_with(const struct xlio_poll_group_attr *client,
		     const struct xlio_poll_group_attr *server)
{
	w = &the_world;
	EXPECT_EQ(xlio_init(), 0);
	EXPECT_EQ(xlio_poll_group_create(client, &w->client), 0);
	EXPECT_EQ(xlio_poll_group_create(server, &w->server), 0);
}

void world_listen(void)
{
	struct sockaddr_in in = { .sin_family = AF_INET,
				  .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };

	w->listening = end_new(w->server, AF_INET);
	w->listener = w->listening->sock;
	EXPECT_EQ(
	    xlio_socket_bind(w->listener, (struct sockaddr *)&in, sizeof(in)),
	    0);
	EXPECT_EQ(xlio_socket_listen(w->listener), 0);
	w->addr_len = sizeof(w->addr);
	EXPECT_EQ(xlio_socket_getsockname(
		      w->listener, (struct sockaddr *)&w->addr, &w->addr_len),
		  0);
}

void world_open(unsigned flags)
{
	struct xlio_poll_group_attr attr = world_attr(flags);

	world_open_with(&attr, &attr);
	world_listen();
}

struct end *end_new(xlio_poll_group_t group, int domain)
{
	EXPECT(w->n_ends < ENDS);
	struct end *e = &w->ends[w->n_ends++];

	*e = (struct end){ .world = w };
	struct xlio_socket_attr attr = { .domain = domain,
					 .group = group,
					 .userdata_sq = (uintptr_t)e };
	EXPECT_EQ(xlio_socket_create(&attr, &e->sock), 0);
	return e;
}

struct end *end_connect(void)
{
	struct end *e = end_new(w->client, w->addr.ss_family);

	EXPECT_EQ(xlio_socket_connect(e->sock, (struct sockaddr *)&w->addr,
				      w->addr_len),
		  0);
	return e;
}

void end_destroy(struct end *e)
{
	e->is_destroyed = true;
	EXPECT_EQ(xlio_socket_destroy(e->sock), 0);
}

void poll_both(void)
{
	xlio_poll_group_poll(w->client);
	xlio_poll_group_poll(w->server);
}

void poll_n(int n)
{
	while (n--)
		poll_both();
}

/* A few bytes there and back, after which an upgrade has come about. */
static void warm_up(struct end *a, struct end *b)
{
	char byte = 'w';

	for (int i = 0; i < 8; i++) {
		size_t at_a = a->received, at_b = b->received;

		end_send(a, &byte, 1,
			 XLIO_SOCKET_SEND_FLAG_FLUSH |
			     XLIO_SOCKET_SEND_FLAG_INLINE);
		UNTIL(b->received == at_b + 1);
		end_send(b, &byte, 1,
			 XLIO_SOCKET_SEND_FLAG_FLUSH |
			     XLIO_SOCKET_SEND_FLAG_INLINE);
		UNTIL(a->received == at_a + 1);
	}
	a->received = b->received = 0;
}

void pair(struct end **client, struct end **server)
{
	bool (*keep)(struct end *, void *, size_t, struct xlio_buf *) =
	    w->on_rx;
	struct end *c = end_connect();
	int n = w->listening->n_accepted;
	uint64_t before = shm_bytes();
	uint32_t moved = n_moved();

	w->on_rx = NULL;
	UNTIL(c->n_established && w->listening->n_accepted > n);
	struct end *s = w->newest;
	warm_up(c, s);
	EXPECT_EQ(shm_bytes() > before, is_shm());
	if (is_tcp())
		EXPECT(n_moved() > moved);
	w->on_rx = keep;
	*client = c;
	*server = s;
}

void world_close(void)
{
	for (int i = 0; i < w->n_ends; i++)
		if (!w->ends[i].is_destroyed && !w->ends[i].is_gone)
			end_destroy(&w->ends[i]);
	for (int i = 0; i < w->n_ends; i++)
		UNTIL(w->ends[i].is_gone);
	EXPECT_EQ(xlio_poll_group_destroy(w->client), 0);
	EXPECT_EQ(xlio_poll_group_destroy(w->server), 0);
	EXPECT_EQ(xlio_exit(), 0);
}

void end_send(struct end *e, const void *data, size_t len, unsigned flags)
{
	struct xlio_socket_send_attr attr = { .flags = flags };

	if (!(flags & XLIO_SOCKET_SEND_FLAG_INLINE)) {
		e->n_ops++;
		attr.userdata_op = (uintptr_t)data;
	}
	EXPECT_EQ(xlio_socket_send(e->sock, data, len, &attr), 0);
}

void stream_fill(void *buf, uint64_t key, uint64_t off, size_t len)
{
	uint8_t *b = buf;

	for (size_t i = 0; i < len; i++, off++)
		b[i] =
		    (uint8_t)(off * 131 + (off >> 8) * 17 + (off >> 16) + key);
}

bool stream_is(const void *buf, uint64_t key, uint64_t off, size_t len)
{
	const uint8_t *b = buf;

	for (size_t i = 0; i < len; i++, off++)
		if (b[i] != (uint8_t)(off * 131 + (off >> 8) * 17 +
				      (off >> 16) + key)) {
			fprintf(stderr, "byte %llu is %02x\n",
				(unsigned long long)off, b[i]);
			return false;
		}
	return true;
}

/*
 * Running them.
 */

static bool run(const struct test *t)
{
	double start = now();
	int status;

	fflush(NULL);
	pid_t pid = fork();
	if (!pid) {
		alarm(TEST_S);
		t->run();
		fflush(NULL);
		exit(0);
	}
	waitpid(pid, &status, 0);
	printf("%-60s %s %.2f s\n", t->name, status ? "FAILED" : "ok",
	       now() - start);
	if (status && WIFSIGNALED(status))
		printf("  killed by signal %d\n", WTERMSIG(status));
	fflush(stdout);
	return !status;
}

static bool is_chosen(const char *name, int argc, char **argv)
{
	for (int i = 1; i < argc; i++)
		if (strstr(name, argv[i]))
			return true;
	return argc == 1;
}

int main(int argc, char **argv)
{
	const struct test *all[] = { tests_args, tests_data,       tests_end,
				     tests_move, tests_faults,     tests_more,
				     tests_ref,  tests_ref_faults, tests_fuzz,
				     tests_keep, tests_memory };
	int n_failed = 0, n = 0;

	for (size_t i = 0; i < sizeof(all) / sizeof(*all); i++)
		for (const struct test *t = all[i]; t->name; t++)
			if (is_chosen(t->name, argc, argv)) {
				n++;
				n_failed += !run(t);
			}
	printf("%d tests, %d failed\n", n, n_failed);
	return n_failed || !n;
}
