/* SPDX-License-Identifier: MIT */
/*
 * tests/packetdrill/test_interface.c - loads libosf-packetdrill.so as the tool does
 *
 *     test_interface PATH
 *
 * Every function of the table, its errors, and whole conversations with a peer.
 */
#include "test_interface.h"

#include <dlfcn.h>
#include <netinet/tcp.h>
#include <string.h>
#include <sys/wait.h>

struct packetdrill_interface pd;

static void (*init)(const char *flags, struct packetdrill_interface *out);
static void *object;

/* In a process of its own, which must end with 1: the tool cannot be told otherwise. */
static void expect_death(void (*what)(void))
{
	int status;
	pid_t pid = fork();

	if (!pid) {
		if (!freopen("/dev/null", "w", stderr))
			_exit(3);
		what();
		_exit(2);
	}
	EXPECT_EQ(waitpid(pid, &status, 0), pid);
	EXPECT_EQ(WIFEXITED(status) && WEXITSTATUS(status) == 1, 1);
}

static void nothing_comes(void)
{
	char buf[100];
	size_t len = sizeof(buf);
	long long at;

	init("limit=5", &pd);
	pd.netdev_receive(U, buf, &len, &at);
}

static void nobody_wakes(void)
{
	init("limit=5", &pd);
	pd.accept(U, listen_v4(), NULL, NULL);
}

static void unknown_flag(void) { init("no_such_thing=1", &pd); }
static void no_flag(void) { init("tcp_sack", &pd); }

/* Settings change what is offered. */
static void test_flags(void)
{
	struct peer p;

	init("mtu=1000,tcp_sack=0,tcp_timestamps=0,tcp_window_scaling=0", &pd);
	int fd = pd.socket(U, AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
	struct sockaddr_in a = v4("192.0.2.1", PORT);
	p = (struct peer){ .remote = ip_addr_v4(0xc0000201), .rport = PORT };
	EXPECT_ERR(pd.connect(U, fd, (struct sockaddr *)&a, sizeof(a)),
		   EINPROGRESS);
	struct tcp_seg seg = peer_receive(&p, NULL);
	EXPECT_EQ(seg.mss, 960);
	EXPECT_EQ(seg.is_sack_ok, false);
	EXPECT_EQ(seg.has_ts, false);
	EXPECT_EQ(seg.wscale, TCP_NO_WSCALE);
	pd.free(U);
}

/* What the tool calls itself, of libc, when the object is preloaded. */
static void test_own_getsockopt(void)
{
	int (*get)(int, int, int, void *, socklen_t *);
	struct tcp_info info;
	socklen_t len = sizeof(info);
	struct peer p;
	int n = 0, kernel = socket(AF_INET, SOCK_STREAM, 0), fd = call(&p);

	*(void **)&get = dlsym(object, "getsockopt");
	EXPECT_EQ(!!get, 1);
	EXPECT_EQ(get(fd, IPPROTO_TCP, TCP_INFO, &info, &len), 0);
	EXPECT_EQ(info.tcpi_state, 1);
	EXPECT_EQ(info.tcpi_snd_mss, 1000);
	len = sizeof(n);
	EXPECT_EQ(get(kernel, SOL_SOCKET, SO_TYPE, &n, &len), 0);
	EXPECT_EQ(n, SOCK_STREAM);
	/* The tool closes the number itself; it is a new one's then. */
	close(fd);
	close(kernel);
	peer_send(&p, TCP_RST, 0);
}

int main(int argc, char **argv)
{
	static void (*const tests[])(void) = {
		test_clock,    test_bytes,  test_errors,         test_options,
		test_splice,   test_ends,   test_poll,           test_epoll,
		test_blocking, test_linger, test_own_getsockopt,
	};

	object = dlopen(argv[1],
			RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE | RTLD_DEEPBIND);
	if (!object) {
		fprintf(stderr, "%s\n", dlerror());
		return 1;
	}
	*(void **)&init = dlsym(object, "packetdrill_interface_init");
	EXPECT_EQ(!!init, 1);
	for (unsigned i = 0; i < ARRAY_LEN(tests); i++) {
		init(NULL, &pd);
		/* No member is left out. */
		for (size_t at = 0; at < sizeof(pd); at += sizeof(void *))
			EXPECT_EQ(!!*(void **)((char *)&pd + at), 1);
		tests[i]();
		pd.free(U);
	}
	init("", &pd);
	test_families();
	pd.free(U);
	test_flags();
	expect_death(nothing_comes);
	expect_death(nobody_wakes);
	expect_death(unknown_flag);
	expect_death(no_flag);
	printf("packetdrill's interface: %zu conversations\n",
	       ARRAY_LEN(tests) + 2);
	return 0;
}
