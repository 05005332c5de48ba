"""Starts aegra, with a PostgreSQL of its own in this folder.

    python peer_aegra.py
"""

import glob
import json
import os
import pathlib
import pwd
import shutil
import subprocess
import sys
from importlib.metadata import version

from peer_processes import HERE, end, get, listening, port, start, until

# PostgreSQL does not run as root.
USER = "postgres" if os.geteuid() == 0 else pwd.getpwuid(os.geteuid()).pw_name


def programs():
    """The folder with the programs of the server, which Debian keeps out of the search path."""
    found = shutil.which("initdb")
    folders = [pathlib.Path(found).resolve().parent] if found else []
    folders += map(pathlib.Path, sorted(glob.glob("/usr/lib/postgresql/*/bin"), reverse=True))
    for folder in folders:
        if (folder / "initdb").exists() and (folder / "postgres").exists():
            return folder
    raise SystemExit("this machine has no PostgreSQL: install it with `apt-get install postgresql`")


def database():
    """Starts a cluster as it comes: each commit waits for the disk."""
    as_user = {"user": USER, "cwd": "/"} if os.geteuid() == 0 else {}
    folder, bin = HERE / "postgres", programs()
    folder.mkdir()
    if as_user:
        # The user of PostgreSQL has to come through to it.
        HERE.chmod(0o755)
        shutil.chown(folder, USER)
    words = [bin / "initdb", "--auth", "trust", "--username", "aegra", "--encoding", "UTF8", "--no-locale", folder]
    made = subprocess.run(words, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, **as_user)
    if made.returncode:
        raise SystemExit(f"`initdb` failed: {made.stdout}")
    number = port()
    words = [bin / "postgres", "-D", folder, "-p", str(number), "-h", "127.0.0.1", "-k", folder]
    server = start(words, **as_user)
    create = [bin / "createdb", "--host", "127.0.0.1", "--port", str(number), "--username", "aegra", "aegra"]
    until(lambda: subprocess.run(create, check=True, capture_output=True), server)
    return f"postgresql://aegra@127.0.0.1:{number}/aegra"


try:
    graphs = {name: f"./peer_graphs.py:{name}" for name in ["echo", "ringer"]}
    (HERE / "aegra.json").write_text(json.dumps({"dependencies": ["."], "graphs": graphs}))
    env = {"DATABASE_URL": database(), "AEGRA_CONFIG": str(HERE / "aegra.json"), "LOG_LEVEL": "ERROR"}
    number = port()
    words = [sys.executable, "-m", "uvicorn", "aegra_api.main:app", "--host", "127.0.0.1", "--port", str(number)]
    server = start(words + ["--no-access-log", "--log-level", "error"], env, cwd=HERE)
    until(lambda: get(f"http://127.0.0.1:{number}/health"), server)
    listening(number, version("aegra-api"))
finally:
    end()
