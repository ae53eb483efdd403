/** A log and its outline, open while they are mounted. */
import { useEffect, useMemo, useState, useSyncExternalStore } from "react";
import { LogBuffer } from "@/data/logBuffer";
import type { LogSource } from "@/data/logs";
import { groupsOf } from "./folds";
import { Outline } from "./outline";

/** Lines are shown without groups after this time. */
const OUTLINE_MS_MAX = 1_500;

export function useLog({ org, deploymentId, stepId, attempt, stream }: LogSource) {
  const [buffer, outline] = useMemo(() => {
    const source = { org, deploymentId, stepId, attempt, stream };
    return [new LogBuffer(source), new Outline(source)] as const;
  }, [org, deploymentId, stepId, attempt, stream]);
  const [isPatienceOver, setPatienceOver] = useState(false);

  useEffect(() => {
    const deaf = buffer.onTail(entries => {
      const { lines, isComplete } = buffer.state();
      outline.heard(entries, lines, isComplete);
    });
    const patience = setTimeout(() => setPatienceOver(true), OUTLINE_MS_MAX);
    buffer.open();
    return () => {
      clearTimeout(patience);
      deaf();
      buffer.close();
    };
  }, [buffer, outline]);

  const state = useSyncExternalStore(buffer.subscribe, buffer.state);
  const { marks, isReady } = useSyncExternalStore(outline.watch, outline.state);
  const groups = useMemo(() => groupsOf(marks, state.lines), [marks, state.lines]);
  return { buffer, state, groups, isReady: state.isOpen && (isReady || isPatienceOver) };
}
