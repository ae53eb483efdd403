type Held = { holder: { id: string; name: string; owner?: { name: string } }; contact?: string };

/** The holder with the owner of an agent and the contact, if there are any: `ci-bot for grace`. The member `me` is called "you". */
export function formatHolder({ holder, contact }: Held, me?: string): string {
  const told = holder.owner ? `${holder.name}, agent of ${holder.owner.name}` : holder.name;
  const name = holder.id === me ? "you" : told;
  return contact ? `${name} for ${contact}` : name;
}
