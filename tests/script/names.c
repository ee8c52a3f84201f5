/* SPDX-License-Identifier: MIT */
/*
 * tests/script/names.c - the values of C's names that scripts use
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/sockios.h>
#include <sys/ioctl.h>
#include <linux/tcp.h>
#include <netinet/in.h>

#include "base/compiler.h"
#include "script.h"

struct name {
	const char *name;
	int64_t value;
};

#define N(name)                                                                \
	{                                                                      \
#name, name                                                    \
	}

static const struct name names[] = {
	N(AF_INET),
	N(SOCK_STREAM),
	N(SOCK_NONBLOCK),
	N(IPPROTO_TCP),
	N(IPPROTO_IP),
	N(IPPROTO_IPV6),
	N(SHUT_RD),
	N(SHUT_WR),
	N(SHUT_RDWR),
	N(MSG_EOR),
	N(MSG_MORE),
	N(MSG_OOB),
	N(MSG_PEEK),
	N(MSG_DONTWAIT),
	N(MSG_TRUNC),
	N(MSG_WAITALL),
	N(SOL_SOCKET),
	N(SO_ERROR),
	N(SO_KEEPALIVE),
	N(SO_LINGER),
	N(SO_OOBINLINE),
	N(SO_RCVBUF),
	N(SO_RCVLOWAT),
	N(SO_REUSEADDR),
	N(SO_REUSEPORT),
	N(SO_SNDBUF),
	N(SO_TYPE),
	N(SO_ACCEPTCONN),
	N(SO_PROTOCOL),
	{ "SOL_TCP", IPPROTO_TCP },
	N(TCP_CONGESTION),
	N(TCP_CORK),
	N(TCP_DEFER_ACCEPT),
	N(TCP_KEEPCNT),
	N(TCP_KEEPIDLE),
	N(TCP_KEEPINTVL),
	N(TCP_LINGER2),
	N(TCP_MAXSEG),
	N(TCP_NODELAY),
	N(TCP_QUICKACK),
	N(TCP_SYNCNT),
	N(TCP_USER_TIMEOUT),
	N(TCP_WINDOW_CLAMP),
	N(TCP_NOTSENT_LOWAT),
	N(POLLIN),
	N(POLLOUT),
	N(POLLPRI),
	N(POLLERR),
	N(POLLHUP),
	N(POLLRDHUP),
	{ "SIOCINQ", SIOCINQ },
	{ "SIOCOUTQ", SIOCOUTQ },
	{ "SIOCOUTQNSD", SIOCOUTQNSD },
	{ "SIOCATMARK", 0x8905 },
	/* States, numbered as in TCP_INFO. */
	{ "ESTABLISHED", 1 },
	{ "SYN_SENT", 2 },
	{ "SYN_RECV", 3 },
	{ "FIN_WAIT1", 4 },
	{ "FIN_WAIT2", 5 },
	{ "TIME_WAIT", 6 },
	{ "CLOSE", 7 },
	{ "CLOSE_WAIT", 8 },
	{ "LAST_ACK", 9 },
	{ "LISTEN", 10 },
	{ "CLOSING", 11 },
	N(TCP_CA_Open),
	N(TCP_CA_Disorder),
	N(TCP_CA_CWR),
	N(TCP_CA_Recovery),
	N(TCP_CA_Loss),
	N(TCPI_OPT_TIMESTAMPS),
	N(TCPI_OPT_SACK),
	N(TCPI_OPT_WSCALE),
	N(TCPI_OPT_ECN),
	N(TCPI_OPT_ECN_SEEN),
};

static const struct name errnos[] = {
	N(EADDRINUSE),   N(EADDRNOTAVAIL),   N(EAFNOSUPPORT), N(EAGAIN),
	N(EBUSY),        N(EALREADY),        N(EBADF),        N(ECONNABORTED),
	N(ECONNREFUSED), N(ECONNRESET),      N(EDESTADDRREQ), N(EHOSTUNREACH),
	N(EINPROGRESS),  N(EINVAL),          N(EISCONN),      N(EMSGSIZE),
	N(ENETUNREACH),  N(ENOBUFS),         N(ENOPROTOOPT),  N(ENOTCONN),
	N(EOPNOTSUPP),   N(EPIPE),           N(EPROTO),       N(ETIMEDOUT),
	N(EACCES),       N(EHOSTDOWN),       N(ENETDOWN),     N(ENOENT),
	N(ENOPROTOOPT),  N(EPROTONOSUPPORT),
};

bool name_value(const char *name, int64_t *out)
{
	for (unsigned i = 0; i < ARRAY_LEN(names); i++)
		if (!strcmp(names[i].name, name)) {
			*out = names[i].value;
			return true;
		}
	*out = errno_value(name);
	return *out;
}

int errno_value(const char *name)
{
	for (unsigned i = 0; i < ARRAY_LEN(errnos); i++)
		if (!strcmp(errnos[i].name, name))
			return (int)errnos[i].value;
	return 0;
}

const char *name_errno(int err)
{
	for (unsigned i = 0; i < ARRAY_LEN(errnos); i++)
		if (errnos[i].value == err)
			return errnos[i].name;
	return "an errno without a name here";
}
