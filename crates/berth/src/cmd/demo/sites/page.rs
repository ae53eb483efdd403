//! HTML of the demo sites.

use std::fmt::Write as _;

use super::SiteContent;

const COMMIT_CHARS: usize = 7;
/// Reloads the page when its revision changes.
pub(super) const RELOAD_SCRIPT: &str = "\
const shown = document.documentElement.dataset.revision;\n\
const look = async () => {\n\
  const now = await fetch('/revision').then(answer => answer.text(), () => shown);\n\
  if (now !== shown) location.reload();\n\
};\n\
setInterval(look, 1000);\n";

const STYLE: &str = "\
*{box-sizing:border-box}\
body{margin:0;min-height:100vh;display:flex;flex-direction:column;font:17px/1.5 system-ui,sans-serif;background:#eef1f5;color:#1b2430}\
section{flex:1;color:#fff;padding:9vh 8vw}\
h1{font-size:clamp(2rem,7vw,4.5rem);margin:0;letter-spacing:-.03em}\
.version{font-size:1.4rem;opacity:.92}\
ul{list-style:none;padding:0;margin:2rem 0 0;max-width:26rem}\
li{display:flex;gap:1rem;padding:.6rem 0;border-top:1px solid #ffffff40}\
li b{min-width:4rem}\
dl{display:flex;flex-wrap:wrap;gap:.3rem 2.5rem;margin:0;padding:1.2rem 8vw;background:#fff}\
dt{font-size:.75rem;text-transform:uppercase;letter-spacing:.06em;color:#5a6675}\
dd{margin:0;font-weight:600}\
.late{margin:0;padding:.8rem 8vw;background:#b3261e;color:#fff;font-weight:600}\
.empty{margin:auto;padding:2rem;text-align:center}";

pub(super) fn render_site(place: &str, site: &SiteContent) -> String {
    let mut body = String::new();
    for line in &site.refused {
        let _ = write!(body, "<p class=\"late\">{}</p>", escape_html(line));
    }
    match &site.shown {
        None => body.push_str("<p class=\"empty\">Nothing has been deployed here yet.</p>"),
        Some(shown) => {
            body.push_str(&shown.page);
            let hold = shown.fence.map_or_else(|| "none (stage)".to_owned(), |fence| fence.to_string());
            let facts = [
                ("site", place),
                ("commit", short_commit(&shown.commit)),
                ("deployed by", &shown.who),
                ("fence", &hold),
            ];
            body.push_str("<dl>");
            for (name, value) in facts {
                let _ = write!(body, "<div><dt>{name}</dt><dd>{}</dd></div>", escape_html(value));
            }
            body.push_str("</dl>");
        }
    }
    let title = format!("{place}: harbour shop");
    wrap_html(&title, site.revision, "<script src=\"/live.js\" defer></script>", &body)
}

pub(super) fn render_message(text: &str) -> String {
    wrap_html("Berth demo", 0, "", &format!("<p class=\"empty\">{}</p>", escape_html(text)))
}

pub(super) fn short_commit(commit: &str) -> &str {
    commit.get(..COMMIT_CHARS).unwrap_or(commit)
}

fn wrap_html(title: &str, revision: u64, head: &str, body: &str) -> String {
    format!(
        "<!doctype html><html lang=\"en\" data-revision=\"{revision}\"><head><meta charset=\"utf-8\"><title>{title}</title>\
         <meta name=\"viewport\" content=\"width=device-width\">{head}<style>{STYLE}</style></head>\
         <body>{body}</body></html>"
    )
}

fn escape_html(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}
