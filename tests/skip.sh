#!/bin/sh
# SPDX-License-Identifier: MIT
#
# tests/skip.sh WHY [PACKAGE] - stands in for a test that cannot be built or run here
#
# PACKAGE is the Debian package that has what is missing, if one has.
echo "skip: $1${2:+ (Debian package $2)}"
exit 77
