#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""
tests/trust/test_drop_nginx.py - nginx's master is root and its workers are not

The workers share no memory with the master.  A client of the workers' user meets them in
shared memory, and a client of root does not; both get the right bytes.
"""
import os

import dropping

CONFIG = """
daemon off;
worker_processes 2;
user %(user)s;
pid %(tmp)s/nginx.pid;
error_log %(tmp)s/error.log warn;
events { worker_connections 64; }
http {
    access_log off;
    client_body_temp_path %(tmp)s/body;
    proxy_temp_path %(tmp)s/proxy;
    fastcgi_temp_path %(tmp)s/fastcgi;
    uwsgi_temp_path %(tmp)s/uwsgi;
    scgi_temp_path %(tmp)s/scgi;
    server { listen 127.0.0.1:%(port)d; root %(tmp)s/www; }
}
"""


def main():
    drop = dropping.Drop(__file__, ["nginx", "curl"], "www-data")
    run = drop.run
    port = dropping.harness.free_port()
    for folder in ("www", "body"):
        os.mkdir(run.path(folder), 0o755)
    dropping.harness.make_file(run.path("www/file"), 300000)
    with open(run.path("nginx.conf"), "w") as f:
        f.write(CONFIG % {"user": drop.user.pw_name, "tmp": run.tmp, "port": port})
    drop.serve(["nginx", "-p", run.tmp, "-e", run.path("error.log"), "-c",
                run.path("nginx.conf")], port)
    drop.fetch(port, as_user=False)
    run.need(not drop.upgraded(), "root shared memory with a worker")
    drop.fetch(port, as_user=True)
    drop.judge()
    drop.done()


main()
