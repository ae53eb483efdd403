/** Groups the events of a deployment. */
import type { Event } from "@/api/types";

export type EventGroup = {
  id: string;
  /** The event that says most about the group. */
  head: Event;
  /** Newest first, with the head. */
  events: Event[];
};

/** Groups events, newest first, by their deployment. A group is where its newest event is. */
export function groupEvents(events: Event[]): EventGroup[] {
  const groups = new Map<string, Event[]>();
  for (const event of events) {
    const deployment = event.subjects.find(each => each.type === "deployment");
    const key = deployment?.id ?? event.id;
    const group = groups.get(key);
    if (group) group.push(event);
    else groups.set(key, [event]);
  }
  return [...groups].flatMap(([key, [newest, ...older]]) => {
    if (!newest) return [];
    const all = [newest, ...older];
    return [{ id: key, events: all, head: all.find(each => each.kind.startsWith("deployment_")) ?? newest }];
  });
}
