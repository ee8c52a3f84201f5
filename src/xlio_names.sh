#!/bin/sh
# SPDX-License-Identifier: MIT
# src/xlio_names.sh LIBOSF - C source in which each name of the XLIO API is a function
#
# For libxlio.so: a program is linked with it and records its name.  None of these
# functions runs, because DT_FILTER has the loader look into libosf.so first.
echo '/* made by src/xlio_names.sh */'
nm -D --defined-only "$1" | sed -n 's/.* T \(\(xlio\|osf\|ibv\)_[a-z0-9_]*\)$/void \1(void); void \1(void) { __builtin_trap(); }/p'
