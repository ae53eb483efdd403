import { Text, UnstyledButton } from "@mantine/core";
import { type Edge, Handle, type Node, type NodeProps, Position } from "@xyflow/react";
import { useMemo } from "react";
import type { DeploymentStage, DeploymentStep } from "@/api/types";
import { useNow } from "@/data/clock";
import { elapsedSeconds } from "@/format/run";
import { formatDuration } from "@/format/time";
import { RUN_STATUS_STYLE } from "@/theme/status";
import { GraphCanvas } from "@/ui/GraphCanvas";
import { StatusText } from "@/ui/StatusBadge";
import styles from "./graph.module.css";
import { layoutStages } from "./layout";

type Props = { stages: DeploymentStage[]; chosen: string | undefined; onChoose: (stepId: string) => void };

type StageData = { stage: DeploymentStage };
type StepData = { step: DeploymentStep; isChosen: boolean; onChoose: (stepId: string) => void };

/** Graph of a deployment: stages from top to bottom, each with its steps and their dependencies. */
export default function DeploymentGraph({ stages, chosen, onChoose }: Props) {
  const placed = useMemo(() => layoutStages(stages), [stages]);
  const nodes = useMemo(() => {
    const found: Node[] = [];
    for (const { stage, steps, ...box } of placed.stages) {
      found.push({
        id: stage.name,
        type: "stage",
        position: { x: box.x, y: box.y },
        width: box.width,
        height: box.height,
        data: { stage } satisfies StageData,
      });
      for (const at of steps) {
        const step = stage.steps?.find(each => each.id === at.id);
        if (!step) continue;
        found.push({
          id: step.id,
          type: "step",
          parentId: stage.name,
          position: { x: at.x, y: at.y },
          width: at.width,
          height: at.height,
          data: { step, isChosen: step.id === chosen, onChoose } satisfies StepData,
        });
      }
    }
    return found;
  }, [placed, chosen, onChoose]);
  const edges = useMemo(() => {
    const found: Edge[] = [];
    placed.stages.forEach((stage, at) => {
      for (const [source, target] of stage.links)
        found.push({ id: `${source}-${target}`, source, target, zIndex: 1 });
      const next = placed.stages[at + 1];
      if (next) {
        found.push({
          id: `${stage.id}>${next.id}`,
          source: stage.id,
          target: next.id,
          sourceHandle: "out",
          targetHandle: "in",
          type: "straight",
        });
      }
    });
    return found;
  }, [placed]);
  return (
    <GraphCanvas
      label="Stages and steps"
      nodes={nodes}
      edges={edges}
      types={TYPES}
      width={placed.width}
      height={placed.height}
    />
  );
}

function StageNode({ data }: NodeProps) {
  const { stage } = data as StageData;
  return (
    <div className={styles.stage} data-status={stage.status}>
      <Handle type="target" id="in" position={Position.Top} />
      <div className={styles.head}>
        <Text fw={650} size="sm" className="clamp">
          {stage.name}
        </Text>
        <Text size="xs" span style={{ flex: "none" }}>
          <StatusText
            status={RUN_STATUS_STYLE[stage.status]}
            label={stage.reusedFrom ? "reused build" : undefined}
          />
        </Text>
      </div>
      {(stage.steps?.length ?? 0) === 0 && (
        <Text size="xs" c="dimmed" px="sm">
          {ENDED.includes(stage.status) ? "No steps ran" : "Steps appear when the stage starts"}
        </Text>
      )}
      <Handle type="source" id="out" position={Position.Bottom} />
    </div>
  );
}

function StepNode({ data }: NodeProps) {
  const { step, isChosen, onChoose } = data as StepData;
  const style = RUN_STATUS_STYLE[step.status];
  const took = elapsedSeconds(step, useNow());
  const Icon = style.icon;
  return (
    <>
      <Handle type="target" position={Position.Top} />
      <UnstyledButton
        className={styles.step}
        data-tone={style.tone}
        aria-pressed={isChosen}
        aria-label={`${step.name}: ${style.label}`}
        onClick={() => onChoose(step.id)}
      >
        <Icon size={16} stroke={2.2} aria-hidden className={style.isAnimated ? "busy-dot" : undefined} />
        <Text size="sm" fw={550} className="clamp" c="var(--mantine-color-text)" style={{ flex: 1 }}>
          {step.name}
        </Text>
        {took !== null && step.status !== "skipped" && (
          <Text size="xs" c="dimmed" className="tabular" style={{ flex: "none" }}>
            {formatDuration(took)}
          </Text>
        )}
      </UnstyledButton>
      <Handle type="source" position={Position.Bottom} />
    </>
  );
}

const ENDED: DeploymentStage["status"][] = ["succeeded", "failed", "cancelled", "skipped"];
const TYPES = { stage: StageNode, step: StepNode };
