/** Deployments that the user has started in this tab, to report their failure on every page. */
const started = new Set<string>();

export function addStartedDeployment(id: string) {
  started.add(id);
}

export function isStartedHere(id: string | undefined): boolean {
  return id !== undefined && started.has(id);
}
