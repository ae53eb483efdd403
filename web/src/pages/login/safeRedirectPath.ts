/** Returns a path of the dashboard; any other value becomes `/`, which prevents open redirects. */
export function safeRedirectPath(next: string | undefined): string {
  const isOwn = next?.startsWith("/") && !next.startsWith("//") && !next.includes("\\");
  return isOwn && next ? next : "/";
}
