//! `lists`: measures whether reading a page takes the same time however long the list is and wherever the page is in
//! it.
//!
//! Lists of all sizes are served at the same time, and each round measures every case at every size in turn, so that
//! noise affects both values of a ratio.

use std::collections::HashMap;
use std::sync::Arc;

use anyhow::{Context as _, ensure};

use crate::data::{SEARCHED, SEARCHED_ROWS};
use crate::load::{self, Connection, NextPath, Random, Round};
use crate::options::Options;
use crate::report;
use crate::site::Site;

pub(crate) const PAGE_ROWS: usize = 20;
/// Maximum number of random positions to read from. The pages at these positions do not all fit into a cache.
const PLACES_MAX: usize = 4_096;
/// If a round of a case takes longer than this multiple of its planned length, the case is not measured again.
const SLOW_TIMES: u32 = 4;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Case {
    One,
    First,
    Cursor,
    Offset,
    Last,
    Search,
}

impl Case {
    const ALL: [Case; 6] = [Case::One, Case::First, Case::Cursor, Case::Offset, Case::Last, Case::Search];

    /// Returns the baseline and the selected cases.
    pub(crate) fn wanted(only: &str) -> Vec<Case> {
        let mut all = Case::ALL.to_vec();
        all.retain(|case| *case == Case::One || case.title().contains(only));
        all
    }

    pub(crate) fn title(self) -> &'static str {
        match self {
            Case::One => "one pipeline by id",
            Case::First => "first page",
            Case::Cursor => "cursor, random depth",
            Case::Offset => "offset, random depth",
            Case::Last => "last page by offset",
            Case::Search => "search, few matches",
        }
    }
}

/// Rounds by size and case.
pub(crate) type Rounds = HashMap<(usize, Case), Vec<Round>>;

/// Ids and cursors at random positions in a list, taken from the server's responses.
struct Places {
    ids: Vec<String>,
    cursors: Vec<String>,
}

pub(crate) fn run(options: &Options) -> anyhow::Result<()> {
    let temp = tempfile::Builder::new().prefix("berth-bench-").tempdir_in(&options.dir)?;
    let mut sites = Vec::new();
    for rows in &options.rows {
        eprintln!("filling a list of {} pipelines", report::grouped(*rows));
        sites.push(Site::open(temp.path(), *rows)?);
    }
    // All clients share one thread, to leave the other cores to the server.
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let rounds = runtime.block_on(measure(options, &sites))?;
    print!("{}", report::render(options, &sites, &rounds));
    if options.check {
        report::check(&options.rows, &rounds)?;
    }
    Ok(())
}

async fn measure(options: &Options, sites: &[Site]) -> anyhow::Result<Rounds> {
    let mut paths: HashMap<(usize, Case), NextPath> = HashMap::new();
    for site in sites {
        check_search(site).await?;
        let places = Arc::new(places(site).await?);
        for case in Case::ALL {
            paths.insert((site.rows, case), next_path(case, site, places.clone()));
        }
    }
    let mut rounds = Rounds::new();
    for number in 0..options.rounds {
        eprintln!("round {} of {}", number + 1, options.rounds);
        for case in Case::wanted(&options.only) {
            for site in sites {
                let key = (site.rows, case);
                let done = rounds.entry(key).or_default();
                if done.iter().any(|round| round.took > SLOW_TIMES * options.round) {
                    continue;
                }
                let seed = (number * options.clients) as u64;
                let round = load::round(&site.target, &paths[&key], options.clients, options.round, seed);
                let round = round.await.with_context(|| format!("{} rows, {}", site.rows, case.title()))?;
                done.push(round);
            }
        }
    }
    Ok(rounds)
}

fn next_path(case: Case, site: &Site, places: Arc<Places>) -> NextPath {
    let (list, rows) = (site.list.clone(), site.rows);
    let page = format!("{list}?limit={PAGE_ROWS}");
    match case {
        Case::One => Arc::new(move |random| format!("{list}/{}", places.ids[random.below(places.ids.len())])),
        Case::First => Arc::new(move |_| page.clone()),
        Case::Cursor => Arc::new(move |random| {
            format!("{page}&cursor={}", places.cursors[random.below(places.cursors.len())])
        }),
        Case::Offset => Arc::new(move |random| format!("{page}&offset={}", random.below(rows - PAGE_ROWS))),
        Case::Last => Arc::new(move |_| format!("{page}&offset={}", (rows - 1) / PAGE_ROWS * PAGE_ROWS)),
        Case::Search => Arc::new(move |_| format!("{page}&search={SEARCHED}")),
    }
}

async fn places(site: &Site) -> anyhow::Result<Places> {
    let mut connection = Connection::open(&site.target).await?;
    let mut random = Random::new(site.rows as u64);
    let mut places = Places { ids: Vec::new(), cursors: Vec::new() };
    for _ in 0..PLACES_MAX.min(site.rows) {
        // Stay away from the end of the list, so that every cursor leads to a full page.
        let offset = random.below(site.rows - 2 * PAGE_ROWS);
        let page = page(&mut connection, &format!("{}?limit=1&offset={offset}", site.list)).await?;
        let text = |pointer: &str| page.pointer(pointer).and_then(|value| value.as_str()).map(str::to_owned);
        places.ids.push(text("/data/0/id").context("a page without a pipeline")?);
        places.cursors.push(text("/pagination/nextCursor").context("a page without a cursor")?);
    }
    Ok(places)
}

/// Checks that the search finds the expected rows, because an empty result would be fast for the wrong reason. If the
/// search is refused, it is counted as failed later.
async fn check_search(site: &Site) -> anyhow::Result<()> {
    let mut connection = Connection::open(&site.target).await?;
    let (status, body) = connection.get(&format!("{}?search={SEARCHED}", site.list)).await?;
    if status != 200 {
        eprintln!("the search in {} rows answers {status}", report::grouped(site.rows));
        return Ok(());
    }
    let page: serde_json::Value = serde_json::from_slice(body)?;
    let found = page.pointer("/data").and_then(|data| data.as_array()).map_or(0, Vec::len);
    ensure!(found == SEARCHED_ROWS, "the search finds {found} pipelines instead of {SEARCHED_ROWS}");
    Ok(())
}

async fn page(connection: &mut Connection, path: &str) -> anyhow::Result<serde_json::Value> {
    let (status, body) = connection.get(path).await?;
    ensure!(status == 200, "{path} returned {status}: {}", String::from_utf8_lossy(body));
    serde_json::from_slice(body).context("the answer is not JSON")
}
