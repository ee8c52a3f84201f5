/* SPDX-License-Identifier: MIT */
/* api/verbs/driver/no_faults.c - osf-loop: nothing fails on purpose */
#include "api/verbs/driver/loop.h"

const char loop_name[] = "loop0";

int loop_faults_init(void) { return 0; }

enum loop_fault loop_fault_of_send_locked(void) { return LOOP_FINE; }

bool loop_fault_of_memory(void) { return false; }
