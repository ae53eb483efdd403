//! Commits as people know them: a short hash, the title, the author and the age.

use serde::Deserialize;
use serde_json::Value;

use super::time::format_ago;
use super::{short_commit, strip_control_chars};

/// The member `commit` of a record.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct CommitDetails {
    commit_id: String,
    #[serde(default)]
    title: String,
    author: Option<CommitAuthor>,
    authored_at: Option<String>,
}

#[derive(Deserialize)]
struct CommitAuthor {
    name: String,
}

impl CommitDetails {
    /// `None` if the record has no commit, or one whose title is not known.
    fn read(record: &Value) -> Option<Self> {
        let found = Self::deserialize(record.get("commit")?).ok()?;
        (!found.title.is_empty()).then_some(found)
    }

    fn title_line(&self) -> String {
        let (hash, title) = (short_commit(&self.commit_id), strip_control_chars(&self.title));
        format!("{} {title}", strip_control_chars(hash))
    }
}

/// Formats the commit of a record as "4d6d0ebe Make the shop green". Without a title, as the given name.
pub(crate) fn commit_title(record: &Value, name: &str) -> String {
    let found = CommitDetails::read(record);
    found.map_or_else(|| strip_control_chars(short_commit(name)), |found| found.title_line())
}

/// Formats the commit of a record as "4d6d0ebe Make the shop green (Ada, 3 min ago)". `None` without a title.
pub(crate) fn describe_commit(record: &Value) -> Option<String> {
    let found = CommitDetails::read(record)?;
    let author = found.author.as_ref().map(|author| strip_control_chars(&author.name));
    let age = found.authored_at.as_deref().map(format_ago);
    let facts = [author, age].into_iter().flatten().collect::<Vec<_>>().join(", ");
    let facts = if facts.is_empty() { facts } else { format!(" ({facts})") };
    Some(format!("{}{facts}", found.title_line()))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn commit_is_described_by_title_author_and_age() {
        let hash = "4d6d0ebeafea6a1bdba340c580ec64725f87e39c";
        let now = jiff::Timestamp::now().to_string();
        let commit = json!({
            "commitId": hash, "title": "Make the shop green", "author": {"name": "Ada"}, "authoredAt": now, "url": null,
        });
        let record = json!({"commit": commit});
        assert_eq!(commit_title(&record, "main"), "4d6d0ebe Make the shop green");
        let described = "4d6d0ebe Make the shop green (Ada, just now)";
        assert_eq!(describe_commit(&record).as_deref(), Some(described));
    }

    #[test]
    fn commit_without_details_is_named_as_it_was_given() {
        for record in [json!({}), json!({"commit": null}), json!({"commit": {"commitId": "v1", "title": ""}})]
        {
            assert_eq!(commit_title(&record, "v1"), "v1");
            assert_eq!(describe_commit(&record), None);
        }
        assert_eq!(commit_title(&json!({}), "4d6d0ebeafea6a1bdba340c580ec64725f87e39c"), "4d6d0ebe");
    }
}
