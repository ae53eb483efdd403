//! Credentials of a `kubernetes_apply` step: a kubeconfig from a secret, or the runner's own if the runner allows it.

use berth_api::runner::StepRunOutcome;
use kube::config::{AuthInfo, Cluster, KubeConfigOptions, Kubeconfig};
use kube::{Client, Config};

use super::super::cluster::new_client;
use super::manifests::Manifest;
use crate::attempt::{RunningAttempt, invalid_outcome};

const NAMESPACE: &str = "Namespace";

/// The credentials of a step.
pub(super) struct ApplyCredentials {
    pub(super) client: Client,
    /// The namespace of objects that name none, if the step does not say.
    pub(super) namespace: String,
    /// Namespaces that the credentials may not be used for.
    forbidden: Vec<String>,
}

impl ApplyCredentials {
    /// Refuses the namespaces of the Jobs and of the runner's pod for the runner's own credentials. A pod there could mount
    /// the runner's volume, which has its credential for the server, and use its service account.
    pub(super) fn check(&self, manifests: &[Manifest], namespace: &str) -> Result<(), StepRunOutcome> {
        let refuse = |what: &str, own: &str| {
            Err(invalid_outcome(format!(
                "{what} the namespace {own}, which is the runner's own; name another one with `namespace`, or credentials with `kubeconfig`"
            )))
        };
        for own in &self.forbidden {
            if namespace == own {
                return refuse("the step applies to", own);
            }
            let is_its = |it: &&Manifest| it.namespace == *own || (it.kind == NAMESPACE && it.name == *own);
            if let Some(manifest) = manifests.iter().find(is_its) {
                return refuse(&format!("{} belongs to", manifest.title()), own);
            }
        }
        Ok(())
    }
}

pub(super) async fn connect(attempt: &RunningAttempt<'_>) -> Result<ApplyCredentials, StepRunOutcome> {
    let Some(secret) = &attempt.assignment.kubeconfig else { return connect_as_runner(attempt) };
    let read = Kubeconfig::from_yaml(secret.reveal())
        .map_err(|_| invalid_outcome("the secret of `kubeconfig` is not a kubeconfig file".into()))?;
    let context = attempt.text_param("context").map(str::to_owned);
    let refuse = |detail: &str| {
        invalid_outcome(format!(
            "the kubeconfig {detail}, which a runner does not use; put the value into the file"
        ))
    };
    for cluster in read.clusters.iter().filter_map(|it| it.cluster.as_ref()) {
        check_cluster(cluster).map_err(refuse)?;
    }
    for user in read.auth_infos.iter().filter_map(|it| it.auth_info.as_ref()) {
        check_user(user).map_err(refuse)?;
    }
    let options = KubeConfigOptions { context, ..Default::default() };
    let config = Config::from_custom_kubeconfig(read, &options).await;
    let config =
        config.map_err(|error| invalid_outcome(format!("the kubeconfig cannot be used: {error}")))?;
    let namespace = config.default_namespace.clone();
    let client = new_client(config).map_err(invalid_outcome)?;
    Ok(ApplyCredentials { client, namespace, forbidden: Vec::new() })
}

fn connect_as_runner(attempt: &RunningAttempt<'_>) -> Result<ApplyCredentials, StepRunOutcome> {
    if attempt.assignment.is_untrusted {
        return Err(invalid_outcome(
            "the runner does not lend its credentials to steps that run the commit of a fork".into(),
        ));
    }
    let cluster = attempt.shared.kubernetes.as_ref().filter(|cluster| cluster.options.allows_apply);
    let cluster = cluster.ok_or_else(|| {
        invalid_outcome(
            "this runner does not lend its credentials; name a secret with `kubeconfig`, or allow it with `apply` in the section [runner.kubernetes]".into(),
        )
    })?;
    let namespace = cluster.options.namespace.clone();
    let client = cluster.client.clone();
    let mut forbidden = vec![namespace.clone()];
    if cluster.options.kubeconfig.is_none() {
        forbidden.push(client.default_namespace().to_owned());
    }
    Ok(ApplyCredentials { client, namespace, forbidden })
}

/// The runner's files and network are not part of the secret.
fn check_cluster(cluster: &Cluster) -> Result<(), &'static str> {
    if cluster.certificate_authority.is_some() {
        return Err("names a file with `certificate-authority`");
    }
    if cluster.proxy_url.is_some() { Err("names a proxy with `proxy-url`") } else { Ok(()) }
}

/// A plugin would run a command as the runner, outside of the sandbox.
fn check_user(user: &AuthInfo) -> Result<(), &'static str> {
    if user.exec.is_some() {
        return Err("runs a command with `exec`");
    }
    if user.auth_provider.is_some() {
        return Err("has an `auth-provider`");
    }
    if user.token_file.is_some() || user.client_certificate.is_some() || user.client_key.is_some() {
        return Err("names a file of the user");
    }
    Ok(())
}
