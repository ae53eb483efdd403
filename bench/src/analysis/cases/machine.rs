//! Cases: disk, memory, permissions, time, signals, crashes, scripts, files, configuration.

use berth_analysis::Category::{Command, Configuration, Crash, Disk, File, Memory, Permission, Timeout};

use super::{AnalysisCase, held_out_case, open_case};

pub(super) const CASES: &[AnalysisCase] = &[
    open_case(
        "cp: the disk is full",
        &["unshare", "root"],
        Disk,
        &["No space left on device"],
        r#"
mkdir small
unshare -m sh -c 'mount -t tmpfs -o size=64k none small && cp /bin/sh small/a && cp /bin/sh small/b'
"#,
    ),
    held_out_case(
        "python: the disk is full",
        &["python3", "unshare", "root"],
        Disk,
        &["[Errno 28] No space left on device", "No space left on device"],
        r#"
mkdir small
cat > fill.py <<'END'
with open("small/data", "wb") as file:
    for _ in range(1000): file.write(b"x" * 4096); file.flush()
END
unshare -m sh -c 'mount -t tmpfs -o size=64k none small && python3 fill.py'
"#,
    ),
    open_case(
        "python: no more memory",
        &["python3"],
        Memory,
        &["MemoryError"],
        r#"
ulimit -v 400000
python3 -c 'rows = [bytearray(1 << 20) for _ in range(1 << 20)]'
"#,
    ),
    held_out_case(
        "java: no more memory",
        &["java", "javac"],
        Memory,
        &["java.lang.OutOfMemoryError"],
        r#"
cat > Fill.java <<'END'
import java.util.*;
public class Fill { public static void main(String[] a) { List<byte[]> l = new ArrayList<>(); while (true) l.add(new byte[1 << 20]); } }
END
javac Fill.java
java -Xmx24m Fill
"#,
    ),
    open_case(
        "node: no more memory",
        &["node"],
        Memory,
        &["JavaScript heap out of memory"],
        r#"
ulimit -c 0
node --max-old-space-size=32 -e 'const l = []; for (;;) l.push(new Array(1000).fill({}));'
"#,
    ),
    held_out_case(
        "sh: a script without its executable bit",
        &[],
        Permission,
        &["deploy.sh: Permission denied"],
        r#"
printf '#!/bin/sh\necho deployed\n' > deploy.sh
echo "deploying to staging"
./deploy.sh
"#,
    ),
    open_case(
        "bash: a script with the line ends of Windows",
        &["bash"],
        Command,
        &["bad interpreter", "cannot execute: required file not found"],
        r#"
printf '#!/bin/sh\r\necho deployed\r\n' > deploy.sh
chmod +x deploy.sh
bash -c './deploy.sh; exit $?'
"#,
    ),
    held_out_case(
        "cp: a directory of another user",
        &["setpriv", "root"],
        Permission,
        &["Permission denied"],
        r#"
chmod 755 .; mkdir -m 755 site; echo hello > index.html
echo "copying 1 file"
setpriv --reuid=65534 --regid=65534 --clear-groups cp index.html site/
"#,
    ),
    open_case(
        "sh: a command that is not installed",
        &[],
        Command,
        &["helmfile: not found"],
        "echo 'deploying'; helmfile apply",
    ),
    held_out_case(
        "bash: a command that is not installed",
        &["bash"],
        Command,
        &["kustomise: command not found"],
        r#"
printf 'set -e\necho building\nkustomise build overlays/production\n' > build.sh
bash build.sh
"#,
    ),
    AnalysisCase {
        timeout_s: 3,
        ..open_case(
            "sh: waits for ever",
            &[],
            Timeout,
            &["waiting for shop-api to answer"],
            "echo 'deployed'; echo 'waiting for shop-api to answer'; sleep 60",
        )
    },
    held_out_case(
        "gcc: a program that crashes",
        &["gcc", "bash"],
        Crash,
        &["Segmentation fault"],
        r#"
printf 'int main(void) { volatile int *p = 0; return *p; }\n' > crash.c
gcc -o crash crash.c
printf 'echo migrating\n./crash\necho "exit code was $?"\nexit 139\n' > run.sh
bash run.sh
"#,
    ),
    open_case(
        "python: an exception",
        &["python3"],
        Crash,
        &["ZeroDivisionError: division by zero"],
        r#"
cat > report.py <<'END'
def mean(rows): return sum(rows) / len(rows)
print("rows: 0")
print(mean([]))
END
python3 report.py
"#,
    ),
    held_out_case(
        "node: an exception",
        &["node"],
        Crash,
        &["TypeError: Cannot read properties of undefined"],
        r#"
printf 'const config = {};\nconsole.log("starting");\nconsole.log(config.shop.name);\n' > app.js
node app.js
"#,
    ),
    open_case(
        "rust: a panic",
        &["rustc"],
        Crash,
        &["panicked at main.rs", "called `Option::unwrap()` on a `None` value"],
        r#"
printf 'fn main() { let list: Vec<u8> = Vec::new(); println!("{}", list.first().unwrap()); }\n' > main.rs
rustc main.rs
./main
"#,
    ),
    held_out_case(
        "gcc: an assertion of a program",
        &["gcc"],
        Crash,
        &["Assertion `count > 0' failed", "Aborted"],
        r#"
printf '#include <assert.h>\nint main(int count, char **v) { (void)v; count = 0; assert(count > 0); return 0; }\n' > app.c
gcc -o app app.c
./app
"#,
    ),
    open_case(
        "sh: a variable that is not set",
        &[],
        Configuration,
        &["DATABASE_URL: must be set"],
        r#"
echo "configuring"
: "${DATABASE_URL:?must be set}"
"#,
    ),
    held_out_case(
        "python: a file that is no JSON",
        &["python3"],
        Configuration,
        &["json.decoder.JSONDecodeError: Expecting"],
        r#"
printf '{\n  "name": "shop"\n  "port": 8080\n}\n' > config.json
python3 -c 'import json; print(json.load(open("config.json")))'
"#,
    ),
    open_case(
        "sh: a script that ends too early",
        &[],
        Command,
        &["Syntax error: end of file unexpected"],
        r#"
printf 'if true; then\n  echo deployed\n' > deploy.sh
sh deploy.sh
"#,
    ),
    held_out_case(
        "jq: a file that is no JSON",
        &["jq"],
        Configuration,
        &["parse error"],
        r#"
printf '{"name": "shop", "port": }\n' > config.json
echo "reading config.json"
jq .port config.json
"#,
    ),
    open_case(
        "cat: a file that is not there",
        &[],
        File,
        &["cat: config/production.env: No such file or directory"],
        "echo 'reading the configuration'; cat config/production.env",
    ),
    held_out_case(
        "python: a file that is not there",
        &["python3"],
        File,
        &["FileNotFoundError: [Errno 2] No such file or directory: 'config/app.toml'"],
        r#"
printf 'with open("config/app.toml") as file:\n    print(file.read())\n' > app.py
python3 app.py
"#,
    ),
];
