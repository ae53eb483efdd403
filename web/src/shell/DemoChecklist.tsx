import { ActionIcon, Anchor, Button, Group, List, Paper, Stack, Text, ThemeIcon } from "@mantine/core";
import { IconCheck, IconChevronDown, IconPoint, IconX } from "@tabler/icons-react";
import { useQuery } from "@tanstack/react-query";
import { type ReactNode, useId, useState } from "react";
import { DEMO_STEPS, useBrokenDeployment, useCompletedDemoSteps } from "@/data/demo";
import { useMe, useOrg } from "@/data/me";
import { pipelineQuery } from "@/data/pipelines";
import { InlineCode } from "@/ui/InlineCode";
import { Link } from "@/ui/Link";
import "./checklist.css";

const DISMISSED_KEY = "berth.demo.dismissed";
/** Wide enough to show the checklist next to the page; the style sheet uses the same width. Collapsed at first below it. */
const WIDE_QUERY = "(min-width: 75em)";

/** Checklist of the demo. Steps are checked off by the server's deployments and events. */
export default function DemoChecklist() {
  const sites = useMe().demo?.sites;
  const org = useOrg();
  const done = useCompletedDemoSteps(org);
  const [open, setOpen] = useState(() => matchMedia(WIDE_QUERY).matches);
  const [dismissed, setDismissed] = useState(() => sessionStorage.getItem(DISMISSED_KEY) !== null);
  const items = useId();

  if (!sites || dismissed) return null;
  const dismiss = () => {
    sessionStorage.setItem(DISMISSED_KEY, "yes");
    setDismissed(true);
  };
  const count = done.filter(Boolean).length;
  return (
    <Paper component="aside" aria-label="Getting started" className="checklist" withBorder>
      <Group justify="space-between" wrap="nowrap" gap="xs">
        <Button
          variant="subtle"
          color="gray"
          size="compact-md"
          onClick={() => setOpen(!open)}
          aria-expanded={open}
          aria-controls={items}
          rightSection={<IconChevronDown size={16} />}
        >
          Getting started: {count} of {DEMO_STEPS.length}
        </Button>
        <ActionIcon variant="subtle" color="gray" onClick={dismiss} aria-label="Dismiss">
          <IconX size={16} />
        </ActionIcon>
      </Group>
      <Stack id={items} gap="sm" mt="xs" px={6} pb={6} hidden={!open} display={open ? undefined : "none"}>
        <DemoSteps done={done} sites={sites} />
        <Text size="sm" c={count === DEMO_STEPS.length ? undefined : "dimmed"}>
          <InlineCode text="Next: run `berth demo crash` to kill the server during a deployment, then add your own repository with `berth repo add .`" />
        </Text>
      </Stack>
    </Paper>
  );
}

function DemoSteps({ done, sites }: { done: boolean[]; sites: { place: string; url: string }[] }) {
  const org = useOrg();
  const pipelineId = "shop";
  const failed = useBrokenDeployment(org);
  const stages = useQuery(pipelineQuery(org, pipelineId)).data?.stages;
  const inProduction = stages?.find(each => each.name === "production")?.current?.deploymentId;
  const site = (place: string) => {
    const url = sites.find(each => each.place === place)?.url;
    return (
      <Anchor inherit href={url} target="_blank" rel="noreferrer">
        the site
      </Anchor>
    );
  };
  const environment = (envName: string) => (
    <Link inherit to="/o/$org/environments/$pipelineId/$envName" params={{ org, pipelineId, envName }}>
      {envName}
    </Link>
  );
  const deployment = (deploymentId: string | undefined, name: string) =>
    deploymentId ? (
      <Link inherit to="/o/$org/deployments/$deploymentId" params={{ org, deploymentId }}>
        {name}
      </Link>
    ) : (
      name
    );
  const lines: ReactNode[] = [
    <>
      Claim {environment("qa-2")} with <InlineCode text="`feature/dark`" /> and follow the log: {site("qa-2")}{" "}
      turns dark
    </>,
    <>
      Take over {environment("qa-1")} from Grace: {site("qa-1")} rejects her late write
    </>,
    <>
      <Link inherit to="/o/$org/approvals" params={{ org }}>
        Approve
      </Link>{" "}
      the deployment to production: {site("production")} turns green
    </>,
    <>Roll back {deployment(inProduction, "production")}: the site is blue again, and promotion is paused</>,
    <>
      See why {deployment(failed, "broken")} failed and propose the fix: its branch succeeds in{" "}
      {environment("qa-2")}
    </>,
  ];
  return (
    <List spacing={8} size="sm" listStyleType="none" pl={0} withPadding={false}>
      {lines.map((line, at) => (
        <List.Item
          // biome-ignore lint/suspicious/noArrayIndexKey: the list is static
          key={at}
          icon={
            <ThemeIcon size={20} radius="xl" color={done[at] ? "green" : "gray"} variant="light">
              {done[at] ? (
                <IconCheck size={14} aria-label="done" />
              ) : (
                <IconPoint size={14} aria-label="to do" />
              )}
            </ThemeIcon>
          }
        >
          {line}
        </List.Item>
      ))}
    </List>
  );
}
