//! The documentation as pages, for `http/docs.rs`: Markdown becomes HTML here, so the server has nothing to do.

use std::error::Error;
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

use pulldown_cmark::{CowStr, Event, HeadingLevel, Options, Parser, Tag, TagEnd, html};

const FILES_MAX: usize = 500;

pub(crate) fn render(root: &Path, out: &Path) -> Result<(), Box<dyn Error>> {
    let docs = root.join("docs").canonicalize()?;
    let (mut pages, mut images) = (String::from("&[\n"), String::from("&[\n"));
    let mut files = Vec::new();
    for directory in [docs.clone(), docs.join("adr"), docs.join("images")] {
        println!("cargo:rerun-if-changed={}", directory.display());
        for found in fs::read_dir(directory)? {
            files.push(found?.path());
        }
    }
    if files.len() > FILES_MAX {
        return Err(format!("docs has more than {FILES_MAX} files").into());
    }
    files.sort();
    for file in &files {
        let name = file.strip_prefix(&docs)?.to_str().ok_or("a name that is not UTF-8")?;
        match file.extension().and_then(|end| end.to_str()) {
            Some("md") => page(&mut pages, out, file, name)?,
            Some(kind @ ("png" | "webp")) => {
                writeln!(images, "(\"/docs/{name}\", \"image/{kind}\", include_bytes!({file:?})),")?;
            }
            _ => {}
        }
    }
    fs::write(out.join("docs_pages.rs"), pages + "]\n")?;
    fs::write(out.join("docs_images.rs"), images + "]\n")?;
    Ok(())
}

fn page(list: &mut String, out: &Path, file: &Path, name: &str) -> Result<(), Box<dyn Error>> {
    println!("cargo:rerun-if-changed={}", file.display());
    let source = fs::read_to_string(file)?;
    let directory = Path::new(name).parent().unwrap_or(Path::new(""));
    let mut title = String::new();
    let mut is_title = false;
    // Of the repository, but not of the documentation: its words stay, the link would lead nowhere here.
    let mut is_outside = false;
    let events: Vec<Event<'_>> = Parser::new_ext(&source, Options::ENABLE_TABLES)
        .filter(|event| {
            if let Event::Start(Tag::Link { dest_url, .. }) = event {
                is_outside = address(directory, dest_url).is_empty();
            }
            !(is_outside && matches!(event, Event::Start(Tag::Link { .. }) | Event::End(TagEnd::Link)))
        })
        .map(|event| match event {
            Event::Start(Tag::Heading { level, classes, attrs, .. }) => {
                is_title = level == HeadingLevel::H1;
                Event::Start(Tag::Heading { level, id: None, classes, attrs })
            }
            Event::End(TagEnd::Heading(level)) => {
                is_title = false;
                Event::End(TagEnd::Heading(level))
            }
            Event::Start(Tag::Link { link_type, dest_url, title, id }) => {
                Event::Start(Tag::Link { link_type, dest_url: address(directory, &dest_url), title, id })
            }
            Event::Start(Tag::Image { link_type, dest_url, title, id }) => {
                Event::Start(Tag::Image { link_type, dest_url: address(directory, &dest_url), title, id })
            }
            event => {
                if let (true, Event::Text(text) | Event::Code(text)) = (is_title, &event) {
                    title.push_str(text);
                }
                event
            }
        })
        .collect();
    let mut body = String::new();
    html::push_html(&mut body, with_anchors(events).into_iter());
    let path = address(Path::new(""), name);
    let rendered = out.join(format!("docs-{}.html", name.replace('/', "-")));
    fs::write(&rendered, body)?;
    writeln!(list, "DocsPage {{ path: {:?}, title: {title:?}, body: include_str!({rendered:?}) }},", &*path)?;
    Ok(())
}

/// Headings can be linked to, by the same names as on a forge.
fn with_anchors(mut events: Vec<Event<'_>>) -> Vec<Event<'_>> {
    for at in 0..events.len() {
        if !matches!(events[at], Event::Start(Tag::Heading { .. })) {
            continue;
        }
        let words = events[at + 1..].iter().take_while(|it| !matches!(it, Event::End(TagEnd::Heading(_))));
        let text: String = words
            .filter_map(|it| match it {
                Event::Text(text) | Event::Code(text) => Some(&**text),
                _ => None,
            })
            .collect();
        let keep = |c: char| c.is_alphanumeric() || "-_ ".contains(c);
        let name: String = text.to_lowercase().chars().filter(|c| keep(*c)).collect();
        if let Event::Start(Tag::Heading { id, .. }) = &mut events[at] {
            *id = Some(name.replace(' ', "-").into());
        }
    }
    events
}

/// `approvals.md#windows` is `/docs/approvals#windows`; nothing for what is in the repository and not served.
fn address<'t>(directory: &Path, link: &str) -> CowStr<'t> {
    let (path, anchor) = link.split_once('#').map_or((link, None), |(path, anchor)| (path, Some(anchor)));
    if path.is_empty() || path.contains("://") || path.starts_with('/') {
        return link.to_owned().into();
    }
    let mut parts = PathBuf::new();
    for part in directory.join(path).components() {
        match part.as_os_str().to_str() {
            Some("..") if !parts.pop() => {
                return if path.ends_with("openapi.json") {
                    "/api/v1/openapi.json".into()
                } else {
                    "".into()
                };
            }
            Some("." | "..") | None => {}
            Some(part) => parts.push(part),
        }
    }
    let parts = parts.display().to_string();
    let page = match parts.strip_suffix(".md") {
        Some("README") => "/docs".to_owned(),
        Some(page) => format!("/docs/{page}"),
        None => format!("/docs/{parts}"),
    };
    anchor.map_or(page.clone(), |anchor| format!("{page}#{anchor}")).into()
}
