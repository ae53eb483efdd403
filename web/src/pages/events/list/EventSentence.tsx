import { Text } from "@mantine/core";
import type { Event } from "@/api/types";
import { useOrg } from "@/data/me";
import { Link } from "@/ui/Link";
import classes from "./events.module.css";
import { type SentencePiece, splitSentence } from "./sentence";

/** The summary of an event, with links to what it names. */
export function EventSentence({ event }: { event: Event }) {
  const pieces = splitSentence(event, useOrg());
  const hasUnnamedActor = event.actor.type !== "system" && !pieces.some(each => each.isActor);
  return (
    <Text span className={classes.sentence}>
      {pieces.map((piece, at) => (
        // biome-ignore lint/suspicious/noArrayIndexKey: the list is static
        <Piece key={at} {...piece} />
      ))}
      {hasUnnamedActor && (
        <Text span inherit c="dimmed">
          {" "}
          · by {event.actor.name}
        </Text>
      )}
    </Text>
  );
}

function Piece({ text, link, isActor }: SentencePiece) {
  const weight = isActor ? 600 : undefined;
  if (!link) return isActor ? <b>{text}</b> : text;
  return (
    <Link to={link.to} search={link.search ?? {}} inherit fw={weight} c="inherit" className={classes.link}>
      {text}
    </Link>
  );
}
