#!/usr/bin/env python3
"""tidy.py BUILD FILE... - clang-tidy over what the compiler sees of each file, once

A file that several targets compile has several commands in compile_commands.json, and clang-tidy would analyse it for
each of them. Nearly all its time is the analyser's. Here, commands that differ only in what the preprocessor takes away
are one.

What passed is remembered by a digest of all that the answer depends on: the preprocessed text, the bytes of the files
of this checkout in it (comments say NOLINT), .clang-tidy, and the version of clang-tidy. HEARTH_LINT_CACHE names the
folder of these digests (~/.cache/hearth/lint); those unused for a month are removed. What fails is never remembered.
"""
import hashlib
import json
import os
import re
import shlex
import subprocess
import sys
import time
from multiprocessing.pool import ThreadPool

MONTH_S = 30 * 24 * 3600
ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
CACHE = os.environ.get("HEARTH_LINT_CACHE") or os.path.join(
    os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache"), "hearth", "lint")


def contents(path):
    with open(path, "rb") as file:
        return file.read()


def flags_of(entry):
    """The arguments of a command, without the compiler, the source and the output."""
    words = shlex.split(entry["command"])[1:]
    at = words.index("-o")
    del words[at:at + 2]
    return [word for word in words if word not in ("-c", entry["file"])]


def digest_of(entry, tools):
    """None if the file cannot be preprocessed: clang-tidy then says why."""
    done = subprocess.run(["clang", "-E", *flags_of(entry), entry["file"]], cwd=entry["directory"],
                          stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    if done.returncode != 0:
        return None
    prefix = os.fsencode(ROOT) + b"/"
    digest = hashlib.sha256(tools)
    digest.update(done.stdout.replace(prefix, b""))
    for path in sorted(set(re.findall(b'^# [0-9]+ "(' + re.escape(prefix) + b'[^"]*)"', done.stdout, re.M))):
        if os.path.isfile(path):
            digest.update(b"\0" + path[len(prefix):] + b"\0" + contents(path))
    return digest.hexdigest()


def findings_of(entry):
    done = subprocess.run(["clang-tidy", "--quiet", "--warnings-as-errors=*", entry["file"], "--", *flags_of(entry)],
                          cwd=entry["directory"], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, text=True, errors="replace")
    if done.returncode == 0:
        return None
    # It also counts the warnings that it does not show.
    is_count = re.compile(r"\d+ warnings? (generated|treated)").match
    findings = "\n".join(line for line in done.stdout.splitlines() if line and not is_count(line))
    return findings or "clang-tidy fails on " + entry["file"]


def main():
    wanted = {os.path.join(ROOT, name) for name in sys.argv[2:]}
    entries = [entry for entry in json.loads(contents(os.path.join(sys.argv[1], "compile_commands.json")))
               if entry["file"] in wanted]
    missing = wanted - {entry["file"] for entry in entries}
    version = subprocess.run(["clang-tidy", "--version"], stdout=subprocess.PIPE, check=True).stdout
    tools = version + contents(os.path.join(ROOT, ".clang-tidy"))
    os.makedirs(CACHE, exist_ok=True)

    n_jobs = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 2
    with ThreadPool(n_jobs) as pool:
        digests = pool.map(lambda entry: digest_of(entry, tools), entries)
        texts = {digest or entry["file"]: entry for digest, entry in zip(digests, entries)}
        new = {}
        for digest, entry in texts.items():
            try:
                os.utime(os.path.join(CACHE, digest))
            except OSError:
                new[digest] = entry
        failed = False

        def check(item):
            digest, entry = item
            findings = findings_of(entry)
            # Somebody may have changed the file meanwhile.
            if not findings and digest_of(entry, tools) == digest:
                with open(os.path.join(CACHE, digest), "wb"):
                    pass
            return findings

        for findings in pool.imap_unordered(check, new.items()):
            if findings:
                print(findings, flush=True)
                failed = True

    for name in os.listdir(CACHE):
        path = os.path.join(CACHE, name)
        if time.time() - os.stat(path).st_mtime > MONTH_S:
            os.unlink(path)
    for path in sorted(missing):
        print("no target compiles " + path)
    print(f"{len(texts)} texts of {len(entries)} commands, {len(new)} of them new")
    sys.exit(1 if failed or missing else 0)


main()
