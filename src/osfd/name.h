/* SPDX-License-Identifier: MIT */
/* osfd/name.h - where osfd listens, behind a zero byte: each network namespace has its
 * own abstract names */
#pragma once

#define OSFD_NAME "osf/osfd"
