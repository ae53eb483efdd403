/** Marks search hits in the pieces of a line. */
import type { TextPiece } from "@/ui/log/ansi";

export type MarkedPiece = TextPiece & { isHit: boolean };

const HITS_MAX = 100;

/** Splits pieces at the boundaries of hits; a hit may span several pieces. */
export function markHits(pieces: TextPiece[], q: string): MarkedPiece[] {
  const plain = pieces.map(piece => ({ ...piece, isHit: false }));
  if (q === "") return plain;
  const hits = findHits(pieces.map(piece => piece.text).join(""), q);
  if (hits.length === 0) return plain;
  const marked: MarkedPiece[] = [];
  let start = 0;
  for (const piece of pieces) {
    const end = start + piece.text.length;
    let at = start;
    for (const hit of hits) {
      const from = Math.max(hit, at);
      const to = Math.min(hit + q.length, end);
      if (from >= to) continue;
      if (from > at)
        marked.push({ ...piece, text: piece.text.slice(at - start, from - start), isHit: false });
      marked.push({ ...piece, text: piece.text.slice(from - start, to - start), isHit: true });
      at = to;
    }
    if (at < end) marked.push({ ...piece, text: piece.text.slice(at - start), isHit: false });
    start = end;
  }
  return marked;
}

function findHits(text: string, q: string): number[] {
  const [lowText, lowQ] = [text.toLowerCase(), q.toLowerCase()];
  // Letters whose lower case has another length would shift all positions after them.
  if (lowText.length !== text.length || lowQ.length !== q.length) return [];
  const hits: number[] = [];
  for (let at = lowText.indexOf(lowQ); at >= 0 && hits.length < HITS_MAX; ) {
    hits.push(at);
    at = lowText.indexOf(lowQ, at + lowQ.length);
  }
  return hits;
}
