import { Card } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { useOrg, usePermission } from "@/data/me";
import { organizationQuery, useChangeOrganization } from "@/data/organization";
import { Page } from "@/ui/Page";
import { QueryResult } from "@/ui/QueryResult";
import { OrganizationForm } from "./OrganizationForm";

/** General settings of the organization: its name, the default network of steps, and the second factor. */
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
          <Card>
            <OrganizationForm
              key={`${found.name} ${found.defaultNetwork} ${found.requireSecondFactor}`}
              organization={found}
              save={save}
              mayWrite={mayWrite}
            />
          </Card>
        )}
      </QueryResult>
    </Page>
  );
}
