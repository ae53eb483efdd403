//! Difficult cases: an outer tool reports the failure, other errors were recovered from before it, the log contains
//! misleading words, or there is no rule for the tool. All are held out.

use berth_analysis::Category::{
    Command, Compile, Configuration, Crash, Credentials, Database, Dependency, Disk, File, Git, Network,
    Terraform, Timeout, Tls,
};

use super::{AnalysisCase, held_out_case};

pub(super) const CASES: &[AnalysisCase] = &[
    held_out_case(
        "make, npm, tsc: a type, with warnings around",
        &["make", "npm", "npm:typescript"],
        Compile,
        &["error TS2345"],
        r#"
echo '{"name": "shop", "version": "1.0.0", "scripts": {"build": "tsc --noEmit price.ts"}}' > package.json
printf 'const half = (price: number) => price / 2;\nhalf("12");\n' > price.ts
printf 'build:\n\t@echo "warning: 3 errors were ignored in vendor/"\n\tnpm run build\n' > Makefile
make build
"#,
    ),
    held_out_case(
        "pytest: a test with a refused connection",
        &["pip:pytest"],
        Network,
        &["ConnectionRefusedError"],
        r#"
printf 'import socket\n\ndef test_api():\n    socket.create_connection(("127.0.0.1", 1))\n' > test_api.py
pytest -q
"#,
    ),
    held_out_case(
        "a request that failed and did not matter, then a full disk",
        &["curl", "unshare", "root"],
        Disk,
        &["No space left on device"],
        r#"
curl -sS --noproxy '*' http://127.0.0.1:1/cache || echo "no cache, going on without"
mkdir small
unshare -m sh -c 'mount -t tmpfs -o size=64k none small && cp /bin/sh small/app'
"#,
    ),
    held_out_case(
        "tests that print errors and pass, then a script that is not there",
        &["python3"],
        Command,
        &["deploy.sh: not found"],
        r#"
cat > test_errors.py <<'END'
import unittest, sys
class Errors(unittest.TestCase):
    def test_message(self): print("ERROR: Connection refused, as expected", file=sys.stderr)
    def test_fatal(self): print("fatal: Permission denied (publickey).", file=sys.stderr)
END
python3 -m unittest
./ops/deploy.sh production
"#,
    ),
    held_out_case(
        "three hundred lines about errors, then a directory that is not there",
        &["tar"],
        File,
        &["tar: dist: Cannot stat: No such file or directory"],
        r#"
i=0; while [ $i -lt 300 ]; do echo "compiling error_handler_$i.c ... ok, 0 errors"; i=$((i + 1)); done
tar czf site.tar.gz dist
"#,
    ),
    held_out_case(
        "a failure in the middle of a script that goes on",
        &[],
        File,
        &["cat: config/app.env: No such file or directory"],
        r#"
set +e
cat config/app.env; code=$?
i=0; while [ $i -lt 40 ]; do echo "uploaded part $i"; i=$((i + 1)); done
echo "done with errors"
exit $code
"#,
    ),
    held_out_case(
        "perl: a module that is not installed",
        &["perl"],
        Dependency,
        &["Can't locate Shop/Cart.pm in @INC"],
        r#"
printf 'use strict;\nuse Shop::Cart;\nprint "ok\\n";\n' > app.pl
perl app.pl
"#,
    ),
    held_out_case(
        "java: an exception",
        &["java", "javac"],
        Crash,
        &["ArrayIndexOutOfBoundsException"],
        r#"
printf 'public class App { public static void main(String[] a) { System.out.println("starting"); System.out.println(a[2]); } }\n' > App.java
javac App.java
java App
"#,
    ),
    held_out_case(
        "git apply: a patch that does not fit",
        &["git"],
        Git,
        &["patch failed: notes.txt", "patch does not apply"],
        r#"
git init -q -b main .; echo other > notes.txt; git add .; git commit -q -m a
printf -- '--- a/notes.txt\n+++ b/notes.txt\n@@ -1 +1 @@\n-one\n+two\n' > fix.patch
git apply fix.patch
"#,
    ),
    held_out_case(
        "curl: a certificate of another name",
        &["curl", "openssl"],
        Tls,
        &["no alternative certificate subject name matches", "does not match target host name"],
        r#"
openssl req -x509 -newkey rsa:2048 -nodes -keyout key.pem -out cert.pem -days 2 -subj /CN=shop.test -addext subjectAltName=DNS:shop.test > /dev/null 2>&1
openssl s_server -accept 127.0.0.1:18446 -key key.pem -cert cert.pem -www > /dev/null 2>&1 &
server=$!; trap 'kill $server' EXIT
for i in 1 2 3 4 5 6 7 8 9; do curl -ks --noproxy '*' https://localhost:18446 > /dev/null && break; sleep 0.2; done
curl -sS --noproxy '*' --cacert cert.pem https://localhost:18446/
"#,
    ),
    held_out_case(
        "psql: a wrong password",
        &["psql", "root", "setpriv", "/usr/lib/postgresql/15/bin/initdb"],
        Credentials,
        &["password authentication failed for user \"shop\""],
        r#"
bin=/usr/lib/postgresql/15/bin
mkdir data run; chmod 755 .; echo right > run/password; chown -R 65534 data run
as() { setpriv --reuid=65534 --regid=65534 --clear-groups env HOME="$PWD/run" "$@"; }
as $bin/initdb -D data -U shop --auth=scram-sha-256 --pwfile=run/password -N > /dev/null
as $bin/pg_ctl -D data -w -l run/log -o "-c listen_addresses= -c unix_socket_directories=$PWD/run -c fsync=off" start > /dev/null
trap 'as $bin/pg_ctl -D data -m immediate stop > /dev/null' EXIT
PGPASSWORD=wrong psql -h "$PWD/run" -U shop -d postgres -c 'SELECT 1'
"#,
    ),
    held_out_case(
        "python: calls a program that is not installed",
        &["python3"],
        Command,
        &["FileNotFoundError: [Errno 2] No such file or directory: 'helmfile'"],
        r#"
printf 'import subprocess\nprint("deploying")\nsubprocess.run(["helmfile", "apply"], check=True)\n' > deploy.py
python3 deploy.py
"#,
    ),
    held_out_case(
        "node: a fetch with a refused connection",
        &["node"],
        Network,
        &["ECONNREFUSED"],
        r#"
printf 'console.log("warming the cache");\nawait fetch("http://127.0.0.1:18499/health");\n' > warm.mjs
node warm.mjs
"#,
    ),
    held_out_case(
        "sqlite3: a locked database",
        &["sqlite3", "python3"],
        Database,
        &["database is locked"],
        r#"
sqlite3 shop.db 'CREATE TABLE t (a)'
python3 -c 'import sqlite3, time; c = sqlite3.connect("shop.db", isolation_level=None); c.execute("BEGIN EXCLUSIVE"); time.sleep(8)' &
sleep 1
sqlite3 -bail shop.db 'INSERT INTO t VALUES (1)'
"#,
    ),
    held_out_case(
        "timeout: a command that took too long",
        &["timeout"],
        Timeout,
        &["waiting for migrations"],
        "echo 'starting'; echo 'waiting for migrations'; timeout 1 sleep 9",
    ),
    held_out_case(
        "npm: a package.json that is no JSON",
        &["npm"],
        Configuration,
        &["EJSONPARSE", "JSON.parse", "not valid JSON", "in JSON at position"],
        r#"
printf '{\n  "name": "shop",\n  "version": "1.0.0",,\n}\n' > package.json
npm install --offline
"#,
    ),
    held_out_case(
        "cargo: a manifest that is no TOML",
        &["cargo"],
        Configuration,
        &["Cargo.toml", "expected", "unclosed", "invalid"],
        r#"
cargo init --quiet --vcs none --name app .
echo '[dependencies' >> Cargo.toml
cargo build --offline
"#,
    ),
    held_out_case(
        "bash: a variable that is not set",
        &["bash"],
        Configuration,
        &["IMAGE_TAG: unbound variable"],
        r#"
printf 'set -eu\necho "tagging"\necho "shop:$IMAGE_TAG"\n' > tag.sh
bash tag.sh
"#,
    ),
    held_out_case(
        "python: an argument that is missing",
        &["python3"],
        Command,
        &["the following arguments are required: --env"],
        r#"
printf 'import argparse\np = argparse.ArgumentParser()\np.add_argument("--env", required=True)\np.parse_args()\n' > deploy.py
python3 deploy.py
"#,
    ),
    held_out_case(
        "git: a server that does not listen, by ssh",
        &["git", "ssh"],
        Network,
        &["Connection refused"],
        "GIT_SSH_COMMAND='ssh -o BatchMode=yes' git clone ssh://git@127.0.0.1:1/shop.git",
    ),
    held_out_case(
        "awk: a program that is none",
        &["awk"],
        Command,
        &["syntax error"],
        r#"
printf 'a 1\nb 2\n' > sales.txt
awk "{ total += \$2 } END { print total + }" sales.txt
"#,
    ),
    held_out_case(
        "touch: a file system that is read-only",
        &["unshare", "root"],
        Disk,
        &["Read-only file system"],
        r#"
mkdir small
unshare -m sh -c 'mount -t tmpfs -o ro none small && touch small/ready'
"#,
    ),
    held_out_case(
        "terraform: a block without an end",
        &["terraform"],
        Terraform,
        &[
            "Error: Unclosed configuration block",
            "Error: Argument or block definition required",
            "Error: Invalid",
        ],
        r#"
printf 'locals {\n  region = "eu"\n' > main.tf
terraform init -input=false
"#,
    ),
    held_out_case(
        "kubectl: a flag that does not exist",
        &["kubectl"],
        Command,
        &["unknown flag: --namespce"],
        "kubectl --namespce shop get pods",
    ),
    held_out_case(
        "jest: a file that a test needs is not there",
        &["node", "npm:jest"],
        Dependency,
        &["Cannot find module './cart'"],
        r#"
echo '{"name": "shop", "version": "1.0.0"}' > package.json
printf 'const cart = require("./cart");\ntest("total", () => expect(cart.total()).toBe(4));\n' > cart.test.js
jest --ci
"#,
    ),
    held_out_case(
        "gcc: a warning that counts as an error",
        &["gcc"],
        Compile,
        &["error: unused variable"],
        r#"
printf 'int main(void) { int left; return 0; }\n' > app.c
gcc -Wall -Werror -o app app.c
"#,
    ),
];
