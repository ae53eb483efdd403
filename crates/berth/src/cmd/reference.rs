//! Resolves deployments named on the command line.

use berth_api::deployment::WireDeployment;

use crate::client::{ApiClient, ClientError, RECORDS_MAX, percent_encode};
use crate::output::strip_control_chars;

/// Deployments to look at first: most references are to a new deployment.
const NEWEST: usize = 50;

/// `PIPELINE#NUMBER` or `PIPELINE/ENVIRONMENT#NUMBER`.
#[derive(Debug, PartialEq)]
struct NumberedDeployment<'a> {
    pipeline: &'a str,
    environment: Option<&'a str>,
    number: i64,
}

impl<'a> NumberedDeployment<'a> {
    fn parse(text: &'a str) -> Option<Self> {
        let (place, number) = text.rsplit_once('#')?;
        let (pipeline, environment) = match place.trim_end().split_once('/') {
            Some((pipeline, environment)) => (pipeline, Some(environment)),
            None => (place.trim_end(), None),
        };
        Some(Self { pipeline, environment, number: number.parse().ok()? })
    }

    fn find(&self, client: &ApiClient) -> anyhow::Result<String> {
        let filter = self.environment.map(|name| format!("?environment={}", percent_encode(name)));
        let path =
            format!("/pipelines/{}/deployments{}", percent_encode(self.pipeline), filter.unwrap_or_default());
        for count in [NEWEST, RECORDS_MAX] {
            let found: Vec<WireDeployment> = client.list(&path, count)?.data;
            let is_complete = found.len() < count;
            let is_it =
                |it: &WireDeployment| it.number == self.number && it.env_name.as_deref() == self.environment;
            if let Some(found) = found.into_iter().find(is_it) {
                return Ok(found.id);
            }
            if is_complete {
                break;
            }
        }
        let environment = self.environment.map(|name| format!("/{name}")).unwrap_or_default();
        let name = strip_control_chars(&format!("{}{environment}#{}", self.pipeline, self.number));
        let text = format!("no deployment {name} among the newest; list them with `berth deployment list`");
        Err(ClientError::NotFound(text).into())
    }
}

/// Returns a deployment id. `which` is such an id, `PIPELINE#NUMBER`, `PIPELINE/ENVIRONMENT#NUMBER`, or a pipeline, which
/// stands for its latest deployment.
pub(super) fn resolve_deployment_id(client: &ApiClient, which: &str) -> anyhow::Result<String> {
    if which.starts_with("dep_") {
        return Ok(which.to_owned());
    }
    if let Some(numbered) = NumberedDeployment::parse(which) {
        return numbered.find(client);
    }
    let found: Vec<WireDeployment> =
        client.list(&format!("/pipelines/{}/deployments", percent_encode(which)), 1)?.data;
    let newest = found.into_iter().next();
    let none = || ClientError::NotFound(format!("no deployments in {} yet", strip_control_chars(which)));
    Ok(newest.ok_or_else(none)?.id)
}

/// Like [`resolve_deployment_id`], but a bare pipeline is not a deployment: commands that change one need its number.
pub(super) fn resolve_exact_deployment(client: &ApiClient, which: &str) -> anyhow::Result<String> {
    match NumberedDeployment::parse(which) {
        Some(numbered) => numbered.find(client),
        None => Ok(which.to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::NumberedDeployment;

    #[test]
    fn numbered_deployments_are_recognized() {
        let parse = NumberedDeployment::parse;
        let of = |pipeline, environment, number| Some(NumberedDeployment { pipeline, environment, number });
        assert_eq!(parse("shop#12"), of("shop", None, 12));
        assert_eq!(parse("shop #12"), of("shop", None, 12));
        assert_eq!(parse("shop/qa-1#2"), of("shop", Some("qa-1"), 2));
        assert_eq!(parse("shop"), None);
        assert_eq!(parse("shop#latest"), None);
    }
}
