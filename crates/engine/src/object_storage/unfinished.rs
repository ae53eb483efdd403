//! Files of interrupted writes to a directory, which are named `<object>#<number>`. A listing of objects leaves them out.

use std::io::{self, ErrorKind};
use std::path::Path;
use std::time::SystemTime;

/// Removes the files of interrupted writes that are older than `before`.
pub(super) fn remove_unfinished(root: &Path, before: SystemTime) -> io::Result<()> {
    let mut pending = vec![root.to_owned()];
    while let Some(dir) = pending.pop() {
        let listed = match std::fs::read_dir(&dir) {
            Err(error) if error.kind() == ErrorKind::NotFound => continue,
            listed => listed?,
        };
        for entry in listed {
            let entry = entry?;
            // Another server may delete it in the meantime.
            let Ok(info) = entry.metadata() else { continue };
            if info.is_dir() {
                pending.push(entry.path());
            } else if is_unfinished(&entry.file_name().to_string_lossy()) && info.modified()? < before {
                std::fs::remove_file(entry.path())?;
            }
        }
    }
    Ok(())
}

fn is_unfinished(name: &str) -> bool {
    let number = name.rsplit_once('#').map(|(_, number)| number);
    number.is_some_and(|number| !number.is_empty() && number.bytes().all(|digit| digit.is_ascii_digit()))
}
