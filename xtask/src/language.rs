//! Measures the wording of comments and names in the workspace against fixed limits.

use std::collections::BTreeMap;
use std::path::Path;

use syn::visit::{self, Visit};
use syn::{Ident, Item, Signature, Visibility};

use crate::tidy::{relative_path, rust_files};
use crate::tool::{TaskResult, root};

/// Pronouns that hide the actor of a sentence.
const PRONOUNS: &[&str] = &["whoever", "somebody", "nobody", "anybody", "everybody", "others"];

/// Participles that do not end in "-ed". Words that are also verbs (`read`, `put`, `set`) are not in the list.
const IRREGULAR_PARTICIPLES: &str = "\
    begun bound broken brought built chosen done drawn fallen felt found given gone grown heard held \
    hidden kept known laid left lost made meant met paid risen said seen sent shown sold spent spoken \
    stood sworn taken taught thought thrown told torn understood woken won worn written";
/// Words that end in "-ed" but are not participles.
const ED_WORDS: &[&str] = &["embed", "exceed", "feed", "need", "proceed", "seed", "shed", "speed", "succeed"];

/// Directories in which public type names must be unique. All other measures cover only the first one.
const ROOTS: &[&str] = &["crates", "sim", "testkit", "bench", "xtask"];

/// Runs the task. `--list` prints every offender; `--check` fails if a limit is exceeded.
pub(crate) fn run(args: &[String]) -> TaskResult {
    if let Some(unknown) = args.iter().find(|arg| !["--list", "--check"].contains(&arg.as_str())) {
        return Err(format!("unknown option \"{unknown}\"; expected --list or --check"));
    }
    let has_flag = |flag: &str| args.iter().any(|arg| arg == flag);
    let measures = measure_workspace(&root())?.into_measures();
    for measure in &measures {
        let verdict = if measure.is_met() { "ok" } else { "EXCEEDED" };
        println!("{:<42} {:>8.2}  limit {:>4}  {verdict}", measure.name, measure.value, measure.limit);
        if has_flag("--list") {
            measure.offenders.iter().for_each(|offender| println!("    {offender}"));
        }
    }
    match measures.iter().filter(|measure| !measure.is_met()).count() {
        exceeded if exceeded > 0 && has_flag("--check") => Err(format!("{exceeded} limits are exceeded")),
        _ => Ok(()),
    }
}

/// A measured value, its limit and the offenders.
struct LanguageMeasure {
    name: &'static str,
    value: f64,
    limit: f64,
    offenders: Vec<String>,
}

impl LanguageMeasure {
    /// Returns whether the value is below its limit. A limit of zero allows exactly zero.
    fn is_met(&self) -> bool {
        self.value < self.limit || self.value == 0.0
    }
}

/// Counts, accumulated over all files.
#[derive(Default)]
struct LanguageCounts {
    comment_words: usize,
    pronouns: Vec<String>,
    types: usize,
    one_word_types: Vec<String>,
    functions: usize,
    participle_functions: Vec<String>,
    /// Files that define a public type, by its name.
    public_types: BTreeMap<String, Vec<String>>,
}

impl LanguageCounts {
    fn add_comments(&mut self, file: &str, text: &str) {
        for (number, line) in (1..).zip(text.lines()) {
            let Some(comment) = comment_text(line) else { continue };
            for word in comment.split(|c: char| !c.is_alphanumeric()) {
                self.comment_words += usize::from(word.contains(char::is_alphabetic));
                if PRONOUNS.contains(&word.to_lowercase().as_str()) {
                    self.pronouns.push(format!("{file}:{number}: {}", comment.trim()));
                }
            }
        }
    }

    fn into_measures(self) -> [LanguageMeasure; 4] {
        let rate = |part: &[String], whole: usize, per: f64| part.len() as f64 * per / whole.max(1) as f64;
        let duplicates = self.public_types.iter().filter(|(_, files)| files.len() > 1);
        let duplicates: Vec<_> =
            duplicates.map(|(name, files)| format!("{name}: {}", files.join(", "))).collect();
        let pronouns = rate(&self.pronouns, self.comment_words, 10_000.0);
        let types = rate(&self.one_word_types, self.types, 100.0);
        let functions = rate(&self.participle_functions, self.functions, 100.0);
        [
            ("vague pronouns per 10,000 comment words", pronouns, 2.0, self.pronouns),
            ("one-word type names, %", types, 35.0, self.one_word_types),
            ("participle function names, %", functions, 0.7, self.participle_functions),
            ("public type names defined more than once", duplicates.len() as f64, 0.0, duplicates),
        ]
        .map(|(name, value, limit, offenders)| LanguageMeasure { name, value, limit, offenders })
    }
}

fn measure_workspace(root: &Path) -> Result<LanguageCounts, String> {
    let mut counts = LanguageCounts::default();
    for top in ROOTS {
        let is_measured = *top == ROOTS[0];
        for path in rust_files(&root.join(top)) {
            let file = relative_path(root, &path);
            let text = std::fs::read_to_string(&path).map_err(|error| format!("{file}: {error}"))?;
            if is_measured {
                counts.add_comments(&file, &text);
            }
            let parsed = syn::parse_file(&text).map_err(|error| format!("{file}: {error}"))?;
            NameVisitor { file: &file, is_measured, counts: &mut counts }.visit_file(&parsed);
        }
    }
    Ok(counts)
}

/// Returns the text of a `//`, `///` or `//!` comment, which may follow code.
fn comment_text(line: &str) -> Option<&str> {
    let is_code = |text: &str| text.matches('"').count().is_multiple_of(2);
    let starts = line.match_indices("//").map(|(at, _)| at);
    let at = starts.into_iter().find(|at| is_code(&line[..*at]) && !line[..*at].ends_with(':'))?;
    Some(line[at..].trim_start_matches(['/', '!']))
}

/// Collects the names that a file defines, also in its unit tests.
struct NameVisitor<'a> {
    file: &'a str,
    is_measured: bool,
    counts: &'a mut LanguageCounts,
}

impl NameVisitor<'_> {
    fn add_type(&mut self, name: &Ident, visibility: &Visibility) {
        let name = name.to_string();
        if self.is_measured {
            self.counts.types += 1;
            if word_count(&name) == 1 {
                self.counts.one_word_types.push(format!("{}: {name}", self.file));
            }
        }
        if matches!(visibility, Visibility::Public(_)) {
            self.counts.public_types.entry(name).or_default().push(self.file.to_owned());
        }
    }
}

impl<'ast> Visit<'ast> for NameVisitor<'_> {
    fn visit_item(&mut self, item: &'ast Item) {
        match item {
            // Skip trait implementations: their methods are counted in the trait's definition.
            Item::Impl(item) if item.trait_.is_some() => return,
            Item::Struct(item) => self.add_type(&item.ident, &item.vis),
            Item::Enum(item) => self.add_type(&item.ident, &item.vis),
            Item::Trait(item) => self.add_type(&item.ident, &item.vis),
            Item::Type(item) => self.add_type(&item.ident, &item.vis),
            _ => {}
        }
        visit::visit_item(self, item);
    }

    fn visit_signature(&mut self, signature: &'ast Signature) {
        if self.is_measured {
            self.counts.functions += 1;
            if is_participle(&signature.ident.to_string()) {
                self.counts.participle_functions.push(format!("{}: {}", self.file, signature.ident));
            }
        }
    }
}

/// Counts the words of a CamelCase name; a run of capitals is one word.
fn word_count(name: &str) -> usize {
    let name: Vec<char> = name.chars().collect();
    let starts_word = |at: usize| {
        let follows_small = at == 0 || !name[at - 1].is_uppercase();
        name[at].is_uppercase() && (follows_small || name.get(at + 1).is_some_and(|c| c.is_lowercase()))
    };
    (0..name.len()).filter(|at| starts_word(*at)).count()
}

fn is_participle(name: &str) -> bool {
    let regular = name.ends_with("ed") && !ED_WORDS.contains(&name);
    !name.contains('_') && (regular || IRREGULAR_PARTICIPLES.split(' ').any(|word| word == name))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counts(text: &str) -> LanguageCounts {
        let mut counts = LanguageCounts::default();
        counts.add_comments("a.rs", text);
        let parsed = syn::parse_file(text).unwrap_or_else(|error| panic!("{error}"));
        NameVisitor { file: "a.rs", is_measured: true, counts: &mut counts }.visit_file(&parsed);
        counts
    }

    #[test]
    fn pronouns_are_counted_in_comments_only() {
        let counts = counts(
            "//! Others' file.\nfn a() { b(\"// others\"); } // others\n/// See https://others.example here.\nfn c() {}",
        );
        assert_eq!(
            counts.pronouns,
            ["a.rs:1: Others' file.", "a.rs:2: others", "a.rs:3: See https://others.example here."]
        );
        assert_eq!(counts.comment_words, 8);
    }

    #[test]
    fn type_names_are_counted_by_words() {
        for (name, words) in [("Run", 1), ("RunCache", 2), ("Sha256", 1), ("HTTPClient", 2), ("IO", 1)] {
            assert_eq!(word_count(name), words, "{name}");
        }
        let counts = counts(
            "struct A;\npub enum BadName {}\ntrait C { type D; }\ntype E = u8;\nmod f { pub struct BadName; }",
        );
        assert_eq!((counts.types, counts.one_word_types.len()), (5, 3));
        assert_eq!(counts.into_measures()[3].offenders, ["BadName: a.rs, a.rs"]);
    }

    #[test]
    fn participle_functions_are_counted_except_in_trait_impls() {
        let counts = counts(
            "fn told() {}\nfn feed() {}\nfn is_told() {}\nimpl A { fn checked(&self) { fn kept() {} } }\n\
             impl T for A { fn shown(&self) {} }\ntrait T { fn shown(&self); }\n\
             #[cfg(test)]\nmod tests { struct X; fn found() {} #[test]\nfn kept() {} }",
        );
        let names = ["told", "checked", "kept", "shown", "found", "kept"];
        assert_eq!(counts.participle_functions, names.map(|name| format!("a.rs: {name}")));
        assert_eq!((counts.functions, counts.types), (8, 2));
    }
}
