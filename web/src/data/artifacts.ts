/** Returns the URL at which an artifact of a deployment is downloaded. */
export function artifactUrl(org: string, deploymentId: string, name: string, digest: string): string {
  const path = [org, "deployments", deploymentId, "artifacts", name].map(encodeURIComponent).join("/");
  return `/api/v1/organizations/${path}?${new URLSearchParams({ digest })}`;
}
