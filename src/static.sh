#!/bin/sh
# SPDX-License-Identifier: MIT
# src/static.sh PARTS OUT OBJCOPY AR CC... - libosf.a of one object
#
# Names that are not the API's become local, so they cannot clash with the program's.
# A program that also links libibverbs.a has its functions, which lead to ours.
set -e
parts=$1 out=$2 objcopy=$3 ar=$4
shift 4
"$@" -r -nostdlib -o "$out.o" -Wl,--whole-archive "$parts" -Wl,--no-whole-archive
"$objcopy" --localize-hidden --weaken-symbol=ibv_reg_mr \
	--weaken-symbol=ibv_reg_mr_iova2 --weaken-symbol=ibv_dereg_mr "$out.o"
rm -f "$out"
"$ar" rcs "$out" "$out.o"
rm -f "$out.o"
