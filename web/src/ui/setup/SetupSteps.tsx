import { Card, Group, Stack, Text, ThemeIcon, Title } from "@mantine/core";
import { IconCheck } from "@tabler/icons-react";
import { useQuery } from "@tanstack/react-query";
import type { ReactNode } from "react";
import { useMe, useOrg } from "@/data/me";
import { pipelinesQuery } from "@/data/pipelines";
import { SERVER_URL } from "@/data/serverUrl";
import { tokensQuery } from "@/data/tokens";
import { Snippet } from "@/ui/Copy";
import { LinkButton } from "@/ui/Link";
import { completedSetupSteps } from "./completedSetupSteps";
import { FirstDeployment } from "./FirstDeployment";

type StepProps = { number: number; done: boolean; title: string; children: ReactNode };

function SetupStep({ number, done, title, children }: StepProps) {
  return (
    <Card component="li">
      <Group align="flex-start" wrap="nowrap" gap="md">
        <ThemeIcon radius="xl" size={32} variant={done ? "filled" : "light"} color={done ? "kelp.8" : "tide"}>
          {done ? <IconCheck size={18} aria-label="done" /> : <Text fw={600}>{number}</Text>}
        </ThemeIcon>
        <Stack gap="sm" style={{ flex: 1, minWidth: 0 }}>
          <Title order={2}>{title}</Title>
          {children}
        </Stack>
      </Group>
    </Card>
  );
}

/** Setup steps of a new organization. Checked off by the server's data. */
export function SetupSteps() {
  const org = useOrg();
  const me = useMe();
  const pipelines = useQuery(pipelinesQuery(org)).data?.data ?? [];
  const tokens = useQuery(tokensQuery(org)).data?.data ?? [];
  let number = 0;
  const n = () => ++number;
  const isDone = completedSetupSteps({ user: me.user, pipelines, tokens });
  return (
    <Stack component="ol" p={0} m={0} style={{ listStyle: "none" }}>
      {!isDone.password && (
        <SetupStep number={n()} done={false} title="Change your password">
          <Text c="dimmed">Your temporary password was displayed when the account was created.</Text>
          <Group>
            <LinkButton to="/profile" variant="default">
              Change password
            </LinkButton>
          </Group>
        </SetupStep>
      )}
      <SetupStep number={n()} done={isDone.deployment} title="Start your first deployment">
        <FirstDeployment org={org} />
      </SetupStep>
      <SetupStep number={n()} done={isDone.token} title="Use the command line">
        <Text c="dimmed">
          Log in to this server, then claim environments, deploy and follow logs from your terminal. CI uses
          an API token instead.
        </Text>
        <Snippet label="Commands" text={`berth login ${SERVER_URL}\nberth status`} />
        <Group>
          <LinkButton to="/o/$org/settings/tokens" params={{ org }} variant="default">
            Create token
          </LinkButton>
        </Group>
      </SetupStep>
    </Stack>
  );
}
