//! Bar charts of a column of a Markdown table, as SVG.

use std::fmt::Write as _;

/// Which columns of a table a plot shows: those that label a row, by position, and the one with the values, by title.
#[derive(Debug, Clone, Copy)]
pub(super) struct PlotColumn {
    pub(super) label: &'static [usize],
    pub(super) value: &'static str,
}

const WIDTH: usize = 760;
const LABEL_WIDTH: usize = 330;
const VALUE_WIDTH: usize = 80;
const BAR_HEIGHT: usize = 18;
const ROW_HEIGHT: usize = 26;
const TOP: usize = 44;
/// Maximum number of characters of a label.
const LABEL_CHARS: usize = 52;

/// Draws the column of the first table that has it. `None` if no table has it, or it has no numbers.
pub(super) fn render(title: &str, column: PlotColumn, report: &str) -> Option<String> {
    let rows = read_rows(column, report);
    let most = rows.iter().map(|(_, value)| *value).fold(0.0, f64::max);
    if most <= 0.0 {
        return None;
    }
    let height = TOP + rows.len() * ROW_HEIGHT + 10;
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{WIDTH}\" height=\"{height}\" \
         font-family=\"system-ui, sans-serif\" font-size=\"13\">\n\
         <rect width=\"100%\" height=\"100%\" fill=\"#ffffff\"/>\n\
         <text x=\"10\" y=\"26\" font-size=\"15\" font-weight=\"600\" fill=\"#1a1a1a\">{}: {}</text>\n",
        escape(title),
        escape(column.value)
    );
    for (number, (label, value)) in rows.iter().enumerate() {
        let y = TOP + number * ROW_HEIGHT;
        let space = (WIDTH - LABEL_WIDTH - VALUE_WIDTH) as f64;
        let _ = writeln!(
            svg,
            "<text x=\"{}\" y=\"{}\" text-anchor=\"end\" fill=\"#444444\">{}</text>\n\
             <rect x=\"{LABEL_WIDTH}\" y=\"{y}\" width=\"{:.1}\" height=\"{BAR_HEIGHT}\" rx=\"3\" fill=\"#2f6fdd\"/>\n\
             <text x=\"{:.1}\" y=\"{}\" fill=\"#1a1a1a\">{value}</text>",
            LABEL_WIDTH - 10,
            y + 14,
            escape(label),
            (space * value / most).max(1.0),
            LABEL_WIDTH as f64 + space * value / most + 8.0,
            y + 14,
        );
    }
    svg.push_str("</svg>\n");
    Some(svg)
}

/// Reads the rows of the first table with the column. Rows without a number in it are left out.
fn read_rows(column: PlotColumn, report: &str) -> Vec<(String, f64)> {
    let mut lines = report.lines().skip_while(|line| !cells(line).contains(&column.value));
    let Some(at) = lines.next().and_then(|head| cells(head).iter().position(|cell| *cell == column.value))
    else {
        return Vec::new();
    };
    let table = lines.skip(1).take_while(|line| line.starts_with('|'));
    let rows = table.filter_map(|line| {
        let cells = cells(line);
        let number = cells.get(at)?.split([' ', '(']).next()?.replace(',', "");
        let label: Vec<&str> = column.label.iter().filter_map(|at| cells.get(*at).copied()).collect();
        Some((shorten(&label.join(", ").replace('`', "")), number.parse().ok()?))
    });
    rows.collect()
}

fn cells(line: &str) -> Vec<&str> {
    let inner = line.strip_prefix('|').and_then(|line| line.trim_end().strip_suffix('|'));
    inner.map(|inner| inner.split('|').map(str::trim).collect()).unwrap_or_default()
}

fn shorten(text: &str) -> String {
    match text.char_indices().nth(LABEL_CHARS) {
        None => text.to_owned(),
        Some((end, _)) => format!("{}…", &text[..end]),
    }
}

fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

#[cfg(test)]
mod tests {
    use super::*;

    const REPORT: &str = "Text.\n\n| other |\n|---|\n| 1 |\n\n| clients | server | pairs/s |\n|--:|---|--:|\n\
        | 64 | Berth | 3,249 |\n| 64 | `etcd` | 2,544.5 (old) |\n| 1 | Berth | – |\n\n| 2 | x | 7 |\n";
    const COLUMN: PlotColumn = PlotColumn { label: &[0, 1], value: "pairs/s" };

    #[test]
    fn rows_are_read_from_the_table_with_the_column() {
        let rows = read_rows(COLUMN, REPORT);
        assert_eq!(rows, [("64, Berth".to_owned(), 3_249.0), ("64, etcd".to_owned(), 2_544.5)]);
        assert!(read_rows(PlotColumn { label: &[0], value: "absent" }, REPORT).is_empty());
    }

    #[test]
    fn plot_has_a_bar_for_each_row() {
        let svg = render("Locks & more", COLUMN, REPORT).unwrap();
        assert_eq!(svg.matches("<rect").count(), 3, "background and two bars: {svg}");
        assert!(svg.contains("Locks &amp; more: pairs/s") && svg.contains(">2544.5<"), "{svg}");
        assert_eq!(render("none", PlotColumn { label: &[0], value: "absent" }, REPORT), None);
    }
}
