import { type UseQueryResult, useQuery } from "@tanstack/react-query";
import { type ReactNode, useEffect } from "react";
import { deploymentQuery } from "@/data/deployments";
import { environmentQuery } from "@/data/environments";
import { useOrg } from "@/data/me";
import { pipelineQuery } from "@/data/pipelines";
import { ApprovalDialog } from "@/ui/approvals/ApprovalDialog";
import { toast } from "@/ui/toast";
import { RetryDialog } from "../deployments/dialogs/RetryDialog";
import EnvironmentDialog from "../environments/dialogs/EnvironmentDialog";
import { DeployPipelineDialog } from "../pipelines/dialogs/DeployPipelineDialog";
import type { DialogRequest } from "./OpenDialog";

type Props<Kind extends DialogRequest["kind"] = DialogRequest["kind"]> = {
  request: Extract<DialogRequest, { kind: Kind }>;
  onClose: () => void;
};

/** The dialog of a row. Loads what the dialog needs and the row does not know. Lazy-loaded. */
export default function HomeDialog({ request, onClose }: Props) {
  switch (request.kind) {
    case "approval":
      return <ApprovalDialog {...request} onClose={onClose} />;
    case "retry":
      return <RetryLoaded request={request} onClose={onClose} />;
    case "deploy":
      return <DeployLoaded request={request} onClose={onClose} />;
    case "environment":
      return <EnvironmentLoaded request={request} onClose={onClose} />;
  }
}

function RetryLoaded({ request, onClose }: Props<"retry">) {
  const org = useOrg();
  const deployment = useQuery(deploymentQuery(org, request.deploymentId));
  return (
    <Loaded of={deployment} onClose={onClose}>
      {found => {
        const failed = found.stages.find(each => each.status === "failed") ?? found.stages[0];
        return failed && <RetryDialog org={org} deployment={found} stage={failed.name} onClose={onClose} />;
      }}
    </Loaded>
  );
}

function DeployLoaded({ request, onClose }: Props<"deploy">) {
  const org = useOrg();
  const pipeline = useQuery(pipelineQuery(org, request.pipelineId));
  return (
    <Loaded of={pipeline} onClose={onClose}>
      {found => (
        <DeployPipelineDialog org={org} pipeline={found} promote={request.promote} onClose={onClose} />
      )}
    </Loaded>
  );
}

function EnvironmentLoaded({ request, onClose }: Props<"environment">) {
  const { where, action } = request;
  const environment = useQuery(environmentQuery(where));
  return (
    <Loaded of={environment} onClose={onClose}>
      {found => <EnvironmentDialog action={action} where={where} environment={found} onClose={onClose} />}
    </Loaded>
  );
}

type LoadedProps<T> = { of: UseQueryResult<T>; onClose: () => void; children: (data: T) => ReactNode };

function Loaded<T>({ of, onClose, children }: LoadedProps<T>) {
  const { error, data } = of;
  useEffect(() => {
    if (!error || data !== undefined) return;
    toast.problem(error);
    onClose();
  }, [error, data, onClose]);
  return data === undefined ? null : children(data);
}
