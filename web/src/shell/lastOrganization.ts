/** The organization visited last, which `/` redirects to. */
const STORAGE_KEY = "berth.organization";

export function saveLastOrganization(org: string) {
  localStorage.setItem(STORAGE_KEY, org);
}

export function loadLastOrganization(known: { slug: string }[]): string | undefined {
  const last = localStorage.getItem(STORAGE_KEY);
  return (known.find(each => each.slug === last) ?? known[0])?.slug;
}
