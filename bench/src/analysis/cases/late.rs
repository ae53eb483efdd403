//! Cases that were written last, to measure the rules after the noisy cases had led to improvements. All are held out.

use berth_analysis::Category::{
    Command, Compile, Crash, Database, Dependency, File, Git, Network, Terraform, Timeout, Tls,
};

use super::{AnalysisCase, held_out_case};

pub(super) const CASES: &[AnalysisCase] = &[
    held_out_case(
        "python: an assertion outside of tests",
        &["python3"],
        Crash,
        &["AssertionError: no rows"],
        "python3 -c 'rows = []; assert rows, \"no rows\"'",
    ),
    held_out_case(
        "sh: into a directory that is not there",
        &[],
        File,
        &["can't cd to releases/current"],
        "echo 'switching'; cd releases/current; ls",
    ),
    held_out_case(
        "git: nothing to commit",
        &["git"],
        Git,
        &["nothing to commit"],
        r#"
git init -q -b main .; echo a > a; git add .; git commit -q -m a
echo "recording the version"
git commit -m "version 2"
"#,
    ),
    held_out_case(
        "git: a tag that is there already",
        &["git"],
        Git,
        &["tag 'v1.4.0' already exists"],
        r#"
git init -q -b main .; git commit -q --allow-empty -m a; git tag v1.4.0
git tag v1.4.0
"#,
    ),
    held_out_case(
        "javac: a package that is not there",
        &["javac"],
        Compile,
        &["error: package org.shop.cart does not exist"],
        r#"
printf 'import org.shop.cart.Cart;\npublic class App { Cart cart; }\n' > App.java
javac App.java
"#,
    ),
    held_out_case(
        "rustc: a library that the linker does not find",
        &["rustc"],
        Dependency,
        &["cannot find -lshopnative", "unable to find library -lshopnative"],
        r#"
printf '#[link(name = "shopnative")]\nunsafe extern "C" { fn total() -> i32; }\nfn main() { println!("{}", unsafe { total() }); }\n' > main.rs
rustc main.rs
"#,
    ),
    held_out_case(
        "python: calls itself for ever",
        &["python3"],
        Crash,
        &["RecursionError: maximum recursion depth exceeded"],
        r#"
printf 'def walk(node): return walk(node)\nwalk(1)\n' > walk.py
python3 walk.py
"#,
    ),
    held_out_case(
        "unzip: a file that is no archive",
        &["unzip"],
        File,
        &["End-of-central-directory signature not found"],
        "echo '<html>not found</html>' > site.zip; unzip site.zip",
    ),
    held_out_case(
        "sqlite3: a file that is no database",
        &["sqlite3"],
        Database,
        &["file is not a database"],
        "i=0; while [ $i -lt 200 ]; do echo 'this is only text'; i=$((i + 1)); done > shop.db; sqlite3 -bail shop.db 'SELECT 1 FROM t'",
    ),
    held_out_case(
        "kubectl: a manifest that is not there",
        &["kubectl"],
        File,
        &["the path \"deploy/app.yaml\" does not exist"],
        "kubectl apply -f deploy/app.yaml",
    ),
    held_out_case(
        "terraform: a plan before init",
        &["terraform"],
        Terraform,
        &[
            "Error: Inconsistent dependency lock file",
            "Error: Missing required provider",
            "Error: Module not installed",
        ],
        r#"
printf 'resource "null_resource" "shop" {}\n' > main.tf
terraform plan -input=false
"#,
    ),
    held_out_case(
        "make: blanks in place of a tab",
        &["make"],
        Command,
        &["missing separator"],
        "printf 'deploy:\\n    echo deployed\\n' > Makefile; make deploy",
    ),
    held_out_case(
        "gzip: half of a file",
        &["gzip"],
        File,
        &["unexpected end of file"],
        "gzip -c /bin/sh | head -c 2000 > site.gz; gzip -d site.gz",
    ),
    held_out_case(
        "vitest: a test that takes too long",
        &["node", "npm:vitest"],
        Timeout,
        &["Test timed out in 100ms"],
        r#"
ln -s "$TOOLS_NODE_MODULES" node_modules
printf "import { test } from 'vitest';\ntest('waits', () => new Promise(() => {}));\n" > slow.test.mjs
vitest run --testTimeout=100
"#,
    ),
    held_out_case(
        "pytest: a test file that is no Python",
        &["pip:pytest"],
        Compile,
        &["SyntaxError"],
        r#"
printf 'def test_total(:\n    assert True\n' > test_total.py
pytest -q
"#,
    ),
    held_out_case(
        "curl: a server that fails",
        &["curl", "python3"],
        Network,
        &["The requested URL returned error: 500"],
        r#"
cat > server.py <<'END'
from http.server import BaseHTTPRequestHandler, HTTPServer
class Handler(BaseHTTPRequestHandler):
    def do_GET(self): self.send_response(500); self.send_header('Content-Length', '0'); self.end_headers()
    def log_message(self, *args): pass
HTTPServer(('127.0.0.1', 18506), Handler).serve_forever()
END
python3 server.py & server=$!; trap 'kill $server' EXIT
for i in 1 2 3 4 5 6 7 8 9; do curl -s --noproxy '*' http://127.0.0.1:18506 && break; sleep 0.3; done
curl -fsS --noproxy '*' http://127.0.0.1:18506/health
"#,
    ),
    held_out_case(
        "wget: a self-signed certificate",
        &["wget", "openssl", "curl"],
        Tls,
        &["cannot verify localhost's certificate", "is not trusted", "have a known issuer"],
        r#"
openssl req -x509 -newkey rsa:2048 -nodes -keyout key.pem -out cert.pem -days 2 -subj /CN=localhost > /dev/null 2>&1
openssl s_server -accept 127.0.0.1:18507 -key key.pem -cert cert.pem -www > /dev/null 2>&1 &
server=$!; trap 'kill $server' EXIT
for i in 1 2 3 4 5 6 7 8 9; do curl -ks --noproxy '*' https://localhost:18507 > /dev/null && break; sleep 0.2; done
wget --no-proxy https://localhost:18507/index.html
"#,
    ),
    held_out_case(
        "perl: a line that is no Perl",
        &["perl"],
        Compile,
        &["syntax error at app.pl line"],
        r#"
printf 'use strict;\nmy $total = ;\nprint $total;\n' > app.pl
perl app.pl
"#,
    ),
];
