import type { SpotlightActionGroupData, SpotlightFilterFunction } from "@mantine/spotlight";

/** Whether each of these words occurs in the text. */
function containsAll(words: string[], ...texts: (string | string[] | undefined)[]): boolean {
  const all = texts.flat().join("\n").toLowerCase();
  return words.every(word => all.includes(word));
}

type Entry = Parameters<SpotlightFilterFunction>[1][number];

const isGroup = (each: Entry): each is SpotlightActionGroupData => "actions" in each;

/**
 * Keeps the entries that contain all words of the query, in any order: “queue qa-1” finds “Join queue for qa-1”. Labels
 * that contain the query as it was typed come first, then labels with all of its words; groups follow their best entry.
 */
export const filterPalette: SpotlightFilterFunction = (query, groups) => {
  const typed = query.trim().toLowerCase();
  const words = typed.split(/\s+/).filter(Boolean);
  const rank = (label = "") => (containsAll([typed], label) ? 0 : containsAll(words, label) ? 1 : 2);
  return groups
    .filter(isGroup)
    .map(({ group, actions }) => ({
      group,
      actions: actions
        .filter(({ label, description, keywords }) => containsAll(words, label, description, keywords))
        .sort((a, b) => rank(a.label) - rank(b.label)),
    }))
    .filter(each => each.actions.length > 0)
    .sort((a, b) => rank(a.actions[0]?.label) - rank(b.actions[0]?.label));
};
