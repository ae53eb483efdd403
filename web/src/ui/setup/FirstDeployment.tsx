import {
  Button,
  Group,
  List,
  NativeSelect,
  SegmentedControl,
  Stack,
  Text,
  Textarea,
  TextInput,
} from "@mantine/core";
import { useDebouncedValue } from "@mantine/hooks";
import { IconPlus, IconRocket } from "@tabler/icons-react";
import { useNavigate } from "@tanstack/react-router";
import { useState } from "react";
import { useDeployExample } from "@/data/definitions";
import { usePermission } from "@/data/me";
import { CopyTextButton, Snippet } from "../Copy";
import { InlineCode } from "../InlineCode";
import { ProblemPanel } from "../ProblemPanel";
import { NewRepositoryDialog } from "../repositories/NewRepositoryDialog";
import { PlanPreview } from "./PlanPreview";
import { EXAMPLE, TEMPLATES } from "./templates";

type Source = "example" | "repository";

/** The first deployment of an organization: an example, or the user's repository. Both show the plan first. */
export function FirstDeployment({ org }: { org: string }) {
  const [source, setSource] = useState<Source>("example");
  return (
    <Stack>
      <SegmentedControl
        aria-label="What to deploy"
        w="fit-content"
        maw="100%"
        value={source}
        onChange={value => setSource(value === "repository" ? "repository" : "example")}
        data={[
          { value: "example", label: "Try an example" },
          { value: "repository", label: "Use your repository" },
        ]}
      />
      {source === "example" ? <ExampleDeployment org={org} /> : <RepositoryDeployment org={org} />}
    </Stack>
  );
}

function ExampleDeployment({ org }: { org: string }) {
  const navigate = useNavigate();
  const mayCreate = usePermission("pipelines:write");
  const deploy = useDeployExample(org);
  const start = () =>
    deploy.mutate(
      { slug: EXAMPLE.slug, definition: EXAMPLE.text, commitId: EXAMPLE.commitId },
      {
        onSuccess: ({ id }) =>
          navigate({ to: "/o/$org/deployments/$deploymentId", params: { org, deploymentId: id } }),
      },
    );
  return (
    <>
      <Text c="dimmed">
        A pipeline with two stages. Its step prints a line, so nothing outside of this server changes.
        Production waits for your approval. You can delete the pipeline afterwards.
      </Text>
      <PlanPreview org={org} definition={EXAMPLE.text} />
      <details className="more">
        <summary>Definition</summary>
        <Snippet label="Definition of the example" text={EXAMPLE.text} />
      </details>
      {deploy.isError && <ProblemPanel error={deploy.error} compact />}
      {mayCreate ? (
        <Group>
          <Button leftSection={<IconRocket size={16} />} loading={deploy.isPending} onClick={start}>
            Deploy the example
          </Button>
        </Group>
      ) : (
        <Text size="sm">Ask an admin of the organization to create a pipeline</Text>
      )}
    </>
  );
}

/** Milliseconds after the last key before a definition is checked. */
const CHECK_AFTER_MS = 400;
const SLUG = /^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$/;

function RepositoryDeployment({ org }: { org: string }) {
  const mayAdd = usePermission("repositories:write");
  const [name, setName] = useState(TEMPLATES[0]?.name ?? "");
  const template = TEMPLATES.find(each => each.name === name);
  const [slug, setSlug] = useState(template?.slug ?? "");
  const [text, setText] = useState(template?.text ?? "");
  const [definition] = useDebouncedValue(text, CHECK_AFTER_MS);
  const [isAdding, setAdding] = useState(false);
  const choose = (chosen: string) => {
    const found = TEMPLATES.find(each => each.name === chosen);
    setName(chosen);
    setSlug(found?.slug ?? slug);
    setText(found?.text ?? text);
  };
  return (
    <>
      <Group gap="sm" align="flex-end">
        <NativeSelect
          label="Template"
          data={TEMPLATES.map(each => each.name)}
          value={name}
          onChange={event => choose(event.currentTarget.value)}
        />
        <TextInput
          label="Pipeline slug"
          value={slug}
          spellCheck={false}
          error={SLUG.test(slug) ? undefined : "Use lower-case letters, digits and hyphens"}
          onChange={event => setSlug(event.currentTarget.value)}
        />
      </Group>
      {template && (
        <List size="sm" listStyleType="disc">
          {template.needs.map(each => (
            <List.Item key={each} className="wrap">
              <InlineCode text={each} />
            </List.Item>
          ))}
        </List>
      )}
      <Textarea
        label="Definition"
        description="Edit it here to see the plan, or paste your own"
        value={text}
        onChange={event => setText(event.currentTarget.value)}
        autosize
        minRows={8}
        maxRows={24}
        spellCheck={false}
        styles={{ input: { fontFamily: "var(--mantine-font-family-monospace)", fontSize: 13 } }}
      />
      <PlanPreview org={org} definition={definition} />
      <Text>
        Save it as <code>.berth/{slug}/pipeline.yaml</code> in your repository, then commit and push it. When
        you add the repository, the newest commit of the tracked branch is deployed.
      </Text>
      <Group>
        <CopyTextButton value={text} label="Copy definition" />
        {mayAdd && (
          <Button variant="default" leftSection={<IconPlus size={16} />} onClick={() => setAdding(true)}>
            Add repository
          </Button>
        )}
      </Group>
      {!mayAdd && <Text size="sm">Ask an admin of the organization to add the repository</Text>}
      {isAdding && <NewRepositoryDialog onClose={() => setAdding(false)} />}
    </>
  );
}
