import { Code, NativeSelect, Text } from "@mantine/core";
import { useNavigate } from "@tanstack/react-router";
import { useState } from "react";
import type { Environment } from "@/api/types";
import { useClaimEnvironment, useDeployToEnvironment } from "@/data/environments";
import { ConfirmDialog } from "@/ui/ConfirmDialog";
import { toast } from "@/ui/toast";

type Props = {
  org: string;
  pipelineId: string;
  branch: string;
  /** Free environments, and those that the user holds. */
  environments: Environment[];
  first: string;
  onClose: () => void;
};

/** Deploys the branch of a fix to an environment, so that it can be tried before it is merged. */
export function DeployFixDialog(props: Props) {
  const { branch } = props;
  // As they were when the dialog opened: the claim itself makes a free environment a held one.
  const [environments] = useState(props.environments);
  const [envName, setEnvName] = useState(props.first);
  const environment = environments.find(each => each.envName === envName);
  const sessionId = environment?.lock?.sessionId;
  const fields = (
    <>
      <NativeSelect
        label="Environment"
        data={environments.map(each => ({
          value: each.envName,
          label: each.lock ? `${each.envName} (held by you)` : each.envName,
        }))}
        value={envName}
        onChange={event => setEnvName(event.currentTarget.value)}
      />
      <Text size="sm" className="wrap">
        {sessionId ? "Deploys the branch " : `Claims ${envName} and deploys the branch `}
        <Code>{branch}</Code>
        {sessionId ? " in your session." : "."} Other environments and stages do not change.
      </Text>
    </>
  );
  return sessionId ? (
    <DeployInSession key={envName} {...props} envName={envName} sessionId={sessionId} fields={fields} />
  ) : (
    <ClaimAndDeploy key={envName} {...props} envName={envName} fields={fields} />
  );
}

type FormProps = Props & { envName: string; fields: React.ReactNode };

function useOpenDeployment({ org, onClose }: Props) {
  const navigate = useNavigate();
  return (deploymentId: string | null | undefined, envName: string) => {
    onClose();
    if (deploymentId) navigate({ to: "/o/$org/deployments/$deploymentId", params: { org, deploymentId } });
    else toast.success(`${envName} claimed`);
  };
}

function ClaimAndDeploy({ envName, fields, ...props }: FormProps) {
  const { org, pipelineId, branch, onClose } = props;
  const claim = useClaimEnvironment({ org, pipelineId, envName });
  const open = useOpenDeployment(props);
  return (
    <ConfirmDialog
      onClose={onClose}
      title="Deploy the fix"
      action={`Deploy in ${envName}`}
      mutation={claim}
      input={{ commitId: branch, context: "Try the suggested fix" }}
      onSuccess={answer => open("deploymentId" in answer ? answer.deploymentId : null, envName)}
    >
      {fields}
    </ConfirmDialog>
  );
}

function DeployInSession({ envName, sessionId, fields, ...props }: FormProps & { sessionId: string }) {
  const { org, pipelineId, branch, onClose } = props;
  const deploy = useDeployToEnvironment({ org, pipelineId, envName }, sessionId);
  const open = useOpenDeployment(props);
  return (
    <ConfirmDialog
      onClose={onClose}
      title="Deploy the fix"
      action={`Deploy in ${envName}`}
      mutation={deploy}
      input={{ commitId: branch, context: "Try the suggested fix" }}
      onSuccess={({ id }) => open(id, envName)}
    >
      {fields}
    </ConfirmDialog>
  );
}
