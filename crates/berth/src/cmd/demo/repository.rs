//! The sample repository `harbour-shop`, created with git when the demo starts.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use berth_engine::git::{self, GitError};

const README: &str = include_str!("harbour-shop/README.md");
const BUILD: &str = include_str!("harbour-shop/build.sh");
const CHECK: &str = include_str!("harbour-shop/check.sh");
const SEND: &str = include_str!("harbour-shop/send.sh");
const DEPLOY: &str = include_str!("harbour-shop/deploy.sh");
const DEPLOY_SLOWLY: &str = include_str!("harbour-shop/deploy-slow.sh");

const OLD_PRICES: &str = "12.00 a rope of ten fathoms\n48.50 an anchor, small\n3.20 a bell\n";
const NEW_PRICES: &str = "11.00 a rope of ten fathoms\n45.00 an anchor, small\n3.20 a bell\n";

const PROGRAM: &str = "100755";
const PLAIN: &str = "100644";

/// The repository on disk.
pub(super) struct SampleRepository {
    pub(super) dir: PathBuf,
}

impl SampleRepository {
    /// Creates `main` with its first two commits, and the other branches. [`Self::push_green`] adds the third commit.
    pub(super) fn create(dir: &Path, definition: &str) -> Result<Self, GitError> {
        git::make_bare(dir)?;
        let mut history = FastImportStream::default();
        history.begin_commit("main", "", "Ada", "A shop in blue");
        history.add_file(PLAIN, "README.md", README);
        history.add_file(PROGRAM, "build.sh", BUILD);
        history.add_file(PROGRAM, "deploy.sh", DEPLOY);
        history.add_file(PROGRAM, "scripts/check.sh", CHECK);
        history.add_file(PROGRAM, "scripts/send.sh", SEND);
        history.add_file(PLAIN, ".berth/shop/pipeline.yaml", definition);
        history.add_file(PLAIN, "prices", OLD_PRICES);
        history.write_theme("blue", "1.0");
        history.begin_commit("main", "from :1\n", "Linus", "New prices");
        history.add_file(PLAIN, "prices", NEW_PRICES);
        history.write_theme("blue", "1.1");
        history.begin_commit("feature/dark", "from :2\n", "Ada", "The shop at night");
        history.write_theme("dark", "1.2-dark");
        history.begin_commit("slow", "from :2\n", "Grace", "Measure the shop under load");
        history.write_theme("amber", "1.2-load");
        history.add_file(PROGRAM, "deploy.sh", DEPLOY_SLOWLY);
        // The script's content is unchanged, but the file is no longer executable.
        history.begin_commit("broken", "from :2\n", "Linus", "Tidy up the scripts");
        history.add_file(PLAIN, "scripts/check.sh", CHECK);
        git::import(dir, &history.text)?;
        Ok(Self { dir: dir.to_owned() })
    }

    /// Adds a commit to `main`, as a push would.
    pub(super) fn push_green(&self) -> Result<(), GitError> {
        let mut history = FastImportStream::default();
        history.begin_commit("main", "from refs/heads/main^0\n", "Grace", "The shop in green");
        history.write_theme("green", "2.0");
        git::import(&self.dir, &history.text)
    }
}

/// Input for `git fast-import`, built up commit by commit.
#[derive(Default)]
struct FastImportStream {
    text: String,
    commits: u32,
}

impl FastImportStream {
    /// Starts a commit. Commits are numbered from 1; `from` refers to these numbers.
    fn begin_commit(&mut self, branch: &str, from: &str, who: &str, subject: &str) {
        self.commits += 1;
        let (number, email) = (self.commits, who.to_lowercase());
        let _ = write!(
            self.text,
            "commit refs/heads/{branch}\nmark :{number}\ncommitter {who} <{email}@acme.test> now\n\
             data {}\n{subject}\n{from}",
            subject.len()
        );
    }

    fn add_file(&mut self, mode: &str, path: &str, content: &str) {
        let _ = write!(self.text, "M {mode} inline {path}\ndata {}\n{content}\n", content.len());
    }

    fn write_theme(&mut self, colour: &str, version: &str) {
        self.add_file(PLAIN, "colour", &format!("{colour}\n"));
        self.add_file(PLAIN, "version", &format!("{version}\n"));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sample_repository_contains_all_branches() {
        let temp = tempfile::tempdir().unwrap();
        let dir = temp.path().join("harbour-shop.git");
        let sample = SampleRepository::create(&dir, "version: 1\n").unwrap();
        sample.push_green().unwrap();
        let git = |args: &[&str]| {
            let ran =
                std::process::Command::new("git").arg("--git-dir").arg(&dir).args(args).output().unwrap();
            assert!(ran.status.success(), "{ran:?}");
            String::from_utf8(ran.stdout).unwrap()
        };
        assert_eq!(
            git(&["for-each-ref", "--format=%(refname:short)"]).lines().collect::<Vec<_>>(),
            ["broken", "feature/dark", "main", "slow"]
        );
        assert_eq!(
            git(&["log", "--format=%s", "main"]).lines().collect::<Vec<_>>(),
            ["The shop in green", "New prices", "A shop in blue"]
        );
        let mode = |branch: &str| git(&["ls-tree", branch, "scripts/check.sh"])[..6].to_owned();
        assert_eq!((mode("main"), mode("broken")), (PROGRAM.to_owned(), PLAIN.to_owned()));
        assert_eq!(git(&["diff", "--shortstat", "main^", "feature/dark", "--", "*.sh"]), "");
    }
}
