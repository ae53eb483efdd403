//! Serves the documentation of this version from files embedded in the binary.

use axum::response::{Html, IntoResponse as _, Response};
use http::header;

/// A file from `docs/`, rendered by `build/docs.rs`.
struct DocsPage {
    path: &'static str,
    title: &'static str,
    body: &'static str,
}

static PAGES: &[DocsPage] = include!(concat!(env!("OUT_DIR"), "/docs_pages.rs"));
/// Path, media type and content.
static IMAGES: &[(&str, &str, &[u8])] = include!(concat!(env!("OUT_DIR"), "/docs_images.rs"));

const STYLE: &str = "\
:root{color-scheme:light dark;--line:#d8dee4;--soft:#f4f6f8;--link:#0b6bcb;--dim:#57606a}\
@media(prefers-color-scheme:dark){:root{--line:#333b44;--soft:#20262d;--link:#69b1ff;--dim:#9aa5b1;background:#14181d;color:#e6e9ec}}\
body{font:16px/1.6 system-ui,sans-serif;max-width:52rem;margin:0 auto;padding:1rem 1.25rem 4rem}\
header{display:flex;gap:1.25rem;padding:.5rem 0 1rem;border-bottom:1px solid var(--line);margin-bottom:1.5rem}\
header a{color:inherit;text-decoration:none}header a:first-child{font-weight:700}\
a{color:var(--link)}h1{line-height:1.2}h2{margin-top:2.2rem;padding-bottom:.2rem;border-bottom:1px solid var(--line)}\
pre{background:var(--soft);padding:.8rem 1rem;border-radius:.4rem;overflow-x:auto;font-size:.86rem;line-height:1.5}\
code{font-family:ui-monospace,SFMono-Regular,Menlo,monospace}:not(pre)>code{background:var(--soft);padding:.1em .3em;border-radius:.25rem;font-size:.9em}\
table{border-collapse:collapse;display:block;overflow-x:auto}td,th{border-bottom:1px solid var(--line);padding:.4rem .8rem .4rem 0;text-align:left;vertical-align:top}\
thead:not(:has(th:not(:empty))){display:none}img{max-width:100%;border:1px solid var(--line);border-radius:.4rem}";

/// Returns a page or image of the documentation, or `None` if there is none at this path.
pub(super) fn respond(path: &str) -> Option<Response> {
    if let Some((_, kind, bytes)) = IMAGES.iter().find(|(name, ..)| *name == path) {
        return Some(([(header::CONTENT_TYPE, *kind)], *bytes).into_response());
    }
    let page = PAGES.iter().find(|page| page.path == path)?;
    Some(render_page(page.title, page.body).into_response())
}

/// Renders a page in the layout that all pages share.
pub(super) fn render_page(title: &str, body: &str) -> Html<String> {
    Html(format!(
        "<!doctype html><html lang=\"en\"><head><meta charset=\"utf-8\"><title>{title} · Berth</title>\
         <meta name=\"viewport\" content=\"width=device-width,initial-scale=1\"><style>{STYLE}</style></head>\
         <body><header><a href=\"/\">Berth</a><a href=\"/docs\">Documentation</a><a href=\"/docs/errors\">Errors</a>\
         <a href=\"/api/v1/openapi.json\">OpenAPI</a></header><main>{body}</main></body></html>\n"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn docs_links_all_have_targets() {
        let is_there = |link: &str| {
            let path = link.split('#').next().unwrap_or_default();
            path == "/docs/errors" || respond(path).is_some()
        };
        let mut dead = Vec::new();
        for page in PAGES {
            for (at, _) in page.body.match_indices("=\"/docs") {
                let link = page.body[at + 2..].split('"').next().unwrap_or_default();
                if !is_there(link) {
                    dead.push(format!("{}: {link}", page.path));
                }
            }
        }
        assert!(dead.is_empty(), "{dead:#?}");
    }

    #[test]
    fn docs_name_repository_files_without_link() {
        let page = PAGES.iter().find(|page| page.path == "/docs/install").expect("the page");
        assert!(page.body.contains("packaging/Dockerfile") && !page.body.contains("href=\"/docs\""));
        assert!(!PAGES.iter().any(|page| page.body.contains("href=\"\"")));
    }

    #[test]
    fn docs_anchors_all_have_headings() {
        let mut dead = Vec::new();
        for page in PAGES {
            for (at, _) in page.body.match_indices("href=\"") {
                let link = page.body[at + 6..].split('"').next().unwrap_or_default();
                let Some((path, anchor)) = link.split_once('#').filter(|(path, _)| !path.contains("://"))
                else {
                    continue;
                };
                let path = if path.is_empty() { page.path } else { path };
                let target = PAGES.iter().find(|page| page.path == path);
                if !target.is_some_and(|page| page.body.contains(&format!("id=\"{anchor}\""))) {
                    dead.push(format!("{}: {link}", page.path));
                }
            }
        }
        assert!(dead.is_empty(), "{dead:#?}");
    }

    #[test]
    fn docs_pages_all_have_title_and_list_entry() {
        let list = PAGES.iter().find(|page| page.path == "/docs").expect("the first page");
        for page in PAGES.iter().filter(|page| !page.path.starts_with("/docs/adr/")) {
            assert!(!page.title.is_empty(), "{}", page.path);
            let is_listed = list.body.contains(&format!("href=\"{}\"", page.path));
            assert!(page.path == "/docs" || is_listed, "{} is not in docs/README.md", page.path);
        }
    }
}
