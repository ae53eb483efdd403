/** A log and its groups, open while mounted. */
import { useEffect, useMemo, useState, useSyncExternalStore } from "react";
import { LogBuffer } from "@/data/logBuffer";
import type { LogSource } from "@/data/logs";
import { buildGroups } from "./groups";
import { Outline } from "./outline";

/** Time after which lines are shown without groups. */
const OUTLINE_MS_MAX = 1_500;

export function useLog({ org, deploymentId, stepId, attempt, stream }: LogSource) {
  const [buffer, outline] = useMemo(() => {
    const source = { org, deploymentId, stepId, attempt, stream };
    return [new LogBuffer(source), new Outline(source)] as const;
  }, [org, deploymentId, stepId, attempt, stream]);
  const [hasTimedOut, setTimedOut] = useState(false);

  useEffect(() => {
    const unsubscribe = buffer.onTail(entries => {
      const { lines, isComplete } = buffer.state();
      outline.addTail(entries, lines, isComplete);
    });
    const timeout = setTimeout(() => setTimedOut(true), OUTLINE_MS_MAX);
    buffer.open();
    return () => {
      clearTimeout(timeout);
      unsubscribe();
      buffer.close();
    };
  }, [buffer, outline]);

  const state = useSyncExternalStore(buffer.subscribe, buffer.state);
  const { marks, isReady } = useSyncExternalStore(outline.watch, outline.state);
  const groups = useMemo(() => buildGroups(marks, state.lines), [marks, state.lines]);
  return { buffer, state, groups, isReady: state.isOpen && (isReady || hasTimedOut) };
}
