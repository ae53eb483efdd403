//! Tables that fit the terminal's width: ids that are not needed are dropped first, then the longest columns are
//! truncated, then the last columns are dropped. Important columns come last.

use anstyle::Style;
use comfy_table::{ContentArrangement, Table, presets};

use super::{apply_style, colour_word};

/// Spaces between columns.
const GAP: usize = 2;
/// Minimum width of a truncated column.
const COLUMN_MIN: usize = 10;
/// Columns with ids that users pass to other commands.
const NEVER_TRUNCATED: &[&str] = &["id", "ticket", "approval"];
/// Columns that are neither truncated nor dropped while there is another column left: what people look for.
const IMPORTANT: &[&str] = &["holder", "expires", "reason", "status", "created", "requested"];
/// An important column may be truncated to this width, so that it does not displace all others.
const IMPORTANT_WIDTH: usize = 30;
/// End of the headings of ids that are dropped on a narrow terminal, because the first column also names the record.
const DROPPED_FIRST: &str = " id";

pub(super) fn render_table(heading: &[&str], rows: &[Vec<String>], width: Option<u16>) -> String {
    let all = TableColumns::of(heading, rows);
    let fitting = match width {
        Some(width) => all.fit(usize::from(width)),
        None => all,
    };
    let rows: Vec<Vec<String>> = rows.iter().map(|row| fitting.fit_row(row)).collect();
    build_table(&fitting.headings(), &rows, ContentArrangement::Disabled).trim_fmt()
}

/// Renders a table in which the last column is wrapped instead of truncated.
pub(super) fn render_wrapped_table(heading: &[&str], rows: &[Vec<String>], width: Option<u16>) -> String {
    let mut table = build_table(heading, rows, ContentArrangement::Dynamic);
    if let Some(width) = width {
        table.set_width(width);
    }
    table.trim_fmt()
}

fn build_table(heading: &[&str], rows: &[Vec<String>], arrangement: ContentArrangement) -> Table {
    let mut table = Table::new();
    table.load_style(presets::NOTHING).set_content_arrangement(arrangement);
    table.set_header(heading.iter().map(|cell| apply_style(&cell.to_uppercase(), Style::new().dimmed())));
    for row in rows {
        table.add_row(row.iter().map(|cell| colour_word(cell)));
    }
    for column in table.column_iter_mut() {
        column.set_padding((0, 2));
    }
    table
}

/// Visible columns with their widths.
struct TableColumns<'a>(Vec<TableColumn<'a>>);

struct TableColumn<'a> {
    heading: &'a str,
    /// Index of the column within a row.
    place: usize,
    longest: usize,
    width: usize,
    is_empty: bool,
}

impl TableColumn<'_> {
    /// The first column is never truncated either, because it identifies the row.
    fn is_never_truncated(&self) -> bool {
        self.place == 0 || NEVER_TRUNCATED.contains(&self.heading) || self.is_dropped_first()
    }

    fn is_dropped_first(&self) -> bool {
        self.place > 0 && self.heading.ends_with(DROPPED_FIRST)
    }

    fn is_important(&self) -> bool {
        IMPORTANT.contains(&self.heading)
    }

    fn width_min(&self, protects: bool) -> usize {
        if self.is_never_truncated() {
            self.width
        } else if protects && self.is_important() {
            IMPORTANT_WIDTH.min(self.width)
        } else {
            COLUMN_MIN.max(self.heading.len()).min(self.width)
        }
    }
}

impl<'a> TableColumns<'a> {
    fn of(heading: &[&'a str], rows: &[Vec<String>]) -> Self {
        let column = |(place, heading): (usize, &&'a str)| {
            let cells = || rows.iter().filter_map(|row| row.get(place));
            let longest = cells().map(|cell| cell.chars().count()).max().unwrap_or_default();
            let is_empty = cells().all(|cell| cell == "-");
            let longest = longest.max(heading.chars().count());
            TableColumn { heading, place, longest, width: longest, is_empty }
        };
        Self(heading.iter().enumerate().map(column).collect())
    }

    fn width(&self) -> usize {
        self.0.iter().map(|column| column.width).sum::<usize>() + GAP * self.0.len().saturating_sub(1)
    }

    /// Fits the columns into `width`: drops empty ones and unneeded ids, truncates the longest ones, then drops the last
    /// ones.
    fn fit(mut self, width: usize) -> Self {
        if self.width() > width {
            self.0.retain(|column| column.place == 0 || !column.is_empty);
        }
        if self.width() > width {
            self.0.retain(|column| !column.is_dropped_first());
        }
        for protects in [true, false] {
            loop {
                self.shorten(width, protects);
                if self.width() <= width {
                    return self;
                }
                let is_kept =
                    |it: &TableColumn<'_>| it.is_never_truncated() || (protects && it.is_important());
                let Some(last) = self.0.iter().rposition(|column| !is_kept(column)) else { break };
                self.0.remove(last);
            }
        }
        self
    }

    /// Truncates the longest columns. With `protects`, not the important ones.
    fn shorten(&mut self, width: usize, protects: bool) {
        self.0.iter_mut().for_each(|column| column.width = column.longest);
        while self.width() > width {
            let longest = self.0.iter_mut().filter(|column| column.width > column.width_min(protects));
            let Some(longest) = longest.max_by_key(|column| column.width) else { return };
            longest.width -= 1;
        }
    }

    fn headings(&self) -> Vec<&'a str> {
        self.0.iter().map(|column| column.heading).collect()
    }

    fn fit_row(&self, cells: &[String]) -> Vec<String> {
        let cell =
            |column: &TableColumn<'_>| cells.get(column.place).map(|cell| truncate_cell(cell, column.width));
        self.0.iter().filter_map(cell).collect()
    }
}

fn truncate_cell(cell: &str, width: usize) -> String {
    if cell.chars().count() <= width {
        return cell.to_owned();
    }
    let kept: String = cell.chars().take(width.saturating_sub(1)).collect();
    format!("{}…", kept.trim_end())
}

#[cfg(test)]
mod tests {
    use expect_test::{Expect, expect};

    use super::render_table;

    fn check(width: Option<u16>, expected: &Expect) {
        let row = |cells: [&str; 6]| cells.map(str::to_owned).to_vec();
        let rows = [
            row([
                "shop #12",
                "failed",
                "4f2a1c9b0e3d4f2a1c9b0e3d4f2a1c9b0e3d4f2a",
                "-",
                "12 min ago",
                "dep_01k9x8s6q0e3v7m2c4w5t8y6zb",
            ]),
            row([
                "shop/qa-1 #2",
                "queued",
                "feature/dark",
                "-",
                "just now",
                "dep_01k9x8s6q0e4v7m2c4w5t8y6zb",
            ]),
        ];
        let text = render_table(&["deployment", "status", "commit", "why", "asked", "id"], &rows, width);
        let text = anstream::adapter::strip_str(&text).to_string();
        assert!(text.lines().count() == 3, "each row is a line: {text}");
        let longest = text.lines().map(|line| line.chars().count()).max();
        assert!(width.is_none_or(|width| longest <= Some(width.into())), "{text}");
        expected.assert_eq(&text);
    }

    #[test]
    fn important_columns_stay_whole_while_others_can_be_dropped() {
        let cells = [
            "shop/qa-1",
            "ada",
            "in 2 h",
            "customer demo at noon",
            "clean",
            "4d6d0ebe Make it green",
            "5 min ago",
        ];
        let rows = [cells.map(str::to_owned).to_vec()];
        let heading = ["environment", "holder", "expires", "reason", "state", "commit", "since"];
        let text = render_table(&heading, &rows, Some(64));
        assert_eq!(
            anstream::adapter::strip_str(&text).to_string(),
            "ENVIRONMENT  HOLDER  EXPIRES  REASON                 STATE\n\
             shop/qa-1    ada     in 2 h   customer demo at noon  clean"
        );
    }

    #[test]
    fn unneeded_id_is_dropped_before_a_column_is_truncated() {
        let rows = [["shop #12", "failed", "dep_01k9x8s6q0e3v7m2c4w5t8y6zb"].map(str::to_owned).to_vec()];
        let table = |width| {
            let text = render_table(&["deployment", "status", "deployment id"], &rows, Some(width));
            anstream::adapter::strip_str(&text).to_string()
        };
        assert!(table(60).contains("dep_01k9x8s6q0e3v7m2c4w5t8y6zb"), "{}", table(60));
        assert_eq!(table(40), "DEPLOYMENT  STATUS\nshop #12    failed");
    }

    #[test]
    fn table_fits_the_terminal_and_keeps_ids() {
        check(
            None,
            &expect![[r#"
                DEPLOYMENT    STATUS  COMMIT                                    WHY  ASKED       ID
                shop #12      failed  4f2a1c9b0e3d4f2a1c9b0e3d4f2a1c9b0e3d4f2a  -    12 min ago  dep_01k9x8s6q0e3v7m2c4w5t8y6zb
                shop/qa-1 #2  queued  feature/dark                              -    just now    dep_01k9x8s6q0e4v7m2c4w5t8y6zb"#]],
        );
        check(
            Some(80),
            &expect![[r#"
                DEPLOYMENT    STATUS  COMMIT          ASKED       ID
                shop #12      failed  4f2a1c9b0e3d4…  12 min ago  dep_01k9x8s6q0e3v7m2c4w5t8y6zb
                shop/qa-1 #2  queued  feature/dark    just now    dep_01k9x8s6q0e4v7m2c4w5t8y6zb"#]],
        );
        check(
            Some(64),
            &expect![[r#"
                DEPLOYMENT    STATUS  COMMIT      ID
                shop #12      failed  4f2a1c9b0…  dep_01k9x8s6q0e3v7m2c4w5t8y6zb
                shop/qa-1 #2  queued  feature/d…  dep_01k9x8s6q0e4v7m2c4w5t8y6zb"#]],
        );
        check(
            Some(50),
            &expect![[r#"
                DEPLOYMENT    ID
                shop #12      dep_01k9x8s6q0e3v7m2c4w5t8y6zb
                shop/qa-1 #2  dep_01k9x8s6q0e4v7m2c4w5t8y6zb"#]],
        );
    }
}
