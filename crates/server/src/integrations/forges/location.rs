//! Determines the forge that hosts a repository, and the repository's path there.

use std::str::FromStr;

use berth_core::repository::{GitTransport, RemoteUrl};
use url::Url;
use url::form_urlencoded::byte_serialize;

use super::{FORGES, Forge};

const LINK_BYTES_MAX: usize = 2_048;

/// The configured forge type of a host: `git.acme.test=gitea`, or with the URL of the forge's API,
/// `git.acme.test=github=https://git.acme.test/api/v3`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ForgeHost {
    pub host: String,
    pub forge: String,
    pub api: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "must be like git.acme.test=gitea, or git.acme.test=github=https://git.acme.test/api/v3; forges are github, gitlab, gitea and bitbucket"
)]
pub struct InvalidForge;

impl FromStr for ForgeHost {
    type Err = InvalidForge;
    fn from_str(text: &str) -> Result<Self, InvalidForge> {
        let mut parts = text.splitn(3, '=');
        let host = parts.next().filter(|host| !host.is_empty() && !host.contains('/')).ok_or(InvalidForge)?;
        let forge = parts.next().filter(|name| find_forge(name).is_some()).ok_or(InvalidForge)?;
        let api = parts.next().map(|api| check_link(api).ok_or(InvalidForge)).transpose()?;
        let api = api.map(|api| api.trim_end_matches('/').to_owned());
        Ok(Self { host: host.to_ascii_lowercase(), forge: forge.to_owned(), api })
    }
}

/// A repository on its forge.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ForgeRepository {
    /// URL of its page, without a trailing slash.
    pub page: String,
    /// Base URL of the forge's API, without a trailing slash.
    pub api: String,
    /// The path on the forge: `acme/shop`, or `acme/web/shop` with nested groups.
    pub path: String,
}

impl ForgeRepository {
    /// Returns the forge of a repository and its location there. `None` if the host is unknown.
    pub fn locate(url: &RemoteUrl, known: &[ForgeHost]) -> Option<(&'static dyn Forge, Self)> {
        let host = url.host()?.to_ascii_lowercase();
        let said = known.iter().find(|at| at.host == host);
        let forge = match said {
            Some(at) => find_forge(&at.forge)?,
            None => *FORGES.iter().find(|forge| forge.is_at(&host))?,
        };
        let origin = match (url.transport(), url.origin()) {
            (GitTransport::Https | GitTransport::Http, Some(origin)) => origin.to_ascii_lowercase(),
            _ => format!("https://{host}"),
        };
        let api = said.and_then(|at| at.api.clone()).unwrap_or_else(|| forge.api(&origin));
        let path = url.forge_path()?;
        Some((forge, Self { page: format!("{origin}/{path}"), api, path: path.to_owned() }))
    }

    /// Returns the URL of a commit's page. `None` if the forge is unknown.
    pub fn commit_page(url: &RemoteUrl, known: &[ForgeHost], commit: &str) -> Option<String> {
        let (forge, at) = Self::locate(url, known)?;
        check_link(&forge.commit_page(&at, commit))
    }

    /// Returns the URL of the page that shows what `head` adds to `base`. `None` if the forge is unknown.
    pub fn compare_page(url: &RemoteUrl, known: &[ForgeHost], base: &str, head: &str) -> Option<String> {
        let (forge, at) = Self::locate(url, known)?;
        check_link(&forge.compare_page(&at, base, head))
    }

    pub(super) fn owner(&self) -> &str {
        let before = self.path.rsplit_once('/').map_or("", |(before, _)| before);
        before.rsplit('/').next().unwrap_or_default()
    }

    pub(super) fn name(&self) -> &str {
        self.path.rsplit('/').next().unwrap_or_default()
    }
}

fn find_forge(name: &str) -> Option<&'static dyn Forge> {
    FORGES.iter().copied().find(|forge| forge.name() == name)
}

/// Percent-encodes one path segment or query value.
pub(super) fn percent_encode(text: &str) -> String {
    byte_serialize(text.as_bytes()).collect()
}

/// Returns the URL if it is safe to show as a link.
pub(super) fn check_link(text: &str) -> Option<String> {
    let url = Url::parse(text).ok().filter(|_| text.len() <= LINK_BYTES_MAX)?;
    let is_plain = url.username().is_empty() && url.password().is_none() && url.host().is_some();
    (["https", "http"].contains(&url.scheme()) && is_plain).then(|| url.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn describe_location(url: &str, known: &[&str]) -> Option<String> {
        let known: Vec<_> = known.iter().map(|text| text.parse().unwrap()).collect();
        let (forge, at) = ForgeRepository::locate(&RemoteUrl::parse(url).unwrap(), &known)?;
        Some(format!("{} {} {} {} {}", forge.name(), at.api, at.path, at.owner(), at.name()))
    }

    #[test]
    fn forge_is_found_by_configuration_before_host_name() {
        let none: &[&str] = &[];
        for (url, known, expected) in [
            ("https://github.com/acme/shop.git", none, "github https://api.github.com acme/shop acme shop"),
            ("git@github.com:acme/shop.git", none, "github https://api.github.com acme/shop acme shop"),
            (
                "https://gitlab.acme.test/acme/web/shop",
                none,
                "gitlab https://gitlab.acme.test/api/v4 acme/web/shop web shop",
            ),
            (
                "git@bitbucket.org:acme/shop.git",
                none,
                "bitbucket https://api.bitbucket.org/2.0 acme/shop acme shop",
            ),
            ("https://codeberg.org/acme/shop", none, "gitea https://codeberg.org/api/v1 acme/shop acme shop"),
            (
                "ssh://git@git.acme.test:2222/acme/shop.git",
                &["git.acme.test=gitea"],
                "gitea https://git.acme.test/api/v1 acme/shop acme shop",
            ),
            (
                "https://git.acme.test:8443/acme/shop",
                &["git.acme.test=github"],
                "github https://git.acme.test:8443/api/v3 acme/shop acme shop",
            ),
            (
                "http://127.0.0.1:3000/acme/shop.git",
                &["127.0.0.1=github=http://127.0.0.1:4001/"],
                "github http://127.0.0.1:4001 acme/shop acme shop",
            ),
        ] {
            assert_eq!(describe_location(url, known).as_deref(), Some(expected), "{url}");
        }
        for url in [
            "/srv/shop.git",
            "https://git.acme.test/acme/shop",
            "https://github.com/shop",
            "https://github.com.evil.test/a/b",
        ] {
            assert_eq!(describe_location(url, none), None, "{url}");
        }
    }

    #[test]
    fn pages_of_commits_have_the_form_of_their_forge() {
        let known = [
            "git.acme.test=gitea".parse().unwrap(),
            "127.0.0.1=github=http://127.0.0.1:4001/".parse().unwrap(),
        ];
        for (url, commit, compare) in [
            (
                "git@github.com:acme/shop.git",
                "https://github.com/acme/shop/commit/b2",
                "https://github.com/acme/shop/compare/a1...b2",
            ),
            (
                "https://gitlab.acme.test/acme/web/shop.git",
                "https://gitlab.acme.test/acme/web/shop/-/commit/b2",
                "https://gitlab.acme.test/acme/web/shop/-/compare/a1...b2",
            ),
            (
                "ssh://git@git.acme.test:2222/acme/shop.git",
                "https://git.acme.test/acme/shop/commit/b2",
                "https://git.acme.test/acme/shop/compare/a1...b2",
            ),
            (
                "https://bitbucket.org/acme/shop",
                "https://bitbucket.org/acme/shop/commits/b2",
                "https://bitbucket.org/acme/shop/branches/compare/b2%0Da1",
            ),
            (
                "http://127.0.0.1:3000/acme/shop.git",
                "http://127.0.0.1:3000/acme/shop/commit/b2",
                "http://127.0.0.1:3000/acme/shop/compare/a1...b2",
            ),
        ] {
            let remote = RemoteUrl::parse(url).unwrap();
            assert_eq!(ForgeRepository::commit_page(&remote, &known, "b2").as_deref(), Some(commit));
            assert_eq!(ForgeRepository::compare_page(&remote, &known, "a1", "b2").as_deref(), Some(compare));
        }
        for plain in ["/srv/shop.git", "https://git.other.test/acme/shop"] {
            let remote = RemoteUrl::parse(plain).unwrap();
            assert_eq!(ForgeRepository::commit_page(&remote, &known, "b2"), None);
            assert_eq!(ForgeRepository::compare_page(&remote, &known, "a1", "b2"), None);
        }
    }

    #[test]
    fn invalid_forge_configuration_is_refused() {
        for wrong in [
            "",
            "git.acme.test",
            "git.acme.test=svn",
            "=gitea",
            "a/b=gitea",
            "a=gitea=ftp://a",
            "a=gitea=https://u:p@a/",
        ] {
            assert_eq!(wrong.parse::<ForgeHost>(), Err(InvalidForge), "{wrong}");
        }
    }

    #[test]
    fn link_with_unsafe_url_is_refused() {
        for wrong in ["javascript:alert(1)", "data:text/html,x", "https://u:p@a/", "//a/b", ""] {
            assert_eq!(check_link(wrong), None, "{wrong}");
        }
        assert_eq!(check_link("https://a.test/b#c").as_deref(), Some("https://a.test/b#c"));
    }
}
