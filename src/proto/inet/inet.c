/* SPDX-License-Identifier: MIT */
/* proto/inet/inet.c - see proto/inet/inet.h */
#include <errno.h>
#include <linux/sockios.h>
#include <netinet/in.h>
#include <sys/ioctl.h>

#include "base/fork_lock.h"
#include "base/libc.h"
#include "proto/inet/inet.h"
#include "proto/inet/tcp_bytes.h"
#include "sock/switch.h"

static bool ask_kernel(int fd, struct tcp_bytes *b)
{
	struct tcp_info ti;
	socklen_t len = sizeof(ti);
	int saved = errno;
	bool ok = !libc.getsockopt(fd, IPPROTO_TCP, TCP_INFO, &ti, &len) &&
		  len >= TCP_BYTES_INFO_MIN;

	if (ok)
		*b = tcp_bytes_of(&ti);
	errno = saved;
	return ok;
}

void inet_unseen(struct sock *sk, int fd)
{
	struct tcp_bytes b;

	if (load_rlx(&sk->st->flags) & OSF_STATS_UNSEEN || sk->st->listening)
		return;
	/* After a fallback, the bytes that we have not counted are doorbells,
	 * except those that are still to be read. */
	if (sock_had_doorbells(sk) && ask_kernel(fd, &b)) {
		int unread = 0;

		libc.ioctl(fd, SIOCINQ, &unread);
		store_rlx(&sk->st->rx_bytes_other,
			  b.rx - (uint64_t)unread -
			      load_rlx(&sk->st->rx_bytes_inet));
		store_rlx(&sk->st->tx_bytes_other,
			  b.tx - load_rlx(&sk->st->tx_bytes_inet));
	}
	store_rel(&sk->st->flags, sk->st->flags | OSF_STATS_UNSEEN);
}

void inet_seen(struct sock *sk, int fd)
{
	struct osf_stats_sock *st = sk->st;
	struct tcp_bytes b;

	if (likely(!(load_rlx(&st->flags) & OSF_STATS_UNSEEN)) ||
	    st->proto == OSF_PROTO_MODULE || !ask_kernel(fd, &b))
		return;
	/* A smaller number belongs to another connection: the program has
	 * closed ours by a direct system call, and @fd has been reused. */
	if (b.rx < st->rx_bytes_other + st->rx_bytes_inet ||
	    b.tx < st->tx_bytes_other + st->tx_bytes_inet)
		return;
	st->rx_bytes_inet = b.rx - st->rx_bytes_other;
	st->tx_bytes_inet = b.tx - st->tx_bytes_other;
	st->flags &= ~(uint32_t)OSF_STATS_UNSEEN;
}

bool inet_keep_kernel(struct sock *sk, enum osf_reason reason)
{
	INSIDE_FORK_LOCK();

	if (!sock_start_moving(sk)) {
		/* Pin it.  Dekker: a thread that starts to move it looks at
		 * this word afterwards, and our caller looks at the mode. */
		if (sock_mode(sk) == SOCK_YOUNG) {
			SOCK_PUT(sk, stays, 1);
			store_rlx(&sk->pingpongs_next, UINT32_MAX);
			store_rlx(&sk->bytes_next, UINT64_MAX);
		}
		return false;
	}
	sock_withdraw(sk, -1);
	sock_set_reason(sk, reason);
	sock_set_mode(sk, SOCK_KERNEL);
	return true;
}
