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
#include <linux/sock_diag.h>
#include <netinet/tcp.h>
#include <string.h>
#include <sys/wait.h>

#include "tcp/info.h"

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

	init("limit=5,sysctls=none", &pd);
	pd.netdev_receive(U, buf, &len, &at);
}

static void nobody_wakes(void)
{
	init("limit=5,sysctls=none", &pd);
	pd.accept(U, listen_v4(), NULL, NULL);
}

static void unknown_flag(void) { init("no_such_thing=1", &pd); }
static void no_flag(void) { init("tcp_sack", &pd); }

static struct tcp_seg our_syn(void)
{
	int fd = pd.socket(U, AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
	struct sockaddr_in a = v4("192.0.2.1", PORT);
	struct peer p = { .remote = ip_addr_v4(0xc0000201), .rport = PORT };

	EXPECT_ERR(pd.connect(U, fd, (struct sockaddr *)&a, sizeof(a)),
		   EINPROGRESS);
	struct tcp_seg seg = peer_receive(&p, NULL);
	EXPECT_EQ(pd.close(U, fd), 0);
	return seg;
}

static void put_file(const char *dir, const char *name, const char *value)
{
	char path[300];

	snprintf(path, sizeof(path), "%s/%s", dir, name);
	FILE *f = fopen(path, "w");
	EXPECT_EQ(!!f, 1);
	fputs(value, f);
	EXPECT_EQ(fclose(f), 0);
}

static void remove_file(const char *dir, const char *name)
{
	char path[300];

	snprintf(path, sizeof(path), "%s/%s", dir, name);
	EXPECT_EQ(unlink(path), 0);
}

/* What a script's commands set, of the machine; but not what a flag says. */
static void test_sysctls(void)
{
	char dir[] = "/tmp/osf-sysctls-XXXXXX", flags[100];

	EXPECT_EQ(!!mkdtemp(dir), 1);
	snprintf(flags, sizeof(flags), "tcp_timestamps=1,sysctls=%s", dir);
	init(flags, &pd);
	struct tcp_seg seg = our_syn();
	EXPECT_EQ(seg.is_sack_ok, true);
	put_file(dir, "tcp_sack", "0\n");
	put_file(dir, "tcp_timestamps", "0\n");
	put_file(dir, "tcp_rmem", "4096\t540000\t15728640\n");
	put_file(dir, "tcp_congestion_control", "no_such_thing\n");
	seg = our_syn();
	EXPECT_EQ(seg.is_sack_ok, false);
	EXPECT_EQ(seg.has_ts, true);
	EXPECT_EQ(seg.wscale, 8);
	put_file(dir, "tcp_rmem", "what is no number\n");
	put_file(dir, "tcp_sack", "1\n");
	seg = our_syn();
	EXPECT_EQ(seg.is_sack_ok, true);
	EXPECT_EQ(seg.wscale, 8);
	pd.free(U);
	remove_file(dir, "tcp_sack");
	remove_file(dir, "tcp_timestamps");
	remove_file(dir, "tcp_rmem");
	remove_file(dir, "tcp_congestion_control");
	EXPECT_EQ(rmdir(dir), 0);
}

/* Settings change what is offered. */
static void test_flags(void)
{
	init("mtu=1000,tcp_sack=0,tcp_timestamps=0,tcp_window_scaling=0", &pd);
	struct tcp_seg seg = our_syn();
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
	/* The tool's own struct may be longer than the machine's headers have it. */
	struct tcp_conn_info all = { 0 };
	uint32_t words[SK_MEMINFO_VARS] = { 0 };

	len = sizeof(all);
	EXPECT_EQ(get(fd, IPPROTO_TCP, TCP_INFO, &all, &len), 0);
	EXPECT_EQ(len, sizeof(all));
	EXPECT_EQ(sizeof(all), 280);
	EXPECT_EQ(all.tcpi_state, 1);
	EXPECT_EQ(all.tcpi_rcv_wnd > 0, 1);
	/* It gives up where it gets no answer to these; CUBIC's has no bytes. */
	len = sizeof(words);
	EXPECT_EQ(get(fd, IPPROTO_TCP, TCP_CC_INFO, words, &len), 0);
	EXPECT_EQ(len, 0);
	len = sizeof(words);
	EXPECT_EQ(get(fd, SOL_SOCKET, SO_MEMINFO, words, &len), 0);
	EXPECT_EQ(len, sizeof(words));
	EXPECT_EQ(words[SK_MEMINFO_RCVBUF] > 0, 1);
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
		test_clock,     test_bytes,          test_errors,
		test_no_buffer, test_options,        test_inq,
		test_splice,    test_ends,           test_poll,
		test_epoll,     test_blocking,       test_begins_later,
		test_linger,    test_own_getsockopt,
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
		init("sysctls=none", &pd);
		/* No member is left out. */
		for (size_t at = 0; at < sizeof(pd); at += sizeof(void *))
			EXPECT_EQ(!!*(void **)((char *)&pd + at), 1);
		tests[i]();
		pd.free(U);
	}
	init(NULL, &pd);
	pd.free(U);
	init("sysctls=none", &pd);
	test_families();
	pd.free(U);
	test_flags();
	test_sysctls();
	expect_death(nothing_comes);
	expect_death(nobody_wakes);
	expect_death(unknown_flag);
	expect_death(no_flag);
	printf("packetdrill's interface: %zu conversations\n",
	       ARRAY_LEN(tests) + 3);
	return 0;
}
