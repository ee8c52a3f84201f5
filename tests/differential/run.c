/* SPDX-License-Identifier: MIT */
/*
 * tests/differential/run.c - plays one sequence step by step, and observes it
 *
 *     run_begin(); for each step: run_do(), run_packet() ..., run_said(); run_end()
 *
 * After a step it writes down the result of the call, the packets in order, the poll
 * bits of the socket and the listener, and the bytes that can be read.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>

#include "base/clock.h"
#include "differential.h"
#include "ip/checksum.h"

#define PEER_ISS 1000000u
#define TS_FIRST 5000u
#define POLL_ALL (POLLIN | POLLOUT | POLLPRI | POLLERR | POLLHUP | POLLRDHUP)
#define DATA_MAX 65536
#define LPORT 20000
#define RPORT 1024

bool run_is_traced;
struct way run_way = { .scheme = "reno" };

static uint8_t stream_at(uint32_t off)
{
	return (uint8_t)(off * 131 + (off >> 8) * 17);
}

void run_begin(struct run *r, struct backend *b, struct sequence *q,
	       uint32_t index)
{
	memset(r, 0, sizeof(*r) - sizeof(r->said));
	r->b = b;
	r->q = q;
	r->lport = (uint16_t)(LPORT + index % 10000);
	r->rport = (uint16_t)(RPORT + index % 60000);
	r->raddr = backend_remote(run_way.is_v6);
	store_be32(r->raddr.b + 12, load_be32(r->raddr.b + 12) + index / 60000);
	r->listener = r->sock = -1;
	r->nxt = PEER_ISS;
	r->tsval = TS_FIRST;
	r->syn_ack = PEER_ISS + 1;
	r->next_ns = r->begin_ns = b->ops->now(b->self);
}

static void tag(struct run *r, enum tag which, bool is_on)
{
	r->tag &= ~(1u << which);
	r->tag |= is_on ? 1u << which : 0u;
}

/* --- calls --- */

union name {
	struct sockaddr any;
	struct sockaddr_in v4;
	struct sockaddr_in6 v6;
};

static socklen_t name_of(union name *out, const struct ip_addr *a,
			 uint16_t port)
{
	*out = (union name){ .v6 = { .sin6_family = AF_INET6,
				     .sin6_port = htons(port) } };
	memcpy(&out->v6.sin6_addr, a->b, 16);
	if (run_way.is_v6)
		return sizeof(out->v6);
	*out = (union name){ .v4 = { .sin_family = AF_INET,
				     .sin_port = htons(port) } };
	memcpy(&out->v4.sin_addr, a->b + 12, 4);
	return sizeof(out->v4);
}

/* Return: a socket that is bound to our address and port, or a negative errno. */
static int bound_socket(struct run *r)
{
	const struct backend_ops *o = r->b->ops;
	struct ip_addr local = backend_local(run_way.is_v6);
	union name a;
	socklen_t len = name_of(&a, &local, r->lport);
	int on = 1, fd = o->socket(r->b->self, a.any.sa_family, SOCK_STREAM, 0);

	if (fd < 0)
		return fd;
	o->setsockopt(r->b->self, fd, SOL_SOCKET, SO_REUSEADDR, &on,
		      sizeof(on));
	int err = o->bind(r->b->self, fd, &a.any, len);
	if (err) {
		o->close(r->b->self, fd);
		return err;
	}
	return fd;
}

static int do_listen(struct run *r)
{
	if (r->listener < 0)
		r->listener = bound_socket(r);
	return r->listener < 0 ? r->listener
			       : r->b->ops->listen(r->b->self, r->listener, 8);
}

static int do_accept(struct run *r)
{
	int fd = r->b->ops->accept(r->b->self, r->listener);

	if (fd < 0)
		return fd;
	if (r->sock >= 0)
		r->b->ops->close(r->b->self, r->sock);
	r->sock = fd;
	return 0;
}

static int do_connect(struct run *r)
{
	union name a;
	socklen_t len = name_of(&a, &r->raddr, r->rport);

	if (r->sock < 0)
		r->sock = bound_socket(r);
	return r->sock < 0
		   ? r->sock
		   : r->b->ops->connect(r->b->self, r->sock, &a.any, len);
}

static int do_send(struct run *r, uint32_t n)
{
	static uint8_t buf[DATA_MAX];

	n = MIN(n, (uint32_t)DATA_MAX);
	for (uint32_t i = 0; i < n; i++)
		buf[i] = stream_at(r->n_sent + i);
	ssize_t sent = r->b->ops->send(r->b->self, r->sock, buf, n,
				       MSG_NOSIGNAL | MSG_DONTWAIT);
	r->n_sent += sent > 0 ? (uint32_t)sent : 0;
	return (int)sent;
}

/* Wrong bytes have a result of their own. */
static int do_recv(struct run *r, uint32_t n)
{
	static uint8_t buf[DATA_MAX];

	ssize_t got = r->b->ops->recv(r->b->self, r->sock, buf,
				      MIN(n, (uint32_t)DATA_MAX), MSG_DONTWAIT);
	for (ssize_t i = 0; i < got; i++)
		if (buf[i] != stream_at(r->n_got++))
			return -EBADMSG;
	return (int)got;
}

static int do_option(struct run *r, int level, int name, const void *v,
		     socklen_t len)
{
	return r->b->ops->setsockopt(r->b->self, r->sock, level, name, v, len);
}

static int do_error(struct run *r)
{
	int v = 0;
	socklen_t len = sizeof(v);
	int err = r->b->ops->getsockopt(r->b->self, r->sock, SOL_SOCKET,
					SO_ERROR, &v, &len);

	return err ? err : v;
}

static int do_close(struct run *r)
{
	int err = r->b->ops->close(r->b->self, r->sock);

	r->sock = -1;
	tag(r, TAG_CLOSED, true);
	return err;
}

static int do_call(struct run *r, const struct step *s)
{
	static const struct linger reset = { 1, 0 };
	static const int on = 1;

	if (s->kind == STEP_LISTEN)
		return do_listen(r);
	if (s->kind == STEP_CONNECT)
		return do_connect(r);
	if (s->kind == STEP_ACCEPT)
		return r->listener < 0 ? -EBADF : do_accept(r);
	if (r->sock < 0)
		return -EBADF;
	switch (s->kind) {
	case STEP_SEND:
		return do_send(r, (uint32_t)s->arg);
	case STEP_RECV:
		return do_recv(r, (uint32_t)s->arg);
	case STEP_SHUT:
		return r->b->ops->shutdown(r->b->self, r->sock, s->arg);
	case STEP_CLOSE:
		return do_close(r);
	case STEP_LINGER0:
		return do_option(r, SOL_SOCKET, SO_LINGER, &reset,
				 sizeof(reset));
	case STEP_NODELAY:
		return do_option(r, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
	case STEP_ERROR:
		return do_error(r);
	default:
		return -ENOSYS;
	}
}

/* --- segments --- */

/* Whether the segment is correct, except perhaps for its place. */
static bool is_sound(const struct run *r, const struct seg_step *s,
		     const struct tcp_seg *seg)
{
	return !(seg->flags & (TCP_SYN | TCP_RST)) &&
	       !(s->is_ts_old && r->has_ts) && seg->flags & TCP_ACK &&
	       r->has_irs && seq_lt((seq32){ r->irs }, seg->ack) &&
	       seq_le(seg->ack, (seq32){ r->snd_nxt });
}

/* Whether a stack accepts the segment, as far as the peer can tell. */
static bool is_taken(const struct run *r, const struct seg_step *s,
		     const struct tcp_seg *seg)
{
	seq32 end = seq_add(seg->seq, seg_span(seg));
	bool is_near = s->seq >= 0
			   ? s->seq < 20000
			   : s->seq > -20000 && seq_lt((seq32){ r->nxt }, end);

	if (seg->flags & TCP_SYN)
		return !(seg->flags & TCP_RST) && seg->seq.v == PEER_ISS;
	return is_sound(r, s, seg) && is_near && r->nxt != PEER_ISS;
}

static enum ack_fold fold_of(const struct run *r, const struct seg_step *s,
			     const struct tcp_seg *seg)
{
	seq32 end = seq_add(seg->seq, seg_span(seg));
	bool is_partly_old =
	    s->seq < 0 && s->seq > -20000 && seq_lt((seq32){ r->nxt }, end);

	if (is_partly_old && seg->flags & TCP_ACK && !(seg->flags & TCP_SYN))
		return FOLD_ALL;
	if (r->has_fin && s->seq >= 0 && s->seq < 100000 && is_sound(r, s, seg))
		return FOLD_DELAYED;
	if (!is_taken(r, s, seg) || s->seq || seg->flags & (TCP_SYN | TCP_URG))
		return FOLD_NONE;
	if (r->n_gaps && !(seg->flags & TCP_FIN))
		return FOLD_NONE;
	return seg_span(seg) ? FOLD_ALL : FOLD_DELAYED;
}

/* Stacks differ in whether they check the ACK of bytes that they have received before,
 * so such a segment carries no new ACK.  They also differ in whether the number of the
 * SYN may be acknowledged again. */
static seq32 ack_mended(const struct run *r, const struct seg_step *s,
			const struct tcp_seg *seg)
{
	seq32 end = seq_add(seg->seq, seg_span(seg));

	if (r->has_irs && seg->ack.v == r->irs)
		return seq_add(seg->ack, 1);
	if (s->seq < 0 && !(s->flags & TCP_RST) && r->has_irs &&
	    seq_lt((seq32){ r->irs }, (seq32){ r->snd_una }) &&
	    seq_le(end, (seq32){ r->nxt }))
		return (seq32){ r->snd_una };
	return seg->ack;
}

/* Builds a segment of the peer with its current numbers. */
static struct tcp_seg seg_build(struct run *r, const struct seg_step *s)
{
	/* The first SYN defines the first number. */
	bool is_first = s->flags & TCP_SYN && r->nxt == PEER_ISS;
	bool is_old = s->is_ts_old && !is_first;
	uint32_t seq = r->nxt + (is_first ? 0 : (uint32_t)s->seq);
	struct tcp_seg seg = {
		.sport = r->rport,
		.dport = r->lport,
		.seq = { seq },
		.flags = s->flags,
		.wnd = (uint16_t)s->wnd,
		.len = s->len,
		.mss = s->mss,
		.wscale = s->wscale,
		.is_sack_ok = s->is_sack_ok,
		.has_ts = s->has_ts,
		.tsval = is_old ? TS_FIRST - 1000 : r->tsval,
		.tsecr = s->flags & TCP_ACK ? r->ts_echo : 0,
		.n_sacks = s->n_sacks,
	};

	if (s->flags & TCP_ACK)
		seg.ack.v = r->snd_nxt + (uint32_t)s->ack;
	for (unsigned i = 0; i < s->n_sacks; i++) {
		seg.sacks[i].from.v = r->snd_una + (uint32_t)s->sacks[i].from;
		seg.sacks[i].to.v = r->snd_una + (uint32_t)s->sacks[i].to;
	}
	if (s->flags & TCP_ACK)
		seg.ack = ack_mended(r, s, &seg);
	/* A refused segment may or may not update the timestamp to be echoed. */
	if (!is_old && is_taken(r, s, &seg))
		seg.tsval = r->tsval += 10;
	return seg;
}

/* When a gap is closed, bytes behind it are in order. */
static void gaps_close(struct run *r)
{
	for (uint32_t i = 0; i < r->n_gaps;) {
		if (seq_lt((seq32){ r->nxt }, r->gaps[i].from)) {
			i++;
			continue;
		}
		r->nxt = seq_max((seq32){ r->nxt }, r->gaps[i].to).v;
		r->gaps[i] = r->gaps[--r->n_gaps];
		i = 0;
	}
}

static bool is_end(const struct run *r, seq32 at)
{
	for (uint32_t i = 0; i < MIN(r->n_ends, (uint32_t)ENDS_MAX); i++)
		if (seq_eq(r->ends[i], at))
			return true;
	return false;
}

/* Bytes that were sent in several segments may be sent again in one. */
static void end_account(struct run *r, seq32 from, seq32 end)
{
	for (uint32_t i = 0; i < MIN(r->n_ends, (uint32_t)ENDS_MAX); i++)
		if (seq_lt(from, r->ends[i]) && seq_lt(r->ends[i], end))
			r->ends[i] = end;
	r->ends[r->n_ends++ % ENDS_MAX] = end;
}

static void ack_account(struct run *r, const struct tcp_seg *seg)
{
	/* An old segment or ACK brings no window, nor does an ACK of bytes that were
	 * not sent. */
	if (seq_lt(seg->ack, (seq32){ r->snd_una }) ||
	    seq_lt((seq32){ r->snd_nxt }, seg->ack))
		return;
	if (!seg->wnd || seq_le((seq32){ r->nxt }, seg->seq))
		tag(r, TAG_ZERO, !seg->wnd);
	tag(r, TAG_SHRUNK, !seg->wnd && seg->ack.v != r->snd_nxt);
	if (!seq_lt((seq32){ r->snd_una }, seg->ack))
		return;
	tag(r, TAG_TAIL, r->has_probe && seq_le(seg->ack, (seq32){ r->probe }));
	tag(r, TAG_PART, !is_end(r, seg->ack));
	r->tag |= r->tag & 1u << TAG_PART ? 1u << TAG_PARTED : 0u;
	r->snd_una = seg->ack.v;
}

/* Notes what the peer has said so far. */
static void seg_account(struct run *r, const struct seg_step *s,
			const struct tcp_seg *seg)
{
	uint32_t span = seg->flags & TCP_SYN ? 1 : seg_span(seg);
	seq32 end = seq_add(seg->seq, span), nxt = { r->nxt };

	r->is_over |= seg->flags & TCP_RST;
	if (seg->flags & TCP_RST && s->is_ts_old &&
	    (seq_eq(seg->seq, nxt) || seg->seq.v == r->stack_ack))
		tag(r, TAG_RESET, true);
	bool is_ahead = s->seq && seq_lt(nxt, end);
	if (seg->flags & TCP_RST && ((r->has_fin && s->seq == -1) ||
				     (r->tag & 1u << TAG_CLOSED && is_ahead)))
		tag(r, TAG_RST, true);
	if (r->has_fin && s->seq < 0 && is_ahead &&
	    !(seg->flags & (TCP_SYN | TCP_RST)))
		tag(r, TAG_ACROSS, true);
	if (seg->len && s->seq < 0)
		tag(r, TAG_TWICE, true);
	if (r->tag & 1u << TAG_CLOSED && seg_span(seg) &&
	    seg->flags & TCP_ACK && !is_sound(r, s, seg))
		tag(r, TAG_REFUSED, true);
	if (seg->flags == TCP_ACK && !seg->len && s->seq > 0 &&
	    is_sound(r, s, seg))
		tag(r, TAG_AHEAD, true);
	if (seg->has_ts && r->has_irs && !r->has_ts)
		tag(r, TAG_UNASKED, true);
	if (seg->flags == TCP_ACK && !seg->len && s->seq < 0)
		tag(r, TAG_EDGE, true);
	/* An ACK counts even if the bytes of its segment lie beyond the window. */
	if (is_taken(r, s, seg) ? seg->flags & TCP_ACK
				: is_sound(r, s, seg) && s->seq >= 0 &&
				      s->seq < 60000 && r->nxt != PEER_ISS)
		ack_account(r, seg);
	if (!is_taken(r, s, seg))
		return;
	/* A second FIN does not count. */
	if (r->has_fin && seg->flags & TCP_FIN)
		return;
	r->has_fin |= seg->flags & TCP_FIN && !(seg->flags & TCP_SYN);
	if (seq_le(seg->seq, nxt))
		r->nxt = seq_max(nxt, end).v;
	else if (span && r->n_gaps < GAPS_MAX)
		r->gaps[r->n_gaps++] = (struct tcp_sack){ seg->seq, end };
	/* Bytes behind a FIN do not count. */
	if (r->has_fin)
		r->n_gaps = 0;
	gaps_close(r);
}

static void do_seg(struct run *r, const struct seg_step *s)
{
	static uint8_t p[IPV6_HEAD + TCP_HEAD_MAX + DATA_MAX];
	struct tcp_seg seg = seg_build(r, s);
	struct ip_addr dst = backend_local(run_way.is_v6);
	uint32_t ip_head = ip_head_len(&dst);
	uint8_t *tcp = p + ip_head;
	uint32_t head = tcp_head_build(tcp, &seg);
	struct cksum sum =
	    ip_pseudo_sum(&r->raddr, &dst, IP_PROTO_TCP, head + seg.len);

	ip_build(p, &r->raddr, &dst, IP_PROTO_TCP, 0, head + seg.len);
	/* The first byte follows the number of the peer's first SYN. */
	for (uint32_t i = 0; i < seg.len; i++)
		tcp[head + i] = stream_at(seg.seq.v + i - PEER_ISS - 1 +
					  !!(seg.flags & TCP_SYN));
	cksum_add(&sum, tcp, head + seg.len);
	store_be16(tcp + 16, cksum_end(&sum));
	r->fold = fold_of(r, s, &seg);
	r->said_now =
	    (struct tcp_sack){ seg.seq, seq_add(seg.seq, seg_span(&seg)) };
	seg_account(r, s, &seg);
	int err = r->b->ops->inject(r->b->self, p, ip_head + head + seg.len);
	if (err)
		snprintf(r->call, sizeof(r->call), "inject=%d", err);
}

void run_do(struct run *r)
{
	const struct step *s = &r->q->steps[r->at];

	r->call[0] = '\0';
	r->n_packets = 0;
	r->fold = FOLD_ALL;
	tag(r, TAG_BLOCK, false);
	r->ack_before = r->stack_ack;
	if (s->kind == STEP_SEG) {
		do_seg(r, &s->seg);
	} else if (s->kind != STEP_PAUSE) {
		int v = do_call(r, s);

		if (v < 0)
			snprintf(r->call, sizeof(r->call), "%s",
				 strerrorname_np(-v));
		else
			snprintf(r->call, sizeof(r->call), "%d", v);
	}
}

/* --- what is seen --- */

static bool is_connecting(const struct run *r)
{
	return r->q->steps[r->at].kind == STEP_CONNECT;
}

/* Notes the stack's SYN, which may begin another connection. */
static void syn_account(struct run *r, const struct tcp_seg *seg)
{
	bool is_reply = seg->flags & TCP_ACK;
	bool is_new = r->has_irs &&
		      (is_reply ? seg->ack.v != r->syn_ack : is_connecting(r));

	r->irs = r->snd_una = r->snd_nxt = seg->seq.v;
	r->has_irs = true;
	if (!is_new)
		return;
	r->has_fin = r->is_over = r->has_probe = false;
	r->tag = 0;
	r->n_gaps = r->n_ends = 0;
	if (is_reply)
		r->nxt = r->syn_ack = seg->ack.v;
	r->stack_ack = r->nxt;
}

/* Whether a SACK block reports a duplicate of an earlier step (RFC 2883), which any
 * later ACK may do, or bytes behind the FIN, which do not count. */
static bool is_idle_block(const struct run *r, const struct tcp_seg *seg,
			  unsigned i)
{
	const struct tcp_sack *b = &seg->sacks[i];

	if (r->has_fin && seq_lt((seq32){ r->nxt }, b->to))
		return true;
	if (!seq_le(b->to, seg->ack))
		return false;
	return r->fold != FOLD_NONE || !seq_lt(b->from, r->said_now.to) ||
	       !seq_lt(r->said_now.from, b->to);
}

void run_packet(struct run *r, const uint8_t *p, uint32_t len, uint64_t at_ns)
{
	struct ip_packet ip;
	struct tcp_seg seg;

	if (ip_parse(p, len, &ip) || ip.protocol != IP_PROTO_TCP ||
	    tcp_head_parse(p + ip.l4_off, ip.l4_len, &seg) ||
	    seg.dport != r->rport || r->n_packets == RUN_PACKETS)
		return;
	if (seg.flags & TCP_SYN && !(seg.flags & TCP_RST))
		syn_account(r, &seg);
	bool is_again = r->has_irs && seg_span(&seg) &&
			!(seg.flags & (TCP_SYN | TCP_RST)) &&
			seq_lt(seg.seq, (seq32){ r->snd_nxt });
	bool is_next = seg.seq.v == r->snd_nxt;
	if (seg.len && r->seg_len && seg.len != r->seg_len)
		tag(r, TAG_SMALL, true);
	r->seg_len = seg.len ? seg.len : r->seg_len;
	for (unsigned i = 0; seg.len && i < seg.n_sacks; i++)
		if (is_idle_block(r, &seg, i))
			tag(r, TAG_BLOCK, true);
	if (seg.flags == TCP_ACK && r->snd_una == r->irs)
		tag(r, TAG_HALF, true);
	r->is_over |= seg.flags & TCP_RST;
	if (!(seg.flags & TCP_RST)) {
		seq32 end = seq_add(seg.seq, seg_span(&seg));

		r->snd_nxt = seq_max((seq32){ r->snd_nxt }, end).v;
		end_account(r, seg.seq, end);
		r->stack_wnd = seg.wnd;
		if (seg.flags & TCP_ACK)
			r->stack_ack = seg.ack.v;
		if (seg.has_ts)
			r->ts_echo = seg.tsval;
		r->has_ts = seg.has_ts;
	}
	if (r->q->steps[r->at].kind == STEP_PAUSE && seg_span(&seg)) {
		r->probe = seg.seq.v;
		r->has_probe = true;
	}
	r->is_again[r->n_packets] = is_again;
	r->is_next[r->n_packets] = is_next;
	r->packets[r->n_packets++] = seg;
	if (run_is_traced)
		printf("%s step %u %9.3f ms   %u:%u(%u) ack %d flags %#x\n",
		       r->b->name, r->at,
		       (double)(at_ns - r->begin_ns) / NS_PER_MS,
		       seg.seq.v - r->irs, seg.seq.v - r->irs + seg.len,
		       seg.len, (int)(seg.ack.v - PEER_ISS), seg.flags);
}

struct text {
	char *at;
	size_t left;
};

static PRINTF(2, 3) void say(struct text *t, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	int n = vsnprintf(t->at, t->left, fmt, ap);
	va_end(ap);
	size_t used = MIN((size_t)n, t->left - 1);
	t->at += used;
	t->left -= used;
}

/* Whether it acknowledges received bytes and does nothing else. */
static bool is_plain_ack(const struct run *r, uint32_t at)
{
	const struct tcp_seg *seg = &r->packets[at];

	for (unsigned i = 0; i < seg->n_sacks; i++)
		if (!is_idle_block(r, seg, i))
			return false;
	return seg->flags == TCP_ACK && !seg->len && r->is_next[at];
}

static void say_options(struct text *t, const struct run *r,
			const struct tcp_seg *seg)
{
	if (seg->mss)
		say(t, " mss %u", seg->mss);
	if (seg->is_sack_ok)
		say(t, " sackOK");
	/* The echoed timestamp depends on when ACKs were sent. */
	if (seg->has_ts && seg->flags & TCP_ACK &&
	    (seg->tsecr < TS_FIRST || seg->tsecr > r->tsval))
		say(t, " ecr %d", (int)(seg->tsecr - TS_FIRST));
	else if (seg->has_ts)
		say(t, " ts");
	if (seg->wscale != TCP_NO_WSCALE)
		say(t, " wscale");
	for (unsigned i = 0; i < seg->n_sacks; i++)
		if (!is_idle_block(r, seg, i))
			say(t, " sack %d:%d",
			    (int)(seg->sacks[i].from.v - PEER_ISS),
			    (int)(seg->sacks[i].to.v - PEER_ISS));
}

static void say_packet(struct text *t, const struct run *r,
		       const struct tcp_seg *seg)
{
	uint32_t ack = seg->ack.v - PEER_ISS, seq = seg->seq.v - r->irs;
	char flags[9];
	bool is_last = seq == r->n_sent + 1 - seg->len;

	/* A stack may set PSH anywhere within what a program has written: RFC 9293
	 * section 3.9.1. */
	flags_print(flags, is_last ? seg->flags : seg->flags & ~TCP_PSH);
	if (seg->flags & TCP_RST && !seg->seq.v)
		say(t, " <%s zero", flags);
	else
		say(t, " <%s %d", flags, (int)seq);
	if (seg->len)
		say(t, ":%d", (int)(seq + seg->len));
	if (seg->flags & TCP_ACK)
		say(t, " ack %d", (int)ack);
	if (!seg->wnd && !(seg->flags & TCP_RST) && !r->has_fin)
		say(t, " win 0");
	say_options(t, r, seg);
	say(t, ">");
}

static void say_again(struct text *t, struct run *r, const struct tcp_seg *seg)
{
	say(t, " <again %d>", (int)(seg->seq.v - r->irs));
	if (r->tag & 1u << TAG_AGAIN && r->again == seg->seq.v)
		tag(r, TAG_LOST, true);
	tag(r, TAG_AGAIN, true);
	r->again = seg->seq.v;
}

static void say_packets(struct text *t, struct run *r)
{
	const struct step *s = &r->q->steps[r->at];
	const struct tcp_seg *last = NULL;

	for (uint32_t i = 0; i < r->n_packets; i++) {
		const struct tcp_seg *seg = &r->packets[i];

		if (is_plain_ack(r, i)) {
			if (r->fold == FOLD_ALL ||
			    (r->fold == FOLD_DELAYED &&
			     seg->ack.v != r->ack_before) ||
			    (last && seq_eq(last->ack, seg->ack)))
				continue;
			last = seg;
		}
		/* The sender chooses how much it sends again at once. */
		if (r->is_again[i])
			say_again(t, r, seg);
		else
			say_packet(t, r, seg);
	}
	if (s->kind == STEP_PAUSE && s->arg >= LONG_PAUSE_MS && r->has_irs &&
	    !r->is_over)
		say(t, " acked %d%s", (int)(r->stack_ack - PEER_ISS),
		    r->stack_wnd || r->has_fin ? "" : " win 0");
}

static void say_poll(struct text *t, struct run *r)
{
	const struct backend_ops *o = r->b->ops;

	if (r->listener >= 0)
		say(t, " listener=%#x",
		    (unsigned)o->poll(r->b->self, r->listener, POLL_ALL));
	if (r->sock < 0)
		return;
	int n = 0, err = o->ioctl(r->b->self, r->sock, FIONREAD, &n);

	say(t, " poll=%#x readable=%d",
	    (unsigned)o->poll(r->b->self, r->sock, POLL_ALL), err ? err : n);
}

/* The step is over. */
void run_said(struct run *r)
{
	struct text t = { r->said[r->at], SAID_MAX };

	tag(r, TAG_FIN, r->has_fin);
	r->tags[r->at] = r->tag;
	say(&t, "%s", r->call);
	say_packets(&t, r);
	say_poll(&t, r);
	r->at++;
}

/* Leaves nothing in the back end: the peer resets what is left. */
void run_end(struct run *r)
{
	struct seg_step reset = { .flags = TCP_RST, .wscale = TCP_NO_WSCALE };

	if (r->has_irs) {
		r->nxt = r->stack_ack ? r->stack_ack : r->nxt;
		do_seg(r, &reset);
	}
	if (r->sock >= 0)
		r->b->ops->close(r->b->self, r->sock);
	if (r->listener >= 0)
		r->b->ops->close(r->b->self, r->listener);
	r->sock = r->listener = -1;
}
