/* SPDX-License-Identifier: MIT */
/* sock/shared.c - see sock/shared.h */
#include <errno.h>
#include <sched.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "base/compiler.h"
#include "base/rawcall.h"
#include "sock/page_lock.h"
#include "sock/shared.h"

/* If this many CAS fail, another process does nothing but disturb us. */
#define TRIES 1000

/* A page that was dropped before a fork does not exist in the child. */
static uint32_t epoch;

/* Memory for the sockets of the fork that is about to happen.  The fork lock lets one
 * thread fork at a time. */
static struct {
	uint8_t *at, *end;
} reserve;

/* Can another process have moved a socket from mode @from to mode @to? */
static bool may_become(enum sock_mode from, uint32_t to)
{
	if (to == from || to == SOCK_KERNEL)
		return true;
	return (from == SOCK_PENDING && to == SOCK_SHM) ||
	       (from <= SOCK_SHM && from >= SOCK_PENDING &&
		to == SOCK_UPGRADING);
}

/* Only this process's view: see sock_set_mode(). */
static void mode_in(struct sock *sk, enum sock_mode mode)
{
	uint32_t old;

	do
		old = load_rlx(&sk->state);
	while (
	    !cas(&sk->state, old, SOCK_STATE(mode) | (old & SOCK_COUNT_MASK)));
}

static int mode_import(struct sock *sk, const struct shared_page *p)
{
	uint32_t mode = load_acq(&p->mode);
	enum sock_mode mine = sock_mode(sk);

	if (likely(mode == mine))
		return 0;
	if (!may_become(mine, mode))
		return -EPROTO;
	if (mode == SOCK_UPGRADING)
		sk->moved_ns = now_ns();
	mode_in(sk, (enum sock_mode)mode);
	return 0;
}

/* What comes from the half of the page; the caller holds it. */
static int half_import(struct sock *sk, struct shared_page *p,
		       enum sock_half half)
{
	const struct sock_ops *before = sock_ops(sk);
	int err = mode_import(sk, p);

	uint32_t last = load_acq(&p->half[half].exported);

	if (!err && last >> 1 != sk->writer && before->import)
		err = before->import(sk, half, p->half[half].numbers[last & 1]);
	return err;
}

/* This process's first look into the page, which a child may never take. */
static COLD void number_get(struct sock *sk)
{
	uint32_t n = (fetch_add(&sk->page->n_writers, 1u) + 1) & WRITER_MAX;

	cas(&sk->writer, 0u, n ? n : 1u);
}

/* Nothing is known of the half until somebody with a descriptor has asked the kernel. */
static COLD enum page_got repair_later(struct sock *sk, enum sock_half which)
{
	fetch_or(&sk->w->due, (uint8_t)SOCK_DUE_REPAIR);
	page_unlock(&sk->page->half[which].word);
	return PAGE_KEPT;
}

/* What others have left in the half, which the caller has locked.  PAGE_NOT: the
 * connection is lost. */
static enum page_got page_take(struct sock *sk, enum sock_half which,
			       enum page_use use)
{
	struct shared_page *p = sk->page;
	struct page_half *half = &p->half[which];
	const char *why = NULL;
	uint32_t changing = load_rlx(&half->is_changing);

	if (unlikely(!load_rlx(&sk->writer)))
		number_get(sk);
	if (unlikely(changing == HALF_UNCOUNTED) && sock_ops(sk)->repair) {
		if (use != PAGE_REPAIRS)
			return repair_later(sk, which);
		changing = HALF_IS_WHOLE;
	}
	if (unlikely(changing))
		why = "a process that died in the middle of a call";
	else if (unlikely(half_import(sk, p, which)))
		why = "what a process that shares it says";
	if (unlikely(why)) {
		shared_lose(sk, why);
		page_unlock(&half->word); /* it stays "being changed" */
		return PAGE_NOT;
	}
	return PAGE_FREE;
}

void page_begin_change(struct sock *sk, enum sock_half which)
{
	store_rel(&sk->page->half[which].is_changing, (uint32_t)HALF_CHANGES);
	*(which == HALF_RX ? &sk->rx_is_in : &sk->tx_is_in) = PAGE_CHANGES;
	__atomic_signal_fence(__ATOMIC_SEQ_CST); /* before what it is about */
}

static enum page_got enter(struct sock *sk, enum sock_half which,
			   enum page_use use, bool is_patient)
{
	if (unlikely(sk->is_lost))
		return PAGE_NOT;
	enum page_got got = page_lock(&sk->page->half[which].word, is_patient);
	if (unlikely(got == PAGE_NOT))
		shared_lose(sk, "a lock that another process keeps");
	if (likely(got < PAGE_KEPT))
		got = page_take(sk, which, use);
	if (unlikely(got >= PAGE_KEPT))
		return got;
	*(which == HALF_RX ? &sk->rx_is_in : &sk->tx_is_in) = (uint8_t)use;
	if (use == PAGE_CHANGES)
		page_begin_change(sk, which);
	return got;
}

void page_enter(struct sock *sk, enum sock_half which, enum page_use use)
{
	if (unlikely(enter(sk, which, use, true) == PAGE_KEPT))
		shared_lose(sk, "a process that died in the middle of a call");
}

bool page_enter_soon(struct sock *sk, enum sock_half which, enum page_use use)
{
	if (likely(enter(sk, which, use, false) != PAGE_KEPT))
		return true;
	store_rlx(&sk->is_kept, (uint8_t)1);
	lock_put(which == HALF_RX ? &sk->rx_lock : &sk->tx_lock);
	return false;
}

/* Beside what was exported last, so that there is a whole export at every moment. */
static void half_export(const struct sock *sk, struct shared_page *p,
			enum sock_half which)
{
	const struct sock_ops *ops = sock_ops(sk);
	struct page_half *half = &p->half[which];
	uint32_t to = !(load_rlx(&half->exported) & 1);

	/* A protocol that exports nothing leaves what was there. */
	memcpy(half->numbers[to], half->numbers[!to], HALF_BYTES);
	if (ops->export)
		ops->export(sk, which, half->numbers[to]);
	store_rel(&half->exported, sk->writer << 1 | to);
	store_rel(&half->is_changing, 0u);
}

void page_settle(struct sock *sk, enum sock_half which)
{
	struct shared_page *p = sk->page;

	if (load_rlx(&p->half[which].is_changing) && likely(!sk->is_lost))
		half_export(sk, p, which);
}

/* Two bits a half: how it was used before. */
uint32_t page_count_begin(struct sock *sk)
{
	uint32_t was = 0;

	for (int i = HALF_RX; i <= HALF_TX; i++) {
		uint8_t use = i == HALF_RX ? sk->rx_is_in : sk->tx_is_in;

		was |= (uint32_t)(use & 3) << 2 * i;
		if (use == PAGE_LOOKS || use == PAGE_MOVES)
			store_rel(&sk->page->half[i].is_changing,
				  (uint32_t)HALF_UNCOUNTED);
	}
	__atomic_signal_fence(__ATOMIC_SEQ_CST); /* before what it is about */
	return was;
}

void page_count_end(struct sock *sk, uint32_t was)
{
	__atomic_signal_fence(__ATOMIC_SEQ_CST);
	for (int i = HALF_RX; i <= HALF_TX; i++) {
		uint32_t use = was >> 2 * i & 3;

		if (use == PAGE_LOOKS || use == PAGE_MOVES)
			half_export(sk, sk->page, (enum sock_half)i);
	}
}

bool page_repair_begin(struct sock *sk)
{
	lock_get(&sk->rx_lock);
	if (!page_enter_soon(sk, HALF_RX, PAGE_REPAIRS))
		return false;
	lock_get(&sk->tx_lock);
	if (page_enter_soon(sk, HALF_TX, PAGE_REPAIRS))
		return true;
	sock_unlock_rx(sk);
	return false;
}

void page_leave(struct sock *sk, enum sock_half which)
{
	struct shared_page *p = sk->page;
	uint8_t *is_in = which == HALF_RX ? &sk->rx_is_in : &sk->tx_is_in;
	bool changes = *is_in != PAGE_LOOKS;

	*is_in = 0;
	if (changes && likely(!sk->is_lost))
		half_export(sk, p, which);
	page_unlock(&p->half[which].word);
}

/* The connection ends here; the kernel's socket is reset when a call has its
 * descriptor (sock.reset_due). */
COLD void shared_lose(struct sock *sk, const char *why)
{
	if (xchg(&sk->is_lost, (uint8_t)1))
		return;
	store_rel(&sk->reset_due, (uint8_t)1);
	if (sock_ops(sk)->lost)
		sock_ops(sk)->lost(sk, why);
}

/*
 * Before a fork.
 */

bool shared_needs_page(const struct sock *sk)
{
	return !sk->page && !sk->old_page && sock_mode(sk) != SOCK_KERNEL;
}

/* All of it is about to be written: no fault for each page. */
static void *map_shared(size_t bytes)
{
	void *at = bytes
		       ? mmap(NULL, bytes, PROT_READ | PROT_WRITE,
			      MAP_SHARED | MAP_ANONYMOUS | MAP_POPULATE, -1, 0)
		       : MAP_FAILED;

	if (at == MAP_FAILED)
		return NULL;
	madvise(at, bytes, MADV_DONTDUMP);
	return at;
}

void shared_reserve(uint32_t n)
{
	/* Other threads may add sockets while we count.  If the memory is too
	 * small for all, the rest are mapped one by one. */
	reserve.at = map_shared((size_t)n * SHARED_BYTES);
	reserve.end = reserve.at + (reserve.at ? (size_t)n * SHARED_BYTES : 0);
}

void shared_release(void)
{
	if (reserve.at != reserve.end)
		munmap(reserve.at, (size_t)(reserve.end - reserve.at));
	reserve.at = reserve.end = NULL;
}

static struct shared_page *page_new(void)
{
	struct shared_page *p = (void *)reserve.at;

	if (p && reserve.at < reserve.end)
		reserve.at += SHARED_BYTES;
	else
		p = map_shared(SHARED_BYTES);
	return p;
}

/* The words move to the page.  Who stores one without a lock looks where they are
 * afterwards (SOCK_PUT()); who counts holds a lock. */
static void words_out(struct sock *sk, struct shared_page *p)
{
	p->words = sk->own_words;
	p->words.errq |= 1; /* ask the kernel: a note may be on its way */
	store_rel(&sk->w, &p->words);
	fence_full();
}

/* The caller holds both locks. */
static void page_begin(struct sock *sk, struct shared_page *p)
{
	words_out(sk, p);
	sk->writer = 1;
	p->n_writers = 1;
	store_rlx(&p->mode, (uint32_t)sock_mode(sk));
	half_export(sk, p, HALF_RX);
	half_export(sk, p, HALF_TX);
}

/* The forking thread takes only this process's own locks.  Threads of other
 * processes have nothing to do with a page that they do not know yet. */
int sock_share(struct sock *sk)
{
	GUARD(&sk->rx_lock);
	GUARD(&sk->tx_lock);
	struct shared_page *p = sk->page ? sk->page : sk->old_page;
	if (!sk->page && sock_mode(sk) == SOCK_KERNEL) {
		fetch_add(&sock_holders(sk)->n_procs, 1);
		return 0;
	}
	if (!p) {
		p = page_new();
		if (!p)
			return -ENOMEM;
		p->holders = (struct holders){ .n_procs = 1, .maker_has = 1 };
	}
	if (!sk->page) {
		page_begin(sk, p);
		store_rel(&sk->page, p);
		store_rel(&sk->old_page, NULL);
	}
	fetch_add(&p->holders.n_procs, 1);
	return 0;
}

/*
 * Alone again.
 */

static void words_in(struct sock *sk)
{
	sk->own_words = *(const struct sock_words *)sk->w;
	/* A thread that was killed while it slept or rang is still counted in the page.
	 * Count only our own. */
	sk->own_words.n_sleepers = sk->my_sleepers;
	sk->own_words.n_tx_sleepers = sk->my_tx_sleepers;
	sk->own_words.n_ringing = 0;
	sk->own_words.errq |= 1;
	store_rel(&sk->w, &sk->own_words);
	fence_full();
}

/* The page stays mapped: the claims of our children refer to its count of
 * holders, and a thread may be looking at a word of it. */
void sock_unshare(struct sock *sk)
{
	struct shared_page *p = load_acq(&sk->page);

	if (!p || load_rlx(&p->holders.n_procs) > 1 || sk->is_lost ||
	    !sock_take_both(sk))
		return;
	bool in = sk->rx_is_in && sk->tx_is_in;
	if (in && load_rlx(&p->holders.n_procs) == 1) {
		words_in(sk);
		page_leave(sk, HALF_TX);
		page_leave(sk, HALF_RX);
		sk->old_page = p;
		store_rlx(&sk->is_kept, (uint8_t)(load_rlx(&sk->w->due) != 0));
		store_rel(&sk->page, NULL);
	}
	sock_unlock_tx(sk);
	sock_unlock_rx(sk);
}

bool shared_part_begin(struct sock *sk)
{
	struct shared_page *p;

	lock_get(&sk->rx_lock);
	lock_get(&sk->tx_lock);
	if (!(p = sk->page) || sk->is_lost || sock_mode(sk) != SOCK_SHM) {
		shared_part_end(sk, false);
		return false;
	}
	fetch_add(&p->holders.n_procs, 1);
	return true;
}

/* The others go on in the page, which stays mapped as in sock_unshare(). */
static void part(struct sock *sk)
{
	struct shared_page *p = sk->page;

	words_in(sk);
	sk->own_words.due = 0;
	fetch_sub(&p->words.n_sleepers, sk->my_sleepers);
	fetch_sub(&p->words.n_tx_sleepers, sk->my_tx_sleepers);
	mode_in(sk, SOCK_UPGRADING);
	store_rlx(&sk->is_kept, (uint8_t)0);
	sk->old_page = p;
	store_rel(&sk->page, NULL);
}

void shared_part_end(struct sock *sk, bool parts)
{
	if (parts)
		part(sk);
	lock_put(&sk->tx_lock);
	lock_put(&sk->rx_lock);
}

void shared_in_relay(struct sock *sk)
{
	lock_after_fork();
	sock_inherit(sk, false);
	sk->watches = (struct watch_list){ .first = NULL };
}

static bool half_refresh(struct sock *sk, enum sock_half which)
{
	bool rx = which == HALF_RX;

	lock_get(rx ? &sk->rx_lock : &sk->tx_lock);
	if (sk->page && !page_enter_soon(sk, which, PAGE_LOOKS))
		return false;
	if (rx)
		sock_unlock_rx(sk);
	else
		sock_unlock_tx(sk);
	return true;
}

void sock_catch_up(struct sock *sk)
{
	struct shared_page *p = load_acq(&sk->page);

	bool is_kept = false;

	if (p && !sk->is_lost && load_rlx(&p->holders.n_procs) == 1)
		sock_unshare(sk);
	else if (p && !sk->is_lost)
		is_kept =
		    !half_refresh(sk, HALF_RX) || !half_refresh(sk, HALF_TX);
	store_rlx(&sk->is_kept, (uint8_t)(is_kept || load_rlx(&sk->w->due)));
}

/*
 * Life of the memory.
 */

bool shared_all_let_go(struct sock *sk)
{
	store_rel(&sk->free_due, (uint8_t)1);
	fence_full(); /* Dekker with shared_let_go() */
	return !load_acq(&sk->is_held) && xchg(&sk->free_due, (uint8_t)0);
}

bool shared_let_go(struct sock *sk)
{
	struct shared_page *p = sk->page;

	if (p)
		madvise(p, SHARED_BYTES, MADV_DONTFORK);
	store_rel(&sk->is_held, (uint8_t)0);
	fence_full();
	return load_acq(&sk->free_due) && xchg(&sk->free_due, (uint8_t)0);
}

void shared_init(struct sock *sk, struct holders *h)
{
	*h = (struct holders){ .n_procs = 1, .maker_has = 1 };
	sk->holders = h;
	sk->epoch = epoch;
	sk->w = &sk->own_words;
}

void shared_alone(struct sock *sk, const struct sock *made)
{
	sk->holders = made->holders;
	sk->epoch = made->epoch;
	sk->is_live = sk->is_held = 1;
	sk->is_lost = sk->rx_is_in = sk->tx_is_in = 0;
	sk->page = sk->old_page = NULL;
	sk->my_sleepers = sk->my_tx_sleepers = 0;
	sk->moved_ns = sk->reset_due = sk->is_kept = sk->free_due = 0;
}

void shared_child(void)
{
	epoch++;
	page_lock_child();
	memset(&reserve, 0, sizeof(reserve));
}

void sock_inherit(struct sock *sk, bool calls)
{
	sk->epoch = epoch;
	sk->rx_lock = sk->tx_lock = (struct lock){ 0 };
	sk->rx_is_in = sk->tx_is_in = sk->is_kept = sk->free_due = 0;
	sk->my_sleepers = sk->my_tx_sleepers = 0;
	watches_after_fork(sk);
	sk->writer = 0;
	/* The parent gives it to the kernel, in another thread. */
	sk->moved_ns = sock_mode(sk) == SOCK_UPGRADING ? now_ns() : 0;
	if (!calls) /* of the parent's other threads, which will not end here */
		sk->state &= ~SOCK_COUNT_MASK;
}

void shared_unmap(struct sock *sk)
{
	struct shared_page *p = sk->page ? sk->page : sk->old_page;

	if (sk->w != &sk->own_words) {
		sk->own_words = *(const struct sock_words *)sk->w;
		store_rel(&sk->w, &sk->own_words);
	}
	store_rel(&sk->page, NULL);
	sk->old_page = NULL;
	if (p && sk->epoch == epoch)
		munmap(p, SHARED_BYTES);
}

void shared_drop(const struct sock *sk)
{
	struct shared_page *p = sk->page ? sk->page : sk->old_page;

	if (p && sk->epoch == epoch)
		munmap(p, SHARED_BYTES);
}

/*
 * The mode.
 */

void shared_mode(struct sock *sk, enum sock_mode mode)
{
	struct shared_page *p = load_acq(&sk->page);

	/* A look at a young socket is this process's affair. */
	if (!p || mode == SOCK_YOUNG ||
	    (mode == SOCK_UPGRADING && sock_mode(sk) == SOCK_YOUNG))
		return;
	if (mode == SOCK_UPGRADING)
		store_rlx(&p->mover, page_self());
	store_rel(&p->mode, (uint32_t)mode);
}

/* It may have lost its core.  If nobody of our user does it, somebody lies. */
static COLD bool is_being_moved(const struct sock *sk,
				const struct shared_page *p)
{
	return now_ns() - sk->moved_ns <= PAGE_PATIENCE_NS &&
	       page_owner(&p->mover, load_rlx(&p->mover)) == OWNER_OURS;
}

/* For a thread that finds the mode UPGRADING.  If another process gives the
 * connection to the kernel, nobody here changes the mode. */
void sock_moving(struct sock *sk)
{
	struct shared_page *p = sk->page ? sk->page : sk->old_page;
	const struct timespec ms = { .tv_nsec = NS_PER_MS };

	cpu_relax();
	if (likely(!p || !sk->moved_ns) || sock_mode(sk) != SOCK_UPGRADING)
		return;
	bool is_long = sock_moves_long(sk);
	if (is_long && !sk->is_lost && load_acq(&p->mode) != SOCK_KERNEL &&
	    !is_being_moved(sk, p))
		shared_lose(sk, "a process that does not end its recall");
	if (sk->is_lost || load_acq(&p->mode) == SOCK_KERNEL)
		mode_in(sk, SOCK_KERNEL);
	else if (is_long)
		rawcall(SYS_nanosleep, &ms, NULL);
	else
		sched_yield();
}

bool sock_moves_long(const struct sock *sk)
{
	return sk->moved_ns && now_ns() - sk->moved_ns > PAGE_WAIT_NS;
}

/* A thread that rings the peer holds a half.  Is there a half that another thread of this
 * process has, or that a process of our user has and the caller does not? */
static bool other_is_kept(const struct sock *sk)
{
	for (int i = HALF_RX; i <= HALF_TX; i++) {
		const uint32_t *word = &sk->page->half[i].word;
		bool rx = i == HALF_RX;
		uint32_t mine =
		    load_rlx(rx ? &sk->rx_lock.word : &sk->tx_lock.word);

		if (mine && (mine & ~LOCK_WAITERS) != lock_self())
			return true;
		if (!(rx ? sk->rx_is_in : sk->tx_is_in) &&
		    page_owner(word, load_rlx(word)) == OWNER_OURS)
			return true;
	}
	return false;
}

bool shared_is_silent(struct sock *sk)
{
	uint64_t start = 0;

	while (load_acq(&sk->w->n_ringing)) {
		uint64_t now = now_ns();

		if (!start && page_lock_is_vain(&sk->w->n_ringing))
			return false;
		start = start ? start : now;
		sched_yield();
		if (now - start < PAGE_WAIT_NS)
			continue;
		/* Note the wait in both cases below: a hostile process may write this word
		 * of each socket, and this thread is to wait once. */
		page_lock_gives_up(&sk->w->n_ringing);
		if (other_is_kept(sk))
			return false;
		store_rlx(&sk->w->n_ringing, 0u); /* of one that was killed */
		return true;
	}
	return true;
}

COLD bool shared_is_stopped(const struct sock *sk)
{
	const struct shared_page *p = load_acq(&sk->page);

	for (int i = HALF_RX; p && i <= HALF_TX; i++) {
		const uint32_t *word = &p->half[i].word;
		uint32_t seen = load_rlx(word);

		if (page_owner(word, seen) == OWNER_OURS &&
		    page_owner_is_stopped(seen))
			return true;
	}
	return false;
}

bool shared_is_free(const struct sock *sk)
{
	const struct shared_page *p = load_acq(&sk->page);

	return !p || (!load_acq(&p->half[HALF_RX].word) &&
		      !load_acq(&p->half[HALF_TX].word));
}

/*
 * Holders.
 */

bool sock_let_go(struct sock *sk, int32_t n)
{
	struct holders *h = sock_holders(sk);
	int32_t old;

	if (sk->epoch != epoch)
		return false;
	if (!h)
		return n == 1;
	for (int i = 0; i < TRIES; i++) {
		old = load_rlx(&h->n_procs);
		/* Any value is possible: no overflow of a signed number. */
		int32_t rest = (int32_t)((uint32_t)old - (uint32_t)n);
		if (cas(&h->n_procs, old, rest ? rest : -1))
			return !rest;
	}
	return false;
}

bool sock_leave_it(struct sock *sk)
{
	struct holders *h = sock_holders(sk);

	return !h || fetch_sub(&h->n_procs, 1) == 1;
}

bool sock_maker_lets_go(struct sock *sk)
{
	struct holders *h = sock_holders(sk);

	return sk->epoch == epoch && h && load_rlx(&h->maker_has) &&
	       xchg(&h->maker_has, 0u);
}
