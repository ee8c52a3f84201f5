/* SPDX-License-Identifier: MIT */
/*
 * tools/bench/peer.h - the programs that "osf bench" measures
 *
 * Each is a few lines around ordinary socket calls, in the way ordinary
 * programs make them: osf must not be told anything.  What they find out they
 * print as "name value".  A failure ends the process with a line on stderr.
 */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <netinet/in.h>
#include <stdint.h>

#define PEER_BYTES 64 /* of a message */

/* args[0] is PORT, which may be ADDRESS:PORT, or the first argument of a peer without one. */
int peer_echo(int argc, char **args);           /* PORT */
int peer_pingpong(int argc, char **args);       /* PORT SECONDS */
int peer_asleep(int argc, char **args);         /* PORT SECONDS */
int peer_sink(int argc, char **args);           /* PORT */
int peer_flood(int argc, char **args);          /* PORT SECONDS */
int peer_oneshot_server(int argc, char **args); /* PORT */
int peer_oneshot(int argc, char **args);        /* PORT SECONDS */
int peer_proof(int argc, char **args);          /* PORT SECONDS */
int peer_idle_server(int argc, char **args);    /* PORT */
int peer_idle(int argc, char **args);           /* PORT CONNECTIONS PID */
int peer_memcached(int argc, char **args);      /* PORT CONNECTIONS SECONDS */
int peer_passthrough(int argc, char **args);    /* SECONDS */
int peer_read_zero(int argc, char **args);      /* SECONDS */
int peer_vma_dummy(int argc, char **args);      /* SECONDS */
int peer_xlio_echo(int argc, char **args);      /* PORT */
int peer_xlio_pingpong(int argc, char **args);  /* PORT SECONDS */
int peer_xlio_sink(int argc, char **args);      /* PORT */
int peer_xlio_flood(int argc, char **args);     /* PORT SECONDS */
int peer_xlio_serve(int argc, char **args);     /* PORT CONNECTIONS SECONDS */
int peer_xlio_idle(int argc, char **args);      /* SOCKETS */
int peer_xlio_memory(int argc, char **args);    /* GROUPS SOCKETS */
int peer_vma_echo(int argc, char **args);       /* PORT */
int peer_vma_pingpong(int argc, char **args);   /* PORT SECONDS */
int peer_vma_sink(int argc, char **args);       /* PORT */
int peer_vma_zcopy(int argc, char **args);      /* SECONDS */
int peer_vma_udp(int argc, char **args);        /* SECONDS */
int peer_plain_udp(int argc, char **args);      /* SECONDS */
int peer_vma_udp_joined(int argc, char **args);
int peer_plain_udp_joined(int argc, char **args);
int peer_vma_callback(int argc, char **args); /* SECONDS */
int peer_plain_sink(int argc, char **args);   /* PORT */
int peer_plain_flood(int argc, char **args);  /* PORT SECONDS */
int peer_engine(int argc, char **args);       /* CONNECTIONS recv|copied|lent */
int peer_epoll_serve(int argc, char **args);  /* PORT CONNECTIONS SECONDS */
int peer_busy(int argc, char **args);         /* until it is killed */
int peer_loaded(int argc, char **args);       /* LIBRARY */
int peer_frame_echo(int argc, char **args);   /* DEVICE */
int peer_frame_ask(int argc, char **args);    /* DEVICE SECONDS */
int peer_moves(int argc, char **args);        /* PORT SECONDS */
int peer_udp_echo(int argc, char **args);     /* PORT */
int peer_udp_pingpong(int argc, char **args); /* PORT SECONDS */
int peer_udp_sink(int argc, char **args);     /* PORT */
int peer_udp_flood(int argc, char **args);    /* PORT SECONDS */
int peer_rdma_idle(int argc, char **args);    /* QUEUE-PAIRS */

/* peer_load.c: load for an echo server of this thread, whose one turn is @turn and
 * which counts the bytes it has echoed in @received; args: CONNECTIONS SECONDS */
int peer_load(const char *port, char **args, void (*turn)(void),
	      const size_t *received);

/* peer_sock.c; all of these succeed or end the process */
void peer_die(const char *what) __attribute__((noreturn));
struct sockaddr_in peer_addr(const char *port);
int peer_listen(const char *port);
int peer_accept(int listener);      /* without Nagle */
int peer_connect(const char *port); /* without Nagle */
void peer_send(int fd, const void *buf, size_t len);
bool peer_recv(int fd, void *buf, size_t len); /* false: the end */
void peer_ask(int fd);                         /* PEER_BYTES there and back */
void peer_raise_files(void);
uint64_t peer_cpu_us(void);
#define PEER_BLOCK (64u * 1024)                  /* of a flood */
void peer_look_at(const void *data, size_t len); /* each line of it */

/* peer_time.c: the cheapest clock there is, for times of one message */
uint64_t tick_now(void);
double tick_ns(void); /* of one tick */

/* A set of times, and its median in ns. */
#define TIMES_MAX (4u << 20)
struct times {
	uint32_t *ticks;
	size_t n;
};
void times_init(struct times *t);
void times_add(struct times *t, uint64_t ticks); /* full: forgets */
double times_median_ns(struct times *t);
void times_fini(struct times *t);
