/* SPDX-License-Identifier: MIT */
/* tests/app/calls_fd.c - scenarios: the socket as a descriptor: flags, copies,
 * names, options, stdio, opening (see calls.h) */
#include "calls.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

/* --- flags and copies --- */

SCENARIO(fd_getfl)
{
	int on = 1;

	out(" getfl=0x%x", fcntl(x->fd, F_GETFL));
	RES("setfl", fcntl(x->fd, F_SETFL, O_NONBLOCK | O_APPEND));
	out(" getfl=0x%x", fcntl(x->fd, F_GETFL));
	RES("recv", recv(x->fd, buf, n(10), 0));
	RES("clear", fcntl(x->fd, F_SETFL, 0));
	out(" getfl=0x%x", fcntl(x->fd, F_GETFL));
	RES("fionbio", ioctl(x->fd, FIONBIO, &on));
	out(" getfl=0x%x", fcntl(x->fd, F_GETFL));
	RES("recv", recv(x->fd, buf, n(10), 0));
	RES("bad", ioctl(x->fd, FIONBIO, BAD_POINTER));
	out(" getfd=%d", fcntl(x->fd, F_GETFD));
	RES("setfd", fcntl(x->fd, F_SETFD, 0));
	out(" getfd=%d", fcntl(x->fd, F_GETFD));
	RES("fioclex", ioctl(x->fd, FIOCLEX));
	out(" getfd=%d", fcntl(x->fd, F_GETFD));
	RES("op", fcntl(x->fd, 9999));
}

SCENARIO(fd_dup_shares)
{
	int fd2 = dup(x->fd), fd3 = fcntl(x->fd, F_DUPFD_CLOEXEC, 50),
	    fd4 = dup3(x->fd, 60, O_CLOEXEC);

	out(" flags=%d,%d,%d %d/%d", fcntl(fd2, F_GETFD), fcntl(fd3, F_GETFD),
	    fcntl(fd4, F_GETFD), fd3, fd4);
	set_nonblock(fd2);
	out(" getfl=0x%x", fcntl(x->fd, F_GETFL));
	RES("recv", recv(x->fd, buf, n(10), 0));
	far_do(x, FAR_SEND, 100);
	settle(x, POLLIN);
	const int fds[] = { fd4, x->fd, fd2, fd3 };
	for (int i = 0; i < 4; i++) {
		long r = recv(fds[i], buf, n(25), 0);
		res("recv", r);
		got(x, buf, r);
	}
	for (int i = 0; i < 4; i++) {
		made(x, buf, 25);
		RES("send", send(fds[i], buf, n(25), 0));
	}
	far_res(x, "far", FAR_RECV, 100);
}

SCENARIO(fd_dup_errors)
{
	RES("dup", dup(-1));
	RES("dup3", dup3(x->fd, 60, 0x1));
	RES("dup2", dup2(x->fd, -1));
	RES("min", fcntl(x->fd, F_DUPFD, -1));
	RES("dup2-large", dup2(x->fd, 1 << 30));
}

SCENARIO(fd_kind)
{
	struct stat st;

	RES("fstat", fstat(x->fd, &st));
	out(" socket=%d", S_ISSOCK(st.st_mode) != 0);
	RES("isatty", isatty(x->fd));
	RES("lseek", lseek(x->fd, 0, SEEK_SET));
	RES("fsync", fsync(x->fd));
	RES("ftruncate", ftruncate(x->fd, 0));
	RES("fallocate", posix_fallocate(x->fd, 0, 1));
	RES("fadvise", posix_fadvise(x->fd, 0, 0, POSIX_FADV_NORMAL));
	errno = 0;
	void *p = mmap(NULL, 4096, PROT_READ, MAP_SHARED, x->fd, 0);
	res("mmap", p == MAP_FAILED ? -1 : 0);
	RES("ioctl", ioctl(x->fd, 0x1234567, 0));
	RES("fchmod", fchmod(x->fd, 0600));
}

/* What fstat(), /proc and ss say of it. */
SCENARIO(fd_seen)
{
	char path[32], link[64] = "", expected[64], command[160], line[512];
	struct stat st;

	RES("fstat", fstat(x->fd, &st));
	out(" mode=%o size=%ld links=%ld", st.st_mode, (long)st.st_size,
	    (long)st.st_nlink);
	snprintf(path, sizeof(path), "/proc/self/fd/%d", x->fd);
	ssize_t len = readlink(path, link, sizeof(link) - 1);
	snprintf(expected, sizeof(expected), "socket:[%lu]", st.st_ino);
	out(" link=%d", len > 0 && !strcmp(link, expected));
	snprintf(command, sizeof(command),
		 "ss -tnpH state established sport = :%d dport = :%d 2>&1",
		 x->near_port, x->far_port);
	FILE *f = popen(command, "r");
	snprintf(expected, sizeof(expected), "pid=%d,fd=%d)", getpid(), x->fd);
	while (f && fgets(line, sizeof(line), f))
		out(" ss=%d", strstr(line, expected) != NULL);
	RES("ss", f ? pclose(f) : -1);
	made(x, buf, 10);
	RES("send", send(x->fd, buf, n(10), 0));
	far_res(x, "far", FAR_RECV, 10);
}

SCENARIO(fd_sigio)
{
	on_signal(SIGIO, 0);
	RES("owner", fcntl(x->fd, F_SETOWN, getpid()));
	out(" mine=%d", fcntl(x->fd, F_GETOWN) == getpid());
	RES("async", fcntl(x->fd, F_SETFL, O_ASYNC));
	out(" getfl=0x%x", fcntl(x->fd, F_GETFL));
	far_do(x, FAR_SEND, 10);
	settle(x, POLLIN);
	usleep(20000);
	out(" signalled=%d", signals > 0);
	long r = recv(x->fd, buf, n(100), 0);
	res("recv", r);
	got(x, buf, r);
	int before = signals;
	far_do(x, FAR_SEND, 10);
	settle(x, POLLIN);
	usleep(20000);
	out(" again=%d", signals > before);
}

/* --- names --- */

static void print_name(struct ctx *x, const char *what,
		       const struct sockaddr_storage *ss, socklen_t len)
{
	const struct sockaddr_in *v4 = (const void *)ss;
	const struct sockaddr_in6 *v6 = (const void *)ss;
	bool is_v4 = ss->ss_family == AF_INET;
	int port = ntohs(is_v4 ? v4->sin_port : v6->sin6_port);
	char text[64];

	inet_ntop(ss->ss_family,
		  is_v4 ? (const void *)&v4->sin_addr
			: (const void *)&v6->sin6_addr,
		  text, sizeof(text));
	out(" %s=%s/%s/%u", what, text,
	    port == x->near_port  ? "near"
	    : port == x->far_port ? "far"
				  : "neither",
	    len);
}

static void names(struct ctx *x)
{
	struct sockaddr_storage ss = { 0 };
	socklen_t len = sizeof(ss);

	RES("getsockname", getsockname(x->fd, (void *)&ss, &len));
	print_name(x, "near", &ss, len);
	len = sizeof(ss);
	RES("getpeername", getpeername(x->fd, (void *)&ss, &len));
	print_name(x, "far", &ss, len);
}

SCENARIO(fd_names) { names(x); }

SCENARIO(fd_names_odd)
{
	struct sockaddr_storage ss = { 0 };
	socklen_t len = 4, minus = (socklen_t)-1;

	RES("short", getsockname(x->fd, (void *)&ss, &len));
	out("/%s", len >= 16 ? "whole" : "cut");
	RES("minus", getsockname(x->fd, (void *)&ss, &minus));
	len = sizeof(ss);
	RES("bad", getpeername(x->fd, BAD_POINTER, &len));
	RES("bad-len", getpeername(x->fd, (void *)&ss, BAD_POINTER));
	RES("fd", getpeername(-1, (void *)&ss, &len));
	int s = socket(AF_INET, SOCK_STREAM, 0);
	RES("unconnected", getpeername(s, (void *)&ss, &len));
	far_do(x, FAR_CLOSE, 0);
	settle(x, POLLRDHUP);
	names(x);
}

/* --- options --- */

static void option(struct ctx *x, const char *what, int level, int name)
{
	int value = -1;
	socklen_t len = sizeof(value);

	RES(what, getsockopt(x->fd, level, name, &value, &len));
	out("/%d/%u", value, len);
}

static void option_set(struct ctx *x, const char *what, int level, int name,
		       int value)
{
	RES(what, setsockopt(x->fd, level, name, &value, sizeof(value)));
	option(x, "get", level, name);
}

SCENARIO(fd_options)
{
	option(x, "type", SOL_SOCKET, SO_TYPE);
	option(x, "domain", SOL_SOCKET, SO_DOMAIN);
	option(x, "protocol", SOL_SOCKET, SO_PROTOCOL);
	option(x, "listens", SOL_SOCKET, SO_ACCEPTCONN);
	option(x, "error", SOL_SOCKET, SO_ERROR);
	option(x, "lowat", SOL_SOCKET, SO_RCVLOWAT);
	option_set(x, "nodelay", IPPROTO_TCP, TCP_NODELAY, 0);
	option_set(x, "nodelay", IPPROTO_TCP, TCP_NODELAY, 1);
	option_set(x, "cork", IPPROTO_TCP, TCP_CORK, 1);
	option_set(x, "cork", IPPROTO_TCP, TCP_CORK, 0);
	option_set(x, "keepalive", SOL_SOCKET, SO_KEEPALIVE, 1);
	option_set(x, "idle", IPPROTO_TCP, TCP_KEEPIDLE, 77);
	option_set(x, "user", IPPROTO_TCP, TCP_USER_TIMEOUT, 5000);
	option_set(x, "rcvbuf", SOL_SOCKET, SO_RCVBUF, 30000);
	option_set(x, "sndbuf", SOL_SOCKET, SO_SNDBUF, 30000);
	option_set(x, "priority", SOL_SOCKET, SO_PRIORITY, 3);
	option_set(x, "quickack", IPPROTO_TCP, TCP_QUICKACK, 1);
	option_set(x, "type", SOL_SOCKET, SO_TYPE, 1);
	made(x, buf, 10);
	RES("send", send(x->fd, buf, n(10), 0));
	far_res(x, "far", FAR_RECV, 10);
}

SCENARIO(fd_options_bad)
{
	int value = 1;
	socklen_t len = sizeof(value);

	RES("level", setsockopt(x->fd, 9999, 1, &value, len));
	RES("name", setsockopt(x->fd, SOL_SOCKET, 9999, &value, len));
	RES("tcp-name", setsockopt(x->fd, IPPROTO_TCP, 9999, &value, len));
	RES("short", setsockopt(x->fd, SOL_SOCKET, SO_KEEPALIVE, &value, 1));
	RES("pointer",
	    setsockopt(x->fd, SOL_SOCKET, SO_KEEPALIVE, BAD_POINTER, len));
	RES("get", getsockopt(x->fd, SOL_SOCKET, 9999, &value, &len));
	RES("get-pointer",
	    getsockopt(x->fd, SOL_SOCKET, SO_ERROR, BAD_POINTER, &len));
	RES("get-fd", getsockopt(-1, SOL_SOCKET, SO_ERROR, &value, &len));
}

/* What differs from run to run, or says how the kernel moved the bytes. */
static bool is_masked(int level, int name)
{
	if (level == SOL_SOCKET)
		return name == SO_PEERNAME || name == SO_INCOMING_CPU ||
		       name == SO_INCOMING_NAPI_ID || name == SO_COOKIE ||
		       name == SO_MEMINFO || name == SO_RCVBUF ||
		       name == SO_RESERVE_MEM || name == SO_SNDBUF;
	if (level == IPPROTO_TCP)
		return name == TCP_INFO || name == TCP_CC_INFO ||
		       name == TCP_TIMESTAMP || name == TCP_ZEROCOPY_RECEIVE ||
		       name == TCP_MAXSEG || name == TCP_QUICKACK ||
		       name == TCP_WINDOW_CLAMP;
	/* What packets have brought since it was asked for. */
	if (level == IPPROTO_IPV6)
		return name == IPV6_2292PKTOPTIONS;
	/* IP_PROTOCOL answers with the local port. */
	return level == IPPROTO_IP && (name == IP_MTU || name == 52);
}

/* Answers of one kind in a row are told as one: "5-8=EINVAL". */
static struct {
	char text[64];
	int first, last;
} answers;

static void answers_end(void)
{
	if (!answers.text[0])
		return;
	if (answers.first == answers.last)
		out(" %d%s", answers.first, answers.text);
	else
		out(" %d-%d%s", answers.first, answers.last, answers.text);
	answers.text[0] = 0;
}

static void answers_add(int name, const char *text)
{
	if (strcmp(answers.text, text) || answers.last + 1 != name) {
		answers_end();
		answers.first = name;
		snprintf(answers.text, sizeof(answers.text), "%s", text);
	}
	answers.last = name;
}

/* Length and value, of which a few digits will do. */
static void option_text(char *text, size_t room, struct ctx *x, int level,
			int name, socklen_t size)
{
	uint8_t value[256] = { 0 };
	socklen_t len = size;
	uint32_t sum = 0;

	errno = 0;
	if (getsockopt(x->fd, level, name, value, &len)) {
		snprintf(text, room, "=%s", strerrorname_np(errno));
		return;
	}
	for (socklen_t i = 0; i < len && i < sizeof(value); i++)
		sum = sum * 31 + value[i];
	if (is_masked(level, name))
		snprintf(text, room, "/%u", len);
	else
		snprintf(text, room, "/%u/%x", len, sum);
}

static const int option_levels[] = { SOL_SOCKET, IPPROTO_TCP, IPPROTO_IP,
				     IPPROTO_IPV6 };

SCENARIO(fd_every_option_gets)
{
	static const socklen_t sizes[] = { 4, 1, 0, 64, 256 };
	char text[64];

	for (int i = 0; i < 4; i++)
		for (int k = 0; k < 5; k++) {
			int level = option_levels[i];

			out("\n  level %d size %u:", level, sizes[k]);
			for (int name = 0; name < 256; name++) {
				option_text(text, sizeof(text), x, level, name,
					    sizes[k]);
				answers_add(name, text);
			}
			answers_end();
		}
	out("\n  ");
	made(x, buf, 10);
	RES("send", send(x->fd, buf, n(10), 0));
	far_res(x, "far", FAR_RECV, 10);
}

/* After these the connection is not what it was, or the machine is not. */
static bool is_untouchable(int level, int name)
{
	if (level == SOL_SOCKET)
		return name == SO_DEBUG || name == SO_ATTACH_FILTER ||
		       name == SO_RCVTIMEO_OLD || name == SO_SNDTIMEO_OLD ||
		       name == SO_LINGER || name == SO_RCVTIMEO_NEW ||
		       name == SO_SNDTIMEO_NEW || name == SO_RESERVE_MEM ||
		       name == SO_BINDTOIFINDEX || name == SO_MARK ||
		       name == SO_MAX_PACING_RATE;
	if (level == IPPROTO_TCP)
		return name == TCP_REPAIR || name == TCP_ULP ||
		       name == TCP_CORK || name == TCP_USER_TIMEOUT;
	return false;
}

static void option_sets(struct ctx *x, int level, int name, int value,
			socklen_t size)
{
	char text[64], value_now[48] = "";
	int r;

	if (is_untouchable(level, name))
		return;
	errno = 0;
	r = setsockopt(x->fd, level, name, &value, size);
	const char *err = r ? strerrorname_np(errno) : "0";
	if (!r)
		option_text(value_now, sizeof(value_now), x, level, name, 64);
	snprintf(text, sizeof(text), "=%s%s", err, value_now);
	answers_add(name, text);
}

SCENARIO(fd_every_option_sets)
{
	static const struct {
		int value;
		socklen_t size;
	} sets[] = { { 1, 4 }, { 0, 4 }, { 1, 1 }, { -1, 4 }, { 100, 0 } };

	for (int i = 0; i < 4; i++)
		for (int k = 0; k < 5; k++) {
			out("\n  level %d %d/%u:", option_levels[i],
			    sets[k].value, sets[k].size);
			for (int name = 0; name < 256; name++)
				option_sets(x, option_levels[i], name,
					    sets[k].value, sets[k].size);
			answers_end();
		}
	out("\n  ");
	option_set(x, "lowat", SOL_SOCKET, SO_RCVLOWAT, 1);
	made(x, buf, 10);
	RES("send", send(x->fd, buf, n(10), 0));
	far_res(x, "far", FAR_RECV, 10);
	far_do(x, FAR_SEND, 100);
	settle(x, POLLIN);
	RES("recv", recv(x->fd, buf, n(100), MSG_DONTWAIT));
}

SCENARIO(fd_cork)
{
	option_set(x, "cork", IPPROTO_TCP, TCP_CORK, 1);
	made(x, buf, 20);
	RES("send", send(x->fd, buf, n(10), 0));
	RES("send", send(x->fd, buf + 10, n(10), 0));
	option_set(x, "uncork", IPPROTO_TCP, TCP_CORK, 0);
	far_res(x, "far", FAR_RECV, 20);
}

SCENARIO(fd_tcp_info)
{
	struct tcp_info before, info;
	socklen_t len = sizeof(before);

	RES("info", getsockopt(x->fd, IPPROTO_TCP, TCP_INFO, &before, &len));
	out(" state=%d", before.tcpi_state);
	made(x, buf, 1000);
	if (send(x->fd, buf, n(1000), 0) != 1000)
		return;
	far_res(x, "far", FAR_RECV, 1000);
	far_do(x, FAR_SHUT, SHUT_WR);
	settle(x, POLLRDHUP);
	len = sizeof(info);
	RES("info", getsockopt(x->fd, IPPROTO_TCP, TCP_INFO, &info, &len));
	out(" state=%d", info.tcpi_state);
	shutdown(x->fd, SHUT_WR);
	settle(x, POLLHUP);
	len = sizeof(info);
	RES("info", getsockopt(x->fd, IPPROTO_TCP, TCP_INFO, &info, &len));
	out(" ended=%d",
	    info.tcpi_state == TCP_CLOSE || info.tcpi_state == TCP_LAST_ACK);
}

/* The program copies the descriptor and closes the original.  Only the copy is left when osf
 * leaves the half-closed connection to the kernel. */
SCENARIO(fd_copy_left_to_kernel)
{
	struct tcp_info ti = { 0 };
	socklen_t len = sizeof(ti);
	int copy = dup(x->fd), n_in = -1;

	RES("close", close(x->fd));
	x->fd = copy;
	RES("shutdown", shutdown(x->fd, SHUT_WR));
	RES("info", getsockopt(x->fd, IPPROTO_TCP, TCP_INFO, &ti, &len));
	out(" some=%d", len > 100);
	RES("ioctl", ioctl(x->fd, FIONREAD, &n_in));
	out(" in=%d", n_in);
	far_do(x, FAR_SEND, 10);
	settle(x, POLLIN);
	RES("ioctl", ioctl(x->fd, FIONREAD, &n_in));
	out(" in=%d", n_in);
	RES("recv", recv(x->fd, buf, n(100), 0));
	RES("again", recv(x->fd, buf, n(100), MSG_DONTWAIT));
}

SCENARIO(fd_wrong_calls)
{
	struct sockaddr_in sa = { .sin_family = AF_INET };

	RES("bind", bind(x->fd, (void *)&sa, sizeof(sa)));
	RES("listen", listen(x->fd, 5));
	RES("accept", accept(x->fd, NULL, NULL));
	sa.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	sa.sin_port = htons(1);
	RES("connect", connect(x->fd, (void *)&sa, sizeof(sa)));
	made(x, buf, 10);
	RES("send", send(x->fd, buf, n(10), 0));
	far_res(x, "far", FAR_RECV, 10);
}

/* --- opening --- */

static int listener_new(struct sockaddr_in *sa, int backlog)
{
	socklen_t len = sizeof(*sa);
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	*sa = (struct sockaddr_in){ .sin_family = AF_INET,
				    .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	if (bind(fd, (void *)sa, len) || listen(fd, backlog) ||
	    getsockname(fd, (void *)sa, &len))
		out(" NO-LISTENER");
	return fd;
}

SCENARIO(open_refused)
{
	struct sockaddr_in sa;
	int l = listener_new(&sa, 1), s = socket(AF_INET, SOCK_STREAM, 0);

	close(l);
	RES("connect", connect(s, (void *)&sa, sizeof(sa)));
	x->fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
	RES("nonblock", connect(x->fd, (void *)&sa, sizeof(sa)));
	settle(x, POLLERR);
	state(x, "state");
	option(x, "error", SOL_SOCKET, SO_ERROR);
	option(x, "error", SOL_SOCKET, SO_ERROR);
	RES("send", send(x->fd, buf, n(10), MSG_NOSIGNAL));
}

SCENARIO(open_nonblock)
{
	struct sockaddr_in sa;
	int l = listener_new(&sa, 5);

	x->fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
	state(x, "new");
	RES("send", send(x->fd, buf, n(10), MSG_NOSIGNAL));
	RES("recv", recv(x->fd, buf, n(10), 0));
	RES("connect", connect(x->fd, (void *)&sa, sizeof(sa)));
	settle(x, POLLOUT);
	state(x, "open");
	option(x, "error", SOL_SOCKET, SO_ERROR);
	RES("again", connect(x->fd, (void *)&sa, sizeof(sa)));
	RES("again", connect(x->fd, (void *)&sa, sizeof(sa)));
	int a = accept(l, NULL, NULL);
	out(" getfl=0x%x", fcntl(a, F_GETFL));
	RES("send", send(x->fd, "hello", n(5), 0));
	RES("recv", recv(a, buf, n(10), 0));
}

SCENARIO(open_accept)
{
	struct sockaddr_in sa, from;
	socklen_t len = sizeof(from);
	int l = listener_new(&sa, 5), s = socket(AF_INET, SOCK_STREAM, 0);
	struct pollfd pfd = { .fd = l, .events = POLLIN | POLLOUT };

	set_nonblock(l);
	RES("none", accept(l, NULL, NULL));
	RES("poll", poll(&pfd, 1, 0));
	RES("connect", connect(s, (void *)&sa, sizeof(sa)));
	RES("poll", poll(&pfd, 1, -1));
	bits("revents", pfd.revents);
	RES("flags", accept4(l, NULL, NULL, 0x1));
	int a = accept4(l, (void *)&from, &len, SOCK_NONBLOCK | SOCK_CLOEXEC);
	out(" %s len=%u getfl=0x%x getfd=%d", a >= 0 ? "accepted" : "odd", len,
	    fcntl(a, F_GETFL), fcntl(a, F_GETFD));
	RES("recv", recv(l, buf, n(10), 0));
	RES("send", send(l, buf, n(10), MSG_NOSIGNAL));
	RES("shutdown", shutdown(l, SHUT_RD));
}

SCENARIO(open_accept_intr)
{
	struct sockaddr_in sa;
	int l = listener_new(&sa, 5);

	interrupt_after(30, 0);
	RES("accept", accept(l, NULL, NULL));
	interrupt_over();
	out(" signals=%d", interrupted);
}

SCENARIO(open_listener_closed)
{
	struct sockaddr_in sa;
	int l = listener_new(&sa, 5);

	x->fd = socket(AF_INET, SOCK_STREAM, 0);
	RES("connect", connect(x->fd, (void *)&sa, sizeof(sa)));
	close(l);
	settle(x, POLLERR);
	state(x, "state");
	RES("recv", recv(x->fd, buf, n(10), 0));
	RES("recv", recv(x->fd, buf, n(10), 0));
}

SCENARIO(open_data_before_accept)
{
	struct sockaddr_in sa;
	int l = listener_new(&sa, 5), s = socket(AF_INET, SOCK_STREAM, 0);

	RES("connect", connect(s, (void *)&sa, sizeof(sa)));
	RES("send", send(s, "hello", n(5), 0));
	RES("close", close(s));
	int a = accept(l, NULL, NULL);
	RES("recv", recv(a, buf, n(10), MSG_WAITALL));
	RES("eof", recv(a, buf, n(10), 0));
}

SCENARIO(open_in_use)
{
	struct sockaddr_in sa;
	int l = listener_new(&sa, 5), s = socket(AF_INET, SOCK_STREAM, 0);

	RES("bind", bind(s, (void *)&sa, sizeof(sa)));
	RES("listen-again", listen(l, 7));
	RES("family", socket(12345, SOCK_STREAM, 0));
	RES("type", socket(AF_INET, 77, 0));
	RES("protocol", socket(AF_INET, SOCK_STREAM, IPPROTO_UDP));
}

/* --- stdio --- */

SCENARIO(stdio_lines)
{
	char line[64];

	far_do(x, FAR_TEXT, 3);
	settle(x, POLLIN);
	FILE *f = fdopen(x->fd, "r+");
	out(" fileno=%d", fileno(f) == x->fd);
	for (int i = 0; i < 3; i++)
		out(" %.6s", fgets(line, (int)n(sizeof(line)), f) ? line : "-");
	made(x, buf, 100);
	RES("fwrite", fwrite(buf, 1, n(100), f));
	RES("fflush", fflush(f));
	far_res(x, "far", FAR_RECV, 100);
	far_do(x, FAR_SHUT, SHUT_WR);
	RES("fgetc", fgetc(f));
	out(" eof=%d", feof(f) != 0);
	RES("fclose", fclose(f));
	far_res(x, "eof", FAR_RECV, 10);
}

SCENARIO(stdio_two_streams)
{
	FILE *in = fdopen(dup(x->fd), "r"), *to = fdopen(x->fd, "w");

	far_do(x, FAR_SEND, 5000);
	RES("fread", fread(buf, 1, n(5000), in));
	got(x, buf, 5000);
	made(x, buf, 5000);
	RES("fwrite", fwrite(buf, 1, n(5000), to));
	RES("fclose", fclose(to));
	far_res(x, "far", FAR_RECV, 5000);
	RES("fclose", fclose(in));
	far_res(x, "eof", FAR_RECV, 10);
}

/* Programs that have only the stream ask it for the descriptor: to set options, to poll. */
SCENARIO(stdio_fileno)
{
	int one = 1, copy = dup(x->fd);
	FILE *f = fdopen(copy, "r"), *to = fdopen(x->fd, "w");

	out(" %d %d", fileno(f) == copy, fileno_unlocked(to) == x->fd);
	RES("setsockopt", setsockopt(fileno(to), SOL_SOCKET, SO_KEEPALIVE, &one,
				     sizeof(one)));
	RES("fclose", fclose(f));
	f = fdopen(dup(x->fd), "r");
	out(" %d", fileno(f) >= 0 && fileno(f) != x->fd);
	made(x, buf, 10);
	RES("write", write(fileno(f), buf, n(10)));
	far_res(x, "far", FAR_RECV, 10);
	RES("fclose", fclose(f));
	RES("fclose", fclose(to));
	far_res(x, "eof", FAR_RECV, 10);
}

SCENARIO(stdio_unbuffered)
{
	FILE *f = fdopen(x->fd, "r+");

	setvbuf(f, NULL, _IONBF, 0);
	far_do(x, FAR_SEND, 10);
	for (int i = 0; i < 10; i++) {
		char c = (char)fgetc(f);
		got(x, &c, 1);
	}
	made(x, buf, 4);
	for (int i = 0; i < 4; i++)
		fputc(buf[i], f);
	far_res(x, "far", FAR_RECV, 4);
}

SCENARIO(stdio_error)
{
	FILE *f = fdopen(x->fd, "w");

	setvbuf(f, NULL, _IONBF, 0);
	shutdown(x->fd, SHUT_WR);
	RES("fputs", fputs("hello", f));
	out(" ferror=%d", ferror(f) != 0);
	far_do(x, FAR_RESET, 0);
	RES("fclose", fclose(f));
}

SCENARIO(stdio_dprintf)
{
	made(x, buf, 30);
	buf[30] = 0;
	RES("dprintf", dprintf(x->fd, "%s", buf));
	far_res(x, "far", FAR_RECV, 30);
}

SCENARIO(stdio_getline)
{
	char *line = NULL;
	size_t size = 0;

	far_do(x, FAR_TEXT, 2);
	FILE *f = fdopen(x->fd, "r");
	RES("getline", getline(&line, &size, f));
	RES("getline", getline(&line, &size, f));
	out(" %.6s", line);
	free(line);
	far_do(x, FAR_SHUT, SHUT_WR);
	RES("getc", getc(f));
}
