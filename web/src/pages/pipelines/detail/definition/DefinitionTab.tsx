import { Alert, Button, Group, Stack, Text } from "@mantine/core";
import { IconAlertTriangle, IconCheck } from "@tabler/icons-react";
import { useQuery } from "@tanstack/react-query";
import { useState } from "react";
import { problemMember, toProblem } from "@/api/problem";
import type { components } from "@/api/schema.gen";
import type { Pipeline } from "@/api/types";
import { usePermission } from "@/data/me";
import { pipelineTarget } from "@/data/permissions";
import { definitionQuery, diagnosticsQuery, repositoryQuery, useSaveDefinition } from "@/data/pipelines";
import { ProblemPanel } from "@/ui/ProblemPanel";
import { QueryResult } from "@/ui/QueryResult";
import { toast } from "@/ui/toast";
import { YamlEditor } from "./YamlEditor";

type Diagnostic = components["schemas"]["Diagnostic"];
type Props = { org: string; pipeline: Pipeline };

const NONE: Diagnostic[] = [];

/** The active definition with its diagnostics. Editable unless it comes from a repository. */
export default function DefinitionTab({ org, pipeline }: Props) {
  const definition = useQuery(definitionQuery(org, pipeline.slug));
  return (
    <Stack gap="md">
      {pipeline.repository && <DefinitionOrigin org={org} origin={pipeline.repository} />}
      <QueryResult of={definition}>
        {({ source, hash }) => (
          <DefinitionEditor key={hash} org={org} pipeline={pipeline} source={source} hash={hash} />
        )}
      </QueryResult>
    </Stack>
  );
}

/** Repository of the definition, and the errors of its newest version if that could not be applied. */
function DefinitionOrigin({ org, origin }: { org: string; origin: NonNullable<Pipeline["repository"]> }) {
  const repository = useQuery(repositoryQuery(org, origin.id));
  const problem = repository.data?.problems?.find(each => each.path === origin.path);
  return (
    <>
      <Text size="sm" c="dimmed" className="wrap">
        From <code>{origin.path}</code> in {origin.url}. To change it, push to the repository.
      </Text>
      {problem && (
        <Alert
          color="buoy"
          radius="lg"
          icon={<IconAlertTriangle />}
          title="The newest version has errors and is not active"
        >
          <Text size="sm" className="wrap">
            {problem.message}
          </Text>
          <DiagnosticList all={problem.diagnostics} />
        </Alert>
      )}
    </>
  );
}

type EditorProps = Props & { source: string; hash: string };

function DefinitionEditor({ org, pipeline, source, hash }: EditorProps) {
  const mayWrite = usePermission("pipelines:write", pipelineTarget(pipeline.slug));
  // The server validates only for users who may view all pipelines.
  const mayValidate = usePermission("pipelines:read");
  const [draft, setDraft] = useState<string | null>(null);
  const [checked, setChecked] = useState(source);
  const validation = useQuery({ ...diagnosticsQuery(org, checked), enabled: mayValidate });
  const save = useSaveDefinition(org, pipeline.slug);
  const isEditing = draft !== null;
  const diagnostics = findDiagnostics(save.error) ?? validation.data?.diagnostics ?? NONE;
  return (
    <Stack gap="sm">
      <Group justify="space-between">
        <Text size="xs" c="dimmed" className="wrap">
          <code>{hash}</code>
        </Text>
        {!pipeline.repository && mayWrite && (
          <Group gap="xs">
            {isEditing ? (
              <>
                <Button size="xs" variant="default" onClick={() => setDraft(null)}>
                  Cancel
                </Button>
                <Button
                  size="xs"
                  variant="default"
                  loading={validation.isFetching}
                  onClick={() => {
                    save.reset();
                    setChecked(draft);
                  }}
                >
                  Validate
                </Button>
                <Button
                  size="xs"
                  loading={save.isPending}
                  disabled={draft === source}
                  onClick={() =>
                    save.mutate(draft, {
                      onSuccess: () => toast.success("Definition saved"),
                    })
                  }
                >
                  Save
                </Button>
              </>
            ) : (
              <Button size="xs" variant="default" onClick={() => setDraft(source)}>
                Edit
              </Button>
            )}
          </Group>
        )}
      </Group>
      {save.isError && findDiagnostics(save.error) === null && <ProblemPanel error={save.error} compact />}
      {validation.isError && (
        <ProblemPanel error={validation.error} retry={() => validation.refetch()} compact />
      )}
      {validation.data && diagnostics.length === 0 && (
        <Group gap={6} c="var(--berth-good)" role="status">
          <IconCheck size={16} aria-hidden />
          <Text size="sm">
            {checked === (draft ?? source) ? "No problems found" : "Validated before your last change"}
          </Text>
        </Group>
      )}
      {diagnostics.length > 0 && <DiagnosticList all={diagnostics} />}
      <YamlEditor
        text={source}
        marks={isEditing && checked !== draft ? NONE : diagnostics}
        onChange={isEditing ? setDraft : undefined}
      />
    </Stack>
  );
}

function findDiagnostics(error: unknown): Diagnostic[] | null {
  return error ? (problemMember<Diagnostic[]>(toProblem(error), "diagnostics") ?? null) : null;
}

function DiagnosticList({ all }: { all: Diagnostic[] }) {
  return (
    <Stack gap={4} component="ul" p={0} m={0} style={{ listStyle: "none" }}>
      {all.map(each => (
        <Text
          key={`${each.line}:${each.column}${each.code}`}
          component="li"
          size="sm"
          className="wrap"
          c={each.severity === "error" ? "var(--berth-bad)" : "var(--berth-warn)"}
        >
          Line {each.line}: {each.message}
          {each.suggestion && ` — ${each.suggestion}`}
        </Text>
      ))}
    </Stack>
  );
}
