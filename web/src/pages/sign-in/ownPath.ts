/** Only our own pages are returned to: whatever else stands in the address is not followed. */
export function ownPath(next: string | undefined): string {
  const isOwn = next?.startsWith("/") && !next.startsWith("//") && !next.includes("\\");
  return isOwn && next ? next : "/";
}
