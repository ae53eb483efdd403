import { Card, Group, Stack, Text, ThemeIcon, Title } from "@mantine/core";
import { IconCheck } from "@tabler/icons-react";
import { useQuery } from "@tanstack/react-query";
import type { ReactNode } from "react";
import { useMe, useOrg } from "@/data/me";
import { pipelinesQuery } from "@/data/pipelines";
import { repositoriesQuery } from "@/data/repositories";
import { SERVER_URL } from "@/data/serverUrl";
import { tokensQuery } from "@/data/tokens";
import { Snippet } from "@/ui/Copy";
import { LinkButton } from "@/ui/Link";
import { FIRST_PIPELINE, FIRST_PIPELINE_PATH } from "../snippets";
import { completedSetupSteps } from "./completedSetupSteps";

type StepProps = { number: number; done: boolean; title: string; children: ReactNode };

function SetupStep({ number, done, title, children }: StepProps) {
  return (
    <Card component="li">
      <Group align="flex-start" wrap="nowrap" gap="md">
        <ThemeIcon radius="xl" size={32} variant={done ? "filled" : "light"} color={done ? "kelp.8" : "tide"}>
          {done ? <IconCheck size={18} aria-label="done" /> : <Text fw={650}>{number}</Text>}
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
  const repositories = useQuery(repositoriesQuery(org)).data?.data ?? [];
  const pipelines = useQuery(pipelinesQuery(org)).data?.data ?? [];
  const tokens = useQuery(tokensQuery(org)).data?.data ?? [];
  const isDone = completedSetupSteps({ user: me.user, pipelines, repositories, tokens });
  return (
    <Stack component="ol" p={0} m={0} style={{ listStyle: "none" }}>
      <SetupStep number={1} done={isDone.password} title="Change your password">
        <Text c="dimmed">Your temporary password was displayed when the account was created.</Text>
        <Group>
          <LinkButton to="/profile" variant="default">
            Change password
          </LinkButton>
        </Group>
      </SetupStep>
      <SetupStep number={2} done={isDone.pipeline} title="Define a pipeline">
        <Text c="dimmed">
          Save this as <code>{FIRST_PIPELINE_PATH}</code> in your repository, then commit and push it. Its
          step only prints a line: replace it with the commands that deploy your software.
        </Text>
        <Snippet label="Example pipeline" text={FIRST_PIPELINE} />
      </SetupStep>
      <SetupStep number={3} done={isDone.repository} title="Add the repository">
        <Text c="dimmed">
          Berth finds its pipelines and deploys the newest commit of each tracked branch.
        </Text>
        <Group>
          <LinkButton to="/o/$org/settings/repositories" params={{ org }} variant="default">
            Add repository
          </LinkButton>
        </Group>
      </SetupStep>
      <SetupStep number={4} done={isDone.token} title="Create an API token">
        <Text c="dimmed">For CI and the command line. A token has your permissions.</Text>
        <Snippet
          label="Example request"
          text={`curl -H "Authorization: Bearer $TOKEN" \\\n  ${SERVER_URL}/api/v1/organizations/${org}/pipelines`}
        />
        <Group>
          <LinkButton to="/o/$org/settings/tokens" params={{ org }} variant="default">
            Create token
          </LinkButton>
        </Group>
      </SetupStep>
    </Stack>
  );
}
