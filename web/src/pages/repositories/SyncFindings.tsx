import { Alert, Group, Stack, Text } from "@mantine/core";
import { IconAlertTriangle, IconFileSearch } from "@tabler/icons-react";
import type { Repository } from "@/api/types";
import { useOrg } from "@/data/me";
import { capitalize } from "@/format/text";
import { InlineCode } from "@/ui/InlineCode";
import { LinkButton } from "@/ui/Link";
import { DiagnosticList } from "@/ui/setup/DiagnosticList";

/** Paths of the problem that a repository has no definitions: it is empty, or nothing is in the folder. */
const MISSING_PATHS = [".", ".berth"];

/** Definitions that could not be used at the last sync, and what to do if there are none. */
export function SyncFindings({ repository }: { repository: Repository }) {
  const org = useOrg();
  const { problems } = repository;
  if (problems.length === 0) return null;
  return (
    <Stack gap="sm" mt="sm">
      {problems.map(({ path, message, diagnostics }) => {
        const isMissing = MISSING_PATHS.includes(path);
        return (
          <Alert
            key={path}
            color="lantern"
            icon={isMissing ? <IconFileSearch /> : <IconAlertTriangle />}
            title={isMissing ? "No pipelines found" : path}
          >
            <Text size="sm" className="wrap">
              <InlineCode text={capitalize(message)} />
            </Text>
            {isMissing && (
              <Group mt="xs">
                <LinkButton to="/o/$org/welcome" params={{ org }} size="xs" variant="default">
                  Choose a template
                </LinkButton>
              </Group>
            )}
            <DiagnosticList diagnostics={diagnostics} />
          </Alert>
        );
      })}
    </Stack>
  );
}
