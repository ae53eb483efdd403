//! One SQL text for two databases: every migration runs and every statement prepares on a real PostgreSQL, too.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use berth_store::migrations::MIGRATIONS;
use berth_store::sql::{self, Engine, render};

const START_MAX: Duration = Duration::from_secs(30);

#[test]
fn every_migration_runs_and_every_statement_prepares_on_postgresql() {
    let Some(bin) = binaries() else {
        eprintln!("SKIPPED: no PostgreSQL here; `apt-get install postgresql` brings one");
        return;
    };
    let server = Server::start(&bin);
    let mut client = server.connect();
    for migration in MIGRATIONS {
        client.batch_execute(&migration.rendered(Engine::Postgres)).unwrap_or_else(|error| {
            panic!("migration {} on PostgreSQL: {error:?}", migration.name);
        });
    }
    let mut failures = Vec::new();
    for statement in sql::all() {
        match client.prepare(&render(statement.text, Engine::Postgres)) {
            Err(error) => failures.push(format!("{}: {error:?}", statement.name)),
            Ok(prepared) => {
                // What goes in and out must be one of the types the store has values for.
                let params = prepared.params().iter().map(::postgres::types::Type::name);
                let columns = prepared.columns().iter().map(|column| column.type_().name());
                let odd = params.chain(columns).filter(|kind| !["text", "int8", "bytea"].contains(kind));
                failures.extend(odd.map(|kind| format!("{} uses {kind}", statement.name)));
            }
        }
    }
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}

fn binaries() -> Option<PathBuf> {
    if let Some(given) = std::env::var_os("BERTH_TEST_POSTGRES_BIN") {
        return Some(given.into());
    }
    let versions = std::fs::read_dir("/usr/lib/postgresql").ok()?;
    let mut found: Vec<_> = versions.flatten().map(|entry| entry.path().join("bin")).collect();
    found.sort();
    found.into_iter().rev().find(|bin| bin.join("initdb").exists())
}

/// A PostgreSQL of our own on a Unix socket, gone when dropped.
struct Server {
    child: Child,
    dir: tempfile::TempDir,
}

impl Server {
    fn start(bin: &Path) -> Self {
        let dir = tempfile::Builder::new().prefix("berth-pg-").tempdir_in("/tmp").unwrap();
        let is_root = run(Command::new("id").arg("-u")).trim() == "0";
        if is_root {
            // PostgreSQL refuses to run as root; Debian's package brings a user for it.
            run(Command::new("chown").arg("postgres").arg(dir.path()));
        }
        let command = |program: &str| {
            let program = bin.join(program);
            let mut command = Command::new(if is_root { Path::new("setpriv") } else { program.as_path() });
            if is_root {
                command.args(["--reuid=postgres", "--regid=postgres", "--clear-groups"]).arg(&program);
            }
            command.current_dir(dir.path());
            command
        };
        let data = dir.path().join("data");
        run(command("initdb").args(["--auth=trust", "--username=berth", "--no-sync", "-D"]).arg(&data));
        let child = command("postgres")
            .arg("-D")
            .arg(&data)
            .args(["-c", "listen_addresses=", "-c", "fsync=off", "-k"])
            .arg(dir.path())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        Self { child, dir }
    }

    fn connect(&self) -> ::postgres::Client {
        let address = format!("host={} user=berth dbname=postgres", self.dir.path().display());
        let deadline = Instant::now() + START_MAX;
        loop {
            match ::postgres::Client::connect(&address, ::postgres::NoTls) {
                Ok(client) => return client,
                Err(error) => assert!(Instant::now() < deadline, "PostgreSQL did not start: {error}"),
            }
            std::thread::yield_now();
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn run(command: &mut Command) -> String {
    let output = command.output().unwrap();
    assert!(output.status.success(), "{command:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8_lossy(&output.stdout).into_owned()
}
