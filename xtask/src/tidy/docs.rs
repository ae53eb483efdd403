//! Rules for the documentation: links resolve, and ADRs are numbered without gaps.

use std::path::Path;

pub(super) fn check_links(root: &Path, path: &Path, name: &str, text: &str) -> Vec<String> {
    let dir = path.parent().unwrap_or(root);
    let is_there = |target: &str| match target.strip_prefix('/') {
        // Such a link is relative to the repository's root, as on GitHub.
        Some(rest) => root.join(rest).exists(),
        None => dir.join(target).exists(),
    };
    let broken = find_links(text).into_iter().filter(|(_, target)| !is_there(target));
    broken
        .map(|(line, target)| {
            format!("{name}:{line}: broken link to {target}: create the file or fix the link")
        })
        .collect()
}

/// Checks that tests named in the text as `path/of/file.rs::name_of_a_test` exist.
pub(super) fn check_proofs(root: &Path, name: &str, text: &str) -> Vec<String> {
    let mut found = Vec::new();
    for (number, line) in (1..).zip(text.lines()) {
        let code = line.split('`').skip(1).step_by(2);
        for (file, test) in code.filter_map(|code| code.split_once(".rs::")) {
            let source = std::fs::read_to_string(root.join(format!("{file}.rs"))).unwrap_or_default();
            if !source.contains(&format!("fn {test}(")) {
                found.push(format!("{name}:{number}: no test {test} in {file}.rs: name an existing test"));
            }
        }
    }
    found
}

/// ADRs are named `NNNN-words.md`, numbered from 1 without gaps.
pub(super) fn check_decisions(dir: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(dir).into_iter().flatten().flatten();
    let mut names: Vec<_> = entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
    names.sort();
    check_numbers(&names)
}

fn check_numbers(names: &[String]) -> Vec<String> {
    let mut found = Vec::new();
    let mut next = 1;
    for name in names {
        let number = name.split_once('-').filter(|(digits, _)| digits.len() == 4 && name.ends_with(".md"));
        match number.and_then(|(digits, _)| digits.parse::<u32>().ok()) {
            None => found.push(format!("docs/adr/{name}: name it NNNN-what-was-decided.md")),
            Some(number) => {
                if number != next {
                    found.push(format!("docs/adr/{name}: the next number is {next:04}"));
                }
                next = number + 1;
            }
        }
    }
    found
}

/// Returns the targets of relative links, without anchors, and their line numbers. Code is skipped.
fn find_links(text: &str) -> Vec<(usize, String)> {
    let mut found = Vec::new();
    let mut in_fence = false;
    for (number, line) in (1..).zip(text.lines()) {
        if line.trim_start().starts_with("```") {
            in_fence = !in_fence;
        }
        if in_fence {
            continue;
        }
        let prose: String = line.split('`').step_by(2).collect::<Vec<_>>().join("code");
        let inline = prose.split("](").skip(1).filter_map(|rest| rest.split([')', ' ']).next());
        let defined = prose.trim_start().strip_prefix('[').and_then(|rest| rest.split_once("]: "));
        let defined = defined.and_then(|(_, target)| target.split_whitespace().next());
        for target in inline.chain(defined) {
            let target = target.trim_matches(['<', '>']);
            let file = target.split('#').next().unwrap_or_default();
            if !file.is_empty() && !file.contains(':') {
                found.push((number, file.to_owned()));
            }
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn relative_links_outside_of_code_are_found() {
        let text = "See [a](docs/a.md#part) and ![b](b.png \"title\"), [c](https://acme.test), [d](#here).\n\
                    Code: `[e](e.md)`.\n```\n[f](f.md)\n```\n[g]: <g.md>\n[h](mailto:ada@acme.test)\n";
        let found: Vec<_> =
            find_links(text).into_iter().map(|(line, target)| format!("{line} {target}")).collect();
        assert_eq!(found, ["1 docs/a.md", "1 b.png", "6 g.md"]);
    }

    #[test]
    fn missing_proof_is_reported() {
        let root = crate::tool::root();
        let here = "`xtask/src/tidy/docs.rs::missing_proof_is_reported`";
        assert!(check_proofs(&root, "x.md", here).is_empty());
        let gone = format!("fine\n{}", here.replace("is_reported", "is_gone"));
        assert!(check_proofs(&root, "x.md", &gone)[0].starts_with("x.md:2: no test missing_proof"));
    }

    #[test]
    fn adr_numbers_have_no_gaps() {
        let check =
            |names: &[&str]| check_numbers(&names.iter().map(ToString::to_string).collect::<Vec<_>>());
        assert!(check(&["0001-one.md", "0002-two.md"]).is_empty());
        assert_eq!(
            check(&["0001-one.md", "0003-three.md"]),
            ["docs/adr/0003-three.md: the next number is 0002"]
        );
        assert_eq!(check(&["0001-a.md", "0001-b.md"]), ["docs/adr/0001-b.md: the next number is 0002"]);
        assert_eq!(check(&["notes.md"]), ["docs/adr/notes.md: name it NNNN-what-was-decided.md"]);
    }
}
