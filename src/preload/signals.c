/* SPDX-License-Identifier: MIT */
/*
 * preload/signals.c - the program's signal handlers, and when they run
 *
 *     kernel -> on_signal() -> the handler
 *                  |
 *                  +-> the thread holds a lock of ours: put off
 *
 * A handler may send and receive on the very connection whose call it
 * interrupts, but not between two accesses to a ring or while the thread holds
 * a lock of ours.  Then we queue the signal again for this thread, with its
 * siginfo, and block it until the thread holds no lock.  The kernel believes
 * that the handler has run.
 *
 * If a handler runs during a call, the call ends where it would sleep, as a
 * sleep in the kernel would have ended (handlers_ran()).  If a handler leaves
 * the call by longjmp(), base/unwind.h releases what the call held.
 *
 * Faults of the program's own are never put off.
 */
#include <setjmp.h>
#include <signal.h>
#include <stdint.h>
#include <string.h>
#include <ucontext.h>
#include <unistd.h>

#include "base/lock.h"
#include "base/rawcall.h"
#include "preload/edge.h"

#define KERNEL_SIGSET_BYTES 8

/* What the program asked for; valid while the kernel has on_signal(). */
static struct handler {
	void (*fn)(int sig, siginfo_t *info, void *ctx);
	int flags;
	struct sigaction act;
} handlers[NSIG];

typedef void plain_handler(int sig);

static bool is_fault(int sig)
{
	return sig == SIGSEGV || sig == SIGBUS || sig == SIGILL ||
	       sig == SIGFPE || sig == SIGTRAP || sig == SIGSYS;
}

/* Send the signal again for when the thread holds no lock.  Block all other
 * signals until then too: one is enough. */
static void put_off(int sig, siginfo_t *info, ucontext_t *uc)
{
	const struct handler *h = &handlers[sig];
	uint64_t all = ~UINT64_C(0);

	if (h->flags & SA_RESETHAND) /* it was reset; it has not run yet */
		libc.sigaction(sig, &h->act, NULL);
	if (!lock_held.is_put_off) {
		memcpy(&lock_held.mask, &uc->uc_sigmask, sizeof(all));
		lock_held.is_put_off = 1;
	}
	/* Block all signals in this handler first: the signal that we queue must not arrive
	 * before the handler returns. */
	rawcall(SYS_rt_sigprocmask, SIG_BLOCK, &all, NULL, sizeof(all));
	rawcall(SYS_rt_tgsigqueueinfo, getpid(), lock_self(), sig, info);
	memcpy(&uc->uc_sigmask, &all, sizeof(all));
}

static void on_signal(int sig, siginfo_t *info, void *ctx)
{
	const struct handler *h = &handlers[sig];

	if (lock_held.depth && !is_fault(sig)) {
		put_off(sig, info, ctx);
		return;
	}
	lock_held.n_handled++;
	if (!(h->flags & SA_RESTART))
		lock_held.n_ends++;
	h->fn(sig, info, ctx);
}

static bool is_handler(const struct sigaction *act)
{
	return act->sa_handler != SIG_DFL && act->sa_handler != SIG_IGN &&
	       act->sa_handler != SIG_ERR;
}

/* What @sig's action is for the program. */
static void as_asked(int sig, struct sigaction *act)
{
	const struct handler *h = &handlers[sig];

	if (!(act->sa_flags & SA_SIGINFO) || act->sa_sigaction != on_signal)
		return;
	act->sa_sigaction = h->fn;
	if (!(h->flags & SA_SIGINFO))
		act->sa_flags &= ~SA_SIGINFO;
}

OSF_API int sigaction(int sig, const struct sigaction *restrict act,
		      struct sigaction *restrict old)
{
	struct sigaction before, ours;

	if (sig <= 0 || sig >= NSIG || (act && is_bad_ptr(act)) ||
	    (old && is_bad_ptr(old)) || (act && !is_handler(act))) {
		int r = libc.sigaction(sig, act, old);

		if (!r && old)
			as_asked(sig, old);
		return r;
	}
	if (libc.sigaction(sig, NULL, &before) < 0)
		return -1;
	as_asked(sig, &before);
	struct handler was = handlers[sig];
	if (act) {
		ours = *act;
		ours.sa_sigaction = on_signal;
		ours.sa_flags |= SA_SIGINFO;
		handlers[sig] = (struct handler){ .fn = act->sa_sigaction,
						  .flags = act->sa_flags,
						  .act = ours };
		if (libc.sigaction(sig, &ours, NULL) < 0) {
			handlers[sig] = was;
			return -1;
		}
	}
	if (old)
		*old = before;
	return 0;
}

/* libc's signal() and its relatives use libc's internal sigaction(). */
static plain_handler *set_plain(int sig, plain_handler *fn, int flags,
				bool masks_itself)
{
	struct sigaction act = { .sa_handler = fn, .sa_flags = flags }, old;

	if (fn == SIG_ERR || sig <= 0 || sig >= NSIG) {
		errno = EINVAL;
		return SIG_ERR;
	}
	sigemptyset(&act.sa_mask);
	if (masks_itself)
		sigaddset(&act.sa_mask, sig);
	return sigaction(sig, &act, &old) < 0 ? SIG_ERR : old.sa_handler;
}

/* Signals for which siginterrupt() was called. */
static uint64_t interrupting;

OSF_API plain_handler *signal(int sig, plain_handler *fn)
{
	bool ends = sig > 0 && sig < NSIG && interrupting >> (sig - 1) & 1;

	return set_plain(sig, fn, ends ? 0 : SA_RESTART, true);
}

plain_handler *bsd_signal(int sig, plain_handler *fn);
OSF_API plain_handler *bsd_signal(int sig, plain_handler *fn)
{
	return signal(sig, fn);
}

OSF_API plain_handler *ssignal(int sig, plain_handler *fn)
{
	return signal(sig, fn);
}

OSF_API plain_handler *sysv_signal(int sig, plain_handler *fn)
{
	return set_plain(sig, fn, SA_RESETHAND | SA_NODEFER, false);
}

OSF_API plain_handler *__sysv_signal(int sig, plain_handler *fn)
{
	return sysv_signal(sig, fn);
}

OSF_API int siginterrupt(int sig, int ends)
{
	struct sigaction act;

	if (sigaction(sig, NULL, &act) < 0)
		return -1;
	if (ends) {
		fetch_or(&interrupting, UINT64_C(1) << (sig - 1));
		act.sa_flags &= ~SA_RESTART;
	} else {
		fetch_and(&interrupting, ~(UINT64_C(1) << (sig - 1)));
		act.sa_flags |= SA_RESTART;
	}
	return sigaction(sig, &act, NULL);
}

/*
 * longjmp(): libc hides the stack pointer in the buffer with a secret of the
 * process.  Where we cannot decode it, assume that frames near the top were
 * left.
 */
static uintptr_t jump_target(const struct __jmp_buf_tag *env)
{
#if defined(__x86_64__)
	uintptr_t sp = (uintptr_t)env->__jmpbuf[6];

	__asm__("ror $0x11, %0\n\txor %%fs:0x30, %0" : "+r"(sp));
	return sp;
#else
	(void)env;
	return UINTPTR_MAX;
#endif
}

#define JUMP(name)                                                             \
	OSF_API void name(struct __jmp_buf_tag env[1], int val)                \
	{                                                                      \
		if (unlikely(unwind_top))                                      \
			unwind_to(jump_target(env));                           \
		libc.name(env, val);                                           \
		__builtin_unreachable();                                       \
	}
#undef longjmp
#undef siglongjmp
#undef _longjmp
void __longjmp_chk(struct __jmp_buf_tag env[1], int val)
    __attribute__((noreturn));
JUMP(longjmp)
JUMP(_longjmp)
JUMP(siglongjmp)
JUMP(__longjmp_chk)
