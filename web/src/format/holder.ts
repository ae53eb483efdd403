type Held = { holder: { id: string; name: string }; contact?: string };

/** The holder and, if there is one, the contact: `ci-bot for grace`. The member `me` is called "you". */
export function formatHolder({ holder, contact }: Held, me?: string): string {
  const name = holder.id === me ? "you" : holder.name;
  return contact ? `${name} for ${contact}` : name;
}
