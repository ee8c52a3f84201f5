/* SPDX-License-Identifier: MIT */
/* sock/port_sends.c - see sock/port_sends.h */
#include "sock/port_sends.h"

uint64_t sock_port_sends;
