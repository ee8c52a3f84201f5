#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""
tests/app/test_nginx.py - nginx with two workers: wrk, curl with and without
keep-alive, ranges, large files with and without sendfile, and uploads through a
proxy to another server of the same nginx
"""
import os
import pwd

import harness

GB = 1 << 30

CONFIG = """
daemon off;
worker_processes 2;
user %(user)s;
pid %(tmp)s/nginx.pid;
error_log %(tmp)s/error.log warn;
events { worker_connections 512; }
http {
    access_log off;
    client_max_body_size 0;
    client_body_temp_path %(tmp)s/body;
    proxy_temp_path %(tmp)s/proxy;
    fastcgi_temp_path %(tmp)s/fastcgi;
    uwsgi_temp_path %(tmp)s/uwsgi;
    scgi_temp_path %(tmp)s/scgi;
    keepalive_requests 1000000;
    upstream back { server 127.0.0.1:%(back)d; keepalive 8; }
    server {
        listen 127.0.0.1:%(on)d;
        root %(tmp)s/www;
        sendfile on;
        tcp_nopush on;
    }
    server {
        listen 127.0.0.1:%(off)d;
        root %(tmp)s/www;
        sendfile off;
    }
    server {
        listen 127.0.0.1:%(front)d;
        location / {
            proxy_pass http://back;
            proxy_http_version 1.1;
            proxy_set_header Connection "";
            proxy_request_buffering off;
        }
    }
    server {
        listen 127.0.0.1:%(back)d;
        root %(tmp)s/up;
        location / { dav_methods PUT DELETE; }
    }
}
"""


def nginx_start(run):
    names = ("on", "off", "front", "back")
    ports = {name: harness.free_port() for name in names}
    for folder in ("www", "up", "body", "proxy"):
        os.mkdir(run.path(folder))
        os.chmod(run.path(folder), 0o777)
    with open(run.path("nginx.conf"), "w") as f:
        f.write(CONFIG % dict(ports, tmp=run.tmp,
                              user=pwd.getpwuid(os.getuid()).pw_name))
    server = run.start(["nginx", "-p", run.tmp, "-e", run.path("error.log"),
                        "-c", run.path("nginx.conf")])
    for name in names:
        run.wait_port(ports[name])
    return server, ports


def test_wrk(run, port):
    for args in (["-c", "16"], ["-c", "1", "-t", "1"],
                 ["-c", "8", "-H", "Connection: close"]):
        text = run.check(["wrk", "-t", "1", "-d", "2"] + args +
                         ["http://127.0.0.1:%d/small" % port])
        run.need("Socket errors" not in text and "Non-2xx" not in text and
                 "requests in" in text, "wrk %s:\n%s" % (args, text))


def test_curl(run, port):
    url = "http://127.0.0.1:%d/" % port
    with open(run.path("www/middle"), "rb") as f:
        middle = f.read()
    out = run.path("got")
    # One connection for many requests.
    urls = []
    for i in range(30):
        urls += [url + "middle", "-o", out + str(i)]
    text = run.check(["curl", "-sS", "-f", "-w", "%{num_connects}"] + urls)
    run.need(text == "1" + "0" * 29, "keep-alive: connections %s" % text)
    for i in range(30):
        with open(out + str(i), "rb") as f:
            run.need(f.read() == middle, "answer %d differs" % i)
    for args in ([], ["--http1.0"], ["-H", "Connection: close"]):
        got = run.check(["curl", "-sS", "-f"] + args + [url + "middle"],
                        text=False)
        run.need(got == middle, "curl %s differs" % args)
    for start, end in ((0, 0), (1000, 1999), (65535, 65537), (99999, 299999)):
        got = run.check(["curl", "-sS", "-f", "-r", "%d-%d" % (start, end),
                         url + "middle"], text=False)
        run.need(got == middle[start:end + 1], "range %d-%d" % (start, end))
    text = run.check(["curl", "-sS", "-o", "/dev/null", "-w", "%{http_code}",
                      url + "none"])
    run.need(text == "404", "code %s for a missing file" % text)


def test_large(run, port, name, size, digest):
    out = run.path("large.got")
    run.check(["curl", "-sS", "-f", "-o", out,
               "http://127.0.0.1:%d/%s" % (port, name)])
    run.need(os.path.getsize(out) == size and harness.sha256(out) == digest,
             "%s from port %d differs" % (name, port))
    os.unlink(out)


def test_upload(run, ports):
    src = run.path("www/upload")
    harness.make_file(src, 60 << 20, 3)
    for port in (ports["back"], ports["front"]):
        code = run.check(["curl", "-sS", "-f", "-T", src, "-w",
                          "%{http_code}",
                          "http://127.0.0.1:%d/up-%d" % (port, port)])
        run.need(code in ("201", "204"), "upload: code %s" % code)
        run.need(harness.sha256(run.path("up/up-%d" % port)) ==
                 harness.sha256(src), "upload at port %d differs" % port)
    test_large(run, ports["front"], "up-%d" % ports["back"], 60 << 20,
               harness.sha256(src))


def main():
    run = harness.Run(__file__, ["nginx", "wrk", "curl"])
    server, ports = nginx_start(run)
    harness.make_file(run.path("www/small"), 300)
    harness.make_file(run.path("www/middle"), 300000)
    large = harness.make_file(run.path("www/large"), GB, 2)
    digest = harness.sha256(large)
    test_wrk(run, ports["on"])
    test_wrk(run, ports["off"])
    test_curl(run, ports["on"])
    test_curl(run, ports["off"])
    test_large(run, ports["on"], "large", GB, digest)
    test_large(run, ports["off"], "large", GB, digest)
    test_upload(run, ports)
    run.need(server.popen.poll() is None, "nginx ended")
    with open(run.path("error.log")) as f:
        text = f.read()
    run.need("[crit]" not in text and "[alert]" not in text and
             "[emerg]" not in text, "error log:\n" + text)
    run.expect_offloaded(10, GB)
    run.done()


main()
