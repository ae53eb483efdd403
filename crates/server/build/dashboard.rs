//! The files of the built dashboard, for `http/dashboard.rs`. Runs no other program: without `web/dist` the list is empty.

use std::collections::hash_map::DefaultHasher;
use std::error::Error;
use std::fmt::Write as _;
use std::fs;
use std::hash::{Hash as _, Hasher as _};
use std::path::{Path, PathBuf};

const FILES_MAX: usize = 2_000;

pub(crate) fn list(root: &Path, out: &Path) -> Result<(), Box<dyn Error>> {
    let dist = root.join("web/dist");
    // The directory is always there, for a placeholder in it is: a missing one would mean a new build every time.
    println!("cargo:rerun-if-changed={}", dist.display());
    let mut paths = Vec::new();
    if dist.join("index.html").exists() {
        collect(&dist.canonicalize()?, &mut paths)?;
    }
    paths.sort();
    // The compiler reads copies, because a new build of the dashboard may replace the originals at any time.
    let copies = out.join("dashboard");
    let _ = fs::remove_dir_all(&copies);
    for path in &mut paths {
        let copy = copies.join(path.strip_prefix(dist.canonicalize()?)?);
        fs::create_dir_all(copy.parent().unwrap_or(&copies))?;
        fs::copy(&*path, &copy)?;
        *path = copy;
    }
    let mut list = String::from("&[\n");
    for path in paths.iter().filter(|path| kind(path).is_some()) {
        entry(&mut list, &copies, path)?;
    }
    list.push_str("]\n");
    fs::write(out.join("dashboard_files.rs"), list)?;
    Ok(())
}

fn collect(directory: &Path, paths: &mut Vec<PathBuf>) -> Result<(), Box<dyn Error>> {
    for found in fs::read_dir(directory)? {
        let path = found?.path();
        let hidden = path.file_name().is_some_and(|name| name.to_string_lossy().starts_with('.'));
        match (hidden, path.is_dir()) {
            (true, _) => {}
            (false, true) => collect(&path, paths)?,
            (false, false) => paths.push(path),
        }
        if paths.len() > FILES_MAX {
            return Err(format!("web/dist has more than {FILES_MAX} files").into());
        }
    }
    Ok(())
}

fn entry(list: &mut String, root: &Path, path: &Path) -> Result<(), Box<dyn Error>> {
    let mut hasher = DefaultHasher::new();
    fs::read(path)?.hash(&mut hasher);
    let compressed = |end: &str| {
        let packed = PathBuf::from(format!("{}.{end}", path.display()));
        if packed.exists() { format!("Some(include_bytes!({packed:?}))") } else { "None".to_owned() }
    };
    let name = format!("/{}", path.strip_prefix(root)?.display());
    writeln!(
        list,
        "DashboardFile {{ path: {name:?}, kind: {:?}, etag: \"W/\\\"{:016x}\\\"\", plain: include_bytes!({path:?}), brotli: {}, gzip: {} }},",
        kind(path).unwrap_or_default(),
        hasher.finish(),
        compressed("br"),
        compressed("gz"),
    )?;
    Ok(())
}

/// The media type of what a browser may ask for; nothing else is taken along.
fn kind(path: &Path) -> Option<&'static str> {
    match path.extension()?.to_str()? {
        "html" => Some("text/html; charset=utf-8"),
        "js" => Some("text/javascript; charset=utf-8"),
        "css" => Some("text/css; charset=utf-8"),
        "svg" => Some("image/svg+xml"),
        "woff2" => Some("font/woff2"),
        _ => None,
    }
}
