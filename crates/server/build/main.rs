//! What goes into the binary as it is: the dashboard and the documentation.

mod dashboard;
mod docs;

use std::error::Error;
use std::path::PathBuf;

fn main() -> Result<(), Box<dyn Error>> {
    let root = PathBuf::from(std::env::var("CARGO_MANIFEST_DIR")?).join("../..");
    let out = PathBuf::from(std::env::var("OUT_DIR")?);
    println!("cargo:rerun-if-changed=build");
    dashboard::list(&root, &out)?;
    docs::render(&root, &out)
}
