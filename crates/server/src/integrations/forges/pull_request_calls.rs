//! Requests about pull requests, comments, commit statuses and webhooks.

use berth_core::forge::{PullRequestSnapshot, PullRequestStatus};
use http::Method;
use serde_json::Value;
use url::Url;

use super::{CommitStatus, DESCRIPTION_CHARS_MAX, ForgeClient, ForgeError, ForgeRequest, parse};

/// Maximum number of open pull requests that are read.
pub const OPEN_PULL_REQUESTS_MAX: usize = 1_000;
/// Maximum number of changed paths that are read.
pub const CHANGED_FILES_MAX: usize = 3_000;
/// Maximum number of pages that are read, whatever their size is.
const PAGES_MAX: usize = 200;
/// Maximum size of a page. Pull requests contain their description, and changed files contain diffs.
const PAGE_BYTES_MAX: u64 = 16 * 1024 * 1024;
/// Maximum number of comments among which Berth's own is searched.
const COMMENTS_READ_MAX: usize = 1_000;
/// Maximum length of a comment; the lowest limit of the forges is 32 KiB.
const COMMENT_CHARS_MAX: usize = 30_000;

impl ForgeClient {
    /// Reads a pull request.
    pub fn pull_request(&self, number: i64) -> Result<PullRequestSnapshot, ForgeError> {
        let answered = self.get_json(self.forge.get_url(&self.at, number))?;
        let value = self.parse_response(&answered)?;
        let (found, snapshot) = self.forge.parse_snapshot(&value).ok_or(ForgeError::Odd)?;
        if found != number {
            return Err(ForgeError::Odd);
        }
        self.complete_head(number, snapshot)
    }

    /// Reads the open pull requests, at most [`OPEN_PULL_REQUESTS_MAX`], newest first.
    pub fn open_pull_requests(&self) -> Result<Vec<(i64, PullRequestSnapshot)>, ForgeError> {
        let mut found: Vec<(i64, PullRequestSnapshot)> = Vec::new();
        self.read_pages(
            |page| self.forge.open_list_url(&self.at, page),
            |item| {
                let (number, snapshot) = self.forge.parse_snapshot(item).ok_or(ForgeError::Odd)?;
                // While pages are read, a new pull request moves others to the next page.
                if !found.iter().any(|(known, _)| *known == number) {
                    found.push((number, self.complete_head(number, snapshot)?));
                }
                Ok(found.len() < OPEN_PULL_REQUESTS_MAX)
            },
        )?;
        Ok(found)
    }

    /// Writes Berth's comment: edits the comment with this id, or creates one if there is no id or the comment was
    /// deleted. Returns its id.
    pub fn upsert_comment(
        &self,
        number: i64,
        comment: Option<&str>,
        text: &str,
    ) -> Result<String, ForgeError> {
        let text: String = text.chars().take(COMMENT_CHARS_MAX).collect();
        if let Some(id) = comment {
            match self.change(self.forge.edit_comment(&self.at, number, id, &text)) {
                Ok(_) => return Ok(id.to_owned()),
                Err(ForgeError::NotFound | ForgeError::Refused { status: 410, .. }) => {}
                Err(error) => return Err(error),
            }
        }
        self.create(self.forge.create_comment(&self.at, number, &text))
    }

    /// Returns the id of the comment that starts with this marker. Looks only at the first comments.
    pub fn find_comment(&self, number: i64, marker: &str) -> Result<Option<String>, ForgeError> {
        let (mut found, mut count) = (None, 0);
        self.read_pages(
            |page| self.forge.comments_url(&self.at, number, page),
            |comment| {
                count += 1;
                if self.forge.parse_comment(comment).is_some_and(|text| text.starts_with(marker)) {
                    found = self.forge.parse_id(comment);
                }
                Ok(found.is_none() && count < COMMENTS_READ_MAX)
            },
        )?;
        Ok(found)
    }

    /// Sets the status of a commit. A repetition changes nothing.
    pub fn set_status(&self, commit: &str, status: &CommitStatus) -> Result<(), ForgeError> {
        let description = status.description.chars().take(DESCRIPTION_CHARS_MAX).collect();
        let status = CommitStatus { description, ..status.clone() };
        match self.change(self.forge.set_status(&self.at, commit, &status)) {
            Err(ForgeError::Refused { status: code, said })
                if self.forge.is_status_set(&status, code, &said) =>
            {
                Ok(())
            }
            done => done.map(drop),
        }
    }

    /// Creates the webhook. Returns its id on the forge.
    pub fn create_hook(&self, url: &str, secret: &str) -> Result<String, ForgeError> {
        self.create(self.forge.create_hook(&self.at, url, secret))
    }

    /// Deletes a webhook. Does nothing if it was deleted already.
    pub fn delete_hook(&self, id: &str) -> Result<(), ForgeError> {
        match self.change(self.forge.delete_hook(&self.at, id)) {
            Ok(_) | Err(ForgeError::NotFound) => Ok(()),
            Err(error) => Err(error),
        }
    }

    /// Requests a test delivery. Returns `false` if this forge cannot send one.
    pub fn test_hook(&self, id: &str) -> Result<bool, ForgeError> {
        let Some(request) = self.forge.test_hook(&self.at, id) else { return Ok(false) };
        match self.change(request) {
            Ok(_) => Ok(true),
            // GitLab has nothing to send for an empty repository.
            Err(ForgeError::Refused { status: 422, .. }) => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Returns the paths that a pull request changes, at most [`CHANGED_FILES_MAX`].
    pub fn changed_files(&self, number: i64) -> Result<Vec<String>, ForgeError> {
        let mut found = Vec::new();
        self.read_pages(
            |page| self.forge.files_url(&self.at, number, page),
            |item| {
                found.extend(self.forge.parse_paths(item));
                Ok(found.len() < CHANGED_FILES_MAX)
            },
        )?;
        found.truncate(CHANGED_FILES_MAX);
        Ok(found)
    }

    pub(super) fn create(&self, request: ForgeRequest) -> Result<String, ForgeError> {
        let answered = self.change(request)?;
        let value = self.parse_response(&answered)?;
        self.forge.parse_id(&value).ok_or(ForgeError::Odd)
    }

    /// Reads pages until there is no other one, or `take` returns `false`.
    fn read_pages(
        &self,
        url: impl Fn(usize) -> String,
        mut take: impl FnMut(&Value) -> Result<bool, ForgeError>,
    ) -> Result<(), ForgeError> {
        for page in 1..=PAGES_MAX {
            let (value, has_next) = self.read_page(&url(page))?;
            let items = self.forge.page_items(&value).ok_or(ForgeError::Odd)?;
            for item in items {
                if !take(item)? {
                    return Ok(());
                }
            }
            if !has_next || items.is_empty() {
                break;
            }
        }
        Ok(())
    }

    /// Returns a page, and whether another one follows. Links of the forge are not followed, except for one redirect
    /// within its API.
    fn read_page(&self, url: &str) -> Result<(Value, bool), ForgeError> {
        let page = |url| self.send(ForgeRequest::without_body(Method::GET, url), PAGE_BYTES_MAX);
        let mut answered = page(url.to_owned())?;
        if answered.status == 302
            && let Some(location) = answered.header("location").and_then(|to| self.check_redirect(url, to))
        {
            answered = page(location)?;
        }
        let value = self.parse_response(&answered)?;
        let link = || answered.header("link").is_some_and(|link| link.contains("rel=\"next\""));
        let has_next = self.forge.has_next_page(&value).unwrap_or_else(link);
        Ok((value, has_next))
    }

    /// Returns the target of a redirect if it is within the forge's API, because the token is sent to it. Query
    /// parameters of the first URL are added, among them the page.
    fn check_redirect(&self, from: &str, location: &str) -> Option<String> {
        let (api, from) = (Url::parse(&self.at.api).ok()?, Url::parse(from).ok()?);
        let mut to = Url::parse(location).ok()?;
        let base = format!("{}/", api.path().trim_end_matches('/'));
        let is_within = api.origin() == to.origin() && to.path().starts_with(&base);
        if !is_within || !to.username().is_empty() || to.password().is_some() {
            return None;
        }
        for (name, value) in from.query_pairs() {
            if !to.query_pairs().any(|(known, _)| known == name) {
                to.query_pairs_mut().append_pair(&name, &value);
            }
        }
        Some(to.to_string())
    }

    /// Replaces an abbreviated head by the full hash.
    fn complete_head(
        &self,
        number: i64,
        mut snapshot: PullRequestSnapshot,
    ) -> Result<PullRequestSnapshot, ForgeError> {
        if parse::is_full_hash(&snapshot.head) {
            return Ok(snapshot);
        }
        let url = self.forge.head_url(&self.at, number).ok_or(ForgeError::Odd)?;
        let (value, _) = match self.read_page(&url) {
            // The commits of an ended pull request may be gone; its head no longer matters.
            Err(ForgeError::NotFound) if snapshot.status != PullRequestStatus::Open => return Ok(snapshot),
            read => read?,
        };
        let head = self.forge.page_items(&value).and_then(<[Value]>::first);
        let head = head.and_then(|commit| parse::hash(commit, &["hash"])).ok_or(ForgeError::Odd)?;
        if !head.starts_with(&snapshot.head) {
            // Pushed between the two requests: the newer head is the right one only with a newer snapshot.
            return Err(ForgeError::Odd);
        }
        snapshot.head = head;
        Ok(snapshot)
    }
}
