//! `berth run`: runs a stage locally with uncommitted files and leaves nothing behind.

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use expect_test::{Expect, expect};
use rustix::process::{Pid, Signal, test_kill_process};
use tempfile::TempDir;

use crate::harness::{BerthProcess, ProcessOutput, berth, wait_until};

const PATIENCE: Duration = Duration::from_secs(120);
const SHOP: &str = "version: 1
pipeline:
  name: Shop
  build:
    - name: Build
      type: script
      params: { run: 'mkdir dist; cp page.txt dist; echo image=shop-1 >> $BERTH_OUTPUT' }
      outputs: [image]
      artifacts: { site: { path: dist } }
  stages:
    - { name: staging, vars: { to: staging } }
    - { name: production, vars: { to: production }, requires: { approvals: 2 } }
  steps:
    - name: Deploy
      type: script
      needs_artifacts: [site]
      runs_on: [gpu]
      env: { IMAGE: '${{ build.image }}', TO: '${{ vars.to }}', TOKEN: '${{ secrets.TOKEN }}' }
      params: { run: 'echo $IMAGE goes to $TO with $TOKEN; cat dist/page.txt' }
    - { name: Watch, type: soak, params: { duration: 10m } }
    - name: Check
      type: script
      params: { run: 'cat note.txt; test ! -e secret.txt; test \"$(cat page.txt)\" != broken || exit 7' }
  ephemeral_environments:
    qa-1: { vars: { to: qa-1 } }
";

/// A project directory, and a temporary directory that must be empty at the end.
struct LocalRunFixture {
    files: TempDir,
    temp: TempDir,
}

impl LocalRunFixture {
    fn new(definition: &str) -> Self {
        let cli = Self {
            files: tempfile::tempdir().expect("a directory"),
            temp: tempfile::tempdir().expect("a directory"),
        };
        cli.write(".berth/shop/pipeline.yaml", definition);
        cli.write("page.txt", "committed\n");
        cli
    }

    fn path(&self) -> &Path {
        self.files.path()
    }

    fn write(&self, path: &str, text: &str) {
        let path = self.path().join(path);
        std::fs::create_dir_all(path.parent().expect("a directory")).expect("made");
        std::fs::write(path, text).expect("written");
    }

    fn git(&self, words: &str) {
        let mut git = Command::new("git");
        git.args(["-c", "user.name=Ada", "-c", "user.email=ada@acme.test"]).args(words.split(' '));
        let done = git.current_dir(self.path()).output().expect("git");
        assert!(done.status.success(), "{done:?}");
    }

    fn command(&self, words: &[&str]) -> Command {
        let mut command = berth(&[&["run"], words].concat());
        command.current_dir(self.path()).env("TMPDIR", self.temp.path()).env("TOKEN", "s3cr3t-of-the-shop");
        command
    }

    fn start(&self, words: &[&str]) -> BerthProcess {
        BerthProcess::start(&mut self.command(words))
    }

    fn run(&self, words: &[&str]) -> ProcessOutput {
        let ran = self.start(words).wait(PATIENCE);
        self.check_nothing_left();
        ran
    }

    fn check_nothing_left(&self) {
        let left: Vec<_> = std::fs::read_dir(self.temp.path()).expect("a directory").collect();
        assert!(left.is_empty(), "{left:?}");
    }

    /// Compares normalized output and exit code.
    fn check(&self, words: &[&str], code: i32, expected: &Expect) {
        let ran = self.run(words);
        let root = self.path().canonicalize().expect("a path").display().to_string();
        let times = |line: &str| {
            let mut words: Vec<&str> = line.split(' ').collect();
            for at in 1..words.len() {
                if words[at].trim_end_matches(':') == "s" && words[at - 1].parse::<f64>().is_ok() {
                    words[at - 1] = "N";
                }
            }
            format!("{}\n", words.join(" "))
        };
        let said: String = ran.stderr.lines().chain(ran.stdout.lines()).map(times).collect();
        expected.assert_eq(&said.replace(&root, "HERE"));
        assert_eq!(ran.code, Some(code));
    }
}

#[test]
fn local_run_includes_the_build_and_uncommitted_files() {
    let cli = LocalRunFixture::new(SHOP);
    cli.write(".gitignore", "secret.txt\n");
    cli.write("gone.txt", "x");
    cli.git("init --quiet");
    cli.git("add .");
    cli.git("commit --quiet --message first");
    cli.write("page.txt", "changed\n");
    cli.write("note.txt", "not committed\n");
    cli.write("secret.txt", "ignored\n");
    std::fs::remove_file(cli.path().join("gone.txt")).expect("removed");
    cli.check(
        &["production", "--secret", "TOKEN"],
        0,
        &expect![[r#"
            berth: running production of shop with 4 files from HERE
            berth: production asks for 2 approvals: approvals are not requested here
            berth: the step watch is left out: nothing is waited for here
            ── build · Build
               succeeded in N s
            ── production · Deploy
            shop-1 goes to production with ***
            changed
               succeeded in N s
            ── production · Check
            not committed
               succeeded in N s
            production succeeded in N s
        "#]],
    );
}

#[test]
fn local_run_takes_tracked_paths_as_they_are_on_disk() {
    let cli = LocalRunFixture::new(
        "version: 1
pipeline:
  name: Shop
  stages: [{ name: staging }]
  steps: [{ name: Look, type: script, params: { run: 'cat page.txt/new.txt link/in.txt; find . -path ./.berth -prune -o ! -type d -print | sort' } }]
",
    );
    cli.write("link/in.txt", "there");
    cli.write("other/in.txt", "behind the link\n");
    cli.git("init --quiet");
    cli.git("add .");
    // A submodule that is not checked out.
    cli.git("update-index --add --cacheinfo 160000,0123456789012345678901234567890123456789,module");
    cli.git("commit --quiet --message first");
    std::fs::create_dir(cli.path().join("module")).expect("a directory");
    std::fs::remove_file(cli.path().join("page.txt")).expect("removed");
    cli.write("page.txt/new.txt", "a directory now\n");
    std::fs::remove_dir_all(cli.path().join("link")).expect("removed");
    std::os::unix::fs::symlink("other", cli.path().join("link")).expect("a link");
    cli.check(
        &[],
        0,
        &expect![[r#"
            berth: running staging of shop with 4 files from HERE
            ── staging · Look
            a directory now
            behind the link
            ./link
            ./other/in.txt
            ./page.txt/new.txt
               succeeded in N s
            staging succeeded in N s
        "#]],
    );
}

/// A fake git that reports when it starts to read the files, and then blocks.
const SLOW_GIT: &str = "#!/bin/sh
case \"$*\" in *'add --all'*) : > ../began; until test -e ../go; do sleep 0.05; done ;; esac
PATH=${PATH#*:}
exec git \"$@\"
";

#[test]
fn local_run_interrupted_while_reading_files_leaves_nothing() {
    for signal in [Signal::INT, Signal::HUP] {
        let home = tempfile::tempdir().expect("a directory");
        let programs = home.path().join("programs");
        std::fs::create_dir(&programs).expect("a directory");
        std::fs::write(programs.join("git"), SLOW_GIT).expect("a file");
        let executable = std::os::unix::fs::PermissionsExt::from_mode(0o755);
        std::fs::set_permissions(programs.join("git"), executable).expect("a program");
        let cli = LocalRunFixture {
            files: tempfile::tempdir_in(home.path()).expect("a directory"),
            ..LocalRunFixture::new(SHOP)
        };
        cli.write(".berth/shop/pipeline.yaml", SHOP);
        let path = format!("{}:{}", programs.display(), std::env::var("PATH").expect("a path"));
        let process = BerthProcess::start(cli.command(&["--step", "check"]).env("PATH", path));
        wait_until(PATIENCE, "slow git", || home.path().join("began").exists().then_some(()));
        process.signal(signal);
        std::fs::write(home.path().join("go"), "").expect("a file");
        let ran = process.wait(PATIENCE);
        assert_eq!((ran.code, ran.stdout.as_str()), (Some(130), ""), "{ran:?}");
        cli.check_nothing_left();
    }
}

#[test]
fn local_run_outside_git_reports_the_failed_step() {
    let cli = LocalRunFixture::new(SHOP);
    cli.write("page.txt", "broken");
    cli.write("note.txt", "a note\n");
    cli.check(
        &["--step", "check"],
        1,
        &expect![[r#"
            berth: running staging of shop with 3 files from HERE
            ── staging · Check
            a note
               failed in N s: exited with 7
            staging failed in N s: step "check": exited with 7
        "#]],
    );
}

#[test]
fn local_run_of_an_environment_holds_a_session() {
    let cli = LocalRunFixture::new(
        "version: 1
pipeline:
  name: Shop
  steps: [{ name: Deploy, type: script, params: { run: 'echo $BERTH_ENVIRONMENT $BERTH_FENCE' } }]
  ephemeral_environments: { qa-1: {} }
",
    );
    cli.check(
        &["--env", "qa-1"],
        0,
        &expect![[r#"
            berth: running qa-1 of shop with 2 files from HERE
            ── qa-1 · Deploy
            qa-1 1
               succeeded in N s
            qa-1 succeeded in N s
        "#]],
    );
}

#[test]
fn local_run_refuses_invalid_input_before_any_step() {
    let cli = LocalRunFixture::new(SHOP);
    let refused = |words: &[&str], code: i32, text: &str| {
        let ran = cli.run(words);
        assert_eq!((ran.code, ran.stdout.as_str()), (Some(code), ""), "{ran:?}");
        assert!(ran.stderr.contains(text), "{ran:?}");
    };
    refused(&["stagin"], 3, "there is no stage `stagin`; did you mean `staging`?");
    refused(&["--env", "qa-9"], 3, "there is no environment `qa-9`; did you mean `qa-1`?");
    refused(&["--step", "nothing"], 3, "there is no step `nothing`");
    refused(&["--pipeline", "blog"], 3, "no pipeline blog here; pipelines: shop");
    refused(&[], 2, "missing secrets: TOKEN");
    refused(&["--secret", "NOT_SET"], 2, "environment variable NOT_SET is not set");
    refused(&["--dir", "/"], 3, "or its parent directories");
    cli.write(".berth/blog/pipeline.yaml", SHOP);
    refused(&[], 2, "several pipelines found; choose one with --pipeline: blog, shop");
    cli.write(".berth/blog/pipeline.yaml", "version: 1\npipeline: { nam: x }\n");
    let wrong = cli.run(&["--pipeline", "blog"]);
    assert_eq!(wrong.code, Some(1));
    assert!(wrong.stdout.contains("did you mean `name`"), "{wrong:?}");
}

#[test]
fn local_run_interrupted_stops_everything() {
    let cli = LocalRunFixture::new(
        "version: 1
pipeline:
  name: Shop
  stages: [{ name: staging }]
  steps: [{ name: Deploy, type: script, params: { run: 'sleep 600 & echo $!; wait' } }]
",
    );
    // Without a sandbox the step sees the same process ids as the test.
    let mut process = cli.start(&["--sandbox", "off"]);
    process.first_line();
    let sleeper = wait_until(PATIENCE, "number of the process", || {
        let said = process.stdout_now();
        said.lines().nth(1).and_then(|line| line.parse().ok()).and_then(Pid::from_raw)
    });
    test_kill_process(sleeper).expect("it runs");
    process.signal(Signal::INT);
    let ran = process.wait(PATIENCE);
    assert_eq!(ran.code, Some(130), "{ran:?}");
    assert!(ran.stderr.contains("interrupted"), "{ran:?}");
    wait_until(PATIENCE, "end of what it started", || test_kill_process(sleeper).is_err().then_some(()));
    cli.check_nothing_left();
}
