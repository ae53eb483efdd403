import { Button, Card, Group, Stack, Text, Title } from "@mantine/core";
import { useNavigate } from "@tanstack/react-router";
import { useState } from "react";
import type { Organization } from "@/api/types";
import { useMe } from "@/data/me";
import { DeleteOrganizationDialog, RenameOrganizationDialog } from "@/ui/organizations/organizationDialogs";

/** Changing the slug and deleting the organization, which only instance admins may do. */
export function OrganizationActions({ organization }: { organization: Organization }) {
  const { isInstanceAdmin } = useMe();
  const navigate = useNavigate();
  const [open, setOpen] = useState<"rename" | "delete" | null>(null);
  const close = () => setOpen(null);
  return (
    <Card component="section" aria-label="Slug and deletion">
      <Stack>
        <ActionRow
          title="Slug"
          text={
            <>
              <code>{organization.slug}</code> is the name in URLs, in the CLI and in ID tokens. Former slugs
              keep working.
            </>
          }
        >
          {isInstanceAdmin && (
            <Button variant="default" onClick={() => setOpen("rename")}>
              Change slug
            </Button>
          )}
        </ActionRow>
        <ActionRow
          title="Delete organization"
          text="Deletes its pipelines, deployments, secrets, logs and audit log. This cannot be undone."
        >
          {isInstanceAdmin && (
            <Button variant="default" c="var(--berth-bad)" onClick={() => setOpen("delete")}>
              Delete organization
            </Button>
          )}
        </ActionRow>
        {!isInstanceAdmin && (
          <Text size="sm" c="dimmed">
            Only an instance admin can change the slug or delete the organization
          </Text>
        )}
      </Stack>
      {open === "rename" && (
        <RenameOrganizationDialog
          organization={organization}
          onClose={close}
          onSuccess={slug =>
            navigate({ to: "/o/$org/settings/general", params: { org: slug }, replace: true })
          }
        />
      )}
      {open === "delete" && (
        <DeleteOrganizationDialog
          organization={organization}
          onClose={close}
          onSuccess={() => navigate({ to: "/", replace: true })}
        />
      )}
    </Card>
  );
}

type RowProps = { title: string; text: React.ReactNode; children: React.ReactNode };

function ActionRow({ title, text, children }: RowProps) {
  return (
    <Group justify="space-between" gap="sm">
      <div style={{ flex: "1 1 18rem", minWidth: 0 }}>
        <Title order={2} fz="md">
          {title}
        </Title>
        <Text size="sm" c="dimmed">
          {text}
        </Text>
      </div>
      {children}
    </Group>
  );
}
