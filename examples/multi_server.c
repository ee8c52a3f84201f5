/* SPDX-License-Identifier: MIT */
/*
 * examples/multi_server.c - an echo server of several threads, between which
 * connections move
 *
 *     multi_server PORT [THREADS [CONNECTIONS]]
 *
 * One group accepts and hands each connection to a thread's group: detach here, attach
 * there.  A thread passes a connection on to the next one after MOVE_BYTES, so that
 * each of them has served a part of a long one.
 */
#include <arpa/inet.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

#include <mellanox/xlio.h>
#include <osf/group.h>

#define THREADS_MAX 16
#define QUEUE 1024 /* connections under way to a thread, at most */
#define MOVE_BYTES 65536

struct worker {
	pthread_t thread;
	pthread_mutex_t lock;
	xlio_socket_t queue[QUEUE];
	int n_queued;
	xlio_poll_group_t group;
};

static struct worker workers[THREADS_MAX];
static int n_workers = 2, next_worker;
static long n_left = -1, n_moves;
static __thread struct worker *self;

static void die(const char *what)
{
	perror(what);
	exit(EXIT_FAILURE);
}

static void hand_over(xlio_socket_t sock, struct worker *to)
{
	if (xlio_socket_detach_group(sock) < 0)
		return; /* it has ended meanwhile */
	pthread_mutex_lock(&to->lock);
	if (to->n_queued == QUEUE)
		die("queue");
	to->queue[to->n_queued++] = sock;
	pthread_mutex_unlock(&to->lock);
	__atomic_fetch_add(&n_moves, 1, __ATOMIC_RELAXED);
}

static void on_event(xlio_socket_t sock, uintptr_t userdata, int event,
		     int value)
{
	(void)userdata;
	(void)value;
	if (event == XLIO_SOCKET_EVENT_TERMINATED)
		__atomic_fetch_sub(&n_left, 1, __ATOMIC_RELAXED);
	else
		xlio_socket_destroy(sock);
}

#define NOW (XLIO_SOCKET_SEND_FLAG_FLUSH | XLIO_SOCKET_SEND_FLAG_INLINE)

/* @bytes: that this thread has served of it. */
static void on_rx(xlio_socket_t sock, uintptr_t bytes, void *data, size_t len,
		  struct xlio_buf *buf)
{
	struct xlio_socket_send_attr attr = { .flags = NOW };

	xlio_socket_send(sock, data, len, &attr);
	xlio_socket_buf_free(sock, buf), bytes += len;
	xlio_socket_update(sock, 0, bytes > MOVE_BYTES ? 0 : bytes);
	if (bytes > MOVE_BYTES)
		hand_over(sock, &workers[(self - workers + 1) % n_workers]);
}

static void on_accept(xlio_socket_t sock, xlio_socket_t parent,
		      uintptr_t userdata)
{
	(void)parent;
	(void)userdata;
	hand_over(sock, &workers[next_worker++ % n_workers]);
}

static void take(struct worker *w)
{
	pthread_mutex_lock(&w->lock);
	while (w->n_queued)
		if (xlio_socket_attach_group(w->queue[--w->n_queued],
					     w->group) < 0)
			die("attach");
	pthread_mutex_unlock(&w->lock);
}

static void *work(void *arg)
{
	self = arg;
	while (__atomic_load_n(&n_left, __ATOMIC_RELAXED)) {
		take(self);
		if (osf_group_wait(self->group, 1) < 0)
			die("wait");
	}
	return NULL;
}

int main(int argc, char **argv)
{
	struct xlio_poll_group_attr attr = { .socket_event_cb = on_event,
					     .socket_rx_cb = on_rx,
					     .socket_accept_cb = on_accept };
	struct sockaddr_in a = { .sin_family = AF_INET,
				 .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	struct xlio_socket_attr sa = { .domain = AF_INET };
	xlio_socket_t sock;
	int on = 1;

	if (argc < 2 || (argc > 2 && (n_workers = atoi(argv[2])) < 1) ||
	    n_workers > THREADS_MAX) {
		fprintf(stderr, "usage: %s PORT [THREADS [CONNECTIONS]]\n",
			argv[0]);
		return EXIT_FAILURE;
	}
	n_left = argc > 3 ? atol(argv[3]) : n_left;
	a.sin_port = htons((uint16_t)atoi(argv[1]));
	if (xlio_init() < 0 || xlio_poll_group_create(&attr, &sa.group) < 0 ||
	    xlio_socket_create(&sa, &sock) < 0 ||
	    xlio_socket_setsockopt(sock, SOL_SOCKET, SO_REUSEADDR, &on,
				   sizeof(on)) < 0 ||
	    xlio_socket_bind(sock, (struct sockaddr *)&a, sizeof(a)) < 0)
		die("bind");
	for (int i = 0; i < n_workers; i++)
		if (pthread_mutex_init(&workers[i].lock, NULL) ||
		    xlio_poll_group_create(&attr, &workers[i].group) < 0 ||
		    pthread_create(&workers[i].thread, NULL, work, &workers[i]))
			die("thread");
	if (xlio_socket_listen(sock) < 0)
		die("listen");
	while (__atomic_load_n(&n_left, __ATOMIC_RELAXED))
		if (osf_group_wait(sa.group, 10) < 0)
			die("wait");
	for (int i = 0; i < n_workers; i++)
		pthread_join(workers[i].thread, NULL);
	printf("%ld moves\n", n_moves);
	return xlio_exit() < 0;
}
