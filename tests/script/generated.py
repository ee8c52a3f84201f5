#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""
tests/script/generated.py - generates packet scripts and runs them

    generated.py RUNNER --engine|--kernel      generates them in a temporary folder, and runs them
    generated.py --into FOLDER                 generates them for reading

One set sends every kind of segment in every state, each on a connection of its own.  It expects
the answer that RFC 9293 section 3.10.7 and RFC 5961 require.  The other set sends five
overlapping segments in all 120 orders, and expects the ACK of what has arrived so far.
"""
import itertools
import os
import subprocess
import sys
import tempfile

FAR = 300000  # beyond every window that is advertised
NEAR = 100    # within it
QUIET = 0.012


def number(n):
    return n % (1 << 32)


def segment(flags, seq, length, ack):
    text = "%s %d:%d(%d)" % (flags or "-", number(seq), number(seq + length), length)
    if "." in flags:
        text += " ack %d" % number(ack)
    return text + " win 32792"


class State:
    """How a connection gets there, from the listener or by connect(); what is next."""

    def __init__(self, name, una, snd_nxt, rcv_nxt, steps=()):
        self.name, self.una, self.snd_nxt, self.rcv_nxt = name, una, snd_nxt, rcv_nxt
        self.steps = steps


OPEN = ["< :{p} S 0:0(0) win 32792 <mss 1460>", "> :{p} S. 0:0(0) ack 1 <mss 1460>"]
ACCEPT = OPEN + ["< :{p} . 1:1(0) ack 1 win 32792", "accept(3) = {fd}"]
SHUT = ["shutdown({fd}, SHUT_WR) = 0"]
STATES = [
    State("CLOSED", 0, 0, 0),
    State("LISTEN", 0, 0, 0),
    State("SYN_SENT", 0, 1, 0,
          ["socket(...) = {fd}", "connect({fd}, remote:{p}) = -1 EINPROGRESS",
           "> :{p} S 0:0(0) <...>"]),
    State("SYN_RCVD", 0, 1, 1, OPEN),
    State("ESTABLISHED", 1, 1, 1, ACCEPT),
    State("FIN_WAIT_1", 1, 2, 1, ACCEPT + SHUT + ["> :{p} F. 1:1(0) ack 1"]),
    State("FIN_WAIT_2", 2, 2, 1, ACCEPT + SHUT + [
        "> :{p} F. 1:1(0) ack 1", "< :{p} . 1:1(0) ack 2 win 32792"]),
    State("CLOSE_WAIT", 1, 1, 2, ACCEPT + [
        "< :{p} F. 1:1(0) ack 1 win 32792", "+0~+0.05 > :{p} . 1:1(0) ack 2"]),
    State("CLOSING", 1, 2, 2, ACCEPT + SHUT + [
        "> :{p} F. 1:1(0) ack 1", "< :{p} F. 1:1(0) ack 1 win 32792",
        "> :{p} . 2:2(0) ack 2"]),
    State("LAST_ACK", 1, 2, 2, ACCEPT + [
        "< :{p} F. 1:1(0) ack 1 win 32792", "+0~+0.05 > :{p} . 1:1(0) ack 2"] + SHUT + [
        "> :{p} F. 1:1(0) ack 2"]),
    State("TIME_WAIT", 2, 2, 2, ACCEPT + SHUT + [
        "> :{p} F. 1:1(0) ack 1", "< :{p} F. 1:1(0) ack 2 win 32792",
        "> :{p} . 2:2(0) ack 2"]),
]
KINDS = [("", 0), (".", 0), ("P", 10), ("P.", 10), ("F", 0), ("F.", 0), ("FP.", 10),
         ("S", 0), ("S.", 0), ("SF", 0), ("SR", 0), ("R", 0), ("R.", 0)]
PLACES = ["next", "near", "old", "far"]
HAVE_SOCKETS = ("SYN_SENT", "ESTABLISHED", "FIN_WAIT_1", "FIN_WAIT_2", "CLOSE_WAIT", "CLOSING",
                "LAST_ACK")


def sequence(state, place, flags, length):
    at, length = state.rcv_nxt, length + ("F" in flags)
    return {"next": at, "near": at + NEAR, "old": at - max(length, 1), "far": at + FAR}[place]


def reset_for(flags, seq, length, ack):
    """Section 3.10.7.1: what who has no connection answers."""
    if "R" in flags:
        return []
    if "." in flags:
        return ["R %d:%d(0)" % (ack, ack)]
    span = length + ("S" in flags) + ("F" in flags)
    return ["R. 0:0(0) ack %d" % number(seq + span)]


def answer_listen(flags, seq, length, ack):
    """Section 3.10.7.2."""
    if "R" in flags or ("S" in flags and "F" in flags):
        return []
    if "." in flags:
        return ["R %d:%d(0)" % (ack, ack)]
    if "S" in flags:
        return ["S. 0:0(0) ack %d <mss 1460>" % number(seq + 1)]
    return []


def answer_synchronised(state, flags, place, length):
    """Section 3.10.7.4, with RFC 5961."""
    ack = [". %d:%d(0) ack %d" % (state.snd_nxt, state.snd_nxt, state.rcv_nxt)]
    is_in = place in ("next", "near")
    if "R" in flags:
        return ack if place == "near" else []
    if "S" in flags:
        return ack
    if not is_in:
        return ack
    if "." not in flags:
        return []
    if state.name in ("CLOSE_WAIT", "CLOSING", "LAST_ACK"):
        return []  # nothing may follow a FIN
    if place == "near":
        return ack if length or "F" in flags else []
    span = length + ("F" in flags)
    if not span:
        return []
    return [". %d:%d(0) ack %d" % (state.snd_nxt, state.snd_nxt, state.rcv_nxt + span)]


def answer_syn_sent(flags, seq, ack):
    """Section 3.10.7.3; after an ACK of nothing the SYN goes again soon."""
    again = ["S 0:0(0) <...>"]
    if "." in flags:
        return again if "R" in flags else ["R %d:%d(0)" % (ack, ack)] + again
    if flags in ("S", "SF"):
        return ["S. 0:0(0) ack %d <...>" % (seq + 1)]
    return []


def answer_syn_rcvd(flags, place, ack):
    """Section 3.10.7.4 of a passive open, for which the ACK is one of nothing."""
    if flags in ("S", "SF") and place == "old":
        return ["S. 0:0(0) ack 1 <mss 1460>"]
    if "R" in flags:
        return []
    if place in ("old", "far"):
        return [". 1:1(0) ack 1"]
    return ["R %d:%d(0)" % (ack, ack)] if "." in flags else []


def answer_time_wait(flags, place, length):
    if "R" in flags or (flags == "." and place == "next"):
        return []
    return [". 2:2(0) ack 2"]


def answer(state, flags, place, seq, length, ack):
    if state.name == "CLOSED":
        return reset_for(flags, seq, length, ack)
    if state.name == "LISTEN":
        return answer_listen(flags, seq, length, ack)
    if state.name == "SYN_SENT":
        return answer_syn_sent(flags, seq, ack)
    if state.name == "SYN_RCVD":
        return answer_syn_rcvd(flags, place, ack)
    if state.name == "TIME_WAIT":
        return answer_time_wait(flags, place, length)
    return answer_synchronised(state, flags, place, length)


def is_left_out(state, flags, place):
    """What Linux and the engine do differently, each allowed: see docs/scripts.md."""
    if state.name in ("CLOSED", "LISTEN", "SYN_SENT"):
        return place != "next"
    if flags == "SR" and place == "old":
        return True  # it ends where the window begins: for Linux that is within
    if not set(flags) & set(".RS") and place in ("old", "far"):
        return True  # Linux looks for the flags first, RFC 9293 at the numbers
    if state.name == "SYN_RCVD":
        # Linux ends an open by a reset or a SYN anywhere in the window.
        return place == "near" or (flags[:1] == "S" and place == "next")
    if state.name == "TIME_WAIT":
        # A SYN behind the last byte opens anew: close/time_wait_new_syn.pkt.
        return place == "near" or (flags in ("S", "SF") and place == "far") or \
            not set(flags) & set(".RS")
    return False


def state_script(state):
    out = ["# Every kind of segment in %s, each on a connection of its own." % state.name]
    port, fd = 40001, 10
    if state.name not in ("CLOSED", "SYN_SENT"):
        out += ["socket(...) = 3", "bind(3, ...) = 0", "listen(3, 200) = 0"]
    for (flags, length), place in itertools.product(KINDS, PLACES):
        if is_left_out(state, flags, place):
            continue
        seq = sequence(state, place, flags, length)
        ack = state.una
        if state.name == "SYN_RCVD" and place in ("old", "far"):
            ack = state.snd_nxt  # Linux looks at the ACK before the window
        replies = answer(state, flags, place, seq, length, ack)
        out.append("# %s, %s" % (flags or "no flags", place))
        for step in state.steps:
            out.append(step.format(p=port, fd=fd))
        out.append("< :%d %s" % (port, segment(flags, seq, length, ack)))
        for reply in replies:
            wait = "+0~+0.05 " if "F" in flags or reply[:2] == "S " else ""
            out.append("%s> :%d %s" % (wait, port, reply))
        out.append("+%g > none" % QUIET)
        # Nothing of it may be heard later.
        for last in (state.rcv_nxt, state.rcv_nxt + 1, state.rcv_nxt + length,
                     state.rcv_nxt + length + 1):
            out.append("< :%d R %d:%d(0) win 0" % (port, last, last))
        if state.name == "SYN_SENT":
            out.append("< :%d R. 0:0(0) ack 1 win 0" % port)
        if state.name in HAVE_SOCKETS:
            out.append("tcp_info(%d, tcpi_state) = CLOSE" % fd)
            out.append("close(%d) = 0" % fd)
        port, fd = port + 1, fd + 1
    return "\n".join(out) + "\n"


PIECES = [(1, 101), (51, 151), (101, 221), (201, 301), (131, 261)]


def order_script(orders, has_fin):
    """Five pieces of 300 bytes that overlap, in some of their 120 orders.

        1      51     101    151    201    251    301
        [------------)
               [------------)
                      [---------------)
                           [--------------)
                                     [------------) FIN
    """
    out = ["# Five segments that overlap, in %d of their orders." % len(orders),
           "socket(...) = 3", "bind(3, ...) = 0", "listen(3, 200) = 0"]
    port, fd = 40001, 10
    for order in orders:
        out.append("# " + " ".join(str(i) for i in order))
        out += [step.format(p=port, fd=fd) for step in ACCEPT]
        came = set()
        for i in order:
            start, end = PIECES[i]
            came.update(range(start, end))
            is_last = has_fin and end == 301
            fin_came = has_fin and 300 in came
            ack = next(n for n in itertools.count(1) if n not in came)
            ack += fin_came and ack == 301
            out.append("< :%d %s" % (port, segment("FP." if is_last else "P.", start,
                                                   end - start, 1)))
            out.append("+0~+0.05 > :%d . 1:1(0) ack %d" % (port, ack))
        out.append("read(%d, 1000) = 300" % fd)
        out.append("read(%d, 1000) = %s" % (fd, "0" if has_fin else "-1 EAGAIN"))
        last = 302 if has_fin else 301
        out.append("< :%d R %d:%d(0) win 0" % (port, last, last))
        out.append("close(%d) = 0" % fd)
        port, fd = port + 1, fd + 1
    return "\n".join(out) + "\n"


def make(folder):
    def write(name, text):
        with open(os.path.join(folder, name + ".pkt"), "w") as f:
            f.write(text)

    for state in STATES:
        if any(not is_left_out(state, k[0], p) for k in KINDS for p in PLACES):
            write("state_" + state.name.lower(), state_script(state))
    orders = list(itertools.permutations(range(5)))
    for part in range(4):
        for has_fin in (False, True):
            name = "orders_%d%s" % (part + 1, "_fin" if has_fin else "")
            write(name, order_script(orders[part * 30:part * 30 + 30], has_fin))


def main():
    if sys.argv[1] == "--into":
        make(sys.argv[2])
        return 0
    with tempfile.TemporaryDirectory() as folder:
        make(folder)
        return subprocess.run([sys.argv[1], *sys.argv[2:], folder]).returncode


sys.exit(main())
