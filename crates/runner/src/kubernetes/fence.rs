//! Fences in the cluster: a ConfigMap for each environment records the highest fence that has run work. Work of an
//! earlier holder, which has a lower fence, is refused.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::ConfigMap;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::api::PostParams;
use kube::{Api, Error};

use super::cluster::status_code;
use super::labels::{hash, label_value};

const FENCE: &str = "fence";
const ENVIRONMENT: &str = "berth.io/environment-id";
/// Number of attempts to write the record if other runners write it too.
const CONFLICTS_MAX: usize = 10;

/// What became of a fence.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum FenceCheck {
    Allowed,
    /// The cluster has run work under this higher fence.
    Refused(i64),
}

impl FenceCheck {
    /// Why the work is refused.
    pub(super) fn to_refusal(self, fence: i64) -> Option<String> {
        match self {
            FenceCheck::Allowed => None,
            FenceCheck::Refused(known) => Some(format!(
                "the cluster has run work of a later holder of the environment, under fence {known}, and refuses the lower fence {fence}"
            )),
        }
    }
}

/// Raises the fence of an environment, unless it is higher already.
pub(super) async fn raise_fence(
    records: &Api<ConfigMap>,
    environment: &str,
    fence: i64,
) -> Result<FenceCheck, Error> {
    let name = format!("berth-fence-{}", hash(environment));
    let mut conflicts = 0;
    loop {
        let written = match records.get_opt(&name).await? {
            None => records.create(&PostParams::default(), &record(&name, environment, fence)).await,
            Some(mut found) => {
                let known = read_fence(&found);
                if known > fence {
                    return Ok(FenceCheck::Refused(known));
                }
                if known == fence {
                    return Ok(FenceCheck::Allowed);
                }
                // The resource version that was read goes with it, so a write in between is a conflict.
                found.data = record(&name, environment, fence).data;
                records.replace(&name, &PostParams::default(), &found).await
            }
        };
        match written {
            Ok(_) => return Ok(FenceCheck::Allowed),
            Err(error) if status_code(&error) == Some(409) && conflicts < CONFLICTS_MAX => conflicts += 1,
            Err(error) => return Err(error),
        }
    }
}

/// Returns the recorded fence. A record that cannot be read counts as the highest fence, so that nothing runs.
fn read_fence(record: &ConfigMap) -> i64 {
    let text = record.data.as_ref().and_then(|data| data.get(FENCE));
    text.and_then(|text| text.parse().ok()).unwrap_or(i64::MAX)
}

fn record(name: &str, environment: &str, fence: i64) -> ConfigMap {
    ConfigMap {
        metadata: ObjectMeta {
            name: Some(name.to_owned()),
            labels: Some(BTreeMap::from([(ENVIRONMENT.to_owned(), label_value(environment))])),
            ..Default::default()
        },
        data: Some(BTreeMap::from([(FENCE.to_owned(), fence.to_string())])),
        ..Default::default()
    }
}
