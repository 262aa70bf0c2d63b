"""test_remote.py PROGRAM PLUGIN - models of other machines: a hub and a file server on the loopback, made here, that do what servers do.

Each answer of the program is compared with the answer for the same files on the disk. No other network is used. The servers count requests
and keep the headers that they saw: the token has to be with the hub alone.
"""
import http.server
import json
import os
import shutil
import ssl
import struct
import subprocess
import sys
import tempfile
import threading
import time

PROGRAM, PLUGIN = os.path.abspath(sys.argv[1]), os.path.abspath(sys.argv[2])
FOLDER = tempfile.mkdtemp(prefix="remote-")
TMP = os.path.join(FOLDER, "tmp")
SHA = "4f1c0123456789abcdef"
TOKEN = "hf_secretSECRETsecret"
WRONG = []


def check(right, what):
    if not right:
        WRONG.append(what)
        print("WRONG:", what, file=sys.stderr)


# ---- files ----

def write_safetensors(path, tensors):
    header, data, at = {"__metadata__": {"format": "pt"}}, b"", 0
    for name, (dtype, shape, raw) in tensors.items():
        header[name] = {"dtype": dtype, "shape": list(shape), "data_offsets": [at, at + len(raw)]}
        at += len(raw)
        data += raw
    text = json.dumps(header).encode()
    text += b" " * (-(8 + len(text)) % 64)
    with open(path, "wb") as f:
        f.write(struct.pack("<Q", len(text)) + text + data)


def f16(n, seed):
    raw, x = bytearray(), seed * 2654435761 % 2**32
    for _ in range(n):
        x = (x * 1664525 + 1013904223) % 2**32
        raw += struct.pack("<e", (x / 2**32 - 0.5) / 8)
    return bytes(raw)


CONFIG = {"model_type": "llama", "architectures": ["LlamaForCausalLM"], "hidden_size": 64, "intermediate_size": 128, "num_hidden_layers": 2,
          "num_attention_heads": 4, "num_key_value_heads": 2, "vocab_size": 96, "rms_norm_eps": 1e-5, "tie_word_embeddings": False,
          "max_position_embeddings": 64, "rope_theta": 10000.0, "torch_dtype": "float16"}


def make_model(path):
    """A small llama in three shards."""
    os.makedirs(path)
    h, i, kv = 64, 128, 32
    parts = [{"model.embed_tokens.weight": (96, h)}, {}, {"model.norm.weight": (h,), "lm_head.weight": (96, h)}]
    for n in range(2):
        for name, shape in (("self_attn.q_proj", (h, h)), ("self_attn.k_proj", (kv, h)), ("self_attn.v_proj", (kv, h)), ("self_attn.o_proj", (h, h)),
                            ("mlp.gate_proj", (i, h)), ("mlp.up_proj", (i, h)), ("mlp.down_proj", (h, i)), ("input_layernorm", (h,)), ("post_attention_layernorm", (h,))):
            parts[n]["model.layers.%d.%s.weight" % (n, name)] = shape
    index = {}
    for k, part in enumerate(parts):
        name = "model-%05d-of-00003.safetensors" % (k + 1)
        tensors = {}
        for m, (t, shape) in enumerate(part.items()):
            count = shape[0] * (shape[1] if len(shape) == 2 else 1)
            tensors[t] = ("F16", shape, f16(count, 100 * k + m + 1))
            index[t] = name
        write_safetensors(os.path.join(path, name), tensors)
    with open(os.path.join(path, "model.safetensors.index.json"), "w") as f:
        json.dump({"metadata": {"total_size": 1}, "weight_map": index}, f)
    with open(os.path.join(path, "config.json"), "w") as f:
        json.dump(CONFIG, f)
    os.makedirs(os.path.join(path, "extra"))
    with open(os.path.join(path, "extra", "notes #1.txt"), "w") as f:
        f.write("a file of the model\n")


# ---- servers ----

class Server:
    """Files below `root`; `how` says what it does wrong, by path or for all."""

    def __init__(self, root, **how):
        self.root, self.how, self.requests, self.n_bytes = root, how, [], 0
        server = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def log_message(self, *args):
                pass

            def do_GET(self):
                server.requests.append((self.path, dict(self.headers)))
                try:
                    server.answer(self)
                except (BrokenPipeError, ConnectionResetError):
                    self.close_connection = True

        self.http = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.http.daemon_threads = True
        self.url = "%s:%d" % ("https://localhost" if "certificate" in how else "http://127.0.0.1", self.http.server_address[1])
        if "certificate" in how:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(*how["certificate"])
            self.http.socket = context.wrap_socket(self.http.socket, server_side=True)
        threading.Thread(target=self.http.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True).start()

    def close(self):
        self.http.shutdown()
        self.http.server_close()

    def say(self, h, status, body=b"", headers=()):
        h.send_response(status)
        for name, value in headers:
            if value:
                h.send_header(name, value)
        if not any(n == "Content-Length" for n, _ in headers):
            h.send_header("Content-Length", str(len(body)))
        h.end_headers()
        h.wfile.write(body)
        self.n_bytes += len(body)

    def list(self):
        found = []
        for folder, _, names in os.walk(self.root):
            for n in names:
                path = os.path.join(folder, n)
                found.append({"rfilename": os.path.relpath(path, self.root), "size": os.path.getsize(path)})
        return {"id": "o/n", "sha": SHA, "siblings": sorted(found, key=lambda f: f["rfilename"])}

    def answer(self, h):
        how, n = self.how, len(self.requests)
        if how.get("token") and h.headers.get("Authorization") != "Bearer " + how["token"]:
            return self.say(h, 401, b"who are you")
        if how.get("statuses"):
            status = how["statuses"].pop(0)
            if status != 200:
                return self.say(h, status, b"x" * 100, [("Retry-After", "0" if len(how["statuses"]) % 2 else "Mon, 30 Nov 2099 10:00:00 GMT")] if status == 429 else [])
        path = h.path.split("?")[0]
        if path.startswith("/api/models/o/n/revision/") and path.split("/", 6)[6] in ("main", "v1.0", "refs%2Fpr%2F1", "a%2Fb"):
            text = json.dumps(how.get("list") or self.list()).encode()
            if how.get("endless_list"):
                h.send_response(200)
                h.end_headers()
                h.close_connection = True
                while True:
                    h.wfile.write(b" " * 1000000)
            return self.say(h, 200, text)
        if path.startswith("/o/n/resolve/"):
            if path.split("/")[4] != SHA:
                return self.say(h, 404)
            path = "/" + path.split("/", 5)[5]
            if how.get("away"):  # a redirect in some form of reference
                return self.say(h, 307, b"", [("Location", how["away"] % path.lstrip("/"))])
            if how.get("cdn"):
                return self.say(h, 302, b"", [("Location", how["cdn"] + path + "?signature=SECRETSIGNATURE")])
        path = path.replace("%20", " ").replace("%23", "#")
        file = os.path.join(self.root, path.lstrip("/"))
        if not os.path.isfile(file):
            return self.say(h, 404, b"no such file")
        with open(file, "rb") as f:
            whole = f.read()
        self.file(h, whole, n)

    def file(self, h, whole, n):
        how = self.how
        begin, end, status = 0, len(whole), 200
        asked = h.headers.get("Range")
        headers = [("ETag", '"%s"' % (how.get("etag") or "one"))] if how.get("etag") != "none" else []
        if how.get("dated"):
            headers = [("Last-Modified", "Mon, 30 Nov 2026 10:00:00 GMT")]
        if how.get("changes") and n > how["changes"]:
            headers = [("Last-Modified", "Mon, 30 Nov 2026 10:00:01 GMT")] if how.get("dated") else [("ETag", '"two"')]
        if asked and how.get("ranges", True):
            a, b = asked.split("=")[1].split("-")
            begin, end, status = int(a), min(int(b) + 1, len(whole)), 206
            if how.get("shifted"):
                begin += 1
            headers.append(("Content-Range", "bytes %d-%d/%d" % (begin, end - 1, len(whole) + how.get("longer", 0))))
        body = whole[begin:end]
        if how.get("encoded"):
            headers.append(("Content-Encoding", "gzip"))
        if how.get("endless"):
            h.send_response(status)
            for name, value in headers:
                h.send_header(name, value)
            h.end_headers()
            h.close_connection = True
            while True:
                h.wfile.write(b"x" * 1000000)
        if how.get("cut") and len(body) > how["cut"]:
            self.say(h, status, body[:how["cut"]], headers + [("Content-Length", str(len(body)))])
            h.close_connection = True
            h.connection.close()
            return None
        if how.get("slow"):
            time.sleep(how["slow"])
        if how.get("crumbs"):
            body = body[:how["crumbs"]]
        if how.get("early"):  # an answer before the answer, which says nothing of the file
            h.wfile.write(b'HTTP/1.1 103 Early Hints\r\nETag: "other"\r\nContent-Encoding: gzip\r\nLocation: /x\r\n\r\n')
        if how.get("chunked"):
            body = b"%x\r\n%s\r\n0\r\n\r\n" % (len(body), body)
            headers += [("Transfer-Encoding", "chunked"), ("Content-Length", "")]
        self.say(h, status, body, headers)


def run(*args, env=None, timeout=120):
    e = {k: v for k, v in os.environ.items() if not k.startswith("HF_") and not k.lower().endswith("_proxy")}
    e.update(VCOMPRESS_HTTP_PATH=PLUGIN, VCOMPRESS_HTTP_RETRY="0.01", TMPDIR=TMP, HOME=FOLDER, XDG_CACHE_HOME=FOLDER + "/cache", NO_PROXY="*")
    e.update(env or {})
    p = subprocess.run([PROGRAM, *args], env=e, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=timeout)
    out, err = p.stdout.decode("utf-8", "replace"), p.stderr.decode("utf-8", "replace")
    check(TOKEN not in out + err and "SECRETSIGNATURE" not in out + err, "a secret is printed: %s" % (args,))
    check(os.listdir(TMP) == [], "files are left: %s: %s" % (args, os.listdir(TMP)))
    return p.returncode, out, err


def refused(rc, sentence, result, what):
    check(result[0] == rc and sentence in result[2] and result[2].count("\n") == 1, "%s: exit %d: %s" % (what, result[0], result[2].strip()))


def like_disk(args, remote, disk, env, what):
    """The same answer but for the name; a document without its times."""
    a = run(*[remote if x == "M" else x for x in args], env=env)
    b = run(*[disk if x == "M" else x for x in args])
    check(a[0] == 0 and b[0] == 0 and a[1].replace(remote, "M") == b[1].replace(disk, "M"), "%s: %s: %d %s" % (what, " ".join(args), a[0], a[2] or "another answer"))


def main():
    os.makedirs(TMP)
    disk = os.path.join(FOLDER, "n")
    make_model(disk)
    hub = Server(disk)
    env = {"HF_ENDPOINT": hub.url}

    # The answers of the five commands, by a hub and by addresses.
    for args in (["inspect", "M"], ["inspect", "--json", "M"], ["fit", "--gpu", "RTX 4090", "M"], ["estimate", "M"], ["plan", "--gpu", "RTX 4090", "M"], ["graph", "M"]):
        like_disk(args, "hf:o/n", disk, env, "hub")
    like_disk(["inspect", "M"], "hf://o/n", disk, env, "hf://")
    for revision in ("v1.0", "refs/pr/1", "a%2Fb"):
        like_disk(["inspect", "M"], "hf:o/n@" + revision, disk, env, "revision")
    like_disk(["inspect", "M"], "hf:o/n@refs/pr/1/model-00002-of-00003.safetensors", disk + "/model-00002-of-00003.safetensors", env, "one file of a revision")
    like_disk(["inspect", "M"], "hf:o/n/model-00002-of-00003.safetensors", disk + "/model-00002-of-00003.safetensors", env, "one file")
    like_disk(["inspect", "M"], hub.url + "/model-00002-of-00003.safetensors", disk + "/model-00002-of-00003.safetensors", {}, "address")
    like_disk(["fit", "--gpu", "RTX 4090", "M"], hub.url + "/model.safetensors.index.json", disk + "/model.safetensors.index.json", {}, "index")
    hub.requests.clear()
    result = run("fit", "-v", "--gpu", "RTX 4090", "hf:o/n", env=env)
    check(result[0] == 0 and "%d requests" % len(hub.requests) in result[2] and len(hub.requests) <= 6, "%d requests: %s" % (len(hub.requests), result[2]))

    # What is behind '?' goes with the file's requests and stands in no answer; the hub's addresses get its token, and no proxy sees what is for this machine.
    one = "/model-00002-of-00003.safetensors"
    own = Server(disk, token=TOKEN)
    for args in (["inspect", "M"], ["quantize", "--int8", "--layout", "plain", "--dry-run", "--remote", "M", "-o", "x.safetensors"]):
        given = own.url + "/o/n/resolve/" + SHA + one + "?download=true&SECRETSIGNATURE#x"
        a = run(*[given if x == "M" else x for x in args], env={"HF_ENDPOINT": own.url, "HF_TOKEN": TOKEN, "http_proxy": "http://127.0.0.1:9", "NO_PROXY": ""})
        b = run(*[disk + one if x == "M" else x for x in args])
        check(a[0] == 0 and a[1].replace(given.split("?")[0], disk + one) == b[1], "a query: %d %s" % (a[0], a[2]))
    check(any(p.endswith("?download=true&SECRETSIGNATURE") for p, _ in own.requests), "the query is not sent")
    refused(4, "wants a token", run("inspect", given, env={"HF_ENDPOINT": own.url, "HF_TOKEN": TOKEN, "HF_HUB_DISABLE_IMPLICIT_TOKEN": "true"}), "no implicit token")
    own.requests.clear()
    refused(4, "wants a token", run("inspect", given, env={"HF_TOKEN": TOKEN}), "no address of the hub")
    check(all("Authorization" not in h for _, h in own.requests), "the token goes to another host")
    own.close()
    for form in ("../../../../%s", "/%s", "//HOST/%s", "?again=%s", "http://localhost:80@127.0.0.2:9/%s"):
        server = Server(disk)
        server.how["away"] = form.replace("HOST", server.url[len("http://"):])
        if form[0] in "?h":
            refused(4, "too many redirects" if form[0] == "?" else "a redirect that is not followed", run("inspect", "hf:o/n" + one, env={"HF_ENDPOINT": server.url}), form)
        else:
            like_disk(["inspect", "M"], "hf:o/n" + one, disk + one, {"HF_ENDPOINT": server.url}, form)
        server.close()

    # Weights stream: the same bytes as from the disk.
    for k, args in enumerate((["quantize", "--int8"], ["convert"], ["run", "--pass", "prune --sparsity 0.5", "--pass", "quantize --int4 --min-elements 1"])):
        outs = [os.path.join(FOLDER, "out%d-%s" % (k, w)) for w in "ab"]
        a = run(*args, "--remote", "hf:o/n", "-o", outs[0], env=env)
        b = run(*args, disk, "-o", outs[1])
        check((a[0], b[0]) == (0, 0), "%s: %s%s" % (args, a[2], b[2]))
        names = [sorted(os.path.relpath(os.path.join(d, f), o) for d, _, fs in os.walk(o) for f in fs) for o in outs]
        check(names[0] == names[1] and any("notes" in n for n in names[0]), "%s: other files: %s" % (args, names))
        for n in names[0]:
            with open(os.path.join(outs[0], n), "rb") as x, open(os.path.join(outs[1], n), "rb") as y:
                check(x.read() == y.read() or n == ".vcompress.json", "%s: %s has other bytes" % (args, n))
    refused(2, "with --remote", run("quantize", "--int8", "hf:o/n", "-o", FOLDER + "/no", env=env), "not asked for")
    result = run("hf:o/n", env=env)
    check(result[0] == 0 and "the graph is known" in result[1], "the bare command: %d %s" % (result[0], result[2]))
    refused(2, "with --remote", run("verify", "hf:o/n", env=env), "verify")
    refused(2, "needs a name for the output", run("quantize", "--int8", "--remote", "hf:o/n", env=env), "no name")

    # Names.
    refused(2, "hf:OWNER/NAME", run("inspect", "hf:n", env=env), "no owner")
    refused(2, "hf:OWNER/NAME", run("inspect", "hf:../n", env=env), "owner ..")
    refused(4, "no such model", run("inspect", "hf:o/other", env=env), "404")
    refused(4, "No such file", run("inspect", "hf:o/n/none.gguf", env=env), "no such file of it")
    refused(3, "only https", run("inspect", "http://example.invalid/model.gguf"), "http")
    refused(3, "only https", run("inspect", "hf:o/n", env={"HF_ENDPOINT": "http://example.invalid"}), "http of the hub")
    refused(3, "names and passwords", run("inspect", "https://me:word@example.invalid/model.gguf"), "password")
    refused(4, "HF_HUB_OFFLINE", run("inspect", "hf:o/n", env=dict(env, HF_HUB_OFFLINE="1")), "offline")
    refused(4, "could not be loaded", run("inspect", "hf:o/n", env=dict(env, VCOMPRESS_HTTP_PATH=FOLDER)), "no plug-in")

    # The token: for the hub's origin alone, by the variable or the file.
    cdn = Server(disk)
    own = Server(disk, cdn=cdn.url, token=TOKEN)
    env = {"HF_ENDPOINT": own.url + "/"}
    refused(4, "wants a token", run("inspect", "hf:o/n", env=env), "401")
    refused(4, "the token has no access", run("inspect", "hf:o/n", env=dict(env, HF_TOKEN="hf_other")), "another token")
    like_disk(["inspect", "M"], "hf:o/n", disk, dict(env, HF_TOKEN=TOKEN), "HF_TOKEN and redirects")
    os.makedirs(FOLDER + "/cache/huggingface")
    for path, more in ((FOLDER + "/cache/huggingface/token", {}), (FOLDER + "/token", {"HF_HOME": FOLDER}), (FOLDER + "/mine", {"HF_TOKEN_PATH": FOLDER + "/mine"})):
        with open(path, "w") as f:
            f.write(TOKEN + "\n")
        like_disk(["inspect", "M"], "hf:o/n", disk, dict(env, **more), path)
        os.remove(path)
    check(cdn.requests != [] and all("Authorization" not in h for _, h in cdn.requests), "the token goes to another host")
    check(all("Range" in h for _, h in cdn.requests), "a file is asked for whole")
    own.how.update(cdn="https://user@example.invalid/")
    own.close()
    loop = Server(disk)
    loop.how["cdn"] = loop.url + "/o/n/resolve/" + SHA
    refused(4, "too many redirects", run("inspect", "hf:o/n", env={"HF_ENDPOINT": loop.url}), "redirects")
    loop.close()
    cdn.close()

    # Certificates are checked, and the names in them; nothing leads from https to http.
    if shutil.which("openssl") is None:
        print("no openssl: certificates are not tried")
    else:
        def certificate(name, host):
            key, crt = os.path.join(FOLDER, name + ".key"), os.path.join(FOLDER, name + ".crt")
            subprocess.run(["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=" + host, "-addext", "subjectAltName=DNS:" + host,
                            "-keyout", key, "-out", crt], check=True, stderr=subprocess.DEVNULL)
            return crt, key

        right, other = certificate("right", "localhost"), certificate("other", "example.invalid")
        plain = Server(disk)
        for pair, trusted, cdn_url, sentence in ((right, right[0], None, None), (right, None, None, "certificate"), (other, other[0], None, "example.invalid"),
                                                 (right, right[0], plain.url, "a redirect that is not followed")):
            server = Server(disk, certificate=pair, cdn=cdn_url)
            env = {"HF_ENDPOINT": server.url, "HF_TOKEN": TOKEN}
            env.update({"SSL_CERT_FILE": trusted} if trusted else {})
            if sentence is None:
                like_disk(["inspect", "M"], "hf:o/n", disk, env, "https")
            else:
                result = run("inspect", "hf:o/n", env=env)
                check(result[0] == 4 and result[2].count("\n") == 1, "%s: exit %d: %s" % (sentence, *result[::2]))
                check(sentence in result[2] or pair is other, "%s: %s" % (sentence, result[2]))
            server.close()
        check(plain.requests == [], "https led to http")
        plain.close()

    # What servers do.
    def served(how, args=("inspect", "M"), env=None):
        server = Server(disk, **how)
        result = run(*["hf:o/n" if a == "M" else a for a in args], env=dict({"HF_ENDPOINT": server.url}, **(env or {})))
        server.close()
        return result, server

    for how in ({"statuses": [503, 200, 429, 500, 200, 502, 504, 200]}, {"cut": 100}, {"etag": "none"}, {"dated": True}, {"statuses": [429, 521, 429, 200]}, {"ranges": False}, {"early": True}):
        server = Server(disk, **how)
        like_disk(["inspect", "M"], "hf:o/n", disk, {"HF_ENDPOINT": server.url}, str(how))
        like_disk(["fit", "--gpu", "RTX 4090", "M"], "hf:o/n", disk, {"HF_ENDPOINT": server.url}, str(how))
        server.close()
    server = Server(disk, ranges=False, chunked=True)  # a file that comes whole is as long as what came
    like_disk(["inspect", "M"], server.url + one, disk + one, {}, "chunks")
    server.close()
    for how, rc, sentence in (({"statuses": [429] * 20}, 4, "too many requests"), ({"statuses": [503] * 20}, 4, "no answer after"), ({"statuses": [403]}, 4, "answers 403"),
                              ({"statuses": [418]}, 4, "answers 418"), ({"longer": 5}, 3, "was changed"),
                              ({"shifted": True}, 4, "another range"), ({"endless": True}, 4, "more bytes than were asked for"), ({"endless_list": True}, 3, "an answer of more than"),
                              ({"encoded": True}, 4, "compresses"), ({"crumbs": 7}, 4, "few bytes at a time"), ({"list": {"sha": SHA}}, 3, "no list of files"),
                              ({"list": {"siblings": [{"rfilename": "../x", "size": 1}]}}, 3, "leads elsewhere"), ({"list": {"siblings": [{"rfilename": "/etc/x", "size": 1}]}}, 3, "leads elsewhere"),
                              ({"list": {"siblings": [{"rfilename": "x"}]}}, 3, "no size"), ({"list": {"siblings": [{"rfilename": "x", "size": -1}]}}, 3, "no size")):
        result, server = served(how)
        refused(rc, sentence, result, str(how))
        check(len(server.requests) < 30, "%s: %d requests" % (how, len(server.requests)))
    result, server = served({"slow": 3}, env={"VCOMPRESS_HTTP_TIMEOUT": "1"})
    refused(4, "no answer after", result, "slow")

    # A large file: few requests and bytes, cut and continued; changed meanwhile nothing is written.
    big = os.path.join(FOLDER, "big")
    os.makedirs(big)
    raw = f16(1 << 16, 7)
    write_safetensors(big + "/model.safetensors", {"t%02d.weight" % i: ("F16", (1024, 1024), raw * 16) for i in range(12)})
    server = Server(big, cut=1500000)
    a = run("quantize", "--int8", "-v", "--remote", server.url + "/model.safetensors", "-o", FOLDER + "/big-a.safetensors")
    b = run("quantize", "--int8", big + "/model.safetensors", "-o", FOLDER + "/big-b.safetensors")
    check(a[0] == 0 and b[0] == 0, "big: %s%s" % (a[2], b[2]))
    with open(FOLDER + "/big-a.safetensors", "rb") as x, open(FOLDER + "/big-b.safetensors", "rb") as y:
        check(x.read() == y.read(), "big: other bytes")
    check(server.n_bytes < 1.3 * os.path.getsize(big + "/model.safetensors"), "big: %d bytes were read" % server.n_bytes)
    # Signed addresses that are no longer good are asked for again.
    server.how.clear()
    cdn = Server(big, statuses=[200, 403, 200, 200, 403])
    signing = Server(big, cdn=cdn.url)
    a = run("quantize", "--int8", "--remote", "hf:o/n/model.safetensors", "-o", FOLDER + "/big-c.safetensors", env={"HF_ENDPOINT": signing.url})
    check(a[0] == 0 and not cdn.how["statuses"], "signed addresses: %s" % a[2])
    check(len(signing.requests) == 4, "signed addresses: %d requests of the hub" % len(signing.requests))
    signing.close()
    cdn.close()
    server.requests.clear()
    result = run("inspect", "-v", server.url + "/model.safetensors")
    check(result[0] == 0 and len(server.requests) <= 3, "big: %d requests" % len(server.requests))
    server.how.update(changes=len(server.requests) + 5)
    result = run("quantize", "--int8", "--remote", server.url + "/model.safetensors", "-o", FOLDER + "/never.safetensors")
    refused(3, "was changed while it was read", result, "changed in the middle")
    server.how.update(changes=len(server.requests) + 5, dated=True)
    refused(3, "was changed while it was read", run("quantize", "--int8", "--remote", server.url + "/model.safetensors", "-o", FOLDER + "/never.safetensors"), "no ETag, another date")
    check(not os.path.exists(FOLDER + "/never.safetensors"), "an output of a changed input")
    # Little memory: windows are smaller, and the job is planned with what they leave.
    server.how.clear()
    a = run("quantize", "--int8", "--max-memory", "8M", "--cpu-mask", "base", "--remote", server.url + "/model.safetensors", "-o", FOLDER + "/big-d.safetensors")
    check(a[0] == 0, "little memory: %s" % a[2])
    with open(FOLDER + "/big-d.safetensors", "rb") as x, open(FOLDER + "/big-b.safetensors", "rb") as y:
        check(x.read() == y.read(), "little memory: other bytes")
    server.how.update(ranges=False)
    refused(3, "no ranges", run("quantize", "--int8", "--remote", server.url + "/model.safetensors", "-o", FOLDER + "/never.safetensors"), "no ranges")
    server.close()

    # A 70B model's shape: 15 shards with headers alone, holes behind them.
    large = os.path.join(FOLDER, "large")
    os.makedirs(large)
    index = {}
    for k in range(15):
        name, header, at = "model-%05d-of-00015.safetensors" % (k + 1), {}, 0
        for i in range(48):
            header["model.layers.%d.t%d.weight" % (k, i)] = {"dtype": "F16", "shape": [8192, 5888], "data_offsets": [at, at + 2 * 8192 * 5888]}
            at += 2 * 8192 * 5888
            index["model.layers.%d.t%d.weight" % (k, i)] = name
        text = json.dumps(header).encode()
        with open(os.path.join(large, name), "wb") as f:
            f.write(struct.pack("<Q", len(text)) + text)
            f.truncate(8 + len(text) + at)
    with open(os.path.join(large, "model.safetensors.index.json"), "w") as f:
        json.dump({"metadata": {}, "weight_map": index}, f)
    with open(os.path.join(large, "config.json"), "w") as f:
        json.dump(CONFIG, f)

    class Holes(Server):
        def answer(self, h):
            path = h.path.split("?")[0]
            if not path.endswith(".safetensors"):
                return super().answer(h)
            file = os.path.join(self.root, path.split("/")[-1])
            a, b = map(int, h.headers["Range"].split("=")[1].split("-"))
            with open(file, "rb") as f:
                f.seek(a)
                body = f.read(b + 1 - a)
            return self.say(h, 206, body, [("Content-Range", "bytes %d-%d/%d" % (a, b, os.path.getsize(file))), ("ETag", '"x"')])

    server = Holes(large)
    for command in (["inspect"], ["fit", "--gpu", "RTX 4090"]):
        server.requests.clear()
        server.n_bytes = 0
        result = run(*command, "-v", "hf:o/n", env={"HF_ENDPOINT": server.url})
        check(result[0] in (0, 1) and len(server.requests) < 20 and server.n_bytes < 20e6,
              "70B: %s: exit %d, %d requests, %d bytes: %s" % (command, result[0], len(server.requests), server.n_bytes, result[2][-300:]))
        print("70B, 15 shards, %s: %d requests, %d bytes" % (command[0], len(server.requests), server.n_bytes))
    # 30 shards: what config.json answers is asked of it alone, and is what the file itself answers; codes are in headers only.
    for k in range(15, 30):
        os.link(os.path.join(large, "model-00001-of-00015.safetensors"), os.path.join(large, "model-%05d-of-00030.safetensors" % k))
        index["t%d" % k] = "model-%05d-of-00030.safetensors" % k
    with open(os.path.join(large, "model.safetensors.index.json"), "w") as f:
        json.dump({"metadata": {}, "weight_map": index}, f)
    for command in (["fit", "--gpu", "RTX 4090"], ["estimate"], ["plan", "--memory", "24GiB"], ["graph"]):
        here = run(*command, "--json", os.path.join(large, "config.json"))
        for name in ("hf:o/n", server.url + "/model.safetensors.index.json"):
            server.requests.clear()
            result = run(*command, "--json", name, env={"HF_ENDPOINT": server.url})
            check(result[0] == here[0] and len(server.requests) < 5, "30 shards: %s: exit %d, %d requests: %s" % (
                command, result[0], len(server.requests), result[2][-300:]))
            check("config.json answers; the headers of its 30 files" in result[2], "30 shards: no note: " + result[2])
            check(len(result[1]) > 99 and [w for w in result[1].split() if w.isdigit()] == [w for w in here[1].split() if w.isdigit()],
                  "30 shards: %s says something else than config.json" % command)
    with open(os.path.join(large, "config.json"), "w") as f:
        json.dump(dict(CONFIG, quantization_config={"quant_method": "gptq", "bits": 4}), f)
    server.requests.clear()
    run("estimate", "hf:o/n", env={"HF_ENDPOINT": server.url})
    check(len(server.requests) > 30, "codes: the headers were not asked for")
    server.close()
    hub.close()


try:
    main()
finally:
    shutil.rmtree(FOLDER, ignore_errors=True)
print("%d wrong" % len(WRONG))
sys.exit(1 if WRONG else 0)
