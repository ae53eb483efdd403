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
import { completedSteps } from "./completedSteps";

type StepProps = { number: number; done: boolean; title: string; children: ReactNode };

function Step({ number, done, title, children }: StepProps) {
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

/** Four steps that tick themselves, when the server has seen them happen. */
export function FirstSteps() {
  const org = useOrg();
  const me = useMe();
  const repositories = useQuery(repositoriesQuery(org)).data?.data ?? [];
  const pipelines = useQuery(pipelinesQuery(org)).data?.data ?? [];
  const tokens = useQuery(tokensQuery(org)).data?.data ?? [];
  const isDone = completedSteps({ user: me.user, pipelines, repositories, tokens });
  return (
    <Stack component="ol" p={0} m={0} style={{ listStyle: "none" }}>
      <Step number={1} done={isDone.password} title="Choose your own password">
        <Text c="dimmed">The one you were given was shown on somebody's screen.</Text>
        <Group>
          <LinkButton to="/profile" variant="default">
            Your profile
          </LinkButton>
        </Group>
      </Step>
      <Step number={2} done={isDone.pipeline} title="Describe a pipeline">
        <Text c="dimmed">
          A file in your repository, at <code>{FIRST_PIPELINE_PATH}</code>:
        </Text>
        <Snippet label="A first pipeline" text={FIRST_PIPELINE} />
      </Step>
      <Step number={3} done={isDone.repository} title="Register the repository">
        <Text c="dimmed">
          Its pipelines are found, and the head of each one's branch is deployed at once.
        </Text>
        <Group>
          <LinkButton to="/o/$org/settings/repositories" params={{ org }} variant="default">
            Register a repository
          </LinkButton>
        </Group>
      </Step>
      <Step number={4} done={isDone.token} title="Let your tools in">
        <Text c="dimmed">A token for CI or your terminal; it may do what you may do.</Text>
        <Snippet
          label="A first request"
          text={`curl -H "Authorization: Bearer $TOKEN" \\\n  ${SERVER_URL}/api/v1/organizations/${org}/pipelines`}
        />
        <Group>
          <LinkButton to="/o/$org/settings/tokens" params={{ org }} variant="default">
            Create a token
          </LinkButton>
        </Group>
      </Step>
    </Stack>
  );
}
