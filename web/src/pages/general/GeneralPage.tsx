import { Card, Stack } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { useOrg, usePermission } from "@/data/me";
import { organizationQuery, useChangeOrganization } from "@/data/organization";
import { Page } from "@/ui/Page";
import { QueryResult } from "@/ui/QueryResult";
import { OrganizationActions } from "./OrganizationActions";
import { OrganizationForm } from "./OrganizationForm";

/** General settings of the organization: its name and slug, the default network of steps, the second factor, and deletion. */
export function GeneralPage() {
  const org = useOrg();
  const mayWrite = usePermission("organization:write");
  const organization = useQuery(organizationQuery(org));
  // Not in the form, which is remounted with the saved values.
  const save = useChangeOrganization(org);
  return (
    <Page title="General" lead="Name, default network of steps, and login">
      <QueryResult of={organization}>
        {found => (
          <Stack>
            <Card>
              <OrganizationForm
                key={`${found.name} ${found.defaultNetwork} ${found.requireSecondFactor}`}
                organization={found}
                save={save}
                mayWrite={mayWrite}
              />
            </Card>
            <OrganizationActions organization={found} />
          </Stack>
        )}
      </QueryResult>
    </Page>
  );
}
