//! Command-line options of `lists`.

use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context as _, bail, ensure};

pub(crate) const USAGE: &str = "\
usage: cargo xtask bench lists [options]

  --rows N,N,…   sizes of the list, smallest first [default: 1000,100000,1000000]
  --quick        the same as --rows 1000,50000
  --clients N    concurrent connections [default: 16]
  --seconds N    measured time of each case, in all rounds together [default: 3]
  --rounds N     rounds; every case is measured once in each [default: 5]
  --dir DIR      where to put the data [default: the system's temporary directory]
  --only WORD    only cases whose title contains this word, besides the baseline: first, cursor, offset, …
  --check        fail if a list gets too slow as it grows
";

const ROWS_MIN: usize = 100;
const ROWS_MAX: usize = 10_000_000;

pub(crate) struct ListOptions {
    pub(crate) rows: Vec<usize>,
    pub(crate) clients: usize,
    pub(crate) rounds: usize,
    pub(crate) round: Duration,
    pub(crate) dir: PathBuf,
    pub(crate) only: String,
    pub(crate) check: bool,
}

impl ListOptions {
    pub(crate) fn parse(args: &[String]) -> anyhow::Result<Self> {
        let mut rows = vec![1_000, 100_000, 1_000_000];
        let (mut clients, mut seconds, mut rounds) = (16, 3.0f64, 5);
        let mut dir = std::env::temp_dir();
        let (mut only, mut check) = (String::new(), false);
        let mut args = args.iter();
        while let Some(name) = args.next() {
            let mut value = || args.next().with_context(|| format!("{name} needs a value\n\n{USAGE}"));
            match name.as_str() {
                "--rows" => rows = parse_numbers(value()?)?,
                "--quick" => rows = vec![1_000, 50_000],
                "--clients" => clients = parse_number(value()?)?,
                "--seconds" => seconds = value()?.parse().context("--seconds must be a number")?,
                "--rounds" => rounds = parse_number(value()?)?,
                "--dir" => dir = value()?.into(),
                "--only" => only.clone_from(value()?),
                "--check" => check = true,
                other => bail!("unknown option {other}\n\n{USAGE}"),
            }
        }
        rows.sort_unstable();
        rows.dedup();
        let range = ROWS_MIN..=ROWS_MAX;
        ensure!(rows.iter().all(|rows| range.contains(rows)), "--rows must be {ROWS_MIN} to {ROWS_MAX}");
        ensure!((1..=1_000).contains(&clients), "--clients must be 1 to 1000");
        ensure!((1..=100).contains(&rounds), "--rounds must be 1 to 100");
        ensure!((0.1..=600.0).contains(&seconds), "--seconds must be 0.1 to 600");
        let round = Duration::from_secs_f64(seconds) / u32::try_from(rounds)?;
        Ok(Self { rows, clients, rounds, round, dir, only, check })
    }
}

fn parse_numbers(text: &str) -> anyhow::Result<Vec<usize>> {
    text.split(',').map(parse_number).collect()
}

fn parse_number(text: &str) -> anyhow::Result<usize> {
    let plain = text.replace('_', "");
    plain.parse().with_context(|| format!("\"{text}\" is not a whole number"))
}
