/* SPDX-License-Identifier: MIT */
/* ops/ops.c - see ops/ops.h */
#include <errno.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>

#include "base/env.h"
#include "base/fds.h"
#include "base/fork_lock.h"
#include "base/libc.h"
#include "base/log.h"
#include "base/setting.h"
#include "base/spin.h"
#include "ops/advance.h"
#include "ops/builtin.h"
#include "ops/candidates.h"
#include "ops/history.h"
#include "ops/inside.h"
#include "ops/module.h"
#include "ops/ops.h"
#include "ops/policy.h"
#include "ops/port.h"
#include "ops/threads.h"
#include "proto/inet/inet.h"
#include "proto/shm/shm.h"
#include "sock/arena.h"
#include "sock/shared.h"

static void addr_note(uint8_t addr[16], uint16_t *port, uint16_t *family,
		      const struct sockaddr *sa)
{
	if (sa->sa_family == AF_INET) {
		const struct sockaddr_in *v4 = (const void *)sa;

		memcpy(addr, &v4->sin_addr, 4);
		*port = ntohs(v4->sin_port);
	} else if (sa->sa_family == AF_INET6) {
		const struct sockaddr_in6 *v6 = (const void *)sa;

		memcpy(addr, &v6->sin6_addr, 16);
		*port = ntohs(v6->sin6_port);
	} else {
		return;
	}
	*family = sa->sa_family;
}

void ops_note_local(struct sock *sk, int fd)
{
	struct sockaddr_storage ss;
	socklen_t len = sizeof(ss);

	if (!getsockname(fd, (struct sockaddr *)&ss, &len))
		addr_note(sk->st->local_addr, &sk->st->local_port,
			  &sk->st->family, (struct sockaddr *)&ss);
}

static void note_peer(struct sock *sk, const struct sockaddr *sa)
{
	uint16_t family;

	addr_note(sk->st->peer_addr, &sk->st->peer_port, &family, sa);
}

void ops_to_kernel(struct sock *sk, enum osf_reason reason)
{
	sock_set_reason(sk, reason);
	sock_set_mode(sk, SOCK_KERNEL);
}

bool ops_keep_kernel(struct sock *sk, enum osf_reason reason)
{
	return inet_keep_kernel(sk, reason);
}

bool ops_nodelay;
static uint32_t left; /* the reason for which all is the kernel's, or NONE */

bool ops_leave_all(enum osf_reason reason)
{
	return xchg(&left, (uint32_t)reason) != OSF_REASON_NONE;
}

void ops_created(struct sock *sk, const struct ops_family *family)
{
	sk->st->family = (uint16_t)family->domain;
	sk->pingpongs_next = UINT32_MAX;
	sk->bytes_next = UINT64_MAX;
	if (family->offload)
		sk->flags |= SOCK_F_OFFLOAD | SOCK_F_EAGER;
	if (family->direct)
		ops_to_kernel(sk, OSF_REASON_DIRECT);
	else if (load_rlx(&left))
		ops_to_kernel(sk, (enum osf_reason)load_rlx(&left));
	else if (thread_leaves())
		ops_to_kernel(sk, OSF_REASON_RULE);
	else if (family->offload)
		return; /* connect() fails if no protocol takes it */
	else if (policy_all_os())
		ops_to_kernel(sk, OSF_REASON_RULE);
	else if (!shm_config.enabled && !registry_any())
		ops_to_kernel(sk, OSF_REASON_DISABLED);
}

static socklen_t addr_len(const struct sockaddr *sa)
{
	return sa->sa_family == AF_INET6 ? sizeof(struct sockaddr_in6)
					 : sizeof(struct sockaddr_in);
}

/* A module serves @sk: by a replacement descriptor, if not by its own table. */
static void carried(struct sock *sk)
{
	if (sock_mode(sk) == SOCK_MODULE)
		return;
	sk->st->proto = OSF_PROTO_MODULE;
	ops_to_kernel(sk, OSF_REASON_MODULE);
}

bool ops_has_modules(void) { return registry_any(); }

bool ops_is_in_process(void) { return registry_any() || port_is_open(); }

bool ops_is_inside(void) { return ops_inside; }

int ops_connect_first(struct sock *sk, int fd, const struct sockaddr *to,
		      socklen_t len, const struct module_how *how)
{
	if (!registry_any() || sock_mode(sk) != SOCK_YOUNG ||
	    sk->flags & (SOCK_F_ACTIVE | SOCK_F_PASSIVE | SOCK_F_LISTEN) ||
	    sock_procs(sk) > 1 ||
	    module_connect(sk, fd, to, len,
			   policy_provider(ROLE_TCP_CLIENT, to, NULL), how))
		return -EAGAIN;
	sk->flags |= SOCK_F_ACTIVE;
	note_peer(sk, to);
	count(&arena_totals()->n_connected, 1);
	carried(sk);
	return 0;
}

/* Only inet, which has opened it, and protocols that take over are left. */
int ops_connected(struct sock *sk, int fd, const struct sockaddr *to)
{
	bool offload = sk->flags & SOCK_F_OFFLOAD;

	sk->flags |= SOCK_F_ACTIVE;
	sk->st->proto = OSF_PROTO_INET;
	note_peer(sk, to);
	count(&arena_totals()->n_connected, 1);
	if (sock_mode(sk) != SOCK_YOUNG)
		return 0;
	ops_start_counting(sk);
	struct question q = {
		.fd = fd,
		.peer = to,
		.len = addr_len(to),
		.provider = policy_provider(ROLE_TCP_CLIENT, to, NULL),
	};
	enum osf_reason why = candidate_refused(&q, "shm");
	if (why == OSF_REASON_RULE_OTHER && sock_procs(sk) > 1)
		why = OSF_REASON_SHARED; /* so modules were not asked */
	if (why != OSF_REASON_NONE && !offload && port_may_take(sk, &q, &why))
		return 0;
	if (why == OSF_REASON_NONE && offload && !shm_is_announced(fd))
		why = OSF_REASON_NO_PEER;
	if (why != OSF_REASON_NONE && offload) {
		sk->flags &= (uint8_t)~SOCK_F_ACTIVE; /* it may try again */
		sk->st->proto = OSF_PROTO_NONE;
		sock_set_reason(sk, why);
		return EHOSTUNREACH;
	}
	if (why != OSF_REASON_NONE) {
		ops_to_kernel(sk, why);
		return 0;
	}
	if (sk->flags & SOCK_F_EAGER)
		ops_advance(sk, fd); /* propose before we return */
	return 0;
}

static void tell_modules(struct sock *sk, int fd, int backlog, bool streams)
{
	struct sockaddr_storage local;
	socklen_t len = sizeof(local);

	if (!getsockname(fd, (struct sockaddr *)&local, &len))
		module_listen(
		    module_id(sk), fd, backlog,
		    policy_provider(ROLE_TCP_SERVER, (void *)&local, NULL),
		    streams);
}

void ops_announce(struct sock *sk, int fd)
{
	if (sk->announce_fd > 0)
		return;
	int a = shm_announce(fd, sock_mode(sk) == SOCK_KERNEL ||
				     !shm_config.enabled);

	sk->announce_fd = a > 0 ? a : 0;
}

void ops_listener_shared(struct sock *sk)
{
	if (registry_any())
		module_listener_shared(module_id(sk));
}

void ops_listening(struct sock *sk, int fd, int backlog, bool streams)
{
	sk->flags |= SOCK_F_LISTEN;
	sk->st->listening = 1;
	ops_note_local(sk, fd);
	if (sock_mode(sk) == SOCK_KERNEL) {
		/* Announce it, so that connecting sides know it is an osf
		 * socket.  Accepted sockets report the same reason. */
		ops_announce(sk, fd);
		return;
	}
	sock_set_reason(sk, OSF_REASON_LISTENER);
	if (registry_any())
		tell_modules(sk, fd, backlog, streams && sock_procs(sk) == 1);
	ops_announce(sk, fd);
}

static void note_accepted(struct sock *sk, int fd, struct sock *listener,
			  const struct sockaddr *from)
{
	sk->flags |= SOCK_F_PASSIVE | (listener->flags & SOCK_F_EAGER);
	sk->w->zc_on =
	    listener->w->zc_on; /* as the kernel's options are inherited */
	sk->w->times = listener->w->times;
	sk->st->passive = 1;
	sk->st->family = from->sa_family;
	if (sk == listener) { /* adopted: it was there before its listener */
		ops_note_local(sk, fd);
	} else {
		memcpy(sk->st->local_addr, listener->st->local_addr, 16);
		sk->st->local_port = listener->st->local_port;
	}
	note_peer(sk, from);
	count(&arena_totals()->n_accepted, 1);
}

/* The provider that the rule for @listener names. ops_listening() told modules of the
 * listener under this name. */
static const char *listener_provider(const struct sock *listener)
{
	struct sockaddr_in6 v6 = { .sin6_family = AF_INET6,
				   .sin6_port =
				       htons(listener->st->local_port) };
	struct sockaddr_in v4 = { .sin_family = AF_INET,
				  .sin_port = v6.sin6_port };
	bool is_v4 = listener->st->family == AF_INET;

	if (!policy_has_rules())
		return NULL;
	memcpy(&v4.sin_addr, listener->st->local_addr, 4);
	memcpy(&v6.sin6_addr, listener->st->local_addr, 16);
	return policy_provider(ROLE_TCP_SERVER,
			       is_v4 ? (void *)&v4 : (void *)&v6, NULL);
}

int ops_accept_first(struct sock *sk, int fd, struct sock *listener,
		     struct sockaddr_storage *from, socklen_t *len,
		     bool streams)
{
	if (!registry_any() || sock_mode(listener) != SOCK_YOUNG)
		return -EAGAIN;
	int err = module_accept(module_id(listener), sk, fd, from, len,
				listener_provider(listener), streams);
	if (err)
		return err;
	note_accepted(sk, fd, listener, (struct sockaddr *)from);
	carried(sk);
	return 0;
}

/* Why a socket that @listener accepted from @from stays on TCP. */
static enum osf_reason accepted_why(struct sock *sk,
				    const struct sock *listener, int fd,
				    const struct sockaddr *from)
{
	struct sockaddr_storage local;
	socklen_t len = sizeof(local);
	struct question q = { .fd = fd, .peer = from, .len = addr_len(from) };

	if (load_rlx(&left))
		return (enum osf_reason)load_rlx(&left);
	if (sock_mode(listener) == SOCK_KERNEL)
		return listener->st->reason;
	if (policy_has_rules() &&
	    !getsockname(fd, (struct sockaddr *)&local, &len))
		q.provider =
		    policy_provider(ROLE_TCP_SERVER, (void *)&local, from);
	enum osf_reason why = candidate_refused(&q, "shm");

	if (why != OSF_REASON_NONE && port_may_take(sk, &q, &why))
		return OSF_REASON_NONE;
	return why;
}

void ops_accepted(struct sock *sk, int fd, struct sock *listener,
		  const struct sockaddr *from)
{
	note_accepted(sk, fd, listener, from);
	ops_start_counting(sk);
	enum osf_reason why = accepted_why(sk, listener, fd, from);

	if (why != OSF_REASON_NONE)
		ops_to_kernel(sk, why);
	else if (sk->flags & SOCK_F_EAGER)
		ops_advance(sk, fd);
}

void ops_closed(struct sock *sk)
{
	if (sk->st->listening || sk->st->proto == OSF_PROTO_MODULE)
		module_close(module_id(sk));
	ops_unannounce(sk);
}

void ops_unannounce(struct sock *sk)
{
	int fd = xchg(&sk->announce_fd, 0);

	if (fd > 0 && sock_procs(sk) > 1)
		fds_close(fd); /* the others go on with it */
	else if (fd > 0)
		shm_unannounce(fd);
}

static void ops_init(void)
{
	shm_configure();
	port_configure();
	if (shm_config.learns)
		history_start();
	threads_configure();
	builtin_register(shm_config.enabled);
	registry_init();
	if (policy_init()) /* some of the rules are worse than none */
		ops_leave_all(OSF_REASON_RULES);
}

bool ops_start(void)
{
	if (setting_bool("OSF_DISABLE", false, true))
		return false;
	log_open();
	env_name_others();
	ops_nodelay = env_other_nodelay();
	spin_configure();
	ops_init();
	int err = arena_open();
	if (err)
		log_err(
		    "no statistics file: %s; everything stays with the kernel",
		    strerror(-err));
	return !err;
}
