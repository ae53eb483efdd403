import dagre from "@dagrejs/dagre";
import { type Edge, Handle, type Node, type NodeProps, Position } from "@xyflow/react";
import { useMemo } from "react";
import type { Pipeline, Stage } from "@/api/types";
import type { StageOccupant } from "@/data/stageOccupants";
import { GraphCanvas } from "@/ui/GraphCanvas";
import styles from "./pipeline.module.css";
import { StageContent } from "./StageCards";

const NODE = { width: 264, height: 152 };
const GAP_PX = 48;

type Props = { org: string; pipeline: Pipeline; occupants: Map<string, StageOccupant> };
type Data = { org: string; stage: Stage; occupant: StageOccupant | undefined };

/** Graph of a pipeline's stages, from left to right. */
export default function StageGraph({ org, pipeline, occupants }: Props) {
  const { stages } = pipeline;
  const drawn = useMemo(() => {
    const graph = new dagre.graphlib.Graph();
    graph.setGraph({ rankdir: "LR", ranksep: GAP_PX, nodesep: GAP_PX });
    graph.setDefaultEdgeLabel(() => ({}));
    for (const stage of stages) graph.setNode(stage.name, { ...NODE });
    const edges: Edge[] = [];
    stages.forEach((stage, at) => {
      const next = stages[at + 1];
      if (!next) return;
      graph.setEdge(stage.name, next.name);
      edges.push({
        id: `${stage.name}>${next.name}`,
        source: stage.name,
        target: next.name,
        animated: occupants.has(next.name) && !next.paused,
      });
    });
    dagre.layout(graph);
    const nodes: Node[] = stages.map(stage => {
      const { x, y } = graph.node(stage.name);
      const position = { x: x - NODE.width / 2, y: y - NODE.height / 2 };
      const data: Data = { org, stage, occupant: occupants.get(stage.name) };
      return { id: stage.name, type: "stage", position, ...NODE, data };
    });
    return { nodes, edges };
  }, [org, stages, occupants]);
  const width = stages.length * (NODE.width + GAP_PX);
  return <GraphCanvas label="Stages" {...drawn} types={TYPES} width={width} height={NODE.height} />;
}

function StageNode({ data }: NodeProps) {
  const { org, stage, occupant } = data as Data;
  const status = occupant?.needsApproval ? "waiting" : occupant?.stage.status;
  return (
    <div className={styles.stage} data-status={stage.paused ? "paused" : status}>
      <Handle type="target" position={Position.Left} />
      <StageContent org={org} stage={stage} occupant={occupant} />
      <Handle type="source" position={Position.Right} />
    </div>
  );
}

const TYPES = { stage: StageNode };
