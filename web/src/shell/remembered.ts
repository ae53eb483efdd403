/** The organization visited last, which `/` redirects to. */
const NAME = "berth.organization";

export function remember(org: string) {
  localStorage.setItem(NAME, org);
}

export function lastOrganization(known: { slug: string }[]): string | undefined {
  const last = localStorage.getItem(NAME);
  return (known.find(each => each.slug === last) ?? known[0])?.slug;
}
