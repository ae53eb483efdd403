//! Cases: compilers, package managers, test runners.

use berth_analysis::Category::{Command, Compile, Dependency, Test};

use super::{AnalysisCase, held_out_case, open_case};

pub(super) const CASES: &[AnalysisCase] = &[
    open_case(
        "gcc: a name that is not declared, below make",
        &["gcc", "make"],
        Compile,
        &["error: 'totl' undeclared", "error: ‘totl’ undeclared"],
        r#"
cat > sum.c <<'END'
#include <stdio.h>
int main(void) { int total = 1; char *unused; printf("%d\n", totl); return 0; }
END
printf 'all: sum\nsum: sum.c\n\tgcc -Wall -o sum sum.c\n' > Makefile
echo "Building 1 target, 0 errors so far"
make
"#,
    ),
    held_out_case(
        "gcc: a function that no object has",
        &["gcc"],
        Compile,
        &["undefined reference to `convert'", "undefined reference to"],
        r#"
cat > main.c <<'END'
int convert(int);
int main(void) { return convert(3); }
END
echo "compiling"
gcc -c main.c
echo "linking"
gcc -o app main.o
"#,
    ),
    open_case(
        "rustc: mismatched types",
        &["rustc"],
        Compile,
        &["error[E0308]", "expected `u32`, found `&str`"],
        r#"
cat > main.rs <<'END'
fn port() -> u32 { "8080" }
fn main() { let unused = 1; println!("{}", port()); }
END
rustc main.rs
"#,
    ),
    held_out_case(
        "cargo: a value that was moved",
        &["cargo"],
        Compile,
        &["error[E0382]", "value borrowed here after move"],
        r#"
cargo init --quiet --vcs none --name app .
cat > src/main.rs <<'END'
fn take(list: Vec<u8>) -> usize { list.len() }
fn main() { let unused = 3; let list = vec![1, 2]; take(list); println!("{:?}", list); }
END
cargo build --offline
"#,
    ),
    open_case(
        "javac: a symbol that is not there",
        &["javac"],
        Compile,
        &["error: cannot find symbol"],
        r#"
cat > App.java <<'END'
public class App { public static void main(String[] args) { Strin name = "x"; System.out.println(name); } }
END
echo "Note: compiling 1 file"
javac App.java
"#,
    ),
    held_out_case(
        "g++: a header that is not installed",
        &["g++"],
        Compile,
        &["fatal error: fmtlib/core.h: No such file or directory"],
        r#"
printf '#include <fmtlib/core.h>\nint main() { return 0; }\n' > app.cpp
g++ -o app app.cpp
"#,
    ),
    open_case(
        "tsc: a type that does not fit",
        &["node", "npm:typescript"],
        Compile,
        &["error TS2322"],
        r#"
printf 'const port: number = "8080";\nconsole.log(port);\n' > app.ts
echo "> shop@1.0.0 build"
echo "> tsc --noEmit"
tsc --noEmit app.ts
"#,
    ),
    held_out_case(
        "python: a line that is no Python",
        &["python3"],
        Compile,
        &["SyntaxError"],
        r#"
printf 'def main()\n    print("hello")\n\nmain()\n' > app.py
echo "starting app.py"
python3 app.py
"#,
    ),
    open_case(
        "node: a line that is no JavaScript",
        &["node"],
        Compile,
        &["SyntaxError: "],
        r#"
printf 'const shop = { name: "x" \nconsole.log(shop);\n' > app.js
node app.js
"#,
    ),
    held_out_case(
        "tsc: a property that is not there",
        &["node", "npm:typescript"],
        Compile,
        &["error TS2339"],
        r#"
printf 'interface User { name: string }\nexport const mail = (user: User) => user.email;\n' > user.ts
tsc --noEmit --strict user.ts
"#,
    ),
    open_case(
        "cargo: a version that does not exist",
        &["cargo"],
        Dependency,
        &["failed to select a version for the requirement", "candidate versions found which didn't match"],
        r#"
cargo new --quiet --vcs none --lib part
cargo init --quiet --vcs none --name app .
echo 'part = { path = "part", version = "2" }' >> Cargo.toml
cargo build --offline
"#,
    ),
    held_out_case(
        "npm ci: a lock file that does not fit",
        &["npm"],
        Dependency,
        &["package.json and package-lock.json", "are in sync"],
        r#"
mkdir -p part
echo '{"name": "part", "version": "1.0.0"}' > part/package.json
echo '{"name": "shop", "version": "1.0.0", "dependencies": {}}' > package.json
npm install --package-lock-only --offline
echo '{"name": "shop", "version": "1.0.0", "dependencies": {"part": "file:part"}}' > package.json
npm ci --offline
"#,
    ),
    open_case(
        "pip: a package that does not exist",
        &["python3"],
        Dependency,
        &["No matching distribution found", "Could not find a version"],
        r#"
echo "Collecting requirements"
python3 -m pip install --disable-pip-version-check --no-index 'shop-helpers==4.2'
"#,
    ),
    held_out_case(
        "npm: peers that exclude each other",
        &["npm"],
        Dependency,
        &["ERESOLVE"],
        r#"
mkdir -p view plugin
echo '{"name": "view", "version": "2.0.0"}' > view/package.json
echo '{"name": "plugin", "version": "1.0.0", "peerDependencies": {"view": "^1.0.0"}}' > plugin/package.json
echo '{"name": "shop", "version": "1.0.0", "dependencies": {"view": "file:view", "plugin": "file:plugin"}}' > package.json
npm install --offline --strict-peer-deps --install-links
"#,
    ),
    open_case(
        "python: a module that is not installed",
        &["python3"],
        Dependency,
        &["ModuleNotFoundError: No module named 'shop_settings'"],
        r#"
printf 'import os\nimport shop_settings\n' > app.py
echo "loading"
python3 app.py
"#,
    ),
    held_out_case(
        "node: a module that is not installed",
        &["node"],
        Dependency,
        &["Error: Cannot find module 'express'"],
        r#"
printf 'const express = require("express");\nexpress().listen(8080);\n' > server.js
echo "starting server"
node server.js
"#,
    ),
    open_case(
        "npm: a script that is not there",
        &["npm"],
        Command,
        &["Missing script: \"build\""],
        r#"
echo '{"name": "shop", "version": "1.0.0", "scripts": {"biuld": "true"}}' > package.json
npm run build
"#,
    ),
    held_out_case(
        "make: a target that is not there",
        &["make"],
        Command,
        &["No rule to make target"],
        r#"
printf 'deploy: dist/site.tar\n\techo deployed\n' > Makefile
make deploy
"#,
    ),
    open_case(
        "pytest: an assertion",
        &["pip:pytest"],
        Test,
        &["FAILED test_price.py::test_sum", "E       assert 3 == 4", "E       assert"],
        r#"
cat > test_price.py <<'END'
def test_fine():
    assert True

def test_sum():
    assert 1 + 2 == 4
END
pytest -q
"#,
    ),
    held_out_case(
        "cargo test: an assertion",
        &["cargo"],
        Test,
        &["panicked at", "left == right", "test tests::adds ... FAILED", "test result: FAILED"],
        r#"
cargo init --quiet --vcs none --lib --name app .
cat > src/lib.rs <<'END'
pub fn add(a: u32, b: u32) -> u32 { a * b }
#[cfg(test)]
mod tests {
    #[test]
    fn adds() { assert_eq!(super::add(1, 2), 3); }
    #[test]
    fn error_path_works() { assert_eq!(super::add(2, 2), 4); }
}
END
cargo test --offline
"#,
    ),
    open_case(
        "node --test: an assertion",
        &["node"],
        Test,
        &["not ok 2 - adds", "✖ adds", "Expected values to be strictly equal"],
        r#"
cat > sum.test.js <<'END'
const test = require('node:test'); const assert = require('node:assert');
test('runs', () => {});
test('adds', () => assert.strictEqual(1 + 1, 3));
END
node --test
"#,
    ),
    held_out_case(
        "unittest: an assertion",
        &["python3"],
        Test,
        &["FAIL: test_total", "AssertionError: 3 != 4", "FAILED (failures=1)"],
        r#"
cat > test_total.py <<'END'
import unittest
class Total(unittest.TestCase):
    def test_error_message_is_shown(self): self.assertTrue(True)
    def test_total(self): self.assertEqual(1 + 2, 4)
END
python3 -m unittest -v
"#,
    ),
    open_case(
        "vitest: an assertion",
        &["node", "npm:vitest"],
        Test,
        &["AssertionError: expected 3 to be 4", "FAIL  sum.test.mjs"],
        r#"
ln -s "$TOOLS_NODE_MODULES" node_modules
cat > sum.test.mjs <<'END'
import { expect, test } from 'vitest';
test('runs', () => {});
test('adds', () => expect(1 + 2).toBe(4));
END
vitest run
"#,
    ),
    held_out_case(
        "jest: an assertion",
        &["node", "npm:jest"],
        Test,
        &["● adds", "Expected: 4", "expect(received).toBe(expected)", "FAIL ./sum.test.js"],
        r#"
echo '{"name": "shop", "version": "1.0.0"}' > package.json
cat > sum.test.js <<'END'
test('runs', () => {});
test('adds', () => expect(1 + 2).toBe(4));
END
jest --ci
"#,
    ),
];
