import { Button, Container, Group, Table, Text } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { useState } from "react";
import type { InstanceOrganization } from "@/api/types";
import { instanceOrganizationsQuery } from "@/data/instance";
import { useMe } from "@/data/me";
import { Link, LinkButton } from "@/ui/Link";
import { ActionsCell, LabelledCell } from "@/ui/lists/ResponsiveTable";
import { SettingsList } from "@/ui/lists/SettingsList";
import {
  DeleteOrganizationDialog,
  NewOrganizationDialog,
  RenameOrganizationDialog,
} from "@/ui/organizations/organizationDialogs";
import { RelativeTime } from "@/ui/RelativeTime";

type OpenDialog = { action: "rename" | "delete"; organization: InstanceOrganization };

/** The organizations of the installation, for instance admins. */
export function OrganizationsPage() {
  const organizations = useQuery(instanceOrganizationsQuery);
  const [isAdding, setAdding] = useState(false);
  const [dialog, setDialog] = useState<OpenDialog | null>(null);
  const close = () => setDialog(null);
  return (
    <Container component="main" size="lg" py="xl">
      <SettingsList
        title="Organizations"
        lead="All organizations of this installation. You see the content only of those that you are a member of."
        actions={
          <LinkButton to="/" variant="default">
            Back
          </LinkButton>
        }
        add={{ label: "Create organization", onClick: () => setAdding(true) }}
        query={organizations}
        columns={["Name", "Members", "Former slugs", "Created"]}
        row={organization => <OrganizationRow organization={organization} onAction={setDialog} />}
      >
        {isAdding && <NewOrganizationDialog onClose={() => setAdding(false)} />}
        {dialog?.action === "rename" && (
          <RenameOrganizationDialog organization={dialog.organization} onClose={close} />
        )}
        {dialog?.action === "delete" && (
          <DeleteOrganizationDialog organization={dialog.organization} onClose={close} />
        )}
      </SettingsList>
    </Container>
  );
}

type RowProps = { organization: InstanceOrganization; onAction: (dialog: OpenDialog) => void };

function OrganizationRow({ organization, onAction }: RowProps) {
  const isMember = useMe().organizations.some(each => each.id === organization.id);
  const { slug, name, formerSlugs } = organization;
  return (
    <Table.Tr aria-label={name}>
      <Table.Td>
        {isMember ? (
          <Link to="/o/$org" params={{ org: slug }} fw={550}>
            {name}
          </Link>
        ) : (
          <Text fw={550}>{name}</Text>
        )}
        <Text size="sm" c="dimmed">
          <code>{slug}</code>
        </Text>
      </Table.Td>
      <LabelledCell of="Members">{organization.memberCount}</LabelledCell>
      <LabelledCell of="Former slugs">{formerSlugs.join(", ") || "None"}</LabelledCell>
      <LabelledCell of="Created">
        <RelativeTime at={organization.createdAt} />
      </LabelledCell>
      <ActionsCell>
        <Group gap="xs" justify="flex-end" wrap="nowrap">
          <Button
            size="xs"
            variant="default"
            aria-label={`Rename ${name}`}
            onClick={() => onAction({ action: "rename", organization })}
          >
            Rename
          </Button>
          <Button
            size="xs"
            variant="default"
            aria-label={`Delete ${name}`}
            onClick={() => onAction({ action: "delete", organization })}
          >
            Delete
          </Button>
        </Group>
      </ActionsCell>
    </Table.Tr>
  );
}
