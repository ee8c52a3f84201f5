#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""
tests/trust/test_drop_apache.py - Apache as root, with workers of another user: processes
(mpm_prefork), and processes with threads (mpm_event)

The workers share no memory with the root process.  A client of their user meets them in
shared memory, and a client of root does not; both get the right bytes.  Then the server is
told to replace its workers while connections are open (graceful).
"""
import os
import signal

import dropping

MODULES = "/usr/lib/apache2/modules"
CONFIG = """
ServerRoot %(tmp)s
ServerName localhost
Listen 127.0.0.1:%(port)d
PidFile %(tmp)s/httpd.%(mpm)s.pid
ErrorLog %(tmp)s/error.%(mpm)s.log
Mutex file:%(tmp)s default
DefaultRuntimeDir %(tmp)s
LoadModule mpm_%(mpm)s_module %(modules)s/mod_mpm_%(mpm)s.so
LoadModule authz_core_module %(modules)s/mod_authz_core.so
User %(user)s
Group %(user)s
StartServers 2
DocumentRoot %(tmp)s/www
<Directory %(tmp)s/www>
    Require all granted
</Directory>
"""


def one(drop, mpm):
    port = dropping.harness.free_port()
    path = drop.run.path("httpd.%s.conf" % mpm)
    with open(path, "w") as f:
        f.write(CONFIG % {"tmp": drop.run.tmp, "port": port, "mpm": mpm, "modules": MODULES,
                          "user": drop.user.pw_name})
    before = drop.upgraded()
    command = ["apache2", "-DFOREGROUND", "-f", path]
    drop.learn(command, port)  # its scoreboard
    server = drop.serve(command, port)
    drop.fetch(port, as_user=False)
    drop.run.need(drop.upgraded() == before, "root shared memory with a worker")
    drop.fetch(port, as_user=True)
    drop.judge()
    server.popen.send_signal(signal.SIGUSR1)  # graceful
    drop.fetch(port, as_user=True)
    drop.fetch(port, as_user=False)
    drop.judge()


def main():
    drop = dropping.Drop(__file__, ["apache2", "curl"], "www-data")
    if not os.path.isdir(MODULES):
        dropping.harness.skip("no modules of Apache in " + MODULES)
    os.mkdir(drop.run.path("www"), 0o755)
    dropping.harness.make_file(drop.run.path("www/file"), 300000)
    for mpm in ("prefork", "event"):
        one(drop, mpm)
    drop.done(least=2)


main()
