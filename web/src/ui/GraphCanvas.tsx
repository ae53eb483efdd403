import "@xyflow/react/dist/base.css";
import { Box } from "@mantine/core";
import {
  type Edge,
  type Node,
  type NodeTypes,
  ReactFlow,
  ReactFlowProvider,
  useReactFlow,
  useStore,
} from "@xyflow/react";
import { useEffect } from "react";
import "./canvas.css";

type Props = {
  label: string;
  nodes: Node[];
  edges: Edge[];
  types: NodeTypes;
  width: number;
  height: number;
};

const MARGIN_PX = 12;
const ZOOM_MIN = 0.4;

/** Read-only graph that fits its container. The page scrolls over it; controls inside are reachable with Tab. */
export function GraphCanvas(props: Props) {
  return (
    <ReactFlowProvider>
      <Graph {...props} />
    </ReactFlowProvider>
  );
}

function Graph({ label, nodes, edges, types, width, height }: Props) {
  const flow = useReactFlow();
  const room = useStore(state => state.width);
  // biome-ignore lint/correctness/useExhaustiveDependencies: refit when the graph or its container changes size
  useEffect(() => {
    flow.fitView({ padding: 0.02, maxZoom: 1 });
  }, [flow, width, height, room]);
  return (
    <Box
      role="group"
      aria-label={label}
      className="berth-canvas"
      style={{ height: height + 2 * MARGIN_PX, maxHeight: "64vh" }}
    >
      <ReactFlow
        nodes={nodes}
        edges={edges}
        nodeTypes={types}
        fitView
        fitViewOptions={{ padding: 0.02, maxZoom: 1 }}
        minZoom={ZOOM_MIN}
        maxZoom={1.4}
        nodesDraggable={false}
        nodesConnectable={false}
        nodesFocusable={false}
        edgesFocusable={false}
        elementsSelectable={false}
        zoomOnScroll={false}
        zoomOnDoubleClick={false}
        preventScrolling={false}
        proOptions={{ hideAttribution: true }}
      />
    </Box>
  );
}
