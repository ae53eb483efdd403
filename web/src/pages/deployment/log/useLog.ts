/** A log and its outline, open for as long as they are looked at. */
import { useEffect, useMemo, useState, useSyncExternalStore } from "react";
import { LogBook } from "@/data/logBook";
import type { LogSource } from "@/data/logs";
import { groupsOf } from "./folds";
import { Outline } from "./outline";

/** Nobody waits longer than this for groups before they see lines. */
const OUTLINE_MS_MAX = 1_500;

export function useLog({ org, deploymentId, stepId, attempt, stream }: LogSource) {
  const [book, outline] = useMemo(() => {
    const source = { org, deploymentId, stepId, attempt, stream };
    return [new LogBook(source), new Outline(source)] as const;
  }, [org, deploymentId, stepId, attempt, stream]);
  const [isPatienceOver, setPatienceOver] = useState(false);

  useEffect(() => {
    const deaf = book.onTail(entries => {
      const { lines, isComplete } = book.state();
      outline.heard(entries, lines, isComplete);
    });
    const patience = setTimeout(() => setPatienceOver(true), OUTLINE_MS_MAX);
    book.open();
    return () => {
      clearTimeout(patience);
      deaf();
      book.close();
    };
  }, [book, outline]);

  const state = useSyncExternalStore(book.watch, book.state);
  const { marks, isReady } = useSyncExternalStore(outline.watch, outline.state);
  const groups = useMemo(() => groupsOf(marks, state.lines), [marks, state.lines]);
  return { book, state, groups, isReady: state.isOpen && (isReady || isPatienceOver) };
}
