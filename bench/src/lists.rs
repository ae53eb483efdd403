//! `lists`: measures whether reading a page takes the same time however long the list is and wherever the page is in
//! it.
//!
//! Lists of all sizes are served at the same time, and each round measures every case at every size in turn, so that
//! noise affects both values of a ratio.

use std::collections::HashMap;
use std::sync::Arc;

use anyhow::{Context as _, ensure};

use crate::data::{SEARCHED, SEARCHED_ROWS};
use crate::load::{self, BenchRandom, LoadConnection, LoadRound, NextPath};
use crate::options::ListOptions;
use crate::report;
use crate::site::ListSite;

pub(crate) const PAGE_ROWS: usize = 20;
/// Maximum number of random positions to read from. The pages at these positions do not all fit into a cache.
const POSITIONS_MAX: usize = 4_096;
/// If a round of a case takes longer than this multiple of its planned length, the case is not measured again.
const SLOW_TIMES: u32 = 4;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum ListCase {
    One,
    First,
    Cursor,
    Offset,
    Last,
    Search,
}

impl ListCase {
    const ALL: [ListCase; 6] = [
        ListCase::One,
        ListCase::First,
        ListCase::Cursor,
        ListCase::Offset,
        ListCase::Last,
        ListCase::Search,
    ];

    /// Returns the baseline and the selected cases.
    pub(crate) fn select(only: &str) -> Vec<ListCase> {
        let mut all = ListCase::ALL.to_vec();
        all.retain(|case| *case == ListCase::One || case.title().contains(only));
        all
    }

    pub(crate) fn title(self) -> &'static str {
        match self {
            ListCase::One => "one pipeline by id",
            ListCase::First => "first page",
            ListCase::Cursor => "cursor, random depth",
            ListCase::Offset => "offset, random depth",
            ListCase::Last => "last page by offset",
            ListCase::Search => "search, few matches",
        }
    }
}

/// Rounds by size and case.
pub(crate) type ListRounds = HashMap<(usize, ListCase), Vec<LoadRound>>;

/// Ids and cursors at random positions in a list, taken from the server's responses.
struct ListPositions {
    ids: Vec<String>,
    cursors: Vec<String>,
}

pub(crate) fn run(options: &ListOptions) -> anyhow::Result<()> {
    let temp = tempfile::Builder::new().prefix("berth-bench-").tempdir_in(&options.dir)?;
    let mut sites = Vec::new();
    for rows in &options.rows {
        eprintln!("filling a list of {} pipelines", report::group_digits(*rows));
        sites.push(ListSite::open(temp.path(), *rows)?);
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

async fn measure(options: &ListOptions, sites: &[ListSite]) -> anyhow::Result<ListRounds> {
    let mut paths: HashMap<(usize, ListCase), NextPath> = HashMap::new();
    for site in sites {
        check_search(site).await?;
        let places = Arc::new(sample_positions(site).await?);
        for case in ListCase::ALL {
            paths.insert((site.rows, case), next_path(case, site, places.clone()));
        }
    }
    let mut rounds = ListRounds::new();
    for number in 0..options.rounds {
        eprintln!("round {} of {}", number + 1, options.rounds);
        for case in ListCase::select(&options.only) {
            for site in sites {
                let key = (site.rows, case);
                let done = rounds.entry(key).or_default();
                if done.iter().any(|round| round.took > SLOW_TIMES * options.round) {
                    continue;
                }
                let seed = (number * options.clients) as u64;
                let round = load::run_round(&site.target, &paths[&key], options.clients, options.round, seed);
                let round = round.await.with_context(|| format!("{} rows, {}", site.rows, case.title()))?;
                done.push(round);
            }
        }
    }
    Ok(rounds)
}

fn next_path(case: ListCase, site: &ListSite, places: Arc<ListPositions>) -> NextPath {
    let (list, rows) = (site.list.clone(), site.rows);
    let page = format!("{list}?limit={PAGE_ROWS}");
    match case {
        ListCase::One => {
            Arc::new(move |random| format!("{list}/{}", places.ids[random.below(places.ids.len())]))
        }
        ListCase::First => Arc::new(move |_| page.clone()),
        ListCase::Cursor => Arc::new(move |random| {
            format!("{page}&cursor={}", places.cursors[random.below(places.cursors.len())])
        }),
        ListCase::Offset => {
            Arc::new(move |random| format!("{page}&offset={}", random.below(rows - PAGE_ROWS)))
        }
        ListCase::Last => Arc::new(move |_| format!("{page}&offset={}", (rows - 1) / PAGE_ROWS * PAGE_ROWS)),
        ListCase::Search => Arc::new(move |_| format!("{page}&search={SEARCHED}")),
    }
}

async fn sample_positions(site: &ListSite) -> anyhow::Result<ListPositions> {
    let mut connection = LoadConnection::open(&site.target).await?;
    let mut random = BenchRandom::new(site.rows as u64);
    let mut places = ListPositions { ids: Vec::new(), cursors: Vec::new() };
    for _ in 0..POSITIONS_MAX.min(site.rows) {
        // Stay away from the end of the list, so that every cursor leads to a full page.
        let offset = random.below(site.rows - 2 * PAGE_ROWS);
        let page = get_page(&mut connection, &format!("{}?limit=1&offset={offset}", site.list)).await?;
        let text = |pointer: &str| page.pointer(pointer).and_then(|value| value.as_str()).map(str::to_owned);
        places.ids.push(text("/data/0/id").context("a page without a pipeline")?);
        places.cursors.push(text("/pagination/nextCursor").context("a page without a cursor")?);
    }
    Ok(places)
}

/// Checks that the search finds the expected rows, because an empty result would be fast for the wrong reason. If the
/// search is refused, it is counted as failed later.
async fn check_search(site: &ListSite) -> anyhow::Result<()> {
    let mut connection = LoadConnection::open(&site.target).await?;
    let (status, body) = connection.get(&format!("{}?search={SEARCHED}", site.list)).await?;
    if status != 200 {
        eprintln!("the search in {} rows answers {status}", report::group_digits(site.rows));
        return Ok(());
    }
    let page: serde_json::Value = serde_json::from_slice(body)?;
    let found = page.pointer("/data").and_then(|data| data.as_array()).map_or(0, Vec::len);
    ensure!(found == SEARCHED_ROWS, "the search finds {found} pipelines instead of {SEARCHED_ROWS}");
    Ok(())
}

async fn get_page(connection: &mut LoadConnection, path: &str) -> anyhow::Result<serde_json::Value> {
    let (status, body) = connection.get(path).await?;
    ensure!(status == 200, "{path} returned {status}: {}", String::from_utf8_lossy(body));
    serde_json::from_slice(body).context("the answer is not JSON")
}
