import { Group, SegmentedControl, Text } from "@mantine/core";
import { lazy, Suspense } from "react";
import type { Deployment } from "@/api/types";
import { LoadingRows } from "@/ui/LoadingRows";
import { StepList } from "./StepList";

const DeploymentGraph = lazy(() => import("../graph/DeploymentGraph"));

export type StepsView = "list" | "graph";

type Props = {
  org: string;
  deployment: Deployment;
  view: StepsView;
  chosen: string | undefined;
  onView: (view: StepsView) => void;
  onChoose: (stepId: string) => void;
};

/** Stages and steps of a deployment, as a list or a graph. */
export function StepsPane({ org, deployment, view, chosen, onView, onChoose }: Props) {
  return (
    <>
      <Group justify="space-between" mb="sm" px={4}>
        <Text component="h2" fw={650} size="sm" m={0}>
          Steps
        </Text>
        <SegmentedControl
          size="xs"
          aria-label="View of stages and steps"
          value={view}
          onChange={value => onView(value === "graph" ? "graph" : "list")}
          data={[
            { value: "list", label: "List" },
            { value: "graph", label: "Graph" },
          ]}
        />
      </Group>
      {view === "graph" ? (
        <Suspense fallback={<LoadingRows rows={1} height={240} />}>
          <DeploymentGraph stages={deployment.stages} chosen={chosen} onChoose={onChoose} />
        </Suspense>
      ) : (
        <StepList org={org} stages={deployment.stages} chosen={chosen} onChoose={onChoose} />
      )}
    </>
  );
}
