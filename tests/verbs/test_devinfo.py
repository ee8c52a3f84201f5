#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""
tests/verbs/test_devinfo.py - `ibv_devinfo -v' of osf0: each line is true

    test_devinfo.py [TEST_LIMITS]

Addresses, GUID and MTU are those of the first network interface that is up, as `ip' tells them.
The other lines have one value each.  TEST_LIMITS (test_limits.c) tries the limits among them: that
they can be reached, and not passed.  A line that is not known here is wrong.  The same holds beside
another device (tests/vm).
"""
import ipaddress
import json
import os
import re
import subprocess
import sys

from programs import BUILD, OSF, need

# What test_limits.c tries.
LIMITS = {
    "page_size_cap": "0xfffff000", "max_mr_size": "0xffffffffffffffff", "max_qp": "1024", "max_qp_wr": "16384", "max_sge": "16",
    "max_sge_rd": "16", "max_cq": "4096", "max_cqe": "1048576", "max_mr": "16384", "max_pd": "65536", "max_qp_rd_atom": "16",
    "max_res_rd_atom": "16384", "max_qp_init_rd_atom": "16", "max_mw": "16384", "max_mcast_grp": "128",
    "max_mcast_qp_attach": "128", "max_total_mcast_qp_attach": "128", "max_ah": "65536", "max_srq": "65536",
    "max_srq_wr": "16384", "max_srq_sge": "16", "completion timestamp_mask": "0xffffffffffffffff",
    "hca_core_clock": "1000000kHZ", "maximum available device memory": "1048576Bytes", "num_comp_vectors": "1",
    "max_msg_sz": "0x40000000",
}
# What it is, and what it has: test_transitions, verbs_golden, test_windows, test_xrc.
ABOUT = {
    "hca_id": "osf0", "transport": "InfiniBand (0)", "fw_ver": "osf", "vendor_id": "0x6f7366", "vendor_part_id": "1",
    "hw_ver": "0x0", "phys_port_cnt": "1", "device_cap_flags": "0x01121880", "device_cap_flags_ex": "0x1121880",
    "atomic_cap": "ATOMIC_HCA (1)", "max_pkeys": "1", "local_ca_ack_delay": "15", "port": "1", "state": "PORT_ACTIVE (4)",
    "max_mtu": "4096 (5)", "link_layer": "Ethernet", "port_cap_flags": "0x04010000", "port_cap_flags2": "0x0000",
    "max_vl_num": "1 (1)", "pkey_tbl_len": "1", "gid_tbl_len": "16", "active_width": "4X (2)", "active_speed": "25.0 Gbps (32)",
    "phys_state": "LINK_UP (5)",
}
FLAGS = {"CURR_QP_STATE_MOD", "SYS_IMAGE_GUID", "RC_RNR_NAK_GEN", "MEM_WINDOW", "XRC", "MEM_WINDOW_TYPE_2B", "NO SUPPORT"}
# RoCE has no subnet manager, LID or service level; the others do not exist here and are refused.
NONE = {
    "sm_lid", "port_lid", "port_lmc", "sm_sl", "subnet_timeout", "init_type_reply", "bad_pkey_cntr", "qkey_viol_cntr", "max_ee_rd_atom",
    "max_ee_init_rd_atom", "max_ee", "max_rdd", "max_raw_ipv6_qp", "max_raw_ethy_qp", "max_fmr", "max_tso",
    "max_rwq_indirection_tables", "max_rwq_indirection_table_size", "rx_hash_function", "rx_hash_fields_mask", "max_wq_type_rq",
    "qp_rate_limit_min", "qp_rate_limit_max",
}
TITLES = {"general_odp_caps", "rc_odp_caps", "uc_odp_caps", "ud_odp_caps", "xrc_odp_caps", "tso_caps", "rss_caps",
          "packet_pacing_caps", "tag matching not supported", ""}


def first_interface():
    """Return: what `ip' says of the one that osf0 describes itself by."""
    links = json.loads(subprocess.run(["ip", "-j", "addr"], stdout=subprocess.PIPE, check=True).stdout)
    up = [link for link in links if "UP" in link["flags"] and "LOOPBACK" not in link["flags"] and
          any(a["family"] == "inet" for a in link["addr_info"])]
    return up[0] if up else next(link for link in links if "LOOPBACK" in link["flags"])


def expected_of(link):
    """Return: GUID, active MTU and GIDs."""
    mac = [int(byte, 16) for byte in link["address"].split(":")]
    mac = mac if any(mac) else [2, 0, 0, 0, 0, 1]
    eui = bytes([mac[0] ^ 2, mac[1], mac[2], 0xff, 0xfe, *mac[3:]])
    guid = eui[:3] + b"os" + eui[5:]
    gids = [ipaddress.IPv6Address(b"\xfe\x80" + bytes(6) + eui)]
    for family in ("inet", "inet6"): # in the order of getifaddrs()
        gids += [ipaddress.ip_address(("::ffff:" if family == "inet" else "") + a["local"])
                 for a in link["addr_info"] if a["family"] == family and a["scope"] != "link"]
    mtu = max(m for m in (256, 512, 1024, 2048, 4096) if m == 256 or m + 108 <= link["mtu"])
    return ":".join(guid.hex()[i:i + 4] for i in range(0, 16, 4)), mtu, gids


def wrong_lines(text):
    """Return: what is not so, and how many lines have been judged."""
    guid, mtu, gids = expected_of(first_interface())
    want = {**LIMITS, **ABOUT, "node_guid": guid, "sys_image_guid": guid,
            "active_mtu": "%d (%d)" % (mtu, mtu.bit_length() - 8)}
    lines = [line.strip() for line in text.split("\n")]
    wrong, seen, listed = [], [], []
    for line in lines:
        name, _, value = (part.strip() for part in line.partition(":"))
        gid = re.fullmatch(r"GID\[ *(\d+)\]:\s+(\S+), RoCE v2", line)
        if gid:
            listed.append(ipaddress.IPv6Address(gid.group(2)))
        elif name in want and value == want[name] or name in NONE and re.match("0(x0*)?(kbps)?$", value) or \
                not value and (name in TITLES or name in FLAGS):
            seen.append(name)
        else:
            wrong.append(line)
    wrong += ["not there: " + name for name in [*want, *NONE] if name not in seen]
    if listed != gids:
        wrong.append("GIDs %s, wanted %s" % (listed, gids))
    return wrong, len(seen) + len(listed)


def main():
    need("ibv_devinfo", "ibverbs-utils")
    run = [OSF, "run", "--"]
    text = subprocess.run(run + ["ibv_devinfo", "-v", "-d", "osf0"], stdout=subprocess.PIPE, text=True, check=True).stdout
    wrong, n = wrong_lines(text)
    print("%d lines, %d wrong" % (n, len(wrong)), *wrong, sep="\n  ")
    status = subprocess.run(run + (sys.argv[1:] or [os.path.join(BUILD, "tests/test_limits")]), check=False).returncode
    sys.exit(1 if wrong or status else 0)


main()
